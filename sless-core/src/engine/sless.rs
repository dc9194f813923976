use std::sync::Arc;

use futures::StreamExt as _;
use serde::Serialize;

use super::{Backends, Call, Deploy, Engine, Options, Upload};
use crate::{
    Body, BuildId, ByteStream, CatalogExt as _, DeleteOptions, Ensured, Error, EventCounts,
    Function, FunctionId, FunctionSpec, GetOptions, JobId, Left, LogOptions, LogStream, LogTarget,
    Name, Namespace, ObjectKey, Receipt, Result, StorageKey, clock,
    source::{SourceTree, context},
};

/// A running engine, to be embedded in a program: deploys functions, calls them, and keeps them as
/// they are wanted. Clones are the same engine.
///
/// ```
/// use std::sync::Arc;
/// use sless_core::{
///     Backends, Body, Deploy, FunctionSpec, Name, Namespace, Runtime, Sless,
///     memory::MemoryScheduler,
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> sless_core::Result<()> {
/// let mut backends = Backends::in_memory();
/// // In memory a function is a closure; `sless_local` runs Python and Node.
/// let scheduler = MemoryScheduler::new(backends.clock.clone()).with_handler(
///     "handler.handle",
///     |_request, _context| async { Ok(http::Response::new(Body::from("hello"))) },
/// );
/// backends.scheduler = Arc::new(scheduler);
/// let sless = Sless::new(backends)?;
///
/// let (namespace, name) = (Namespace::new("demo")?, Name::new("hello")?);
/// let code = [("handler.py", "def handle(event):\n    return 'hello'\n")];
/// let spec = FunctionSpec::new(Runtime::Python311);
/// sless.deploy(Deploy::files(namespace.clone(), name.clone(), spec, code)?).await?;
///
/// let response = sless.invoke(&namespace, &name, http::Request::new(Body::empty())).await?;
/// assert_eq!(response.into_body().bytes(1024).await?, "hello");
/// sless.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Sless(Arc<Engine>);

/// What an engine has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// Objects that wait for a reconcile, those included that are only looked at again later.
    pub waiting: usize,
    /// Objects that are being reconciled.
    pub reconciling: usize,
    /// Calls whose response has not begun.
    pub calls: usize,
    /// Records of calls that wait to be stored.
    pub records_waiting: usize,
    /// Records of calls that were dropped, since the log was too slow or away.
    pub records_dropped: u64,
}

/// Whether an engine does its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Health {
    /// The catalog was read and is being followed.
    pub catalog: bool,
    /// It was not told to shut down.
    pub accepting: bool,
    /// The log of calls takes records, or there is none. Where it does not, calls go on and records
    /// wait.
    pub recording: bool,
}

impl Health {
    /// Whether calls are taken and objects reconciled. A log of calls that is away changes nothing of
    /// that.
    pub const fn is_ready(self) -> bool {
        self.catalog && self.accepting
    }
}

impl Sless {
    /// Starts an engine on these backends, with the default [`Options`].
    ///
    /// # Errors
    /// `Invalid` if the backends do not fit each other.
    ///
    /// # Panics
    /// Outside of a tokio runtime: the engine's loops are tasks of it, until
    /// [`shutdown`](Sless::shutdown).
    pub fn new(backends: Backends) -> Result<Self> {
        Self::with_options(backends, Options::default())
    }

