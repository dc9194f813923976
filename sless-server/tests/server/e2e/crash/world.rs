//! A data folder, the server on it, and a user of it.

use std::{
    fs,
    path::PathBuf,
    process::Command,
    sync::Mutex,
    time::{Duration, Instant},
};

use sless_api::{CreateTrigger, Delivery, ListQuery, TriggerType, client::Content};
use sless_core::Namespace;

use super::{
    super::{
        machine::{Machine, node, python},
        process::{DEADLINE, LOOK, Process, command},
    },
    calm::{self, Size},
    check::{check, version},
    code,
    drive::{Ask, Driver},
    ledger::{Ledger, Notes},
    plan::{End, Plan},
};

/// How long a point is waited for.
const REACHED_WITHIN: Duration = Duration::from_secs(6);

/// After which round it is looked at for the first time what is left.
const FIRST_LOOK: u32 = 10;

/// How often that is done after.
const LOOK_EVERY: u32 = 200;

/// How much the SQLite files and the logs may grow from the first look on: the changes that are kept for
/// watches, the records of calls, and the logs of two functions, all of which have limits.
const GROWTH: u64 = 8 << 20;

/// How much quicker than the machine's clock the server's is: a minute in a second.
const CLOCK_RATE: u32 = 60;

#[derive(Debug)]
pub(super) struct World {
    folder: tempfile::TempDir,
    token: String,
    namespace: String,
    /// When its clock began to hurry, in seconds since 1970.
    base: i64,
    pub(super) plan: Plan,
    ledger: Mutex<Ledger>,
    first: Option<Size>,
    last: Option<Size>,
}

