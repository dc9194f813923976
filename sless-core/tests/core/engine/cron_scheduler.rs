//! Cron triggers that a backend fires.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;
use sless_core::{
    CatalogExt as _, CronScheduler, CronStatus, CronTrigger, Failure, Kind, Metadata, ObjectKey,
    Options, Receipt, Result, Trigger, TriggerId, TriggerSpec,
};

use super::{World, name, ns, world_with};

/// Remembers what it was told, and says what it is told to say.
#[derive(Debug, Default)]
struct Remembered {
    applied: Mutex<Vec<CronTrigger>>,
    removed: Mutex<Vec<TriggerId>>,
    says: Mutex<CronStatus>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl CronScheduler for Remembered {
    async fn apply_cron(&self, trigger: &CronTrigger) -> Result<CronStatus> {
        lock(&self.applied).push(trigger.clone());
        Ok(lock(&self.says).clone())
    }

    async fn remove_cron(&self, trigger: &TriggerId) -> Result<Receipt> {
        lock(&self.removed).push(trigger.clone());
        let mut receipt = Receipt::default();
        receipt.add("cron_job", trigger.name.as_str(), "remembered");
        Ok(receipt)
    }
}

impl Remembered {
    fn suspended(&self) -> Option<bool> {
        lock(&self.applied).last().map(|applied| applied.suspended)
    }
}

async fn begin() -> (World, Arc<Remembered>) {
    let backend = Arc::new(Remembered::default());
    let cron = backend.clone();
    let world = world_with(Options::default(), |backends| backends.cron = Some(cron));
    world
        .deploy("hello", "main.echo", "code")
        .await
        .expect("deployed");
    let spec = TriggerSpec::cron(name("hello"), "*/5 * * * *");
    let trigger = Trigger::new(Metadata::new(ns(), name("clock")), spec);
    let catalog = &world.sless.backends().catalog;
    catalog.add(trigger).await.expect("created");
    world.rest().await;
    (world, backend)
}

async fn enable(world: &World, enabled: bool) {
    let catalog = &world.sless.backends().catalog;
    let change = |trigger: &mut Trigger| {
        trigger.spec.enabled = enabled;
        Ok(())
    };
    let clock = name("clock");
    let changed = catalog.modify::<Trigger, _>(&ns(), &clock, change).await;
    changed.expect("changed");
    world.rest().await;
}

async fn seen(world: &World) -> Trigger {
    let catalog = &world.sless.backends().catalog;
    let read = catalog.read(&ns(), &name("clock")).await;
    read.expect("a trigger")
}

#[tokio::test]
async fn what_a_backend_fires_the_engine_does_not() {
    let (world, backend) = begin().await;
    let applied = lock(&backend.applied)[0].clone();
    assert_eq!(applied.function, name("hello"));
    assert_eq!(applied.schedule.to_string(), "*/5 * * * *");
    assert_eq!(applied.timeout.as_secs(), 60);
    assert!(!applied.suspended);
    let fired: Timestamp = "2026-01-01T00:55:00Z".parse().expect("a time");
    *lock(&backend.says) = CronStatus::firing(Some(fired));
    world
        .clock
        .advance(std::time::Duration::from_secs(3600))
        .await;
    world.rest().await;
    let status = seen(&world).await.status;
    assert!(status.active, "{status:?}");
    let ledger = status.ledger.expect("what the backend told");
    assert_eq!((ledger.fired, ledger.missed), (0, 0), "the engine fired");
    assert_eq!(ledger.last_fire_at, Some(fired));
    assert!(status.next_fire_at.is_some());
    assert!(ledger.accounted_until.is_none(), "nothing was claimed");
}

#[tokio::test]
async fn a_disabled_trigger_is_suspended_in_place() {
    let (world, backend) = begin().await;
    let first = lock(&backend.applied)[0].trigger.clone();
    enable(&world, false).await;
    assert_eq!(backend.suspended(), Some(true));
    assert_eq!(seen(&world).await.status.next_fire_at, None);
    enable(&world, true).await;
    assert_eq!(backend.suspended(), Some(false));
    assert!(
        lock(&backend.applied)
            .iter()
            .all(|applied| applied.trigger == first)
    );
    assert!(lock(&backend.removed).is_empty());
    let key = ObjectKey::new(Kind::Trigger, ns(), name("clock"));
    let receipt = world.sless.delete(&key).await.expect("deleted");
    assert_eq!(receipt.removed.len(), 1, "{receipt:?}");
    assert_eq!(*lock(&backend.removed), [first]);
}

#[tokio::test]
async fn what_a_backend_cannot_keep_is_told() {
    let (world, backend) = begin().await;
    *lock(&backend.says) = CronStatus::refused(Failure::new("cron_unsupported", "not here"));
    enable(&world, false).await;
    enable(&world, true).await;
    let status = seen(&world).await.status;
    assert_eq!(
        (status.active, &*status.reason, &*status.message),
        (false, "cron_unsupported", "not here")
    );
    assert_eq!(status.next_fire_at, None);
}

async fn respecify(world: &World, spec: TriggerSpec) {
    let catalog = &world.sless.backends().catalog;
    let change = |trigger: &mut Trigger| {
        trigger.spec = spec.clone();
        Ok(())
    };
    let clock = name("clock");
    let changed = catalog.modify::<Trigger, _>(&ns(), &clock, change).await;
    changed.expect("changed");
    world.rest().await;
}

#[tokio::test]
async fn a_trigger_of_another_type_leaves_its_schedule() {
    let (world, backend) = begin().await;
    let first = lock(&backend.applied)[0].trigger.clone();
    respecify(&world, TriggerSpec::http(name("hello"))).await;
    let status = seen(&world).await.status;
    assert!(status.active && status.url.is_some(), "{status:?}");
    assert_eq!((status.next_fire_at, status.ledger), (None, None));
    assert_eq!(*lock(&backend.removed), std::slice::from_ref(&first));
    respecify(&world, TriggerSpec::cron(name("hello"), "0 * * * *")).await;
    let status = seen(&world).await.status;
    assert_eq!(status.url, None);
    assert!(status.next_fire_at.is_some());
    let again = lock(&backend.applied).last().expect("applied").clone();
    assert_eq!(again.trigger, first);
    assert_eq!(again.schedule.to_string(), "0 * * * *");
}
