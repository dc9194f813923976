//! The methods of all traits, listed once, for everything that passes them on.

/// Implements every backend trait for a type that has a backend inside.
///
/// `call`, `stream`, `hints` and `invoker` name the macros that say how: straight to what is inside
/// (`forward`), or through a hook (`decorated`, below). A `call` takes whether the operation may be
/// repeated, its name, its subject, the arguments that the method consumes, and the method.
macro_rules! each_trait {
    (
        [$($generics:tt)*] [$($bound:tt)*] $type:ty,
        $call:ident, $stream:ident, $hints:ident, $invoker:ident
    ) => {
        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<T: Catalog $($bound)*, $($generics)*> Catalog for $type {
            async fn create(&self, object: Object) -> Result<Object> {
                $call!(self, Repeat::Never, "catalog.create", object.key(), (object), |inner| {
                    inner.create(object)
                })
            }

            async fn get(&self, key: &ObjectKey) -> Result<Object> {
                $call!(self, Repeat::Safe, "catalog.get", key, (), |inner| inner.get(key))
            }

            async fn list(&self, query: &ListQuery) -> Result<Page<Object>> {
                $call!(self, Repeat::Safe, "catalog.list", query.kind, (), |inner| {
                    inner.list(query)
                })
            }

            async fn update(&self, object: Object) -> Result<Object> {
                $call!(self, Repeat::Safe, "catalog.update", object.key(), (object), |inner| {
                    inner.update(object)
                })
            }

            async fn update_status(&self, object: Object) -> Result<Object> {
                let name = "catalog.update_status";
                $call!(self, Repeat::Safe, name, object.key(), (object), |inner| {
                    inner.update_status(object)
                })
            }

            async fn delete(&self, key: &ObjectKey, options: &DeleteOptions) -> Result<Object> {
                let repeat = Repeat::when(options.uid.is_some());
                $call!(self, repeat, "catalog.delete", key, (), |inner| inner.delete(key, options))
            }

            async fn watch(&self, options: &WatchOptions) -> Result<WatchStream> {
                let events = $call!(self, Repeat::Safe, "catalog.watch", "all", (), |inner| {
                    inner.watch(options)
                })?;
                Ok($stream!(self, "catalog.watch.events", "all", events))
            }

            async fn ensure_namespace(&self, namespace: &Namespace) -> Result<Ensured> {
                let name = "catalog.ensure_namespace";
                $call!(self, Repeat::Safe, name, namespace, (), |inner| {
                    inner.ensure_namespace(namespace)
                })
            }
        }

        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<T: Storage $($bound)*, $($generics)*> Storage for $type {
            fn capabilities(&self) -> StorageCapabilities {
                inside!(self, $call).capabilities()
            }

            async fn put(
                &self,
                key: &StorageKey,
                body: ByteStream,
                options: &PutOptions,
            ) -> Result<Stored> {
                let repeat = Repeat::when(options.mode == PutMode::Overwrite);
                $call!(body self, repeat, "storage.put", key, body, |inner| {
                    inner.put(key, body, options)
                })
            }

            async fn get(&self, key: &StorageKey, options: &GetOptions) -> Result<Fetched> {
                let fetched = $call!(self, Repeat::Safe, "storage.get", key, (), |inner| {
                    inner.get(key, options)
                })?;
                let body = $stream!(self, "storage.get.body", key, fetched.body);
                Ok(Fetched { info: fetched.info, body })
            }

            async fn head(&self, key: &StorageKey) -> Result<ObjectInfo> {
                $call!(self, Repeat::Safe, "storage.head", key, (), |inner| inner.head(key))
            }

            async fn delete(&self, key: &StorageKey) -> Result<()> {
                $call!(self, Repeat::Safe, "storage.delete", key, (), |inner| inner.delete(key))
            }

            fn list(&self, prefix: &str) -> BoxStream<'static, Result<ObjectInfo>> {
                $stream!(self, "storage.list", prefix, inside!(self, $call).list(prefix))
            }
        }

        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<T: Presign $($bound)*, $($generics)*> Presign for $type {
            async fn presign_get(&self, key: &StorageKey, valid: Duration) -> Result<String> {
                $call!(self, Repeat::Safe, "storage.presign_get", key, (), |inner| {
                    inner.presign_get(key, valid)
                })
            }
        }

        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<T: Builder $($bound)*, $($generics)*> Builder for $type {
            fn capabilities(&self) -> BuilderCapabilities {
                inside!(self, $call).capabilities()
            }

            async fn ensure(&self, request: &BuildRequest) -> Result<BuildStatus> {
                $call!(self, Repeat::Safe, "builder.ensure", &request.id, (), |inner| {
                    inner.ensure(request)
                })
            }

            async fn cancel(&self, id: &BuildId) -> Result<()> {
                $call!(self, Repeat::Safe, "builder.cancel", id, (), |inner| inner.cancel(id))
            }

            async fn logs(&self, id: &BuildId, options: &LogOptions) -> Result<LogStream> {
                $call!(self, Repeat::Safe, "builder.logs", id, (), |inner| inner.logs(id, options))
            }

            async fn prune(&self, function: &FunctionId, keep: &[BuildId]) -> Result<Receipt> {
                $call!(self, Repeat::Safe, "builder.prune", function, (), |inner| {
                    inner.prune(function, keep)
                })
            }

            fn held(&self) -> HeldStream {
                $stream!(self, "builder.held", "all", inside!(self, $call).held())
            }

            fn changes(&self) -> ChangeStream {
                $hints!(self, "builder.changes", inside!(self, $call).changes())
            }
        }

        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<T: Scheduler $($bound)*, $($generics)*> Scheduler for $type {
            fn capabilities(&self) -> SchedulerCapabilities {
                inside!(self, $call).capabilities()
            }

            async fn apply(&self, workload: &Workload) -> Result<WorkloadStatus> {
                $call!(self, Repeat::Safe, "scheduler.apply", &workload.function, (), |inner| {
                    inner.apply(workload)
                })
            }

            async fn status(&self, function: &FunctionId) -> Result<WorkloadStatus> {
                $call!(self, Repeat::Safe, "scheduler.status", function, (), |inner| {
                    inner.status(function)
                })
            }

            async fn remove(&self, function: &FunctionId) -> Result<Receipt> {
                $call!(self, Repeat::Safe, "scheduler.remove", function, (), |inner| {
                    inner.remove(function)
                })
            }

            async fn invoker(&self, function: &FunctionId) -> Result<Arc<dyn Invoke>> {
                let invoker = $call!(self, Repeat::Safe, "scheduler.invoker", function, (), |inner| {
                    inner.invoker(function)
                })?;
                Ok($invoker!(self, function, invoker))
            }

            async fn run_job(&self, run: &JobRun) -> Result<RunStatus> {
                $call!(self, Repeat::Safe, "scheduler.run_job", &run.job, (), |inner| {
                    inner.run_job(run)
                })
            }

            async fn remove_job(&self, job: &JobId) -> Result<Receipt> {
                $call!(self, Repeat::Safe, "scheduler.remove_job", job, (), |inner| {
                    inner.remove_job(job)
                })
            }

            async fn logs(&self, of: &LogTarget, options: &LogOptions) -> Result<LogStream> {
                $call!(self, Repeat::Safe, "scheduler.logs", subject_of(of), (), |inner| {
                    inner.logs(of, options)
                })
            }

            fn held(&self) -> HeldStream {
                $stream!(self, "scheduler.held", "all", inside!(self, $call).held())
            }

            fn changes(&self) -> ChangeStream {
                $hints!(self, "scheduler.changes", inside!(self, $call).changes())
            }

            async fn ensure_namespace(&self, namespace: &Namespace) -> Result<Ensured> {
                let name = "scheduler.ensure_namespace";
                $call!(self, Repeat::Safe, name, namespace, (), |inner| {
                    inner.ensure_namespace(namespace)
                })
            }
        }

        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<T: Validator $($bound)*, $($generics)*> Validator for $type {
            fn identity(&self) -> String {
                inside!(self, $call).identity()
            }

            async fn validate(&self, source: &SourceTree, runtime: Runtime) -> Result<Verdict> {
                let name = "validator.validate";
                $call!(self, Repeat::Safe, name, source.digest(), (), |inner| {
                    inner.validate(source, runtime)
                })
            }
        }

        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<T: Dispatcher $($bound)*, $($generics)*> Dispatcher for $type {
            async fn apply(
                &self,
                subscription: &Subscription,
                sink: Arc<dyn EventSink>,
            ) -> Result<SubscriptionStatus> {
                let name = "dispatcher.apply";
                $call!(self, Repeat::Safe, name, &subscription.trigger, (sink), |inner| {
                    inner.apply(subscription, sink)
                })
            }

            async fn remove(&self, trigger: &TriggerId) -> Result<Receipt> {
                $call!(self, Repeat::Safe, "dispatcher.remove", trigger, (), |inner| {
                    inner.remove(trigger)
                })
            }

            async fn forget(&self, trigger: &TriggerId) -> Result<Receipt> {
                $call!(self, Repeat::Safe, "dispatcher.forget", trigger, (), |inner| {
                    inner.forget(trigger)
                })
            }

            async fn status(&self, trigger: &TriggerId) -> Result<Option<SubscriptionStatus>> {
                $call!(self, Repeat::Safe, "dispatcher.status", trigger, (), |inner| {
                    inner.status(trigger)
                })
            }

            async fn dead_letters(
                &self,
                trigger: &TriggerId,
                query: &DeadLetterQuery,
            ) -> Result<DeadLetterPage> {
                $call!(self, Repeat::Safe, "dispatcher.dead_letters", trigger, (), |inner| {
                    inner.dead_letters(trigger, query)
                })
            }

            async fn redrive(
                &self,
                trigger: &TriggerId,
                which: &DeadLetterSelection,
            ) -> Result<u64> {
                $call!(self, Repeat::Safe, "dispatcher.redrive", trigger, (), |inner| {
                    inner.redrive(trigger, which)
                })
            }

            async fn purge(&self, trigger: &TriggerId, which: &DeadLetterSelection) -> Result<u64> {
                $call!(self, Repeat::Safe, "dispatcher.purge", trigger, (), |inner| {
                    inner.purge(trigger, which)
                })
            }

            fn held(&self) -> HeldStream {
                $stream!(self, "dispatcher.held", "all", inside!(self, $call).held())
            }

            fn changes(&self) -> ChangeStream {
                $hints!(self, "dispatcher.changes", inside!(self, $call).changes())
            }
        }

        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<T: Publish $($bound)*, $($generics)*> Publish for $type {
            async fn publish(
                &self,
                namespace: &Namespace,
                queue: &str,
                message: Message,
            ) -> Result<()> {
                $call!(self, Repeat::Never, "publish.publish", queue, (message), |inner| {
                    inner.publish(namespace, queue, message)
                })
            }
        }

        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<T: InvocationLog $($bound)*, $($generics)*> InvocationLog for $type {
            async fn append(&self, records: Vec<Invocation>) -> Result<()> {
                let name = "invocation_log.append";
                $call!(self, Repeat::Safe, name, "records", (records), |inner| {
                    inner.append(records)
                })
            }

            async fn query(&self, query: &InvocationQuery) -> Result<InvocationPage> {
                let name = "invocation_log.query";
                $call!(self, Repeat::Safe, name, &query.namespace, (), |inner| inner.query(query))
            }

            async fn retain(&self, rule: &Retention, now: Timestamp) -> Result<u64> {
                let name = "invocation_log.retain";
                $call!(self, Repeat::Safe, name, "records", (), |inner| inner.retain(rule, now))
            }
        }

        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<T: Lease $($bound)*, $($generics)*> Lease for $type {
            async fn acquire(
                &self,
                name: &str,
                holder: &str,
                ttl: Duration,
            ) -> Result<Option<Grant>> {
                $call!(self, Repeat::Safe, "lease.acquire", name, (), |inner| {
                    inner.acquire(name, holder, ttl)
                })
            }

            async fn release(&self, name: &str, holder: &str) -> Result<()> {
                $call!(self, Repeat::Safe, "lease.release", name, (), |inner| {
                    inner.release(name, holder)
                })
            }
        }
    };
}

