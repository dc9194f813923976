//! The decorators, on a virtual clock.

mod fault;
mod retry;
mod waiting;

use std::{sync::Arc, time::Duration};

use super::*;
use crate::{
    Clock, ErrorKind, PutOptions, Result, Storage, StorageKey, Stored, VirtualClock, bytes_stream,
    memory::MemoryStorage,
};

const SECOND: Duration = Duration::from_secs(1);

struct Bench {
    clock: VirtualClock,
    faults: Faults,
    storage: Arc<MemoryStorage>,
}

impl Bench {
    fn new() -> Self {
        let clock = VirtualClock::default();
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        let faults = Faults::seeded(1, Arc::clone(&shared));
        Self {
            clock,
            faults,
            storage: Arc::new(MemoryStorage::new(shared)),
        }
    }

    fn shared_clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.clock.clone())
    }

    fn faulty(&self) -> Fault<Arc<MemoryStorage>> {
        Fault::new(Arc::clone(&self.storage), &self.faults)
    }

    /// Runs a future to its end, letting time pass; answers how long that took.
    async fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> (T, Duration) {
        let began = self.clock.elapsed();
        let task = tokio::spawn(future);
        self.clock.settle().await;
        while !task.is_finished() {
            assert!(self.clock.advance_to_next().await, "it waits for nothing");
        }
        (task.await.expect("no panic"), self.clock.elapsed() - began)
    }
}

fn key(text: &str) -> StorageKey {
    StorageKey::new(text).expect("a key")
}

async fn put(storage: &impl Storage, text: &'static str) -> Result<Stored> {
    storage
        .put(&key("a"), bytes_stream(text), &PutOptions::default())
        .await
}
