//! What backends keep for nobody.

use std::{sync::Arc, time::Duration};

use sless_core::{
    Artifact, ArtifactKind, Backends, CatalogExt as _, Digest, Dispatcher as _, Disposition, Error,
    ErrorKind, EventSink, FunctionId, Kind, Message, Metadata, Namespace, ObjectKey, Options,
    Publish as _, PutOptions, Runtime, Scheduler as _, Storage as _, StorageKey, Subscription,
    Trigger, TriggerId, TriggerSpec, Uid, Workload, bytes_stream,
    decorate::{Fault, FaultRule, Faults},
    memory::MemoryScheduler,
};

use super::{World, name, ns, world_with};

#[derive(Debug)]
struct GivesUp;

#[async_trait::async_trait]
impl EventSink for GivesUp {
    async fn deliver(&self, _: sless_core::Delivery) -> Disposition {
        Disposition::Dead {
            reason: "of no use".to_owned(),
        }
    }
}

fn lost(namespace: &Namespace) -> Workload {
    let digest = Digest::of("lost");
    Workload {
        function: FunctionId {
            namespace: namespace.clone(),
            name: name("lost"),
            uid: Uid::random(),
        },
        generation: 1,
        artifact: Artifact {
            kind: ArtifactKind::Memory,
            reference: "lost".to_owned(),
            digest,
        },
        runtime: Runtime::Python311,
        entrypoint: "main.echo".parse().expect("an entrypoint"),
        env: Default::default(),
        replicas: 1,
        max_replicas: 1,
        timeout: Duration::from_secs(5),
        memory: None,
        cpu: None,
        concurrency: 1,
        idle: None,
        built_at: jiff::Timestamp::UNIX_EPOCH,
    }
}

/// A dead letter of a trigger that the catalog does not know.
async fn dead_letter(world: &World) {
    let trigger = TriggerId {
        namespace: ns(),
        name: name("lost"),
        uid: Uid::random(),
    };
    let subscription = Subscription {
        trigger: trigger.clone(),
        generation: 1,
        queue: "q".to_owned(),
        declare: Default::default(),
        delivery: Default::default(),
    };
    let dispatcher = &world.dispatcher;
    let applied = dispatcher.apply(&subscription, Arc::new(GivesUp)).await;
    applied.expect("served");
    let message = Message {
        body: "x".into(),
        ..Message::default()
    };
    dispatcher
        .publish(&ns(), "q", message)
        .await
        .expect("published");
    world.rest().await;
    dispatcher.remove(&trigger).await.expect("removed");
}

#[tokio::test]
async fn what_no_object_explains_is_found_and_the_rest_is_not() {
    let mut kept = None;
    let world = world_with(Options::default(), |backends: &mut Backends| {
        kept = Some(backends.scheduler.clone());
    });
    let scheduler = kept.expect("the scheduler");
    let backends = world.sless.backends();
    world
        .deploy("hello", "main.echo", "code")
        .await
        .expect("deployed");
    let trigger = Trigger::new(
        Metadata::new(ns(), name("events")),
        TriggerSpec::event(name("hello"), "events"),
    );
    backends.catalog.add(trigger).await.expect("a trigger");
    world.rest().await;
    let none = backends.orphans("").await.expect("looked");
    assert_eq!(none, Default::default());

    let workload = lost(&ns());
    scheduler.apply(&workload).await.expect("applied");
    dead_letter(&world).await;
    for key in ["functions/test/lost/1.zip", "contexts/stray"] {
        let key = StorageKey::new(key).expect("a key");
        let (storage, options) = (&backends.storage, PutOptions::default());
        let stored = storage.put(&key, bytes_stream("x"), &options).await;
        stored.expect("stored");
    }
    let found = backends.orphans("").await.expect("looked");
    let seen: Vec<_> = found
        .items
        .iter()
        .map(|held| (held.kind.as_str(), held.name.as_str()))
        .collect();
    assert_eq!(
        seen,
        [
            ("dead_letters", "test/lost: 1"),
            ("stored_context", "contexts/stray"),
            ("stored_source", "functions/test/lost/1.zip"),
            ("workload", "test/lost"),
        ]
    );
    assert_eq!(found.items[3].uid, Some(workload.function.uid.clone()));
    let owner = ObjectKey::new(Kind::Function, ns(), name("lost"));
    assert_eq!(found.items[2].owner, Some(owner));

    // An object of the same name is another one.
    world
        .deploy("lost", "main.echo", "code")
        .await
        .expect("deployed");
    let found = backends.orphans("te").await.expect("looked");
    let kinds: Vec<_> = found.items.iter().map(|held| held.kind.as_str()).collect();
    assert_eq!(kinds, ["dead_letters", "stored_context", "workload"]);
    // What is kept in other namespaces is not looked at; of what has no owner nobody knows.
    let found = backends.orphans("other").await.expect("looked");
    let kinds: Vec<_> = found.items.iter().map(|held| held.kind.as_str()).collect();
    assert_eq!(kinds, ["stored_context"]);

    let removed = scheduler.remove(&workload.function).await;
    removed.expect("removed");
    let found = backends.orphans("test").await.expect("looked");
    assert!(!found.items.iter().any(|held| held.kind == "workload"));
}

#[tokio::test]
async fn what_cannot_be_listed_is_told_and_what_fails_fails() {
    for (kind, fails) in [
        (ErrorKind::Unsupported, false),
        (ErrorKind::Unavailable, true),
    ] {
        let clock = Arc::new(sless_core::SystemClock);
        let faults = Faults::seeded(1, clock.clone());
        faults.add(FaultRule::on("scheduler.held").failing(kind));
        let scheduler = Fault::new(MemoryScheduler::new(clock), &faults);
        let backends = Backends {
            scheduler: Arc::new(scheduler),
            ..Backends::in_memory()
        };
        let found: Result<_, Error> = backends.orphans("").await;
        match found {
            Err(error) => assert!(fails && error.kind() == kind, "{error}"),
            Ok(found) => assert!(!fails && found.unlisted.len() == 1, "{found:?}"),
        }
    }
}
