//! What was run in a year, and whether that is right.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use sless_core::cron::Ledger;

use super::schedules::Plan;

/// How long after the start of a process its functions may come to be ready.
const START: SignedDuration = SignedDuration::from_secs(5);

/// One run, as the function saw it.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) due: Timestamp,
    pub(super) cause: String,
    pub(super) began: Timestamp,
    /// When it ended, or was cut off by the end of its process.
    pub(super) ended: Option<Timestamp>,
}

/// One process.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) began: Timestamp,
    /// From when on it was being shut down, and began nothing more.
    pub(super) leaves: Option<Timestamp>,
    pub(super) ended: Timestamp,
    /// The times whose runs were under way for the catalog when it ended.
    pub(super) claimed: BTreeMap<String, BTreeSet<Timestamp>>,
}

#[derive(Clone, Debug)]
pub(super) struct History {
    pub(super) created: Timestamp,
    pub(super) runs: BTreeMap<String, Vec<Run>>,
    pub(super) processes: Vec<Process>,
    /// What is stored in the end.
    pub(super) ledgers: BTreeMap<String, Ledger>,
}

/// What became of the due times.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    due: usize,
    on_time: usize,
    made_up: usize,
    repeated: usize,
    skipped: usize,
    missed: usize,
}

impl Sums {
    /// A year in which nothing of a kind happened has not tried it.
    pub(super) fn assert_something_of_everything(&self) {
        let each = [
            self.on_time,
            self.made_up,
            self.repeated,
            self.skipped,
            self.missed,
        ];
        assert!(each.iter().all(|count| *count > 0), "{self:?}");
    }
}

impl History {
    pub(super) fn end(&self) -> Timestamp {
        self.processes.last().unwrap().ended
    }

    /// The process that was there at this time; not at the very end of it, when a write may hang.
    fn up_at(&self, at: Timestamp) -> Option<&Process> {
        let mut all = self.processes.iter();
        all.find(|process| process.began < at && at < process.leaves.unwrap_or(process.ended))
    }

    fn next_after(&self, at: Timestamp) -> Option<&Process> {
        self.processes.iter().find(|process| process.began >= at)
    }

    pub(super) fn check(
        &self,
        plan: &Plan,
        due: &[Timestamp],
        sums: &mut Sums,
        broken: &mut Vec<String>,
    ) {
        let none = Vec::new();
        let runs = self.runs.get(&plan.name).unwrap_or(&none);
        let mut of: BTreeMap<Timestamp, Vec<&Run>> = BTreeMap::new();
        for run in runs {
            of.entry(run.due).or_default().push(run);
        }
        let mut told = |at: Timestamp, what: &str| {
            let Plan {
                name, text, zone, ..
            } = plan;
            broken.push(format!(
                "{name} ({text} in {zone}) at {at}: {what}; {:?}",
                plan.policies
            ));
        };
        sums.due += due.len();
        for at in due {
            match of.remove(at) {
                Some(runs) => match self.why_run_wrongly(plan, *at, due, &runs) {
                    Some(why) => told(*at, &format!("{why}: {runs:?}")),
                    None => sums.count(&runs),
                },
                None => match self.why_not_run(plan, *at, due, runs) {
                    Some(Reason::Skipped) => sums.skipped += 1,
                    Some(Reason::Missed) => sums.missed += 1,
                    None => told(*at, "was not run, and nothing says why"),
                },
            }
        }
        for (at, runs) in of {
            told(at, &format!("was never due, and is run: {runs:?}"));
        }
        self.check_ledger(plan, due, &mut told);
    }

    fn check_ledger(&self, plan: &Plan, due: &[Timestamp], told: &mut impl FnMut(Timestamp, &str)) {
        let ledger = self.ledgers.get(&plan.name).cloned().unwrap_or_default();
        let until = ledger.accounted_until.unwrap_or(self.created);
        let passed = due.iter().filter(|at| **at <= until).count() as u64;
        let under_way = (ledger.running.len() + ledger.interrupted.len()) as u64;
        if passed != under_way + ledger.fired + ledger.skipped + ledger.missed {
            told(
                until,
                &format!("{passed} were due until then, and accounted for are {ledger:?}"),
            );
        }
    }

