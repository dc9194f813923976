//! Mocks of the traits, for the tests of embedders.
//!
//! A mock answers what a test tells it and checks what it is asked. Where the backend's behaviour
//! matters, the backends in [`memory`](crate::memory) with [`Fault`](crate::decorate::Fault) around
//! them are the better choice: they keep the contract.
//!
//! ```
//! use sless_core::{Error, ObjectInfo, Result, Storage, StorageKey, mock::MockStorage};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<()> {
//! let mut storage = MockStorage::new();
//! storage
//!     .expect_head()
//!     .withf(|key| key.as_str() == "functions/a")
//!     .once()
//!     .returning(|key| Err(Error::not_found("no such object").on(key)));
//!
//! let head: Result<ObjectInfo> = storage.head(&StorageKey::new("functions/a")?).await;
//! assert!(head.expect_err("as told").is_not_found());
//! # Ok(())
//! # }
//! ```
// The methods are mockall's, and documented there and on the traits.
#![allow(missing_docs)]

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use mockall::mock;

use crate::{
    Body, BuildId, BuildRequest, BuildStatus, Builder, BuilderCapabilities, ByteStream,
    CallContext, Catalog, ChangeStream, DeadLetterPage, DeadLetterQuery, DeadLetterSelection,
    DeleteOptions, Dispatcher, Ensured, EventSink, Fetched, FunctionId, GetOptions, HeldStream,
    Invoke, JobId, JobRun, ListQuery, LogOptions, LogStream, LogTarget, Namespace, Object,
    ObjectInfo, ObjectKey, Page, PutOptions, Receipt, Result, RunStatus, Runtime, Scheduler,
    SchedulerCapabilities, Storage, StorageCapabilities, StorageKey, Stored, Subscription,
    SubscriptionStatus, TriggerId, Validator, Verdict, WatchOptions, WatchStream, Workload,
    WorkloadStatus, source::SourceTree,
};

mock! {
    /// A mock of [`Catalog`].
    #[derive(Debug)]
    pub Catalog {}

    #[async_trait]
    impl Catalog for Catalog {
        async fn create(&self, object: Object) -> Result<Object>;
        async fn get(&self, key: &ObjectKey) -> Result<Object>;
        async fn list(&self, query: &ListQuery) -> Result<Page<Object>>;
        async fn update(&self, object: Object) -> Result<Object>;
        async fn update_status(&self, object: Object) -> Result<Object>;
        async fn delete(&self, key: &ObjectKey, options: &DeleteOptions) -> Result<Object>;
        async fn watch(&self, options: &WatchOptions) -> Result<WatchStream>;
        async fn ensure_namespace(&self, namespace: &Namespace) -> Result<Ensured>;
    }
}

mock! {
    /// A mock of [`Storage`].
    #[derive(Debug)]
    pub Storage {}

    #[async_trait]
    impl Storage for Storage {
        fn capabilities(&self) -> StorageCapabilities;
        async fn put(
            &self,
            key: &StorageKey,
            body: ByteStream,
            options: &PutOptions,
        ) -> Result<Stored>;
        async fn get(&self, key: &StorageKey, options: &GetOptions) -> Result<Fetched>;
        async fn head(&self, key: &StorageKey) -> Result<ObjectInfo>;
        async fn delete(&self, key: &StorageKey) -> Result<()>;
        fn list(&self, prefix: &str) -> BoxStream<'static, Result<ObjectInfo>>;
    }
}

mock! {
    /// A mock of [`Builder`].
    #[derive(Debug)]
    pub Builder {}

    #[async_trait]
    impl Builder for Builder {
        fn capabilities(&self) -> BuilderCapabilities;
        async fn ensure(&self, request: &BuildRequest) -> Result<BuildStatus>;
        async fn cancel(&self, id: &BuildId) -> Result<()>;
        async fn logs(&self, id: &BuildId, options: &LogOptions) -> Result<LogStream>;
        async fn prune(&self, function: &FunctionId, keep: &[BuildId]) -> Result<Receipt>;
        fn held(&self) -> HeldStream;
        fn changes(&self) -> ChangeStream;
    }
}

