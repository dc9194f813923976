//! One SQLite file: one writer, a few readers, and nothing of it on the async threads.
//!
//! Writes go through a bounded queue to one thread that owns the writing connection. What waits there
//! becomes one transaction, each job in a savepoint of its own, and is acknowledged after the commit:
//! many writers share one `fsync`. Reads run on blocking threads, each with a connection that sees the
//! last commit (write-ahead log).
//!
//! What a crash leaves: a transaction is in the file whole or not at all, and what was acknowledged is
//! in the log, so a killed process loses nothing of it. [`Durability`] says what a power cut may take.

mod migrate;
mod writer;

pub(crate) use migrate::Schema;

use std::{
    fmt,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use rusqlite::Connection;
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::{DatabaseConfig, data_dir::DataDir, error::Fault};

/// What a power cut may take of an acknowledged write. A killed process loses neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Nothing: the log is synced before the answer (`synchronous=FULL`).
    Synced,
    /// What the operating system had not written yet; the file stays whole (`synchronous=NORMAL`).
    Written,
}

/// A handle on the file. Clones share it; the last one to go waits for the queued writes.
#[derive(Clone)]
pub(crate) struct Database(Arc<Inner>);

struct Inner {
    file: Arc<Path>,
    config: DatabaseConfig,
    schema: &'static Schema,
    /// `None` once the file is closed.
    jobs: Mutex<Option<mpsc::Sender<writer::Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    places: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
}

impl Database {
    /// Opens the file, bringing its schema up to date. Touches the file system.
    pub(crate) fn open(
        dir: &DataDir,
        schema: &'static Schema,
        config: &DatabaseConfig,
    ) -> Result<Self, Fault> {
        let file = dir.database(schema.file);
        let open = || -> Result<Connection, Fault> {
            let mut connection = connect(&file, config)?;
            schema.migrate(&mut connection, &file)?;
            Ok(connection)
        };
        let connection = open().map_err(|fault| fault.in_file(&file))?;
        let (jobs, queue) = mpsc::channel(config.write_queue.max(1));
        let thread = writer::start(connection, queue, &file, config.write_batch, dir.clone())?;
        Ok(Self(Arc::new(Inner {
            file,
            config: config.clone(),
            schema,
            jobs: Mutex::new(Some(jobs)),
            thread: Mutex::new(Some(thread)),
            places: Arc::new(Semaphore::new(config.readers.max(1))),
            idle: Mutex::new(Vec::new()),
        })))
    }

    /// Runs `job` in a transaction and answers after the commit; where it fails, nothing of it stays.
    ///
    /// Dropping the future while the job waits for its turn drops the job; once it has begun, it is done
    /// all the same.
    pub(crate) async fn write<T, J>(&self, durability: Durability, job: J) -> Result<T, Fault>
    where
        T: Send + 'static,
        J: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        self.write_then(durability, job, |_| {}).await
    }

    /// As [`write`](Self::write), and runs `then` after the commit, also where nobody waits for the
    /// answer any more. `then` runs on the writer's thread and must not wait.
    pub(crate) async fn write_then<T, J, A>(
        &self,
        durability: Durability,
        job: J,
        then: A,
    ) -> Result<T, Fault>
    where
        T: Send + 'static,
        J: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
        A: FnOnce(&T) + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let job = writer::Job::new(durability, self.0.file.clone(), job, then, answer);
        self.send(job).await?;
        answered.await.unwrap_or_else(|_| Err(self.closed()))
    }

    /// Puts a job into the queue. The writer ends with the last hold on the queue, so nobody keeps one while
    /// waiting for an answer.
    async fn send(&self, job: writer::Job) -> Result<(), Fault> {
        let jobs = self.0.jobs().clone().ok_or_else(|| self.closed())?;
        let wait = self.0.config.place_wait();
        jobs.send_timeout(job, wait)
            .await
            .map_err(|refused| match refused {
                mpsc::error::SendTimeoutError::Timeout(_) => self.overloaded("write_queue", wait),
                mpsc::error::SendTimeoutError::Closed(_) => self.closed(),
            })
    }

    /// Runs `job` on a connection for reading.
    pub(crate) async fn read<T, J>(&self, job: J) -> Result<T, Fault>
    where
        T: Send + 'static,
        J: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        let wait = self.0.config.place_wait();
        let place = match tokio::time::timeout(wait, self.0.places.clone().acquire_owned()).await {
            Ok(Ok(place)) => place,
            Ok(Err(_)) => return Err(self.closed()),
            Err(_) => return Err(self.overloaded("readers", wait)),
        };
        let inner = self.0.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let idle = inner.idle().pop();
            let outcome = idle
                .map_or_else(|| inner.reader(), Ok)
                .and_then(|connection| {
                    let outcome = job(&connection);
                    inner.idle().push(connection);
                    outcome
                });
            drop(place);
            outcome.map_err(|fault| fault.in_file(&inner.file))
        });
        // A read that panicked, or a runtime that ends.
        reading.await.unwrap_or_else(|_| Err(self.closed()))
    }

    /// Runs `job` on a connection for reading, on this thread: for use while opening.
    pub(crate) fn inspect<T>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let inspected = self.0.reader().and_then(|connection| {
            let outcome = job(&connection);
            self.0.idle().push(connection);
            outcome
        });
        inspected.map_err(|fault| fault.in_file(&self.0.file))
    }

    /// Finishes what is queued and closes the file. Every later call answers that it is closed.
    pub(crate) async fn close(&self) {
        let inner = self.0.clone();
        // An error means that the runtime ends, and then the drop of the last handle does it.
        let _ = tokio::task::spawn_blocking(move || inner.close()).await;
    }

    fn closed(&self) -> Fault {
        Fault::Closed {
            file: self.0.file.clone(),
        }
    }

    fn overloaded(&self, limit: &'static str, wait: Duration) -> Fault {
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        Fault::Overloaded {
            file: self.0.file.clone(),
            limit,
            wait_ms,
        }
    }
}

impl Inner {
    fn jobs(&self) -> MutexGuard<'_, Option<mpsc::Sender<writer::Job>>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reader(&self) -> Result<Connection, Fault> {
        let connection = connect(&self.file, &self.config)?;
        connection.pragma_update(None, "query_only", true)?;
        // The schema was checked by the writer; a mismatch here is somebody else's hand in the file.
        self.schema.check(&connection, &self.file)?;
        Ok(connection)
    }

    fn close(&self) {
        drop(self.jobs().take());
        self.places.close();
        self.idle().clear();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // A panic there was already answered to whoever waited.
            let _ = thread.join();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Database").field(&self.0.file).finish()
    }
}

fn connect(file: &Path, config: &DatabaseConfig) -> Result<Connection, Fault> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(config.busy_wait())?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.pragma_update(None, "cache_size", -i64::from(config.cache_kib))?;
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.pragma_update(None, "trusted_schema", false)?;
    Ok(connection)
}

#[cfg(test)]
mod tests;
