//! Where each round ends.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use sless_core::FaultPoint;

/// How a round ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    /// The server kills itself at this passing of a point, under the load of the round.
    At(FaultPoint, u32),
    /// The same before it serves.
    Starting(FaultPoint, u32),
    /// It is killed after this time under the load of the round.
    After(Duration),
}

/// How long after the beginning of its load a round ends by chance, at most: what the slowest step takes.
const KILL_WITHIN: Duration = Duration::from_millis(1_500);

/// How often a point may be looked for until it counts as one that is not reached.
const TRIES: u32 = 4;

/// A point is reached by one of its first passings, so that it is met in what differs.
const PASSINGS: u32 = 4;

/// The points that are passed on a new folder alone, in the order in which they are.
const FRESH: [&str; 6] = [
    "key.make.before",
    "key.make.after",
    "data_dir.format.before",
    "data_dir.format.after",
    "database.schema.before",
    "database.schema.after",
];

/// All points.
#[cfg(feature = "fault-points")]
pub(super) fn points() -> Vec<FaultPoint> {
    sless_server::faults::all()
}

/// None: this server was built without them, so that all rounds end by chance.
#[cfg(not(feature = "fault-points"))]
pub(super) const fn points() -> Vec<FaultPoint> {
    Vec::new()
}

/// The rounds to come, and what became of those that were.
#[derive(Debug)]
pub(super) struct Plan {
    /// What chance is made of.
    random: fastrand::Rng,
    /// The points of this plan that are not on a new folder alone.
    points: Vec<FaultPoint>,
    /// Whether the last round ended where a run had begun, for the sake of the next one.
    run_began: bool,
    /// What must be reached once.
    due: VecDeque<(FaultPoint, u32)>,
    /// How often each was reached.
    pub(super) reached: BTreeMap<FaultPoint, u32>,
    /// How many rounds ended by chance.
    pub(super) chance: u32,
}

impl Plan {
    /// The plan of one of several worlds, each of which has its share of the points.
    pub(super) fn new(seed: u64, world: usize, worlds: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(seed.wrapping_add(world as u64));
        let is_fresh = |point: &FaultPoint| FRESH.contains(&point.name());
        let (mut fresh, mut points): (Vec<_>, Vec<_>) = points().into_iter().partition(is_fresh);
        fresh.sort_by_key(|point| FRESH.iter().position(|name| *name == point.name()));
        let own = |(at, point): (usize, FaultPoint)| (at % worlds == world).then_some(point);
        let mut share: Vec<_> = points.iter().copied().enumerate().filter_map(own).collect();
        random.shuffle(&mut share);
        random.shuffle(&mut points);
        let due = fresh
            .into_iter()
            .chain(share)
            .map(|point| (point, 0))
            .collect();
        Self {
            random,
            points,
            run_began: false,
            due,
            reached: BTreeMap::new(),
            chance: 0,
        }
    }

    /// How the next round ends.
    pub(super) fn next(&mut self) -> End {
        if let Some(begun) = self.before() {
            return End::At(begun, 1);
        }
        if let Some((point, tried)) = self.due.pop_front() {
            self.due.push_front((point, tried + 1));
            // A rare one may not be passed more than once.
            let nth = if tried == 0 {
                self.random.u32(1..=PASSINGS)
            } else {
                1
            };
            return at(point, nth);
        }
        let any = self.random.choice(&self.points).copied();
        match any {
            Some(point) if self.random.u32(0..10) < 6 => {
                at(point, self.random.u32(1..=2 * PASSINGS))
            }
            // Any commit of a start, too.
            Some(point) if self.random.u32(0..4) == 0 => {
                End::Starting(point, self.random.u32(1..=PASSINGS))
            }
            _ => End::After(KILL_WITHIN.mul_f64(self.random.f64().powi(2))),
        }
    }

    /// The point at which the round before must have ended, where that was not so: only a run that has begun
    /// can be interrupted.
    fn before(&mut self) -> Option<FaultPoint> {
        let (next, _) = self.due.front()?;
        let interrupts = next.name().starts_with("start.interrupt");
        self.run_began = interrupts && !self.run_began;
        let mut points = self.points.iter().copied();
        points.find(|point| self.run_began && point.name() == "job.begin.after")
    }

    /// Takes note of how the last round ended: at its point or not.
    pub(super) fn ended(&mut self, end: End, reached: bool) {
        let (End::At(point, _) | End::Starting(point, _)) = end else {
            self.chance += 1;
            return;
        };
        if reached {
            *self.reached.entry(point).or_default() += 1;
        } else {
            self.chance += 1;
        }
        if self.due.front().is_some_and(|(due, _)| *due == point) {
            let Some((_, tried)) = self.due.pop_front() else {
                return;
            };
            if !reached && tried < TRIES {
                self.due.push_back((point, tried));
            }
        }
    }

    /// Whether there are points that must be reached and were not.
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Whether a point of a new folder is next.
    pub(super) fn is_fresh(&self) -> bool {
        let next = self.due.front();
        next.is_some_and(|(point, _)| FRESH.contains(&point.name()))
    }

    /// A number below this one.
    pub(super) fn chance_of(&mut self, many: u32) -> bool {
        self.random.u32(0..many) == 0
    }
}

fn at(point: FaultPoint, nth: u32) -> End {
    if FRESH.contains(&point.name()) {
        return End::Starting(point, 1);
    }
    if point.name().starts_with("start.") {
        return End::Starting(point, 1);
    }
    End::At(point, nth)
}