mock! {
    /// A mock of [`Scheduler`].
    #[derive(Debug)]
    pub Scheduler {}

    #[async_trait]
    impl Scheduler for Scheduler {
        fn capabilities(&self) -> SchedulerCapabilities;
        async fn apply(&self, workload: &Workload) -> Result<WorkloadStatus>;
        async fn status(&self, function: &FunctionId) -> Result<WorkloadStatus>;
        async fn remove(&self, function: &FunctionId) -> Result<Receipt>;
        async fn invoker(&self, function: &FunctionId) -> Result<Arc<dyn Invoke>>;
        async fn run_job(&self, run: &JobRun) -> Result<RunStatus>;
        async fn remove_job(&self, job: &JobId) -> Result<Receipt>;
        async fn logs(&self, of: &LogTarget, options: &LogOptions) -> Result<LogStream>;
        fn held(&self) -> HeldStream;
        fn changes(&self) -> ChangeStream;
        async fn ensure_namespace(&self, namespace: &Namespace) -> Result<Ensured>;
    }
}

mock! {
    /// A mock of [`Invoke`], for a [`MockScheduler`] to answer.
    #[derive(Debug)]
    pub Invoke {}

    #[async_trait]
    impl Invoke for Invoke {
        async fn invoke(
            &self,
            request: http::Request<Body>,
            context: &CallContext,
        ) -> Result<http::Response<Body>>;
    }
}

mock! {
    /// A mock of [`Validator`].
    #[derive(Debug)]
    pub Validator {}

    #[async_trait]
    impl Validator for Validator {
        fn identity(&self) -> String;
        async fn validate(&self, source: &SourceTree, runtime: Runtime) -> Result<Verdict>;
    }
}

mock! {
    /// A mock of [`Dispatcher`].
    #[derive(Debug)]
    pub Dispatcher {}

    #[async_trait]
    impl Dispatcher for Dispatcher {
        async fn apply(
            &self,
            subscription: &Subscription,
            sink: Arc<dyn EventSink>,
        ) -> Result<SubscriptionStatus>;
        async fn remove(&self, trigger: &TriggerId) -> Result<Receipt>;
        async fn forget(&self, trigger: &TriggerId) -> Result<Receipt>;
        async fn status(&self, trigger: &TriggerId) -> Result<Option<SubscriptionStatus>>;
        async fn dead_letters(
            &self,
            trigger: &TriggerId,
            query: &DeadLetterQuery,
        ) -> Result<DeadLetterPage>;
        async fn redrive(&self, trigger: &TriggerId, which: &DeadLetterSelection) -> Result<u64>;
        async fn purge(&self, trigger: &TriggerId, which: &DeadLetterSelection) -> Result<u64>;
        fn held(&self) -> HeldStream;
        fn changes(&self) -> ChangeStream;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        CatalogExt as _, Error, ErrorKind, Function, FunctionSpec, Kind, Metadata, Name,
        VirtualClock,
        decorate::{Retry, RetryConfig},
    };

    #[tokio::test]
    async fn a_mock_stands_in_for_a_catalog() {
        let key = ObjectKey::new(
            Kind::Function,
            Namespace::new("n").expect("a label"),
            Name::new("f").expect("a label"),
        );
        let metadata = Metadata::new(key.namespace.clone(), key.name.clone());
        let function = Function::new(metadata, FunctionSpec::new(Runtime::Python311));

        let mut catalog = MockCatalog::new();
        let mut answers = vec![
            Ok(Object::Function(function.clone())),
            Err(Error::new(ErrorKind::Unavailable, "not now")),
        ];
        catalog
            .expect_get()
            .withf({
                let key = key.clone();
                move |asked| *asked == key
            })
            .times(2)
            .returning(move |_| answers.pop().expect("two calls"));
        let clock = VirtualClock::default();
        let config = RetryConfig::default();
        let catalog = Retry::new(catalog, config, Arc::new(clock.clone()));

        let read = tokio::spawn(async move { catalog.find(&key.namespace, &key.name).await });
        clock.advance(Duration::from_secs(1)).await;
        let found: Option<Function> = read.await.expect("no panic").expect("the second answer");
        assert_eq!(found, Some(function));
    }
}
