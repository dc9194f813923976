//! [`Timeout`].

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::{
    StreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use serde::{Deserialize, Serialize};

use super::{Around, Decorated, Operation};
use crate::{Clock, Error, Result, clock::timeout};

/// A backend whose calls end in time, with [`Timeout`](crate::ErrorKind::Timeout) where the backend
/// has not answered.
///
/// The backend's future is then dropped: the call may have been carried out or not, as after any
/// time-out. The time of a `storage.put` includes reading its body. Each item of a stored body and
/// of a listing has the time anew; a watch and the streams of logs and hints, which rest while
/// nothing happens, have none.
pub type Timeout<T> = Decorated<T, Timeouts>;

/// How long calls may take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TimeoutConfig {
    /// Every operation that has no time of its own.
    pub all: Duration,
    /// The times of single operations, by [name](Operation::name), such as `storage.put`. What waits
    /// for running work to end needs a long one: `builder.cancel`, `builder.prune`,
    /// `scheduler.remove`, `scheduler.remove_job`, `dispatcher.remove`.
    #[serde(default)]
    pub operations: BTreeMap<String, Duration>,
}

impl TimeoutConfig {
    /// This long for every operation.
    pub const fn new(all: Duration) -> Self {
        Self {
            all,
            operations: BTreeMap::new(),
        }
    }

    /// This long for this operation.
    #[must_use]
    pub fn with_operation(mut self, name: impl Into<String>, limit: Duration) -> Self {
        self.operations.insert(name.into(), limit);
        self
    }
}

/// What a [`Timeout`] puts around calls.
#[derive(Debug)]
pub struct Timeouts {
    config: TimeoutConfig,
    clock: Arc<dyn Clock>,
}

impl<T> Timeout<T> {
    /// Limits the time of the calls of `inner`, on `clock`.
    pub fn new(inner: T, config: TimeoutConfig, clock: Arc<dyn Clock>) -> Self {
        Self::around(inner, Timeouts { config, clock })
    }
}

impl Timeouts {
    fn limit(&self, operation: &Operation<'_>) -> Duration {
        self.config
            .operations
            .get(operation.name())
            .copied()
            .unwrap_or(self.config.all)
    }
}

impl Around for Timeouts {
    async fn around<'a, A, R, F>(
        &'a self,
        operation: Operation<'a>,
        arguments: A,
        call: F,
    ) -> Result<R>
    where
        A: Clone + Send + Sync + 'a,
        R: Send + 'a,
        F: Fn(A) -> BoxFuture<'a, Result<R>> + Send + Sync + 'a,
    {
        let answer = timeout(&*self.clock, self.limit(&operation), call(arguments)).await;
        answer.unwrap_or_else(|error| Err(operation.name_in(error)))
    }

    fn stream<T: Send + 'static>(
        self: &Arc<Self>,
        operation: Operation<'_>,
        stream: BoxStream<'static, Result<T>>,
    ) -> BoxStream<'static, Result<T>> {
        if operation.name() == "catalog.watch.events" {
            return stream;
        }
        let (name, subject) = (operation.name(), operation.subject().to_string());
        let named = move |error: Error| error.during(name).on(&subject);
        let (clock, limit) = (Arc::clone(&self.clock), self.limit(&operation));
        // The state is `None` once the stream ended or its time was over.
        let state = Some((stream, clock, named));
        stream::unfold(state, move |state| async move {
            let (mut stream, clock, named) = state?;
            match timeout(&*clock, limit, stream.next()).await {
                Ok(None) => None,
                Ok(Some(item)) => Some((item, Some((stream, clock, named)))),
                Err(error) => Some((Err(named(error)), None)),
            }
        })
        .boxed()
    }
}