    /// Starts an engine on these backends.
    ///
    /// # Errors
    /// `Invalid` if the backends do not fit each other, or an option is wrong.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn with_options(backends: Backends, options: Options) -> Result<Self> {
        backends.check(options.roles.operator)?;
        options.runtimes.validate()?;
        let (engine, records) = Engine::new(backends, options);
        engine.start(records);
        Ok(Self(engine))
    }

    /// Ends every loop, lets what has begun finish within [`Options::drain`], and stores the records
    /// of the last calls. New calls and uploads should have ended before; messages that come from now on
    /// go back to their queues. The backends stay as they are: who made them shuts them down.
    pub async fn shutdown(&self) {
        let engine = &self.0;
        engine.stop.cancel();
        engine.tasks.close();
        engine.calls.close();
        let drained = async {
            engine.tasks.wait().await;
            engine.calls.wait().await;
        };
        let clock = &*engine.backends.clock;
        if clock::timeout(clock, engine.options.drain, drained)
            .await
            .is_err()
        {
            let limit = engine.options.drain;
            tracing::warn!(
                ?limit,
                "calls or reconciles were cut off: the drain took too long"
            );
        }
        engine.write_last_ends().await;
        engine.store_last_counts().await;
        engine.leave_posts().await;
        engine.recorded.cancel();
        engine.recording.close();
        if clock::timeout(clock, engine.options.drain, engine.recording.wait())
            .await
            .is_err()
        {
            tracing::warn!("records of the last calls were not stored in time");
        }
    }

    /// The backends that the engine stands on.
    pub fn backends(&self) -> &Backends {
        &self.0.backends
    }

    /// How the engine works.
    pub fn options(&self) -> &Options {
        &self.0.options
    }

    /// What the engine has to do.
    pub fn stats(&self) -> Stats {
        let (waiting, reconciling) = self.0.queue.depth();
        Stats {
            waiting,
            reconciling,
            calls: self.0.calls.len(),
            records_waiting: self.0.recorder.waiting(),
            records_dropped: self.0.recorder.dropped(),
        }
    }

    /// Whether the engine does its work.
    pub fn health(&self) -> Health {
        Health {
            catalog: *self.0.follows.borrow(),
            accepting: !self.0.stop.is_cancelled(),
            recording: !self.0.recorder.is_failing(),
        }
    }

    /// Makes a namespace, and the place for its workloads, if they are not there.
    pub async fn ensure_namespace(&self, namespace: &Namespace) -> Result<Ensured> {
        self.0.ensure_namespace(namespace).await
    }

    /// Creates a function or changes how it is to run; its code stays.
    ///
    /// # Errors
    /// `Invalid`; `NotFound` if the namespace is not there.
    pub async fn put_function(
        &self,
        namespace: &Namespace,
        name: &Name,
        spec: &FunctionSpec,
    ) -> Result<Function> {
        self.0.put_function(namespace, name, spec).await
    }

    /// Takes the zip of a function that is there: checks it, asks the validator, stores it, and
    /// names it in the function's spec. Whatever goes wrong, the function keeps the code it has.
    ///
    /// # Errors
    /// `Invalid` or `LimitExceeded` naming the entry and the rule; `Invalid` with reason
    /// `code_validation_failed`; `NotFound`; `Conflict` if the function changed underneath.
    pub async fn upload(
        &self,
        namespace: &Namespace,
        name: &Name,
        zip: ByteStream,
    ) -> Result<Upload> {
        let uploaded = self.0.upload(namespace, name, zip).await;
        uploaded.map_err(|error| {
            error
                .during("function.upload")
                .on(format_args!("{namespace}/{name}"))
        })
    }

    /// Creates or changes a function, uploads its code, and waits until it is ready.
    ///
    /// # Errors
    /// Those of [`put_function`](Sless::put_function) and [`upload`](Sless::upload); `Unavailable`
    /// with the reason and the end of the log if it cannot be built or started.
    pub async fn deploy(&self, deploy: Deploy) -> Result<Function> {
        self.0.deploy(deploy).await.map(|(function, _)| function)
    }

    /// Waits until the wanted version of a function is ready, stopped or failed. Bound it with
    /// [`clock::timeout`](crate::clock::timeout).
    ///
    /// # Errors
    /// `NotFound` if it is not there, or goes meanwhile.
    pub async fn wait_until_settled(&self, namespace: &Namespace, name: &Name) -> Result<Function> {
        self.0.wait_until_settled(namespace, name).await
    }

    /// Calls a function and answers as soon as the head of its response is there.
    ///
    /// # Errors
    /// Those of [`Invoke::invoke`](crate::Invoke::invoke).
    pub async fn invoke(
        &self,
        namespace: &Namespace,
        function: &Name,
        request: http::Request<Body>,
    ) -> Result<http::Response<Body>> {
        self.call(Call::new(namespace.clone(), function.clone(), request))
            .await
    }

    /// Calls a function, saying what causes the call.
    ///
    /// # Errors
    /// Those of [`Invoke::invoke`](crate::Invoke::invoke).
    pub async fn call(&self, call: Call) -> Result<http::Response<Body>> {
        self.0.call(call).await
    }

    /// Deletes an object and everything that was made for it, and answers what was removed. Where
    /// another process does that work, or it takes longer than [`Options::delete_wait`], the receipt
    /// holds what is known, and the rest goes on.
    ///
    /// # Errors
    /// `NotFound` if it is not there.
    pub async fn delete(&self, key: &ObjectKey) -> Result<Receipt> {
        let engine = &self.0;
        let uid = engine
            .backends
            .catalog
            .get(key)
            .await?
            .metadata()
            .uid
            .clone();
        let receipt = engine.receipts.wait(&uid);
        let still_there = |why: &str| Left {
            kind: key.kind.to_string(),
            name: format!("{}/{}", key.namespace, key.name),
            backend: "catalog".to_owned(),
            why: why.to_owned(),
            again: true,
        };
        let options = DeleteOptions::default().with_uid(uid.clone());
        let last = engine.backends.catalog.delete(key, &options).await?;
        if last.metadata().finalizers.is_empty() {
            engine.receipts.close(&uid);
            engine.wake(key.clone());
        } else if engine.cleans_up(&last) {
            engine.wake(key.clone());
        } else {
            let mut receipt = Receipt::default();
            let why = "another process removes what was made for it";
            receipt.left.push(still_there(why));
            return Ok(receipt);
        }
        let limit = engine.options.delete_wait;
        if let Ok(Ok(receipt)) = clock::timeout(&*engine.backends.clock, limit, receipt).await {
            return Ok(receipt);
        }
        let mut receipt = engine.receipts.so_far(&uid);
        let why = format!("limit delete_wait of {limit:?} exceeded: its removal goes on");
        receipt.left.push(still_there(&why));
        Ok(receipt)
    }

    /// What came of an event trigger's messages, over all processes, as far as it is known here.
    ///
    /// # Errors
    /// What the dispatcher says.
    pub async fn event_counts(&self, trigger: &crate::Trigger) -> Result<EventCounts> {
        self.0.event_counts(trigger).await
    }

    /// Where a function is called: its part below [`Options::external_url`].
    pub fn function_url(&self, namespace: &Namespace, name: &Name) -> String {
        self.0.function_url(namespace, name)
    }

    /// The source of a function, as it was uploaded last.
    ///
    /// # Errors
    /// `NotFound` if the function is not there or has no code.
    pub async fn source(&self, namespace: &Namespace, name: &Name) -> Result<SourceTree> {
        let key = self.context_key(namespace, name).await?;
        let stored = self
            .0
            .backends
            .storage
            .get(&key, &GetOptions::default())
            .await?;
        let threads = self.0.threads();
        let file = super::upload::spool(threads, stored.body, u64::MAX).await?;
        let limits = self.0.options.source_limits.clone();
        super::blocking(threads, move || Ok(context::read(file, &limits)?.tree)).await
    }

    /// The zip of a function, as it was uploaded last.
    ///
    /// # Errors
    /// `NotFound` if the function is not there or has no code.
    pub async fn source_zip(&self, namespace: &Namespace, name: &Name) -> Result<ByteStream> {
        let key = self
            .context_key(namespace, name)
            .await?
            .source_of_context()?;
        Ok(self
            .0
            .backends
            .storage
            .get(&key, &GetOptions::default())
            .await?
            .body)
    }

    async fn context_key(&self, namespace: &Namespace, name: &Name) -> Result<StorageKey> {
        let function: Function = self.0.backends.catalog.read(namespace, name).await?;
        let key = function.spec.s3_key.ok_or_else(|| {
            Error::not_found("no code was uploaded yet")
                .with_reason(crate::reason::NO_CODE)
                .on(format_args!("{namespace}/{name}"))
        })?;
        StorageKey::new(key)
    }

    /// The logs of a function: of its build, and then of its runs.
    ///
    /// # Errors
    /// `NotFound` if the function is not there.
    pub async fn logs(
        &self,
        namespace: &Namespace,
        name: &Name,
        options: &LogOptions,
    ) -> Result<LogStream> {
        let function: Function = self.0.backends.catalog.read(namespace, name).await?;
        let id = FunctionId::of(&function.metadata);
        let mut parts = Vec::new();
        if let Some(code) = function.spec.code_sha256 {
            parts.extend(
                self.build_logs(&self.0.build_id(&function, code), options)
                    .await?,
            );
        }
        let run = self
            .0
            .backends
            .scheduler
            .logs(&LogTarget::Function(id), options)
            .await;
        match run {
            Ok(run) => parts.push(run),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        let all = futures::stream::iter(parts).flatten();
        let Some(tail) = options.tail.filter(|_| !options.follow) else {
            return Ok(all.boxed());
        };
        // Of two logs with so many lines each, the last so many.
        let lines: Vec<_> = all.collect().await;
        let skipped = lines.len().saturating_sub(tail);
        Ok(futures::stream::iter(lines.into_iter().skip(skipped)).boxed())
    }

    async fn build_logs(&self, id: &BuildId, options: &LogOptions) -> Result<Option<LogStream>> {
        for builder in &self.0.backends.builders {
            match builder.logs(id, options).await {
                Ok(log) => return Ok(Some(log)),
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The logs of a job, over all its runs.
    ///
    /// # Errors
    /// `NotFound` if the job is not there, or nothing of it has run.
    pub async fn job_logs(
        &self,
        namespace: &Namespace,
        name: &Name,
        options: &LogOptions,
    ) -> Result<LogStream> {
        let job: crate::FunctionJob = self.0.backends.catalog.read(namespace, name).await?;
        let target = LogTarget::Job(JobId::of(&job.metadata));
        self.0.backends.scheduler.logs(&target, options).await
    }
}
