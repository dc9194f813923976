//! What can happen in a script.

use std::{sync::LazyLock, time::Duration};

use bytes::Bytes;
use sless_core::{
    Digest, ErrorKind, Kind,
    decorate::FaultRule,
    source::{SourceTree, pack},
};

/// One line of a script.
#[derive(Clone, Debug)]
pub(super) enum Op {
    /// A function is created, or changed.
    PutFunction {
        name: &'static str,
        entrypoint: &'static str,
        node: bool,
        replicas: u32,
        env: u32,
    },
    Upload {
        name: &'static str,
        code: usize,
    },
    PutTrigger {
        name: &'static str,
        function: &'static str,
        what: What,
        enabled: bool,
    },
    PutJob {
        number: usize,
        function: &'static str,
        run_id: i64,
    },
    /// The job gets another run.
    RunAgain {
        number: usize,
    },
    Delete {
        kind: Kind,
        name: String,
    },
    Call {
        name: &'static str,
    },
    Publish {
        queue: &'static str,
        id: String,
    },
    Advance(Duration),
    /// The `engine`th engine's backends go wrong.
    Fault {
        engine: usize,
        rule: FaultRule,
    },
    FaultsEnd,
    /// The catalog's history of changes is gone.
    ForgetHistory,
    /// One engine is shut down, and another one started in its place.
    Restart {
        engine: usize,
    },
    /// The process is gone. What the calls that `hang` says had done until then stays done.
    Crash {
        hang: Option<(&'static str, bool)>,
    },
}

/// What a trigger waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Http,
    Cron(&'static str),
    Event(&'static str),
}

pub(super) const FUNCTIONS: [&str; 4] = ["f0", "f1", "f2", "f3"];
pub(super) const TRIGGERS: [&str; 6] = ["t0", "t1", "t2", "t3", "t4", "t5"];
pub(super) const QUEUES: [&str; 2] = ["q0", "q1"];
pub(super) const ENTRYPOINTS: [&str; 6] = [
    "main.ok",
    "main.ok",
    "main.ok",
    "main.fail",
    "main.slow",
    "main.missing",
];

/// How the build of a source goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Build {
    Good,
    Slow,
    /// It never succeeds.
    Bad,
    /// It fails twice for a passing reason.
    Flaky,
}

/// A source that can be uploaded.
#[derive(Debug)]
pub(super) struct Code {
    pub(super) build: Build,
    pub(super) digest: Digest,
    pub(super) zip: Bytes,
}

pub(super) static CODES: LazyLock<Vec<Code>> = LazyLock::new(|| {
    let builds = [
        Build::Good,
        Build::Good,
        Build::Good,
        Build::Slow,
        Build::Slow,
        Build::Bad,
        Build::Flaky,
    ];
    let code = |(number, build): (usize, &Build)| {
        let files = [("main.py", format!("# {number}"))];
        let tree = SourceTree::from_files(files).unwrap();
        let zip = pack::write_zip(&tree, std::io::Cursor::new(Vec::new())).unwrap();
        Code {
            build: *build,
            digest: tree.digest(),
            zip: zip.into_inner().into(),
        }
    };
    builds.iter().enumerate().map(code).collect()
});

/// How the build of this source goes.
pub(super) fn build_of(digest: Digest) -> Option<Build> {
    let code = CODES.iter().find(|code| code.digest == digest);
    code.map(|code| code.build)
}

const OPERATIONS: [&str; 24] = [
    "*",
    "catalog.*",
    "catalog.get",
    "catalog.update",
    "catalog.update_status",
    "catalog.delete",
    "catalog.list",
    "catalog.watch",
    "storage.*",
    "storage.put",
    "storage.delete",
    "storage.get",
    "storage.list",
    "builder.*",
    "builder.ensure",
    "builder.prune",
    "scheduler.*",
    "scheduler.apply",
    "scheduler.remove",
    "scheduler.run_job",
    "scheduler.invoke",
    "dispatcher.*",
    "dispatcher.remove",
    "lease.acquire",
];

/// Calls in whose middle a process may crash.
pub(super) const CRASH_IN: [&str; 9] = [
    "catalog.update_status",
    "catalog.update",
    "storage.put",
    "storage.delete",
    "builder.ensure",
    "builder.prune",
    "scheduler.apply",
    "scheduler.remove",
    "scheduler.run_job",
];

/// Something that goes wrong.
pub(super) fn fault(random: &mut fastrand::Rng) -> FaultRule {
    let rule = FaultRule::on(OPERATIONS[random.usize(..OPERATIONS.len())]);
    let rule = match random.u8(..4) {
        0 => rule.nth(random.u64(1..5)),
        1 => rule.first(random.u64(1..8)),
        _ => rule.with_probability(0.05 + random.f64() * 0.4),
    };
    let kinds = [
        ErrorKind::Unavailable,
        ErrorKind::Timeout,
        ErrorKind::Interrupted,
        ErrorKind::Unavailable,
    ];
    let kind = kinds[random.usize(..kinds.len())];
    match random.u8(..10) {
        0..3 => rule.failing(kind),
        3..6 => rule.failing_after(kind),
        6..8 => rule.delayed(Duration::from_millis(random.u64(1..6_000))),
        8 => FaultRule::on("catalog.watch.events").cutting(random.usize(..6)),
        _ => {
            let hints = ["builder.changes", "scheduler.changes", "dispatcher.changes"];
            FaultRule::on(hints[random.usize(..3)])
                .with_probability(0.2 + random.f64() * 0.8)
                .losing()
        }
    }
}
