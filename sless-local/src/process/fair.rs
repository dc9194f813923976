//! Keeps what uses up the machine from making everything else wait.
//!
//! Once more wants to run than there are processors, whatever of ours has used, for a while, more than an
//! even share of what all of ours got gives way to the rest: its whole process group gets the processor
//! when nobody else of ours wants it. A lower priority would not do: who wakes up waits for the end of the
//! other's turn all the same, some milliseconds at each step of a call. That takes nothing from the group as
//! long as nobody else wants the processor. Where the system lets this process give its turn back, that
//! happens once the group has been modest for a while; else it stays, until a new process is started.

use std::{
    collections::{HashMap, HashSet},
    fs,
    time::{Duration, Instant},
};

use procfs::{
    Current as _, LoadAverage,
    process::{Process, all_processes},
};
use sless_runtime::{Turn, give_turn};

/// How often it is looked.
pub(crate) const EVERY: Duration = Duration::from_millis(500);

/// At how many looks in a row a group was greedy until it gives way: a start is over by then.
const GREEDY_LOOKS: u32 = 2;

/// At how many looks in a row it was modest until it gets its turn back.
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

/// Processor time by group, in ticks, and which processes it has.
#[derive(Debug)]
struct Sample {
    at: Instant,
    used: HashMap<i32, u64>,
    members: HashMap<i32, Vec<Member>>,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    process: i32,
    /// Whether it has a session of its own, which competes with ours as a whole.
    apart: bool,
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
            self.judge(&shares(&before, &now), &now.members, contended);
        }
        self.before = Some(now);
    }

    fn judge(
        &mut self,
        shares: &HashMap<i32, f64>,
        members: &HashMap<i32, Vec<Member>>,
        contended: bool,
    ) {
        for (group, change) in decide(shares, &mut self.groups, contended) {
            let turn = match change {
                Change::Lower | Change::StayLow => Turn::Last,
                Change::Restore => Turn::Even,
            };
            let mut changed = false;
            for member in members.get(&group).into_iter().flatten() {
                changed |= member.give(turn);
            }
            if changed && change != Change::StayLow {
                tracing::info!(group, ?turn, "the turn of a process group was changed");
            }
        }
    }
}

impl Member {
    /// Gives all its threads that turn, and says whether one got it: it may have ended, and only some may
    /// give a turn back.
    fn give(self, turn: Turn) -> bool {
        if self.apart {
            // There may be no such thing.
            let nice = match turn {
                Turn::Even => "0",
                Turn::Last => "19",
            };
            let _ = fs::write(format!("/proc/{}/autogroup", self.process), nice);
        }
        let threads = Process::new(self.process).and_then(|process| process.tasks());
        let mut changed = false;
        for thread in threads.into_iter().flatten().flatten() {
            changed |= give_turn(thread.tid, turn).is_ok();
        }
        changed
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Lower,
    /// It is low, and may have started something before it was.
    StayLow,
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
            let change = if group.low {
                Change::StayLow
            } else {
                Change::Lower
            };
            group.low = true;
            changes.push((*number, change));
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
    let mut used: HashMap<i32, u64> = HashMap::new();
    let mut members: HashMap<i32, Vec<Member>> = HashMap::new();
    let Some(this) = stats.iter().find(|stat| stat.pid == own) else {
        return Sample { at, used, members };
    };
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
    for stat in &stats {
        let children = u64::try_from(stat.cutime + stat.cstime).unwrap_or(0);
        *used.entry(stat.pgrp).or_default() += stat.utime + stat.stime + children;
        members.entry(stat.pgrp).or_default().push(Member {
            process: stat.pid,
            apart: stat.session != this.session,
        });
    }
    used.retain(|group, _| *group != this.pgrp && is_ours(*group));
    Sample { at, used, members }
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
        for change in [Change::Lower, Change::StayLow, Change::StayLow] {
            assert_eq!(decide(&shares, &mut groups, true), [(1, change)]);
        }
        let modest = HashMap::from([(1, 0.04), (2, 0.04)]);
        for _ in 1..MODEST_LOOKS {
            assert_eq!(decide(&modest, &mut groups, true), []);
        }
        assert_eq!(decide(&modest, &mut groups, true), [(1, Change::Restore)]);
        assert!(groups.is_empty());
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

    #[test]
    fn all_of_a_group_waits_for_the_others_in_whatever_session_it_is() {
        const SCHED_IDLE: u32 = 5;
        for program in ["env", "setsid"] {
            let mut started = std::process::Command::new(program)
                .args(["sleep", "60"])
                .spawn()
                .expect("it runs");
            let process = i32::try_from(started.id()).expect("a process id");
            let began = Instant::now();
            let member = loop {
                let members: Vec<_> = sample().members.into_values().flatten().collect();
                let member = members.iter().find(|member| member.process == process);
                let member = *member.expect("it is there");
                if member.apart == (program == "setsid") {
                    break member;
                }
                assert!(began.elapsed() < Duration::from_secs(60), "{member:?}");
            };
            assert!(member.give(Turn::Last), "{program}");
            let stat = Process::new(process).and_then(|process| process.stat());
            let autogroup = fs::read_to_string(format!("/proc/{process}/autogroup"));
            started.kill().expect("killed");
            started.wait().expect("ended");
            assert_eq!(stat.expect("it is there").policy, Some(SCHED_IDLE));
            // Empty where the kernel has no groups of sessions, or others.
            let autogroup = autogroup.unwrap_or_default();
            let is_lowered = autogroup.ends_with(" nice 19\n");
            assert!(
                autogroup.is_empty() || is_lowered == member.apart,
                "{autogroup}"
            );
        }
    }
}