/// What is inside, for methods that a decorator leaves alone.
macro_rules! inside {
    ($self:ident, straight) => {
        **$self
    };
    ($self:ident, around) => {
        $self.inner
    };
}

pub(super) use {each_trait, inside};

/// Through the hook of a [`Decorated`](super::Decorated) backend.
macro_rules! around {
    (body $self:ident, $repeat:expr, $name:expr, $subject:expr, $body:ident, |$inner:ident| $call:expr) => {{
        let (subject, $inner) = ($subject, &$self.inner);
        let body = Replay::new($body);
        let operation = Operation::new($name, &subject, $repeat.while_unread(&body));
        let call = |body: Replay| {
            let $body = body.stream();
            $call
        };
        $self.hook.around(operation, body.clone(), call).await
    }};
    ($self:ident, $repeat:expr, $name:expr, $subject:expr, ($($argument:ident)?), |$inner:ident| $call:expr) => {{
        let (subject, $inner) = ($subject, &$self.inner);
        let operation = Operation::new($name, &subject, $repeat);
        $self.hook.around(operation, ($($argument,)?), |($($argument,)?)| $call).await
    }};
}

macro_rules! around_stream {
    ($self:ident, $name:expr, $subject:expr, $stream:expr) => {
        $self
            .hook
            .stream(Operation::new($name, &$subject, Repeat::Never), $stream)
    };
}

