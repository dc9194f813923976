//! [`CronScheduler`]: schedules that a backend fires by itself.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{
    Failure, Name, Receipt, Result,
    cron::{Policies, Schedule},
    resource::TriggerId,
};

/// Calls functions by the clock, in the place of the engine: where one is among the
/// [`Backends`](crate::Backends), the engine fires no cron trigger itself.
///
/// # Contract
/// - A trigger is fired by its schedule as long as it is not suspended, whether this process is there
///   or not; suspended, by nothing.
/// - Both methods do nothing where it is already so, and can be repeated after a crash at any point.
/// - That a trigger was fired is hinted by the change stream of the scheduler of the same backend.
#[async_trait]
pub trait CronScheduler: fmt::Debug + Send + Sync + 'static {
    /// Sees to it that the backend fires this trigger, or that it does not where it is suspended, and
    /// answers what it sees. A schedule that the backend cannot keep is a [`CronStatus::failure`], and
    /// is not fired.
    ///
    /// # Errors
    /// Only if nothing could be found out or begun.
    async fn apply_cron(&self, trigger: &CronTrigger) -> Result<CronStatus>;

    /// Removes what was made for a trigger. Repeated, it removes nothing.
    async fn remove_cron(&self, trigger: &TriggerId) -> Result<Receipt>;
}

/// A cron trigger, as a backend has to fire it.
#[derive(Clone, Debug)]
pub struct CronTrigger {
    /// The trigger.
    pub trigger: TriggerId,
    /// The function to call, in the same namespace.
    pub function: Name,
    /// When to fire.
    pub schedule: Schedule,
    /// What happens to runs that were missed or would overlap.
    pub policies: Policies,
    /// How long one call may take.
    pub timeout: Duration,
    /// Whether it is not to fire for now: disabled, or without its function.
    pub suspended: bool,
}

/// What a backend knows of a trigger that it fires.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CronStatus {
    /// The due time that was fired last.
    pub last_fire_at: Option<Timestamp>,
    /// Why it is not fired.
    pub failure: Option<Failure>,
}

impl CronStatus {
    /// A trigger that fires, and that was fired last at this time.
    pub const fn firing(last_fire_at: Option<Timestamp>) -> Self {
        Self {
            last_fire_at,
            failure: None,
        }
    }

    /// A trigger that is not fired, and why.
    pub const fn refused(failure: Failure) -> Self {
        Self {
            last_fire_at: None,
            failure: Some(failure),
        }
    }
}
