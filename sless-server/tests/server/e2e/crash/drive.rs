//! What the server is at when it is killed: everything at once, until then.

use std::{
    future,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use futures::StreamExt;
use serde_json::json;
use sless_api::{
    CreateJob, FunctionPhase, JobPhase,
    client::{Call, ClientError, Content},
};

use super::{
    super::{
        machine::{self, Machine, python},
        process::LOOK,
    },
    code,
    ledger::{Ledger, Versions},
};

/// How long each waits before it does the same again.
const PAUSE: Duration = Duration::from_millis(15);

/// How many long lines fill a log.
const FLOOD: u32 = 110;

/// What is asked for beside the rest, since it takes its time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ask {
    /// Builds that install something.
    pub(super) install: bool,
    /// Logs that are filled.
    pub(super) flood: bool,
}

type Shared = Mutex<Ledger>;

/// A user who does everything at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Driver<'a> {
    pub(super) machine: &'a Machine,
    pub(super) ledger: &'a Shared,
}

impl Driver<'_> {
    /// Never ends.
    pub(super) async fn drive(self, ask: Ask) {
        futures::join!(
            self.upload("steady", code::steady, |ledger| &mut ledger.steady),
            async {
                if ask.install {
                    self.upload("installed", code::installed, |ledger| &mut ledger.installed)
                        .await;
                }
            },
            async {
                if ask.flood {
                    self.flood().await;
                }
            },
            self.come_and_go(),
            self.jobs(),
            self.publish(),
            self.call(),
        );
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap()
    }

    /// Goes on until a request gets no answer: then the server was killed. An answer that is an error is
    /// a complaint.
    async fn answered<T>(&self, what: &str, answer: Result<T, ClientError>) -> T {
        match answer {
            Ok(answer) => return answer,
            Err(ClientError::Api(error)) => self.complain(format!("{what}: {error}")),
            Err(_) => {}
        }
        future::pending().await
    }

    fn complain(&self, text: String) {
        self.ledger().complaints.push(text);
    }

    /// New versions, one after the other.
    async fn upload(
        &self,
        name: &str,
        code: fn(u32) -> Vec<u8>,
        versions: fn(&mut Ledger) -> &mut Versions,
    ) {
        let Machine {
            client, namespace, ..
        } = self.machine;
        loop {
            let number = versions(&mut self.ledger()).next();
            let uploaded = client
                .upload(namespace, name, Content::bytes(code(number)))
                .await;
            self.answered("upload", uploaded).await;
            {
                let mut ledger = self.ledger();
                versions(&mut ledger).taken = number;
                ledger.counts.uploads += 1;
            }
            self.ready(name).await;
        }
    }

    async fn ready(&self, name: &str) {
        let Machine {
            client, namespace, ..
        } = self.machine;
        loop {
            let function = self
                .answered(name, client.function(namespace, name).await)
                .await;
            match function.phase {
                FunctionPhase::Ready => return,
                FunctionPhase::Pending | FunctionPhase::Building => tokio::time::sleep(LOOK).await,
                _ => {
                    self.complain(format!("{function:?}"));
                    future::pending().await
                }
            }
        }
    }

    /// Functions that are made, and removed once they are ready.
    async fn come_and_go(&self) {
        let Machine {
            client, namespace, ..
        } = self.machine;
        loop {
            let number = {
                let mut ledger = self.ledger();
                ledger.passing += 1;
                ledger.passing
            };
            let name = format!("passing-{number}");
            let created = client.create_function(namespace, &python(&name)).await;
            self.answered("create", created).await;
            let zip = Content::bytes(code::passing());
            self.answered("upload", client.upload(namespace, &name, zip).await)
                .await;
            self.ready(&name).await;
            self.answered("delete", client.delete_function(namespace, &name).await)
                .await;
            while client.function(namespace, &name).await.is_ok() {
                tokio::time::sleep(LOOK).await;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Jobs, one after the other. Every second one stays, for the look after the kill.
    async fn jobs(&self) {
        let Machine {
            client, namespace, ..
        } = self.machine;
        loop {
            let number = {
                let mut ledger = self.ledger();
                ledger.begun += 1;
                let number = ledger.begun;
                ledger.jobs.entry(number).or_default();
                number
            };
            let job = CreateJob {
                name: format!("job-{number}"),
                function_ref: "steady".to_owned(),
                event_json: Some(json!({ "job": number }).to_string()),
                run_id: Some(1),
            };
            self.answered("create", client.create_job(namespace, &job).await)
                .await;
            self.ledger().jobs.entry(number).or_default().accepted = true;
            loop {
                let now = self
                    .answered("job", client.job(namespace, &job.name).await)
                    .await;
                if matches!(now.phase, JobPhase::Succeeded | JobPhase::Failed) {
                    self.ledger().jobs.entry(number).or_default().ended = Some(now);
                    break;
                }
                tokio::time::sleep(LOOK).await;
            }
            if number % 2 == 0 {
                self.ledger().jobs.entry(number).or_default().deleting = true;
                let deleted = client.delete_job(namespace, &job.name).await;
                self.answered("delete", deleted).await;
            }
        }
    }

    /// Messages, one after the other.
    async fn publish(&self) {
        let Machine {
            client, namespace, ..
        } = self.machine;
        loop {
            let number = {
                let mut ledger = self.ledger();
                ledger.sent += 1;
                ledger.sent
            };
            let message = Content::bytes(json!({ "message": number }).to_string());
            let published = client
                .publish(namespace, "q", "application/json", message)
                .await;
            self.answered("publish", published).await;
            self.ledger().messages.insert(number);
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Calls of both functions, each of which must be answered by a whole version.
    async fn call(&self) {
        loop {
            for name in ["steady", "installed"] {
                let Some(version) = self.version(name).await else {
                    return future::pending().await;
                };
                let mut ledger = self.ledger();
                ledger.counts.calls += 1;
                let known = if name == "steady" {
                    ledger.steady
                } else {
                    ledger.installed
                };
                if !known.may_serve(version) {
                    ledger
                        .complaints
                        .push(format!("{name} answers {version} of {known:?}"));
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn version(&self, name: &str) -> Option<u32> {
        let Machine {
            client, namespace, ..
        } = self.machine;
        let called = client.call(namespace, name, Call::new("GET")).await;
        let mut answer = self.answered("call", called).await;
        let mut body = Vec::new();
        while let Some(piece) = answer.body.next().await {
            // A body that breaks off is that of a server that was killed.
            body.extend_from_slice(&piece.ok()?);
        }
        let text = String::from_utf8_lossy(&body).into_owned();
        match serde_json::from_str::<[u32; 2]>(&text) {
            Ok([one, other]) if answer.status == 200 && one == other => Some(one),
            _ => {
                self.complain(format!("{name} answers {}: {text}", answer.status));
                None
            }
        }
    }

    /// Fills the log again and again.
    async fn flood(&self) {
        let Machine {
            client, namespace, ..
        } = self.machine;
        loop {
            let ask = machine::json(&json!({ "flood": FLOOD }).to_string());
            self.answered("flood", client.call(namespace, "steady", ask).await)
                .await;
            tokio::time::sleep(PAUSE).await;
        }
    }
}