impl World {
    pub(super) fn new(plan: Plan) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            token: String::new(),
            namespace: Namespace::of_subject("alice").to_string(),
            base: jiff::Timestamp::now().as_second(),
            plan,
            ledger: Mutex::default(),
            first: None,
            last: None,
        }
    }

    /// At least so many rounds, and as many more as the plan takes.
    pub(super) async fn run(mut self, rounds: u32) -> Self {
        let mut round = 0;
        while self.plan.is_fresh() {
            round += 1;
            self.start(round).await;
        }
        self.begin().await;
        let mut looked = round;
        while round < rounds || self.plan.is_due() {
            round += 1;
            self.round(round).await;
            let wait = if looked < FIRST_LOOK {
                FIRST_LOOK
            } else {
                LOOK_EVERY
            };
            if round.is_multiple_of(wait) {
                looked = round;
                self.calm(round).await;
            }
        }
        self.calm(round).await;
        self
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn gate(&self) -> PathBuf {
        self.folder.path().join("gate")
    }

    fn command(&self, end: Option<End>) -> Command {
        let mut serve = command(Some(&self.data()), ["serve"]);
        serve
            .env("SLESS_LISTEN", "127.0.0.1:0")
            .env("SLESS_DRAIN_TIMEOUT", "10s")
            .env("SLESS_INVOCATIONS_KEPT", "500")
            .env("SLESS_TEST_CLOCK", format!("{}:{CLOCK_RATE}", self.base));
        if let Some(End::At(point, nth) | End::Starting(point, nth)) = end {
            serve.env("SLESS_TEST_FAULT_POINT", format!("{}:{nth}", point.name()));
        }
        if let Some(End::At(..)) = end {
            serve.env("SLESS_TEST_FAULT_GATE", self.gate());
        }
        serve
    }

    async fn machine(&self, end: Option<End>) -> Machine {
        let process = Process::start(self.command(end));
        Machine::of(process, &self.token, self.namespace.clone()).await
    }

    /// Makes what goes through all rounds.
    async fn begin(&mut self) {
        let minted = command(Some(&self.data()), ["token", "--sub", "alice"])
            .output()
            .unwrap();
        assert!(minted.status.success(), "{minted:?}");
        String::from_utf8(minted.stdout)
            .unwrap()
            .trim()
            .clone_into(&mut self.token);
        let machine = self.machine(None).await;
        let mut steady = python("steady");
        steady.concurrency = Some(4);
        machine.upload(&steady, code::steady(0)).await;
        machine.upload(&node("installed"), code::installed(0)).await;
        let trigger = |name: &str, kind| CreateTrigger {
            name: name.to_owned(),
            kind,
            function_ref: "steady".to_owned(),
            enabled: None,
            schedule: None,
            time_zone: None,
            policies: None,
            queue: None,
            queue_declare: None,
            delivery: None,
        };
        let queue = CreateTrigger {
            queue: Some("q".to_owned()),
            delivery: Some(Delivery {
                in_flight: Some(4),
                ..Delivery::default()
            }),
            ..trigger("queue", TriggerType::Event)
        };
        let clock = CreateTrigger {
            schedule: Some("* * * * *".to_owned()),
            ..trigger("clock", TriggerType::Cron)
        };
        for trigger in [queue, clock] {
            machine
                .client
                .create_trigger(&self.namespace, &trigger)
                .await
                .unwrap();
        }
        for name in ["steady", "installed"] {
            machine.settled(name).await;
            assert_eq!(version(&machine, name).await, 0);
        }
        machine.stop().await;
    }

    /// A round: looks at what the kill before has left, and goes on until the next one.
    async fn round(&mut self, round: u32) {
        let end = self.plan.next();
        if let End::Starting(..) = end {
            return self.starts(round, end).await;
        }
        let mut machine = self.machine(Some(end)).await;
        check(&machine, &self.data(), self.ledger.get_mut().unwrap()).await;
        let (ask, within) = match end {
            End::At(point, _) => (self.ask(point.name()), REACHED_WITHIN),
            End::After(after) => (self.ask(""), after),
            End::Starting(..) => unreachable!("it has returned"),
        };
        fs::write(self.gate(), "").unwrap();
        let driver = Driver {
            machine: &machine,
            ledger: &self.ledger,
        };
        let reached = tokio::select! {
            () = driver.drive(ask) => unreachable!("it never ends"),
            reached = ends(&machine.process, within) => reached,
        };
        machine.process.kill();
        fs::remove_file(self.gate()).unwrap();
        self.plan.ended(end, reached);
        let complaints = &self.ledger.get_mut().unwrap().complaints;
        assert!(
            complaints.is_empty(),
            "round {round}, {end:?}: {complaints:#?}\n{}",
            machine.process.err.text()
        );
    }

    /// A round that ends before the server serves.
    async fn start(&mut self, round: u32) {
        let end = self.plan.next();
        self.starts(round, end).await;
    }

    async fn starts(&mut self, round: u32, end: End) {
        let mut process = Process::start(self.command(Some(end)));
        let began = Instant::now();
        let reached = loop {
            if process.is_over() {
                break true;
            }
            if process.err.count("\"serving\"") > 0 {
                break false;
            }
            assert!(
                began.elapsed() < DEADLINE,
                "round {round}: {}",
                process.err.text()
            );
            tokio::time::sleep(LOOK).await;
        };
        if reached {
            // By its own kill, not by an error.
            assert!(
                !process.err.text().contains("sless-server:"),
                "round {round}: {}",
                process.err.text()
            );
        }
        process.kill();
        self.plan.ended(end, reached);
    }

    fn ask(&mut self, point: &str) -> Ask {
        Ask {
            install: point.starts_with("build.spawn") || self.plan.chance_of(8),
            flood: point.starts_with("log.") || self.plan.chance_of(20),
        }
    }

    /// One version more, undisturbed, and an orderly end: whatever was left over goes with it.
    async fn calm(&mut self, round: u32) {
        let machine = self.machine(None).await;
        check(&machine, &self.data(), self.ledger.get_mut().unwrap()).await;
        let number = self.ledger.get_mut().unwrap().steady.next();
        let zip = Content::bytes(code::steady(number));
        machine
            .client
            .upload(&self.namespace, "steady", zip)
            .await
            .unwrap();
        machine.settled("steady").await;
        assert_eq!(version(&machine, "steady").await, number);
        assert!(self.ledger.get_mut().unwrap().steady.settle(number));
        let began = Instant::now();
        loop {
            let all = ListQuery::default();
            let functions = machine
                .client
                .functions(&self.namespace, &all)
                .await
                .unwrap()
                .items;
            let jobs = machine
                .client
                .jobs(&self.namespace, &all)
                .await
                .unwrap()
                .items;
            if functions.len() == 2 && jobs.is_empty() {
                break;
            }
            assert!(began.elapsed() < DEADLINE, "{functions:?}, {jobs:?}");
            tokio::time::sleep(LOOK).await;
        }
        machine.stop().await;
        let size = calm::look(&self.data());
        let first = self.first.get_or_insert(size);
        assert!(
            size.bytes <= first.bytes + GROWTH,
            "round {round}: from {first:?} to {size:?}"
        );
        self.last = Some(size);
    }

    /// What was seen, in a few lines.
    pub(super) fn summary(&mut self) -> String {
        let notes = Notes::read(&self.data());
        let ledger = self.ledger.get_mut().unwrap();
        let again =
            |counts: &mut dyn Iterator<Item = usize>| counts.map(|count| count - 1).sum::<usize>();
        format!(
            "{} kills at points, {} others; {} versions taken, {} calls answered, {} jobs ended ({} \
             interrupted), {} messages accepted, {} delivered, {} of them again, {} due times run, {} of \
             them again; SQLite files and logs: {:?} bytes at first, {:?} at last",
            self.plan.reached.values().sum::<u32>(),
            self.plan.chance,
            ledger.counts.uploads,
            ledger.counts.calls,
            ledger.counts.jobs,
            ledger.counts.interrupted,
            ledger.messages.len(),
            notes
                .messages
                .values()
                .map(|count| u64::from(*count))
                .sum::<u64>(),
            again(&mut notes.messages.values().map(|count| *count as usize)),
            notes.cron.len(),
            again(&mut notes.cron.values().map(Vec::len)),
            self.first.map(|size| size.bytes),
            self.last.map(|size| size.bytes),
        )
    }
}

/// Waits until it has ended by itself; answers `false` where it has not in time.
async fn ends(process: &Process, within: Duration) -> bool {
    let began = Instant::now();
    while began.elapsed() < within {
        if process.is_over() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    false
}
