//! One field: all contestants in turn, round after round.

use std::{path::Path, time::Duration};

use anyhow::{Result, bail};
use bytes::Bytes;
use sless_benches::{
    cores::Cores,
    load::{self, Load, Target},
    processes::{self, Memory},
    report::Spread,
};

use crate::{
    Arguments,
    contestants::{ALL, Contestant, DIRECT, Field, Start},
    install::Cache,
    process::{Running, Words, command},
    upstream::Upstream,
};

/// What is sent, with what it is called.
pub(crate) const BODIES: [(&str, usize); 3] = [("2 B", 2), ("1 KiB", 1024), ("100 KiB", 102_400)];
pub(crate) const CONNECTIONS: [usize; 2] = [1, 16];
/// How much longer than it should a case may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// What was seen of one contestant with one body and so many connections, in one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub(crate) per_second: f64,
    /// In µs, as the other times.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p99_at_half: f64,
    /// Processor time of all its processes for each request.
    pub(crate) cpu: f64,
}

/// The rounds of a case. `None` is one in which it did not answer as it should.
pub(crate) type Rounds = Vec<Option<Round>>;

/// A contestant and what was seen of it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) version: String,
    /// From its start to its first answer, in ms.
    pub(crate) start: Spread,
    pub(crate) first: Memory,
    pub(crate) loaded: Memory,
    /// In the order of [`cases`].
    rounds: Vec<Rounds>,
    /// Why it is not there, or what it did not do.
    pub(crate) failed: Option<String>,
    contestant: Option<&'static Contestant>,
    running: Option<Running>,
}

/// All that are asked for, bodies first.
pub(crate) fn cases() -> impl Iterator<Item = (&'static str, usize, usize)> {
    BODIES
        .into_iter()
        .flat_map(|(body, bytes)| CONNECTIONS.map(|connections| (body, bytes, connections)))
}

impl Entry {
    fn new(name: &'static str, contestant: Option<&'static Contestant>) -> Self {
        Self {
            name,
            version: String::new(),
            start: Spread::default(),
            first: Memory::default(),
            loaded: Memory::default(),
            rounds: vec![Rounds::default(); cases().count()],
            failed: None,
            contestant,
            running: None,
        }
    }

    /// What was seen with this body and so many connections.
    pub(crate) fn case(&self, body: &str, connections: usize) -> &[Option<Round>] {
        let is_it = |case: (&str, usize, usize)| case.0 == body && case.2 == connections;
        let number = cases().position(is_it);
        number.map_or(&[], |number| &self.rounds[number])
    }

    /// One figure of all rounds.
    pub(crate) fn spread(
        &self,
        (body, connections): (&str, usize),
        of: impl Fn(&Round) -> f64,
    ) -> Spread {
        let rounds = self.case(body, connections).iter().flatten();
        rounds.map(of).collect()
    }

    /// A figure of this one and of another, held against each other round by round.
    pub(crate) fn against(
        &self,
        other: &Self,
        (body, connections): (&str, usize),
        of: impl Fn(&Round, &Round) -> f64,
    ) -> Spread {
        let (ours, theirs) = (self.case(body, connections), other.case(body, connections));
        let pairs = ours.iter().zip(theirs);
        pairs
            .filter_map(|(ours, theirs)| Some(of(ours.as_ref()?, theirs.as_ref()?)))
            .collect()
    }

    pub(crate) fn is_ours(&self) -> bool {
        self.contestant.is_some_and(Contestant::is_ours)
    }

    pub(crate) fn starts_by_command(&self) -> bool {
        let start = self.contestant.map(|contestant| contestant.start);
        matches!(start, Some(Start::Command(_)))
    }

    /// Takes note of a case that failed; the others go on.
    fn take(&mut self, round: Result<Round>, what: &str) -> Option<Round> {
        round
            .map_err(|error| {
                let told: String = format!("{what}: {error:#}").chars().take(200).collect();
                self.failed.get_or_insert(told);
            })
            .ok()
    }

    /// Takes note of what it did not do; it takes no further part.
    fn fail(&mut self, why: &anyhow::Error) {
        self.failed.get_or_insert(format!("{why:#}"));
        self.running = None;
    }
}

