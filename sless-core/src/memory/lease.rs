//! [`MemoryLease`].

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;

use super::lock;
use crate::{Clock, Grant, Lease, Result, SystemClock};

/// A [`Lease`] in memory: between the engines of one process.
#[derive(Debug)]
pub struct MemoryLease {
    clock: Arc<dyn Clock>,
    leases: Mutex<BTreeMap<String, Held>>,
}

#[derive(Debug, Default)]
struct Held {
    token: u64,
    /// `None` once it was given back.
    holder: Option<String>,
    /// On the clock's scale of elapsed time.
    until: Duration,
}

impl MemoryLease {
    /// Without any holder.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            leases: Mutex::default(),
        }
    }
}

impl Default for MemoryLease {
    /// Without any holder, on the system's clock.
    fn default() -> Self {
        Self::new(Arc::new(SystemClock))
    }
}

#[async_trait]
impl Lease for MemoryLease {
    async fn acquire(&self, name: &str, holder: &str, ttl: Duration) -> Result<Option<Grant>> {
        let now = self.clock.elapsed();
        let mut leases = lock(&self.leases);
        let held = leases.entry(name.to_owned()).or_default();
        if held.holder.as_deref() != Some(holder) {
            if held.holder.is_some() && now < held.until {
                return Ok(None);
            }
            held.token += 1;
            held.holder = Some(holder.to_owned());
        }
        held.until = now.saturating_add(ttl);
        Ok(Some(Grant { token: held.token }))
    }

    async fn release(&self, name: &str, holder: &str) -> Result<()> {
        // The entry stays, since its token must go on growing.
        if let Some(held) = lock(&self.leases).get_mut(name)
            && held.holder.as_deref() == Some(holder)
        {
            held.holder = None;
        }
        Ok(())
    }
}
