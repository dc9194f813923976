use std::{fmt, sync::Arc, time::Duration};

use crate::{Invocation, Retention, RuntimeVersions, ValidationPolicy, source::SourceLimits};

/// How the engine works. Every bound has a name here.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Which work this process takes on.
    pub roles: Roles,
    /// The name of this process among those that share its backends; random where nothing is said.
    pub instance: String,
    /// How long a process that leads may be silent before another takes over.
    pub lease_ttl: Duration,
    /// Where clients reach the server, without a trailing `/`; part of the URLs in statuses.
    pub external_url: String,
    /// What an uploaded zip may hold.
    pub source_limits: SourceLimits,
    /// Uploads at once; more wait for at most [`Options::upload_wait`].
    pub uploads_at_once: usize,
    /// How long an upload waits for its turn.
    pub upload_wait: Duration,
    /// Sources kept for each function, the current one included.
    pub sources_kept: usize,
    /// What becomes of the validator's verdicts.
    pub validation: ValidationPolicy,
    /// How long the validator may take.
    pub validation_timeout: Duration,
    /// The versions of the runtimes; another one rebuilds the functions that use it.
    pub runtimes: RuntimeVersions,
    /// How long a build may take.
    pub build_timeout: Duration,
    /// Objects reconciled at once.
    pub reconciles_at_once: usize,
    /// The first delay after a failed reconcile; it doubles from there.
    pub backoff_min: Duration,
    /// The longest delay after a failed reconcile.
    pub backoff_max: Duration,
    /// How often everything is looked at again, whatever was hinted.
    pub resync: Duration,
    /// How often stored sources are looked for whose function is gone, and how old those are that are
    /// removed. Nobody looks where nothing is said, the default: to a store that another catalog uses as
    /// well, its functions would be gone.
    pub sweep: Option<Duration>,
    /// How long a deletion waits for its receipt.
    pub delete_wait: Duration,
    /// How long [`Sless::shutdown`](super::Sless::shutdown) waits for calls and reconciles.
    pub drain: Duration,
    /// Records of calls that wait to be stored, each with at most 4 KiB of log; more are dropped, and
    /// counted.
    pub record_queue: usize,
    /// Records stored at once.
    pub record_batch: usize,
    /// How long a record waits for others to be stored with.
    pub record_delay: Duration,
    /// How long records are kept.
    pub retention: Retention,
    /// Functions whose route is kept at hand.
    pub routes: usize,
    /// Bytes of a function's answer to an event that are read before it is let go.
    pub event_answer_bytes: usize,
    /// What is told of every call, for metrics.
    pub observer: Option<Arc<dyn Observer>>,
    /// Where set, what this engine does can be repeated: names that else are chance follow from this
    /// number, and work that blocks is done in the task that waits for it, not on a thread of its own.
    /// For simulations, on one thread and a [`VirtualClock`](crate::VirtualClock).
    pub simulation: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            roles: Roles::default(),
            instance: crate::Uid::random().as_str().to_owned(),
            lease_ttl: Duration::from_secs(15),
            external_url: "http://127.0.0.1:8080".to_owned(),
            source_limits: SourceLimits::default(),
            uploads_at_once: 4,
            upload_wait: Duration::from_secs(30),
            sources_kept: 3,
            validation: ValidationPolicy::default(),
            validation_timeout: Duration::from_secs(15),
            runtimes: RuntimeVersions::default(),
            build_timeout: crate::BuildRequest::TIMEOUT,
            reconciles_at_once: 16,
            backoff_min: Duration::from_millis(200),
            backoff_max: Duration::from_secs(60),
            resync: Duration::from_secs(600),
            sweep: None,
            delete_wait: Duration::from_secs(30),
            drain: Duration::from_secs(30),
            record_queue: 10_000,
            record_batch: 500,
            record_delay: Duration::from_millis(200),
            retention: Retention::default(),
            routes: 100_000,
            event_answer_bytes: 1024 * 1024,
            observer: None,
            simulation: None,
        }
    }
}

/// Which work a process takes on. Uploads, calls and everything that only reads are always there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roles {
    /// Functions, jobs, and triggers of type http and cron.
    pub operator: bool,
    /// Triggers of type event.
    pub dispatcher: bool,
}

impl Default for Roles {
    /// All of it.
    fn default() -> Self {
        Self {
            operator: true,
            dispatcher: true,
        }
    }
}

/// Is told of every call when it has ended. It must not block.
pub trait Observer: fmt::Debug + Send + Sync + 'static {
    /// A call has ended.
    fn invoked(&self, call: &Invocation);
}