/// Measures all contestants of a field.
pub(crate) async fn field(
    field: Field,
    arguments: &Arguments,
    cache: &Cache,
    folder: &Path,
    cores: &Cores,
) -> Result<Vec<Entry>> {
    let upstream = Upstream::start(folder, cores).await?;
    if field == Field::Proxy {
        crate::cluster::start(upstream.address, &folder.join("kubeconfig")).await?;
    }
    let words = Words::new(cache, upstream.address);
    let mut entries: Vec<Entry> = ALL
        .iter()
        .filter(|contestant| contestant.field == field)
        .map(|contestant| Entry::new(contestant.name, Some(contestant)))
        .collect();
    for entry in &mut entries {
        if let Err(error) = there(entry, cache, &words, folder) {
            entry.failed = Some(format!("not there: {error:#}"));
        }
    }
    starts(&mut entries, arguments.rounds(), &words, folder, cores).await;
    if field == Field::Proxy {
        entries.push(Entry::new(DIRECT, None));
    }
    for _ in 0..arguments.rounds() {
        for (number, (body, bytes, connections)) in cases().enumerate() {
            for entry in &mut entries {
                let (address, path, root) = match &entry.running {
                    Some(running) => (running.address, running.path.clone(), running.id()),
                    None if entry.contestant.is_none() => {
                        (upstream.address, "/".to_owned(), upstream.group.id())
                    }
                    None => continue,
                };
                let target = Target {
                    address,
                    path,
                    body: body_of(bytes),
                };
                // What it did not do once it is not asked for again: it may have taken a long time.
                let gave_up = matches!(entry.rounds[number].last(), Some(None));
                let round = if gave_up {
                    None
                } else {
                    let round = case(&target, root, connections, arguments).await;
                    entry.take(round, &format!("{body}, {connections} at once"))
                };
                entry.rounds[number].push(round);
            }
        }
    }
    for entry in &mut entries {
        if let Some(running) = entry.running.take()
            && let Ok(memory) = processes::memory_below(running.id())
        {
            entry.loaded = memory;
        }
    }
    Ok(entries)
}

/// Sees to it that all that a contestant needs is there.
fn there(entry: &mut Entry, cache: &Cache, words: &Words, folder: &Path) -> Result<()> {
    let Some(contestant) = entry.contestant else {
        return Ok(());
    };
    for need in contestant.needs {
        cache.ensure(*need)?;
    }
    entry.version = contestant.packages();
    if !contestant.version.is_empty() {
        let output = command(words, contestant.version, folder).output()?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let line = text
            .lines()
            .find(|line| line.contains(|letter: char| letter.is_ascii_digit()));
        let words = line.unwrap_or_default().split_whitespace().take(3);
        entry.version = words.collect::<Vec<_>>().join(" ");
    }
    Ok(())
}

/// Starts each in turn, round after round, and lets them run after the last.
async fn starts(entries: &mut [Entry], rounds: usize, words: &Words, folder: &Path, cores: &Cores) {
    for round in 0..rounds {
        for entry in entries.iter_mut().filter(|entry| entry.failed.is_none()) {
            let Some(contestant) = entry.contestant else {
                continue;
            };
            let place: String = entry
                .name
                .chars()
                .map(|letter| {
                    if letter.is_alphanumeric() {
                        letter
                    } else {
                        '-'
                    }
                })
                .collect();
            // What ran before is ended first: it has the folder.
            entry.running = None;
            match Running::start(contestant, words, &folder.join(place), cores).await {
                Ok(running) => {
                    entry.start.add(running.first_answer.as_secs_f64() * 1e3);
                    if let Ok(memory) = processes::memory_below(running.id()) {
                        entry.first = memory;
                    }
                    entry.running = Some(running);
                }
                Err(error) => entry.fail(&error.context("not started")),
            }
            if round + 1 < rounds {
                entry.running = None;
            }
        }
    }
}

/// A JSON string of so many bytes.
fn body_of(bytes: usize) -> Bytes {
    format!("\"{}\"", "x".repeat(bytes.saturating_sub(2))).into()
}

async fn case(
    target: &Target,
    root: u32,
    connections: usize,
    arguments: &Arguments,
) -> Result<Round> {
    let load = Load {
        connections,
        duration: arguments.duration(),
        requests: arguments.requests(),
        rate: None,
    };
    let patience = load.duration * 2 + PATIENCE;
    let measured = tokio::time::timeout(patience, round(target, root, load)).await;
    measured.unwrap_or_else(|_| bail!("no end within {patience:?}"))
}

async fn round(target: &Target, root: u32, load: Load) -> Result<Round> {
    let warm_up = Load {
        duration: load.duration / 8,
        requests: load.requests / 5,
        ..load
    };
    load::run(target, warm_up).await?;
    let before = processes::cpu(root)?;
    let measured = load::run(target, load).await?;
    let used = processes::cpu(root)?.since(before);
    // Begun at fixed times, so that one slow answer does not hide those that wait behind it.
    let half = Load {
        rate: Some(measured.per_second() / 2.0),
        duration: load.duration / 2,
        ..load
    };
    let at_half = load::run(target, half).await?;
    Ok(Round {
        per_second: measured.per_second(),
        p50: measured.quantile(0.5),
        p99: measured.quantile(0.99),
        p99_at_half: at_half.quantile(0.99),
        cpu: (used.server + used.workers).as_secs_f64() * 1e6 / measured.requests as f64,
    })
}
