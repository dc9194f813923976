//! How soon after its upload a function is ready, where nothing is to be installed and its node has the
//! image of the runtime.

#![allow(clippy::print_stdout, reason = "the times are told")]

use std::time::{Duration, Instant};

use sless_api::{FunctionPhase, client::Content};

use super::super::{
    flow::{Language, until, version},
    machine::Machine,
    place::{Backend, Place},
};

/// What a user may have to wait.
const SOON: Duration = Duration::from_secs(3);
/// Uploads, of which the best counts: the first fetches the image, and a test has its machine not for
/// itself.
const UPLOADS: u32 = 5;

/// From the first byte of an upload until the function says that it is ready with that code.
async fn upload(machine: &Machine, language: Language, number: u32) -> Duration {
    let (client, namespace, name) = (&machine.client, &machine.namespace, language.name());
    let content = Content::bytes(version(language, number));
    let began = Instant::now();
    let uploaded = client.upload(namespace, name, content).await.unwrap();
    until("the function is ready", async || {
        let seen = client.function(namespace, name).await.unwrap();
        let is_new = seen.code_sha256.as_ref() == Some(&uploaded.code_sha256);
        match seen.phase {
            FunctionPhase::Ready if is_new => Ok(()),
            _ => Err(format!("{seen:?}")),
        }
    })
    .await;
    began.elapsed()
}

#[tokio::test]
#[ignore = "needs S3, RabbitMQ, PostgreSQL and Kubernetes: testing/*/up"]
async fn an_upload_is_soon_ready() {
    let place = Place::new(Backend::Kubernetes).await;
    let machine = place.start().await;
    let (client, namespace) = (&machine.client, &machine.namespace);
    for language in [Language::Python, Language::Node] {
        let function = language.function();
        client.create_function(namespace, &function).await.unwrap();
        let mut times = Vec::new();
        for number in 1..=UPLOADS {
            times.push(upload(&machine, language, number).await);
        }
        println!("{}: ready after {times:?}", language.name());
        let best = times.iter().min().unwrap();
        assert!(*best <= SOON, "{times:?}");
        client
            .delete_function(namespace, language.name())
            .await
            .unwrap();
    }
    machine.stop().await;
}