macro_rules! around_hints {
    ($self:ident, $name:expr, $hints:expr) => {
        $self
            .hook
            .hints(Operation::new($name, &"all", Repeat::Never), $hints)
    };
}

macro_rules! around_invoker {
    ($self:ident, $function:expr, $invoker:expr) => {
        if $self.hook.surrounds_invocations() {
            let (hook, function) = (Arc::clone(&$self.hook), $function.clone());
            Arc::new(DecoratedInvoke {
                inner: $invoker,
                hook,
                function,
            })
        } else {
            $invoker
        }
    };
}

/// Straight to what is inside a pointer.
macro_rules! straight {
    (body $self:ident, $repeat:expr, $name:expr, $subject:expr, $body:ident, |$inner:ident| $call:expr) => {{
        let _ = $repeat;
        let $inner = &**$self;
        $call.await
    }};
    ($self:ident, $repeat:expr, $name:expr, $subject:expr, ($($argument:ident)?), |$inner:ident| $call:expr) => {{
        let _ = ($repeat, $name);
        let $inner = &**$self;
        $call.await
    }};
}

macro_rules! straight_stream {
    ($self:ident, $name:expr, $subject:expr, $stream:expr) => {
        $stream
    };
}

macro_rules! straight_hints {
    ($self:ident, $name:expr, $hints:expr) => {
        $hints
    };
}

macro_rules! straight_invoker {
    ($self:ident, $function:expr, $invoker:expr) => {
        $invoker
    };
}

pub(super) use {
    around, around_hints, around_invoker, around_stream, straight, straight_hints,
    straight_invoker, straight_stream,
};
