//! Keeps what uses up the machine from making everything else wait.
//!
//! Once more wants to run than there are processors, whatever of ours has used, for a while, more than an
//! even share of what all of ours got gives way to the rest: its whole process group gets a low priority.
//! That takes nothing from it as long as nobody else wants the processor. Where the system lets this
//! process raise a priority again, that happens once the group has been modest for a while; else it stays,
//! until a new process is started.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use procfs::{Current as _, LoadAverage, process::all_processes};
use rustix::process::{Pid, getpriority_process, setpriority_pgrp};

/// How often it is looked.
pub(crate) const EVERY: Duration = Duration::from_millis(500);

/// How many steps of priority a group of one process gives way: it gets a tenth of the share that it would.
const STEPS: u32 = 10;

/// How many steps halve a share.
const HALF: u32 = 3;

/// The most steps.
const STEPS_MAX: u32 = 19;

/// The lowest priority that there is.
const LOWEST: i32 = 19;

/// At how many looks in a row a group was greedy until it gives way: a start is over by then.
const GREEDY_LOOKS: u32 = 2;

/// At how many looks in a row it was modest until it gets its priority back.
const MODEST_LOOKS: u32 = 8;

/// What a group may use of one processor in any case.
const ALWAYS: f64 = 0.05;

/// What a group that is active at all uses of one processor.
const ACTIVE: f64 = 0.02;

/// What is known of the process groups that this process and its children lead.
#[derive(Debug, Default)]
pub(crate) struct Fair {
    before: Option<Sample>,
    groups: HashMap<i32, Group>,
}

/// What was seen of a group that was greedy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Group {
    /// At how many looks in a row it was greedy.
    greedy: u32,
    /// At how many looks in a row it was modest.
    modest: u32,
    /// Whether it gives way.
    low: bool,
}

/// Processor time by group, in ticks, and how many processes it has.
#[derive(Debug)]
struct Sample {
    at: Instant,
    used: HashMap<i32, u64>,
    processes: HashMap<i32, u32>,
}

impl Fair {
    /// Looks once. Reads `/proc`, of which one line where there is nothing to do.
    pub(crate) fn look(&mut self) {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let contended = LoadAverage::current()
            .is_ok_and(|load| usize::try_from(load.cur).is_ok_and(|running| running > processors));
        if !contended && self.groups.is_empty() {
            self.before = None;
            return;
        }
        let now = sample();
        if let Some(before) = self.before.take() {
            self.judge(&shares(&before, &now), &now.processes, contended);
        }
        self.before = Some(now);
    }

    fn judge(
        &mut self,
        shares: &HashMap<i32, f64>,
        processes: &HashMap<i32, u32>,
        contended: bool,
    ) {
        for (group, change) in decide(shares, &mut self.groups, contended) {
            let own = getpriority_process(None).unwrap_or(0);
            let priority = match change {
                Change::Lower => low(own, processes.get(&group).copied().unwrap_or(1)),
                Change::Restore => own,
            };
            let Some(pid) = Pid::from_raw(group) else {
                continue;
            };
            // It may have ended; and only some may raise a priority.
            if setpriority_pgrp(Some(pid), priority).is_ok() {
                tracing::info!(
                    group,
                    priority,
                    "the priority of a process group was changed"
                );
            }
        }
    }
}

/// The priority of a group that gives way to this process: so that many processes get no more than one would.
fn low(own: i32, processes: u32) -> i32 {
    let halvings = processes.max(1).ilog2();
    let steps = STEPS
        .saturating_add(HALF.saturating_mul(halvings))
        .min(STEPS_MAX);
    own.saturating_add_unsigned(steps).min(LOWEST)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Lower,
    Restore,
}

/// What is to be done with which group; takes note of it.
fn decide(
    shares: &HashMap<i32, f64>,
    groups: &mut HashMap<i32, Group>,
    contended: bool,
) -> Vec<(i32, Change)> {
    let active = shares.values().filter(|share| **share > ACTIVE).count();
    // Of what all of them get: others of the machine may leave them little. This process is one more that
    // wants its share.
    let even = (shares.values().sum::<f64>() / (active + 1) as f64).max(ALWAYS);
    groups.retain(|group, _| shares.contains_key(group));
    let mut changes = Vec::new();
    for (number, share) in shares {
        let mut group = groups.remove(number).unwrap_or_default();
        if *share > even && contended {
            group = Group {
                greedy: group.greedy + 1,
                modest: 0,
                ..group
            };
        } else {
            group = Group {
                greedy: 0,
                modest: group.modest + 1,
                ..group
            };
        }
        if group.greedy >= GREEDY_LOOKS {
            // Again at each look: for what it has started meanwhile.
            group.low = true;
            changes.push((*number, Change::Lower));
        } else if group.low && group.modest >= MODEST_LOOKS {
            group.low = false;
            changes.push((*number, Change::Restore));
        }
        if group.low || group.greedy > 0 {
            groups.insert(*number, group);
        }
    }
    changes
}

