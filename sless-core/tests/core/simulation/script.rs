//! What a seed does.

use std::{fmt, time::Duration};

use sless_core::Kind;

use super::ops::{CODES, CRASH_IN, ENTRYPOINTS, FUNCTIONS, Op, QUEUES, TRIGGERS, What, fault};

/// Everything that happens to one world.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) seed: u64,
    /// Engines on the same backends.
    pub(super) engines: usize,
    /// How long functions take to start.
    pub(super) start_delay: Duration,
    pub(super) ops: Vec<Op>,
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            engines,
            start_delay,
            ..
        } = self;
        writeln!(f, "{engines} engines, starts take {start_delay:?}")?;
        self.ops.iter().try_for_each(|op| writeln!(f, "  {op:?}"))
    }
}

impl Script {
    pub(super) fn of(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let engines = if random.u8(..3) == 0 { 2 } else { 1 };
        let start_delay = Duration::from_secs(random.u64(..3));
        let mut writer = Writer {
            random,
            engines,
            ops: Vec::new(),
        };
        let length = writer.random.usize(15..60);
        while writer.ops.len() < length {
            writer.next();
            writer.wait();
        }
        Self {
            seed,
            engines,
            start_delay,
            ops: writer.ops,
        }
    }
}

struct Writer {
    random: fastrand::Rng,
    engines: usize,
    ops: Vec<Op>,
}

impl Writer {
    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.random.usize(..all.len())]
    }

    fn next(&mut self) {
        let number = self.ops.len();
        let op = match self.random.u8(..100) {
            0..17 => Op::PutFunction {
                name: self.one_of(&FUNCTIONS),
                entrypoint: self.one_of(&ENTRYPOINTS),
                node: self.random.u8(..6) == 0,
                replicas: self.one_of(&[1, 1, 1, 2, 0]),
                env: self.random.u32(..2),
            },
            17..37 => Op::Upload {
                name: self.one_of(&FUNCTIONS),
                code: self.random.usize(..CODES.len()),
            },
            37..52 => Op::PutTrigger {
                name: self.one_of(&TRIGGERS),
                function: self.one_of(&FUNCTIONS),
                what: match self.random.u8(..4) {
                    0 => What::Http,
                    1 => What::Cron(self.one_of(&["* * * * *", "*/7 * * * *"])),
                    _ => What::Event(self.one_of(&QUEUES)),
                },
                enabled: self.random.u8(..4) > 0,
            },
            52..58 => Op::PutJob {
                number,
                function: self.one_of(&FUNCTIONS),
                run_id: self.one_of(&[1, 1, 1, 0, 7]),
            },
            58..60 => match self.some_job() {
                Some(number) => Op::RunAgain { number },
                None => return,
            },
            60..68 => match self.some_object() {
                Some((kind, name)) => Op::Delete { kind, name },
                None => return,
            },
            68..72 => Op::Call {
                name: self.one_of(&FUNCTIONS),
            },
            72..80 => Op::Publish {
                queue: self.one_of(&QUEUES),
                id: format!("m{number}"),
            },
            80..90 => Op::Fault {
                engine: self.random.usize(..self.engines),
                rule: fault(&mut self.random),
            },
            90..93 => Op::FaultsEnd,
            93..94 => Op::ForgetHistory,
            94..96 => Op::Restart {
                engine: self.random.usize(..self.engines),
            },
            96..97 => {
                // The lease moves to the other engine.
                let rule = sless_core::decorate::FaultRule::on("lease.acquire");
                let rule = rule.failing(sless_core::ErrorKind::Unavailable);
                let engine = self.random.usize(..self.engines);
                self.ops.push(Op::Fault { engine, rule });
                Op::Advance(Duration::from_secs(30))
            }
            _ => Op::Crash {
                hang: (self.random.u8(..4) > 0)
                    .then(|| (self.one_of(&CRASH_IN), self.random.bool())),
            },
        };
        self.ops.push(op);
    }

    /// Mostly, the next one comes at once or a little later.
    fn wait(&mut self) {
        let wait = match self.random.u8(..20) {
            0..8 => return,
            8..16 => Duration::from_millis(self.random.u64(1..3_000)),
            16..19 => Duration::from_secs(self.random.u64(1..90)),
            _ => Duration::from_secs(self.random.u64(60..1_000)),
        };
        self.ops.push(Op::Advance(wait));
    }

    fn some_job(&mut self) -> Option<usize> {
        let jobs = self.ops.iter().filter_map(|op| match op {
            Op::PutJob { number, .. } => Some(*number),
            _ => None,
        });
        let jobs: Vec<_> = jobs.collect();
        (!jobs.is_empty()).then(|| self.one_of(&jobs))
    }

    fn some_object(&mut self) -> Option<(Kind, String)> {
        let objects = self.ops.iter().filter_map(|op| match op {
            Op::PutFunction { name, .. } => Some((Kind::Function, (*name).to_owned())),
            Op::PutTrigger { name, .. } => Some((Kind::Trigger, (*name).to_owned())),
            Op::PutJob { number, .. } => Some((Kind::FunctionJob, format!("j{number}"))),
            _ => None,
        });
        let objects: Vec<_> = objects.collect();
        (!objects.is_empty()).then(|| objects[self.random.usize(..objects.len())].clone())
    }
}
