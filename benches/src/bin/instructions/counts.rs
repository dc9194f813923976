//! What was counted before, and what is counted now.
#![allow(clippy::print_stdout, reason = "a table is what it is for")]

use std::{collections::BTreeMap, fs, path::PathBuf, process::Command};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use sless_benches::report::Table;

use crate::callgrind;

/// The counts of one build.
#[derive(Debug, Deserialize, Serialize)]
struct Counted {
    #[serde(flatten)]
    build: Build,
    /// Instructions of one round of each case.
    instructions: BTreeMap<String, u64>,
}

/// What counts depend on, beside the code.
#[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
struct Build {
    compiler: String,
    target: String,
    profile: String,
    valgrind: String,
}

impl Build {
    fn here() -> Result<Self> {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let told = output(Command::new(rustc).arg("-vV"))?;
        let field = |name: &str| {
            let line = told.lines().find_map(|line| line.strip_prefix(name));
            line.map(|value| value.trim().to_owned())
                .with_context(|| format!("rustc -vV tells no {name}"))
        };
        let profile = if cfg!(debug_assertions) {
            "dev"
        } else {
            "release"
        };
        Ok(Self {
            compiler: field("release:")?,
            target: field("host:")?,
            profile: profile.to_owned(),
            valgrind: output(Command::new("valgrind").arg("--version"))?
                .trim()
                .to_owned(),
        })
    }
}

fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    Ok(String::from_utf8(output.stdout)?)
}

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("instructions.json")
}

/// How often it is counted, since now and then a buffer grows at another moment, which costs some percent. The
/// middle is held against the most that there was when it was written down.
const TIMES: usize = 3;

fn counted(update: bool) -> Result<Vec<(String, u64)>> {
    let mut counts = (0..TIMES)
        .map(|_| callgrind::count())
        .collect::<Result<Vec<_>>>()?;
    let last = counts.pop().unwrap_or_default();
    let rank = if update { TIMES - 1 } else { TIMES / 2 };
    let chosen = last.into_iter().enumerate().map(|(at, (name, count))| {
        let others = counts.iter().filter_map(|counted| counted.get(at));
        let mut all: Vec<_> = others.map(|(_, count)| *count).chain([count]).collect();
        all.sort_unstable();
        (name, all[rank])
    });
    Ok(chosen.collect())
}

/// Counts, and holds what was counted against what was counted before, or writes it down.
pub(crate) fn run(update: bool, tolerance: f64) -> Result<()> {
    let build = Build::here()?;
    let mut all: Vec<Counted> = match fs::read_to_string(file()) {
        Ok(text) => serde_json::from_str(&text).context("benches/instructions.json")?,
        Err(_) => Vec::new(),
    };
    let before = all.iter().find(|counted| counted.build == build);
    if before.is_none() && !update {
        println!("skipped: benches/instructions.json has no counts of {build:?}");
        return Ok(());
    }
    let now = counted(update)?;
    let none = BTreeMap::new();
    let before = before.map_or(&none, |counted| &counted.instructions);
    let mut table = Table::new(["instructions of", "now", "before", "change"]);
    let mut more = Vec::new();
    for (name, count) in &now {
        let (was, change) = match before.get(name) {
            None => (String::new(), "new".to_owned()),
            Some(was) => {
                let change = (*count as f64 / *was as f64 - 1.0) * 100.0;
                if change > tolerance {
                    more.push(format!("{name} ({change:+.1} %)"));
                }
                (was.to_string(), format!("{change:+.2} %"))
            }
        };
        table.row([name, &count.to_string(), &was, &change]);
    }
    println!("{}", table.show());
    let gone = |name: &&String| !now.iter().any(|(now, _)| now == *name);
    let unknown: Vec<_> = now
        .iter()
        .filter(|(name, _)| !before.contains_key(name))
        .collect();
    if update {
        let changed = Counted {
            build,
            instructions: now.into_iter().collect(),
        };
        all.retain(|counted| counted.build != changed.build);
        all.push(changed);
        all.sort_by(|a, b| a.build.profile.cmp(&b.build.profile));
        let text = serde_json::to_string_pretty(&all)?;
        return fs::write(file(), text + "\n").context("benches/instructions.json");
    }
    let again = "if that is as it should be, count again with --update and say why";
    if !more.is_empty() {
        bail!(
            "more than {tolerance} % more instructions: {}; {again}",
            more.join(", ")
        );
    }
    if let Some(name) = before.keys().find(gone) {
        bail!("{name} was counted before, and now is not; {again}");
    }
    if let Some((name, _)) = unknown.first() {
        bail!("{name} was not counted before; {again}");
    }
    Ok(())
}