    /// What is wrong with the runs of a due time.
    fn why_run_wrongly(
        &self,
        plan: &Plan,
        at: Timestamp,
        due: &[Timestamp],
        runs: &[&Run],
    ) -> Option<&'static str> {
        let (again, first): (Vec<&&Run>, Vec<&&Run>) =
            runs.iter().partition(|run| run.cause == "interrupted");
        if first.len() > 1 {
            return Some("doubled");
        }
        for run in first {
            let late = run.began.duration_since(at);
            match run.cause.as_str() {
                "due" if late > signed(plan.policies.on_time_within) + START => {
                    return Some("late, and told to be on time");
                }
                "due" => {}
                _ if self.up_at(at).is_some() => return Some("missed by a process that was there"),
                _ if !plan.makes_up() => return Some("made up for against its policy"),
                _ if late > signed(plan.policies.missed_deadline) + START => {
                    return Some("made up for after its deadline");
                }
                _ if due.iter().any(|later| *later > at && *later <= run.began) => {
                    return Some("made up for, and not the latest one");
                }
                _ => {}
            }
            if self.up_at(at).is_some() && !late.is_zero() {
                return Some("late without need");
            }
        }
        let mut before = at;
        for run in again {
            if !plan.makes_up() {
                return Some("repeated against its policy");
            }
            if run.began.duration_since(at) > signed(plan.policies.missed_deadline) + START {
                return Some("repeated after its deadline");
            }
            // Each attempt but the first follows a process that had claimed it and was gone.
            let claimed = |process: &Process| {
                let of_plan = process.claimed.get(&plan.name);
                process.ended >= before
                    && process.ended <= run.began
                    && of_plan.is_some_and(|claimed| claimed.contains(&at))
            };
            if !self.processes.iter().any(claimed) {
                return Some("repeated without having been cut off");
            }
            before = run.began;
        }
        None
    }

    /// Why a due time was rightly not run; `None` where it should have been.
    fn why_not_run(
        &self,
        plan: &Plan,
        at: Timestamp,
        due: &[Timestamp],
        runs: &[Run],
    ) -> Option<Reason> {
        let claimed = |process: &Process| {
            let of_plan = process.claimed.get(&plan.name);
            of_plan.is_some_and(|claimed| claimed.contains(&at))
        };
        let mut claims = self.processes.iter().filter(|process| claimed(process));
        if let Some(process) = claims.next() {
            // It may have been begun by a process that was gone before the function saw it.
            let again = self.next_after(process.ended)?;
            let late = again.began.duration_since(at);
            let passed = !plan.makes_up() || late > signed(plan.policies.missed_deadline);
            return passed.then_some(Reason::Missed);
        }
        if self.up_at(at).is_some() {
            let under_way = under_way(runs, at);
            return (under_way >= plan.room()).then_some(Reason::Skipped);
        }
        let Some(next) = self.next_after(at) else {
            // The year was over before anybody looked.
            return Some(Reason::Missed);
        };
        let late = next.began.duration_since(at);
        if due.iter().any(|later| *later > at && *later <= next.began) {
            return Some(Reason::Missed);
        }
        if under_way(runs, next.began) >= plan.room() {
            return Some(Reason::Skipped);
        }
        let makes_up = plan.makes_up() && late <= signed(plan.policies.missed_deadline);
        let on_time = late <= signed(plan.policies.on_time_within);
        (!on_time && !makes_up).then_some(Reason::Missed)
    }

    pub(super) fn leave_one_out(&mut self) {
        let last = self.processes.last().unwrap().clone();
        let in_the_last = |run: &Run| run.due > last.began && run.cause == "due";
        for runs in self.runs.values_mut() {
            if let Some(place) = runs.iter().position(in_the_last) {
                runs.remove(place);
                return;
            }
        }
    }

    pub(super) fn double_one(&mut self) {
        let runs = self.runs.values_mut().next().unwrap();
        runs.push(runs[0].clone());
    }

    pub(super) fn add_one(&mut self) {
        let runs = self.runs.values_mut().next().unwrap();
        let mut run = runs[0].clone();
        run.due += SignedDuration::from_secs(1);
        runs.push(run);
    }
}

enum Reason {
    Skipped,
    Missed,
}

impl Sums {
    fn count(&mut self, runs: &[&Run]) {
        for run in runs {
            match run.cause.as_str() {
                "due" => self.on_time += 1,
                "missed" => self.made_up += 1,
                _ => self.repeated += 1,
            }
        }
    }
}

/// How many runs went on at this time, those included that began at it.
fn under_way(runs: &[Run], at: Timestamp) -> usize {
    let goes_on = |run: &&Run| run.began <= at && run.ended.is_none_or(|ended| ended >= at);
    runs.iter().filter(goes_on).count()
}

fn signed(duration: std::time::Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap()
}
