//! [`Lease`]: who may act, where several could.

use std::{fmt, time::Duration};

use async_trait::async_trait;

use crate::Result;

/// Lets one of several processes act at a time.
///
/// # Contract
/// - At most one holder at a time, as far as the clocks' rates agree.
/// - The token grows with every change of holder: whoever writes with it can refuse an older one.
#[async_trait]
pub trait Lease: fmt::Debug + Send + Sync + 'static {
    /// Takes or renews a lease for `ttl`. `None` means that somebody else holds it.
    async fn acquire(&self, name: &str, holder: &str, ttl: Duration) -> Result<Option<Grant>>;

    /// Gives a lease back, if this holder has it.
    async fn release(&self, name: &str, holder: &str) -> Result<()>;
}

/// A lease that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Grows with every change of holder.
    pub token: u64,
}
