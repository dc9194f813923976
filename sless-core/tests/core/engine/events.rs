use std::time::Duration;

use sless_core::{
    CatalogExt as _, DeadLetterQuery, DeadLetterSelection, DeliveryOptions, Dispatcher as _,
    Message, Metadata, Publish as _, Resource as _, Trigger, TriggerId, TriggerSpec,
};

use super::{World, name, ns, world};

async fn subscribe(world: &World, function: &str) -> TriggerId {
    let mut spec = TriggerSpec::event(name(function), "orders");
    spec.delivery = Some(DeliveryOptions {
        max_attempts: 3,
        min_backoff_ms: 1_000,
        ..DeliveryOptions::default()
    });
    let trigger = Trigger::new(Metadata::new(ns(), name("queue")), spec);
    let trigger = world
        .sless
        .backends()
        .catalog
        .add(trigger)
        .await
        .expect("created");
    world.rest().await;
    TriggerId::of(&trigger.metadata)
}

async fn publish(world: &World, body: &'static str) {
    let message = Message {
        body: body.into(),
        id: "m1".to_owned(),
        ..Message::default()
    };
    world
        .dispatcher
        .publish(&ns(), "orders", message)
        .await
        .expect("published");
    world.rest().await;
}

#[tokio::test]
async fn a_message_is_delivered_and_leaves_the_queue() {
    let world = world();
    world
        .deploy("hello", "main.echo", "code")
        .await
        .expect("deployed");
    let trigger = subscribe(&world, "hello").await;
    publish(&world, "one").await;
    let status = world
        .dispatcher
        .status(&trigger)
        .await
        .expect("a status")
        .expect("subscribed");
    assert_eq!((status.delivered, status.failed), (1, 0));
    let seen: Trigger = world
        .sless
        .backends()
        .catalog
        .read(&ns(), &name("queue"))
        .await
        .expect("a trigger");
    assert_eq!(
        (seen.status.active, seen.status.connected),
        (true, Some(true))
    );
}

#[tokio::test]
async fn a_failing_one_is_tried_again_with_growing_delay_and_is_dead_after_the_last() {
    let world = world();
    world
        .deploy("bad", "main.fail", "code")
        .await
        .expect("deployed");
    let trigger = subscribe(&world, "bad").await;
    publish(&world, "one").await;
    let failed = async || {
        let status = world.dispatcher.status(&trigger).await.expect("a status");
        status.expect("subscribed").failed
    };
    assert_eq!(failed().await, 1);
    world.clock.advance(Duration::from_millis(999)).await;
    assert_eq!(failed().await, 1);
    world.clock.advance(Duration::from_millis(1)).await;
    assert_eq!(failed().await, 2);
    world.clock.advance(Duration::from_millis(2_000)).await;
    let query = DeadLetterQuery::first(10);
    let page = world
        .dispatcher
        .dead_letters(&trigger, &query)
        .await
        .expect("a page");
    let [letter] = page.items.as_slice() else {
        panic!("{page:?}")
    };
    assert_eq!(
        (letter.attempts, letter.message.body.as_ref()),
        (3, b"one".as_slice())
    );
    assert!(letter.reason.contains("500"), "{}", letter.reason);

    // Mended and put back, it is delivered.
    world
        .deploy("bad", "main.echo", "mended")
        .await
        .expect("deployed");
    world
        .dispatcher
        .redrive(&trigger, &DeadLetterSelection::All)
        .await
        .expect("redriven");
    world.clock.advance(Duration::from_secs(1)).await;
    let page = world
        .dispatcher
        .dead_letters(&trigger, &query)
        .await
        .expect("a page");
    assert!(page.items.is_empty());
    let status = world
        .dispatcher
        .status(&trigger)
        .await
        .expect("a status")
        .expect("subscribed");
    assert_eq!(status.delivered, 1);
}

#[tokio::test]
async fn messages_wait_while_the_trigger_is_disabled_or_the_function_is_off() {
    let world = world();
    world
        .deploy("hello", "main.echo", "code")
        .await
        .expect("deployed");
    let trigger = subscribe(&world, "hello").await;
    let catalog = world.sless.backends().catalog.clone();
    for off in [true, false] {
        let mut spec = super::spec("main.echo");
        if off {
            spec.replicas = Some(0);
        }
        world
            .sless
            .put_function(&ns(), &name("hello"), &spec)
            .await
            .expect("put");
        world.rest().await;
        if off {
            publish(&world, "waits").await;
            assert_eq!(
                world.dispatcher.status(&trigger).await.expect("a status"),
                None
            );
        }
    }
    let status = world
        .dispatcher
        .status(&trigger)
        .await
        .expect("a status")
        .expect("subscribed");
    assert_eq!(status.delivered, 1);
    let seen: Trigger = catalog
        .read(&ns(), &name("queue"))
        .await
        .expect("a trigger");
    world.sless.delete(&seen.key()).await.expect("deleted");
    assert_eq!(
        world.dispatcher.status(&trigger).await.expect("a status"),
        None
    );
}

#[tokio::test]
async fn what_came_of_messages_is_stored_and_outlives_the_process() {
    let world = world();
    world
        .deploy("hello", "main.echo", "code")
        .await
        .expect("deployed");
    subscribe(&world, "hello").await;
    publish(&world, "one").await;
    let catalog = &world.sless.backends().catalog;
    let read = async || -> Trigger {
        catalog
            .read(&ns(), &name("queue"))
            .await
            .expect("a trigger")
    };
    let known = world
        .sless
        .event_counts(&read().await)
        .await
        .expect("counts");
    assert_eq!((known.delivered, known.failed), (1, 0));
    world.clock.advance(Duration::from_secs(31)).await;
    world.rest().await;
    let stored = read().await;
    assert_eq!(stored.status.counts, known);
    let again = world.sless.event_counts(&stored).await.expect("counts");
    assert_eq!(again, known, "nothing is counted twice");

    world.sless.shutdown().await;
    let next = sless_core::Sless::new(world.sless.backends().clone()).expect("an engine");
    world.rest().await;
    publish(&world, "two").await;
    let after = next.event_counts(&read().await).await.expect("counts");
    assert_eq!(after.delivered, 2);
}

#[tokio::test]
async fn a_message_that_comes_to_an_engine_that_ended_is_left_to_the_next() {
    let world = world();
    world
        .deploy("hello", "main.echo", "code")
        .await
        .expect("deployed");
    let trigger = subscribe(&world, "hello").await;
    world.sless.shutdown().await;
    // The dispatcher is shut down after the engine, and gives out what comes meanwhile.
    publish(&world, "one").await;
    let seen = world.dispatcher.status(&trigger).await.expect("a status");
    let seen = seen.expect("subscribed");
    assert_eq!((seen.delivered, seen.failed), (0, 0), "{seen:?}");
    assert_eq!(world.sless.stats().records_dropped, 0);

    let next = sless_core::Sless::new(world.sless.backends().clone()).expect("an engine");
    world.rest().await;
    world.clock.advance(Duration::from_secs(2)).await;
    world.rest().await;
    let seen = world.dispatcher.status(&trigger).await.expect("a status");
    assert_eq!(seen.expect("subscribed").delivered, 1);
    next.shutdown().await;
}
