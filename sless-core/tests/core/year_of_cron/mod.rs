//! A year of schedules in several time zones, both days included on which their clocks are changed,
//! over an engine that is restarted and crashes: which times were run is held against a walk over every
//! minute of the year, which knows nothing of how the engine finds them.
//!
//! 16 schedules in four zones and 30 ends of the process; with `SLESS_TEST_LONG` 1,000 in eight, and 500.

mod history;
mod schedules;
mod walk;
mod world;

use jiff::{SignedDuration, Timestamp};

use self::{history::History, schedules::Plan};

struct Size {
    schedules: usize,
    zones: usize,
    ends: usize,
}

fn size() -> Size {
    let long = std::env::var_os("SLESS_TEST_LONG").is_some();
    if long {
        Size {
            schedules: 1_000,
            zones: schedules::ZONES.len(),
            ends: 500,
        }
    } else {
        Size {
            schedules: 16,
            zones: 4,
            ends: 30,
        }
    }
}

#[test]
fn none_is_missed_within_its_policy_and_none_is_doubled() {
    let mut random = fastrand::Rng::with_seed(2026);
    let Size {
        schedules,
        zones,
        ends,
    } = size();
    let plans: Vec<Plan> = (0..schedules)
        .map(|number| Plan::random(number, zones, &mut random))
        .collect();
    let history = world::run(&plans, 365, ends, &mut random);
    let due = walk::due_times(&plans, history.created, history.end());
    let mut all = history::Sums::default();
    let mut broken = Vec::new();
    for (plan, due) in plans.iter().zip(&due) {
        history.check(plan, due, &mut all, &mut broken);
    }
    let shown = broken.iter().take(20).cloned().collect::<Vec<_>>();
    assert!(
        broken.is_empty(),
        "{} times:\n{}",
        broken.len(),
        shown.join("\n")
    );
    let restarts = history.processes.len() - 1;
    #[allow(clippy::print_stderr)]
    {
        eprintln!("{schedules} schedules, {restarts} ends of the process: {all:?}");
    }
    assert_eq!(restarts, ends);
    all.assert_something_of_everything();
    assert_clocks_were_changed(&schedules::ZONES[..zones], &plans, &due, &history);
}

/// Both days on which clocks are changed are in the year, and something was due on each of them.
fn assert_clocks_were_changed(
    zones: &[&str],
    plans: &[Plan],
    due: &[Vec<Timestamp>],
    history: &History,
) {
    for &zone in zones {
        let changes = walk::clock_changes(zone, history.created, history.end());
        let expected = match zone {
            "UTC" | "Asia/Kolkata" => 0,
            _ => 2,
        };
        assert_eq!(changes.len(), expected, "{zone}: {changes:?}");
        for change in changes {
            let near =
                |at: &Timestamp| at.duration_since(change).abs() < SignedDuration::from_hours(12);
            let of_zone = plans.iter().zip(due).filter(|(plan, _)| plan.zone == zone);
            let found = of_zone.flat_map(|(_, due)| due).any(near);
            assert!(found, "nothing is due in {zone} around {change}");
        }
    }
}

/// A check that cannot fail is none: what was left out, doubled or late is found.
#[test]
fn what_is_wrong_with_a_history_is_found() {
    let mut random = fastrand::Rng::with_seed(7);
    let plans: Vec<Plan> = (0..8)
        .map(|number| Plan::random(number, 4, &mut random))
        .collect();
    let history = world::run(&plans, 30, 6, &mut random);
    let due = walk::due_times(&plans, history.created, history.end());
    let broken = |history: &History| {
        let mut broken = Vec::new();
        for (plan, due) in plans.iter().zip(&due) {
            history.check(plan, due, &mut history::Sums::default(), &mut broken);
        }
        broken.len()
    };
    assert_eq!(broken(&history), 0);
    for spoil in [
        History::leave_one_out,
        History::double_one,
        History::add_one,
    ] {
        let mut spoiled = history.clone();
        spoil(&mut spoiled);
        assert!(broken(&spoiled) > 0, "nothing was found");
    }
}