/// How many processors each group has used between two samples.
fn shares(before: &Sample, now: &Sample) -> HashMap<i32, f64> {
    let span = now.at.saturating_duration_since(before.at).as_secs_f64();
    let ticks = procfs::ticks_per_second() as f64 * span.max(0.001);
    let share = |(group, used): (&i32, &u64)| {
        let first = before.used.get(group).copied().unwrap_or(0);
        (*group, used.saturating_sub(first) as f64 / ticks)
    };
    now.used.iter().map(share).collect()
}

/// The processor time of all groups that begin with a process that this one, or one of its children, has
/// started.
fn sample() -> Sample {
    let at = Instant::now();
    let stats: Vec<_> = all_processes()
        .into_iter()
        .flatten()
        // What ends meanwhile is not there any more.
        .filter_map(|process| process.ok()?.stat().ok())
        .collect();
    let parents: HashMap<i32, i32> = stats.iter().map(|stat| (stat.pid, stat.ppid)).collect();
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let is_ours = |leader: i32| {
        let mut seen = HashSet::new();
        let mut at = leader;
        while let Some(parent) = parents.get(&at)
            && seen.insert(at)
        {
            if *parent == own {
                return true;
            }
            at = *parent;
        }
        false
    };
    let mut used: HashMap<i32, u64> = HashMap::new();
    let mut processes: HashMap<i32, u32> = HashMap::new();
    for stat in &stats {
        let children = u64::try_from(stat.cutime + stat.cstime).unwrap_or(0);
        *used.entry(stat.pgrp).or_default() += stat.utime + stat.stime + children;
        *processes.entry(stat.pgrp).or_default() += 1;
    }
    let own_group = stats
        .iter()
        .find(|stat| stat.pid == own)
        .map(|stat| stat.pgrp);
    used.retain(|group, _| Some(*group) != own_group && is_ours(*group));
    Sample {
        at,
        used,
        processes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_uses_more_than_its_share_gives_way_and_only_while_others_wait() {
        let shares = HashMap::from([(1, 1.6), (2, 0.2), (3, 0.001)]);
        let mut groups = HashMap::new();
        assert_eq!(decide(&shares, &mut groups, false), []);
        assert_eq!(decide(&shares, &mut groups, true), [], "a start may be so");
        for _ in 0..3 {
            let lower = [(1, Change::Lower)];
            assert_eq!(decide(&shares, &mut groups, true), lower);
        }
        let modest = HashMap::from([(1, 0.04), (2, 0.04)]);
        for _ in 1..MODEST_LOOKS {
            assert_eq!(decide(&modest, &mut groups, true), []);
        }
        assert_eq!(decide(&modest, &mut groups, true), [(1, Change::Restore)]);
        assert!(groups.is_empty());
    }

    #[test]
    fn many_processes_get_no_more_than_one() {
        let priorities = [0, 1, 2, 3, 4, 8, 1000].map(|processes| low(0, processes));
        assert_eq!(priorities, [10, 10, 13, 13, 16, 19, 19]);
        assert_eq!([low(-20, 1), low(5, 8)], [-10, 19]);
    }

    #[test]
    fn the_groups_of_children_are_seen_and_this_one_is_not() {
        use std::os::unix::process::CommandExt as _;
        let mut busy = std::process::Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .process_group(0)
            .spawn()
            .expect("sh runs");
        let group = i32::try_from(busy.id()).expect("a process id");
        let before = sample();
        std::thread::sleep(Duration::from_millis(300));
        let shares = shares(&before, &sample());
        busy.kill().expect("killed");
        busy.wait().expect("ended");
        assert!(shares[&group] > ACTIVE, "{shares:?}");
        let own = rustix::process::getpgrp().as_raw_nonzero().get();
        assert!(!shares.contains_key(&own));
    }
}
