//! The traits for `Arc`, `Box` and [`Decorated`].

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::stream::BoxStream;
use jiff::Timestamp;

use super::{
    decorated::{Around, Decorated, DecoratedInvoke},
    each::{
        around, around_hints, around_invoker, around_stream, each_trait, inside, straight,
        straight_hints, straight_invoker, straight_stream,
    },
    operation::{Operation, Repeat, Replay},
};
use crate::{
    Body, BuildId, BuildRequest, BuildStatus, Builder, BuilderCapabilities, ByteStream,
    CallContext, Catalog, ChangeStream, Clock, DeadLetterPage, DeadLetterQuery,
    DeadLetterSelection, DeleteOptions, Delivery, Dispatcher, Disposition, Ensured, EventSink,
    Fetched, FunctionId, GetOptions, Grant, HeldStream, Invocation, InvocationLog, InvocationPage,
    InvocationQuery, Invoke, JobId, JobRun, Lease, ListQuery, LogOptions, LogStream, LogTarget,
    Message, Namespace, Object, ObjectInfo, ObjectKey, Page, Presign, Publish, PutMode, PutOptions,
    Receipt, Result, Retention, RunStatus, Runtime, Scheduler, SchedulerCapabilities, Storage,
    StorageCapabilities, StorageKey, Stored, Subscription, SubscriptionStatus, TriggerId,
    Validator, Verdict, WatchOptions, WatchStream, Workload, WorkloadStatus, source::SourceTree,
};

each_trait!([H: Around] [] Decorated<T, H>, around, around_stream, around_hints, around_invoker);
each_trait!([] [+ ?Sized] Arc<T>, straight, straight_stream, straight_hints, straight_invoker);
each_trait!([] [+ ?Sized] Box<T>, straight, straight_stream, straight_hints, straight_invoker);

fn subject_of(target: &LogTarget) -> String {
    match target {
        LogTarget::Function(id) => format!("function {id}"),
        LogTarget::Job(id) => format!("job {id}"),
    }
}

macro_rules! pointers {
    ($($type:ty)*) => {$(
        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<T: Invoke + ?Sized> Invoke for $type {
            async fn invoke(
                &self,
                request: http::Request<Body>,
                context: &CallContext,
            ) -> Result<http::Response<Body>> {
                (**self).invoke(request, context).await
            }
        }

        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<T: EventSink + ?Sized> EventSink for $type {
            async fn deliver(&self, delivery: Delivery) -> Disposition {
                (**self).deliver(delivery).await
            }
        }

        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<T: Clock + ?Sized> Clock for $type {
            fn now(&self) -> Timestamp {
                (**self).now()
            }

            fn elapsed(&self) -> Duration {
                (**self).elapsed()
            }

            async fn sleep(&self, duration: Duration) {
                (**self).sleep(duration).await;
            }

            async fn wake_at(&self, instant: Timestamp) {
                (**self).wake_at(instant).await;
            }
        }
    )*};
}

pointers!(Arc<T> Box<T>);
