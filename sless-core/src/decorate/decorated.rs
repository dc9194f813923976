//! A backend with something around it.

use std::{fmt, future::Future, sync::Arc};

use async_trait::async_trait;
use futures::{future::BoxFuture, stream::BoxStream};

use super::operation::{Once, Operation, Repeat};
use crate::{Body, CallContext, ChangeStream, Error, Invoke, Result, resource::FunctionId};

/// A backend with `H` around each of its calls.
#[derive(Debug)]
pub struct Decorated<T, H> {
    pub(super) inner: T,
    pub(super) hook: Arc<H>,
}

impl<T, H> Decorated<T, H> {
    /// Puts `hook` around `inner`. Several backends can share one.
    pub fn around(inner: T, hook: impl Into<Arc<H>>) -> Self {
        Self {
            inner,
            hook: hook.into(),
        }
    }

    /// The backend.
    pub const fn inner(&self) -> &T {
        &self.inner
    }

    /// What stands around it.
    pub const fn hook(&self) -> &Arc<H> {
        &self.hook
    }

    /// The backend, alone again.
    pub fn into_inner(self) -> T {
        self.inner
    }
}

/// What a decorator does around calls.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use futures::future::BoxFuture;
/// use sless_core::{
///     Result, Storage, StorageKey, decorate::{Around, Decorated, Operation}, memory::MemoryStorage,
/// };
///
/// /// Counts calls that fail.
/// #[derive(Debug, Default)]
/// struct Failures(AtomicU64);
///
/// impl Around for Failures {
///     async fn around<'a, A, R, F>(&'a self, _: Operation<'a>, arguments: A, call: F) -> Result<R>
///     where
///         A: Clone + Send + Sync + 'a,
///         R: Send + 'a,
///         F: Fn(A) -> BoxFuture<'a, Result<R>> + Send + Sync + 'a,
///     {
///         let answer = call(arguments).await;
///         self.0.fetch_add(u64::from(answer.is_err()), Ordering::Relaxed);
///         answer
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let storage = Decorated::around(MemoryStorage::default(), Failures::default());
/// storage.head(&StorageKey::new("nothing")?).await.expect_err("nothing is there");
/// assert_eq!(storage.hook().0.load(Ordering::Relaxed), 1);
/// # Ok(())
/// # }
/// ```
pub trait Around: fmt::Debug + Send + Sync + 'static {
    /// Makes the call: once, later, several times or not at all. `arguments` are what the backend's
    /// method consumes.
    fn around<'a, A, R, F>(
        &'a self,
        operation: Operation<'a>,
        arguments: A,
        call: F,
    ) -> impl Future<Output = Result<R>> + Send + 'a
    where
        A: Clone + Send + Sync + 'a,
        R: Send + 'a,
        F: Fn(A) -> BoxFuture<'a, Result<R>> + Send + Sync + 'a;

    /// Wraps a stream that the backend answered: a stored body, a listing, a watch.
    fn stream<T: Send + 'static>(
        self: &Arc<Self>,
        operation: Operation<'_>,
        stream: BoxStream<'static, Result<T>>,
    ) -> BoxStream<'static, Result<T>> {
        let _ = operation;
        stream
    }

    /// Wraps a stream of hints.
    fn hints(self: &Arc<Self>, operation: Operation<'_>, hints: ChangeStream) -> ChangeStream {
        let _ = operation;
        hints
    }

    /// Whether calls of functions go through [`around`](Around::around) too, as `scheduler.invoke`.
    fn surrounds_invocations(&self) -> bool {
        false
    }
}

/// An invoker of a decorated scheduler.
#[derive(Debug)]
pub(super) struct DecoratedInvoke<H> {
    pub(super) inner: Arc<dyn Invoke>,
    pub(super) hook: Arc<H>,
    pub(super) function: FunctionId,
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<H: Around> Invoke for DecoratedInvoke<H> {
    async fn invoke(
        &self,
        request: http::Request<Body>,
        context: &CallContext,
    ) -> Result<http::Response<Body>> {
        let operation = Operation::new("scheduler.invoke", &self.function, Repeat::Never);
        let call = |request: Once<http::Request<Body>>| match request.take() {
            Some(request) => self.inner.invoke(request, context),
            None => Box::pin(std::future::ready(Err(Error::internal(
                "a call was made twice",
            )))),
        };
        self.hook.around(operation, Once::new(request), call).await
    }
}
