//! Random schedules, with what they mean beside their text.

use std::time::Duration;

use sless_core::cron::{MissedRunPolicy, OverlapPolicy, Policies, Schedule};

pub(super) const ZONES: [&str; 8] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Africa/Cairo",
    "Antarctica/Troll",
    "America/Havana",
    "Asia/Kolkata",
];

/// One field: its text, and its values as bits.
#[derive(Clone, Debug)]
pub(super) struct Field {
    text: String,
    values: u64,
}

impl Field {
    pub(super) fn holds(&self, value: i8) -> bool {
        self.values >> value & 1 == 1
    }

    pub(super) fn is_star(&self) -> bool {
        self.text.starts_with('*')
    }

    fn stepped(text: String, from: u64, to: u64, step: usize) -> Self {
        let values = (from..=to)
            .step_by(step)
            .fold(0, |all, value| all | 1 << value);
        Self { text, values }
    }

    fn star(min: u64, max: u64) -> Self {
        Self::stepped("*".to_owned(), min, max, 1)
    }

    fn one(value: u64) -> Self {
        Self::stepped(value.to_string(), value, value, 1)
    }

    fn random(random: &mut fastrand::Rng, min: u64, max: u64) -> Self {
        match random.u8(..4) {
            0 => {
                let (first, second) = (random.u64(min..=max), random.u64(min..=max));
                Self {
                    text: format!("{first},{second}"),
                    values: 1 << first | 1 << second,
                }
            }
            1 => {
                let (one, other) = (random.u64(min..=max), random.u64(min..=max));
                let (from, to) = (one.min(other), one.max(other));
                let step = random.u64(1..=(max - min).min(9));
                Self::stepped(format!("{from}-{to}/{step}"), from, to, step as usize)
            }
            _ => Self::one(random.u64(min..=max)),
        }
    }
}

/// A trigger of the year.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) name: String,
    pub(super) text: String,
    pub(super) zone: &'static str,
    pub(super) minute: Field,
    pub(super) hour: Field,
    pub(super) day: Field,
    pub(super) month: Field,
    pub(super) weekday: Field,
    pub(super) policies: Policies,
    /// How long its runs take.
    pub(super) takes: Duration,
}

impl Plan {
    /// A random one, in one of the first so many zones. The first one's runs last into its next times.
    pub(super) fn random(number: usize, zones: usize, random: &mut fastrand::Rng) -> Self {
        loop {
            let mut plan = Self::any(number, zones, random);
            if number == 0 {
                plan.minute = Field::stepped("*/20".to_owned(), 0, 59, 20);
                plan.hour = Field::one(2);
                plan.text = plan.written();
                plan.takes = Duration::from_secs(25 * 60 + 17);
                plan.policies = plan.policies.with_overlap(OverlapPolicy::Skip);
            }
            // 30 February is refused, rightly.
            if Schedule::parse(&plan.text, Some(plan.zone)).is_ok() {
                return plan;
            }
        }
    }

    fn any(number: usize, zones: usize, random: &mut fastrand::Rng) -> Self {
        // Hours in which clocks are changed come more often than others.
        let hour = match random.u8(..20) {
            0 => Field::star(0, 23),
            1..8 => Field::one(random.u64(0..4)),
            8..11 => Field::random(random, 0, 4),
            _ => Field::random(random, 0, 23),
        };
        let minute = match random.u8(..60) {
            0 if !hour.is_star() => Field::star(0, 59),
            1..4 if !hour.is_star() => {
                let step = random.u64(7..40);
                Field::stepped(format!("*/{step}"), 0, 59, step as usize)
            }
            4..10 => Field::random(random, 0, 59),
            _ => Field::one(random.u64(0..60)),
        };
        let day = match random.u8(..8) {
            0 => Field::random(random, 1, 31),
            1 => Field::stepped("*/3".to_owned(), 1, 31, 3),
            _ => Field::star(1, 31),
        };
        let month = match random.u8(..8) {
            0 => Field::random(random, 1, 12),
            _ => Field::star(1, 12),
        };
        let weekday = match random.u8(..6) {
            0 => Field::random(random, 0, 6),
            _ => Field::star(0, 6),
        };
        let policies = Policies::default()
            .with_missed_runs(if random.u8(..3) == 0 {
                MissedRunPolicy::Skip
            } else {
                MissedRunPolicy::RunOnce
            })
            .with_overlap(if random.bool() {
                OverlapPolicy::Skip
            } else {
                OverlapPolicy::Allow
            })
            .with_max_running(random.usize(1..4))
            .with_missed_deadline(Duration::from_secs(random.u64(600..100_000)))
            .with_on_time_within(Duration::from_secs(random.u64(1..120)));
        // Never whole minutes, so that no run ends at the very instant at which another one is due.
        let takes = match random.u8(..4) {
            0 => Duration::from_secs(random.u64(1..50) * 60 + 17),
            1 => Duration::from_secs(random.u64(1..59)),
            _ => Duration::ZERO,
        };
        let mut plan = Self {
            name: format!("t{number}"),
            text: String::new(),
            zone: ZONES[number % zones],
            minute,
            hour,
            day,
            month,
            weekday,
            policies,
            takes,
        };
        plan.text = plan.written();
        plan
    }

    fn written(&self) -> String {
        let fields = [
            &self.minute,
            &self.hour,
            &self.day,
            &self.month,
            &self.weekday,
        ];
        fields.map(|field| field.text.as_str()).join(" ")
    }

    /// How many runs may go on at once.
    pub(super) fn room(&self) -> usize {
        match self.policies.overlap {
            OverlapPolicy::Skip => 1,
            _ => self.policies.max_running,
        }
    }

    pub(super) fn makes_up(&self) -> bool {
        self.policies.missed_runs == MissedRunPolicy::RunOnce
    }
}
