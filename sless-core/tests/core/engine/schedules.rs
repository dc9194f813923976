use std::time::Duration;

use sless_core::{CatalogExt as _, Metadata, Resource as _, Sless, Trigger, TriggerSpec};

use super::{World, name, ns, world};

async fn schedule(world: &World, function: &str, expression: &str) -> Trigger {
    let spec = TriggerSpec::cron(name(function), expression);
    let trigger = Trigger::new(Metadata::new(ns(), name("clock")), spec);
    world
        .sless
        .backends()
        .catalog
        .add(trigger)
        .await
        .expect("created")
}

async fn trigger(world: &World) -> Trigger {
    world
        .sless
        .backends()
        .catalog
        .read(&ns(), &name("clock"))
        .await
        .expect("a trigger")
}

#[tokio::test]
async fn a_schedule_fires_at_its_times_and_shows_the_next() {
    let world = world();
    world
        .deploy("hello", "main.echo", "code")
        .await
        .expect("deployed");
    schedule(&world, "hello", "*/5 * * * *").await;
    world.rest().await;
    let next = trigger(&world)
        .await
        .status
        .next_fire_at
        .expect("a next time");
    assert_eq!(next.to_string(), "2026-01-01T00:05:00Z");
    world.clock.advance(Duration::from_secs(3600)).await;
    world.rest().await;
    let status = trigger(&world).await.status;
    let ledger = status.ledger.expect("a ledger");
    assert_eq!(
        (ledger.fired, ledger.failed, ledger.missed, ledger.skipped),
        (12, 0, 0, 0)
    );
    assert_eq!(
        ledger.last_fire_at.expect("fired").to_string(),
        "2026-01-01T01:00:00Z"
    );
}

/// Case 6: a run of ten seconds on a schedule of a minute never overlaps; one of a hundred would.
#[tokio::test]
async fn runs_do_not_overlap_unless_asked() {
    let world = world();
    let mut slow = super::deploy("slow", "main.slow", "code");
    slow.spec.timeout_seconds = 600;
    world.sless.deploy(slow).await.expect("deployed");
    schedule(&world, "slow", "* * * * *").await;
    world.rest().await;
    for _ in 0..600 {
        world.clock.advance(Duration::from_secs(1)).await;
    }
    let ledger = trigger(&world).await.status.ledger.expect("a ledger");
    assert_eq!((ledger.fired, ledger.skipped), (9, 0), "{ledger:?}");
    assert_eq!(ledger.running.len(), 1);
}

#[tokio::test]
async fn disabled_it_does_not_fire_and_what_was_due_is_not_made_up_for() {
    let world = world();
    world
        .deploy("hello", "main.echo", "code")
        .await
        .expect("deployed");
    schedule(&world, "hello", "* * * * *").await;
    world.rest().await;
    set_enabled(&world, false).await;
    world.clock.advance(Duration::from_secs(600)).await;
    let status = trigger(&world).await.status;
    assert!(!status.active && status.next_fire_at.is_none());
    set_enabled(&world, true).await;
    world.clock.advance(Duration::from_secs(60)).await;
    world.rest().await;
    let ledger = trigger(&world).await.status.ledger.expect("a ledger");
    assert_eq!((ledger.fired, ledger.missed), (1, 0));
}

async fn set_enabled(world: &World, enabled: bool) {
    let catalog = &world.sless.backends().catalog;
    let (ns, name) = (ns(), name("clock"));
    let changed = catalog.modify(&ns, &name, |trigger: &mut Trigger| {
        trigger.spec.enabled = enabled;
        Ok(())
    });
    changed.await.expect("changed");
    world.rest().await;
}

#[tokio::test]
async fn a_restart_makes_up_for_the_last_missed_run_and_doubles_none() {
    let world = world();
    world
        .deploy("hello", "main.echo", "code")
        .await
        .expect("deployed");
    let made = schedule(&world, "hello", "0 * * * *").await;
    world.clock.advance(Duration::from_secs(3600)).await;
    world.rest().await;
    world.sless.shutdown().await;
    world
        .clock
        .advance(Duration::from_secs(3 * 3600 + 600))
        .await;
    let again = Sless::new(world.sless.backends().clone()).expect("restarted");
    world.rest().await;
    world.clock.advance(Duration::from_secs(1)).await;
    let ledger = trigger(&world).await.status.ledger.expect("a ledger");
    assert_eq!((ledger.fired, ledger.missed), (2, 2), "{ledger:?}");
    again.delete(&made.key()).await.expect("deleted");
    again.shutdown().await;
}
