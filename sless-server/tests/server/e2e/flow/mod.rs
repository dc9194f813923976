//! The life of a function, from its upload to its deletion, with everything that can drive it: the same on
//! one machine and in a cluster, in one process and in several.

mod code;
mod drive;
mod life;

use std::time::Instant;

use sless_api::{Function, FunctionPhase, client::Call};

pub(super) use self::{
    code::{Language, version},
    life::nothing_is_left,
};
use super::{
    machine::{Machine, json},
    place::{Backend, Place},
    process::{DEADLINE, LOOK},
};

/// A function of a test, and who looks at it.
pub(super) struct Flow<'a> {
    pub(super) place: &'a Place,
    pub(super) machine: &'a Machine,
    pub(super) language: Language,
    /// Whether one process does everything, so that a deletion's receipt is known where it was asked for.
    pub(super) together: bool,
    /// Whether the cluster fires schedules, and the second version has a package to install.
    pub(super) by_cluster: bool,
}

impl Flow<'_> {
    /// All of it.
    pub(super) async fn run(&self) {
        self.lives().await;
        self.leaves_nothing().await;
    }

    async fn lives(&self) {
        self.refuses_what_is_unsafe().await;
        self.deploys().await;
        self.schedules().await;
        self.shows_its_source().await;
        self.rolls_out_without_a_failed_call().await;
        if self.by_cluster {
            let told = "Successfully installed brought-1.0";
            self.machine.logged(self.name(), told).await;
        }
        self.stops_and_starts().await;
        self.handles_messages().await;
        self.runs_jobs().await;
        self.fires_by_schedule().await;
        self.has_recorded_all().await;
    }

    fn name(&self) -> &'static str {
        self.language.name()
    }

    async fn function(&self) -> Function {
        let (client, namespace) = (&self.machine.client, &self.machine.namespace);
        client.function(namespace, self.name()).await.unwrap()
    }

    /// Waits until the function is as it is wanted.
    async fn function_is(&self, what: &str, holds: impl Fn(&Function) -> bool) -> Function {
        let began = Instant::now();
        loop {
            let function = self.function().await;
            if holds(&function) {
                return function;
            }
            assert!(
                began.elapsed() < DEADLINE && function.phase != FunctionPhase::Failed,
                "{what}: {function:?}\n{}",
                self.machine.process.err.text()
            );
            tokio::time::sleep(LOOK * 5).await;
        }
    }

    /// Calls the function, and answers the status and the JSON.
    async fn call(&self, event: &str) -> (u16, serde_json::Value) {
        let (status, body) = self.machine.call(self.name(), json(event)).await;
        let text = String::from_utf8_lossy(&body).into_owned();
        let value = serde_json::from_str(&text).unwrap_or(serde_json::Value::String(text));
        (status, value)
    }

    /// The status of a call that carries nothing.
    async fn status(&self) -> u16 {
        self.machine.call(self.name(), Call::new("GET")).await.0
    }
}

/// Polls until this answers nothing more to wait for.
pub(super) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Result<T, String>) -> T {
    let began = Instant::now();
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) => assert!(began.elapsed() < DEADLINE, "{what}; seen last: {seen}"),
        }
        tokio::time::sleep(LOOK * 5).await;
    }
}

async fn on(backend: Backend, language: Language) {
    let place = Place::new(backend).await;
    let machine = place.start().await;
    let flow = Flow {
        place: &place,
        machine: &machine,
        language,
        together: true,
        by_cluster: false,
    };
    flow.run().await;
    machine.stop().await;
}

#[tokio::test]
#[ignore = "needs S3, RabbitMQ, PostgreSQL and Kubernetes: testing/*/up"]
async fn a_python_function_lives_on_one_machine() {
    on(Backend::Local, Language::Python).await;
}

#[tokio::test]
#[ignore = "needs S3, RabbitMQ, PostgreSQL and Kubernetes: testing/*/up"]
async fn a_node_function_lives_on_one_machine() {
    on(Backend::Local, Language::Node).await;
}

#[tokio::test]
#[ignore = "needs S3, RabbitMQ, PostgreSQL and Kubernetes: testing/*/up"]
async fn a_python_function_lives_in_a_cluster() {
    // With the parts that one asks for: what is to be installed is installed by a Job, and the schedule is
    // a CronJob.
    let place = Place::new(Backend::Kubernetes).await;
    let parts = place.parts().await;
    let machine = place.start_with(&place.settings_of(&parts, true)).await;
    let flow = Flow {
        place: &place,
        machine: &machine,
        language: Language::Python,
        together: true,
        by_cluster: true,
    };
    flow.lives().await;
    machine.stop().await;
    // Back to the engine's clock.
    let machine = place.start_with(&place.settings_of(&parts, false)).await;
    let flow = Flow {
        place: &place,
        machine: &machine,
        language: Language::Python,
        together: true,
        by_cluster: false,
    };
    flow.is_taken_back().await;
    flow.leaves_nothing().await;
    parts.are_bare().await;
    machine.stop().await;
}

#[tokio::test]
#[ignore = "needs S3, RabbitMQ, PostgreSQL and Kubernetes: testing/*/up"]
async fn a_node_function_lives_in_a_cluster() {
    on(Backend::Kubernetes, Language::Node).await;
}
