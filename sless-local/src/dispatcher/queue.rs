//! What this process knows of a queue, beside what is stored.

use std::{collections::HashSet, sync::Arc};

use sless_core::{Clock, Message};
use tokio::sync::{Mutex, Notify};

use super::store::{self, Batch, Settlement};
use crate::{
    QueueConfig,
    database::{Database, Durability},
    error::Fault,
    points,
};

/// A queue with the messages that consumers hold.
///
/// Holding a message is its lease. It is kept in memory alone, since one process owns the data folder:
/// when that ends, however it does, every message that was held is free again.
#[derive(Debug)]
pub(super) struct Queue {
    id: i64,
    database: Database,
    clock: Arc<dyn Clock>,
    held: Mutex<HashSet<i64>>,
    /// Told when there may be something to take.
    pub(super) wake: Notify,
}

impl Queue {
    pub(super) fn new(id: i64, database: Database, clock: Arc<dyn Clock>) -> Self {
        Self {
            id,
            database,
            clock,
            held: Mutex::default(),
            wake: Notify::new(),
        }
    }

    pub(super) const fn id(&self) -> i64 {
        self.id
    }

    pub(super) async fn publish(
        self: &Arc<Self>,
        message: Message,
        limits: QueueConfig,
    ) -> Result<(), Fault> {
        let (id, queue) = (self.id, self.clone());
        self.database
            .write_then(
                Durability::Synced,
                move |connection| store::publish(connection, id, &message, &limits),
                move |()| queue.wake.notify_one(),
            )
            .await
    }

    /// Takes and holds up to `most` messages that are due.
    pub(super) async fn take(&self, most: usize) -> Result<Batch, Fault> {
        // Nobody lets go of a message while this looks, so none that is settled meanwhile is read
        // as one that is free.
        let mut held = self.held.lock().await;
        let (id, now, passed_over) = (self.id, self.clock.now().as_millisecond(), held.clone());
        let batch = self
            .database
            .read(move |connection| store::take(connection, id, &passed_over, now, most))
            .await?;
        held.extend(batch.messages.iter().map(|taken| taken.id));
        points::TAKEN.pass();
        if batch.messages.len() == most {
            // There may be more than this consumer has room for.
            self.wake.notify_one();
        }
        Ok(batch)
    }

    /// Lets go of messages: they are settled, or free for others.
    pub(super) async fn release(&self, ids: impl IntoIterator<Item = i64>) {
        let mut held = self.held.lock().await;
        for id in ids {
            held.remove(&id);
        }
    }

    pub(super) async fn settle(&self, id: i64, settlement: Settlement) -> Result<(), Fault> {
        // A power cut may take this: then the message comes again, as it may.
        points::SETTLE_BEFORE.pass();
        self.database
            .write(Durability::Written, move |connection| {
                store::settle(connection, id, &settlement)
            })
            .await?;
        points::SETTLE_AFTER.pass();
        Ok(())
    }

    /// How many messages wait, those that are held not counted.
    pub(super) async fn waiting(&self) -> Result<u64, Fault> {
        let id = self.id;
        let held = self.held.lock().await.len() as u64;
        let all = self
            .database
            .read(move |connection| store::waiting(connection, id))
            .await?;
        Ok(all.saturating_sub(held))
    }
}
