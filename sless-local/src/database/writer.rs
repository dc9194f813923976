//! The thread that writes: takes jobs that wait, runs them in one transaction, answers them.

use std::{
    path::Path,
    sync::Arc,
    thread::{self, JoinHandle},
};

use rusqlite::Connection;
use sless_core::FaultPoint;
use tokio::sync::{mpsc, oneshot};

use super::Durability;
use crate::{data_dir::DataDir, error::Fault, points};

/// A write that waits for its turn, then for its commit.
pub(super) struct Job {
    durability: Durability,
    work: Box<dyn Work>,
}

trait Work: Send {
    /// Does it, and answers whether it may stay.
    fn run(&mut self, connection: &Connection) -> bool;

    /// Answers whoever waits. `lost` says why the transaction was not committed, or not begun.
    fn finish(self: Box<Self>, lost: Option<Arc<rusqlite::Error>>);
}

struct Waiting<T, J, A> {
    file: Arc<Path>,
    job: Option<J>,
    outcome: Option<Result<T, Fault>>,
    then: A,
    answer: oneshot::Sender<Result<T, Fault>>,
}

impl<T, J, A> Work for Waiting<T, J, A>
where
    T: Send,
    J: FnOnce(&Connection) -> Result<T, Fault> + Send,
    A: FnOnce(&T) + Send,
{
    fn run(&mut self, connection: &Connection) -> bool {
        if self.answer.is_closed() {
            // The caller's future was dropped while this waited.
            return false;
        }
        let outcome = self.job.take().map(|job| job(connection));
        let stays = matches!(outcome, Some(Ok(_)));
        self.outcome = outcome;
        stays
    }

    fn finish(self: Box<Self>, lost: Option<Arc<rusqlite::Error>>) {
        let Self {
            file,
            outcome,
            then,
            answer,
            ..
        } = *self;
        let outcome = match (outcome, lost) {
            (Some(Err(fault)), _) => Err(fault.in_file(&file)),
            (_, Some(source)) => Err(Fault::Database { file, source }),
            (Some(Ok(value)), None) => {
                then(&value);
                Ok(value)
            }
            // It was not done, and nobody waits.
            (None, None) => Err(Fault::Closed { file }),
        };
        // Nobody waits for the answer where the caller's future was dropped.
        let _ = answer.send(outcome);
    }
}

impl Job {
    pub(super) fn new<T, J, A>(
        durability: Durability,
        file: Arc<Path>,
        job: J,
        then: A,
        answer: oneshot::Sender<Result<T, Fault>>,
    ) -> Self
    where
        T: Send + 'static,
        J: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
        A: FnOnce(&T) + Send + 'static,
    {
        let work = Waiting {
            file,
            job: Some(job),
            outcome: None,
            then,
            answer,
        };
        Self {
            durability,
            work: Box::new(work),
        }
    }
}

pub(super) fn start(
    connection: Connection,
    jobs: mpsc::Receiver<Job>,
    file: &Arc<Path>,
    batch: usize,
    owned: DataDir,
) -> Result<JoinHandle<()>, Fault> {
    let name = file
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let points = points::commit(&name);
    thread::Builder::new()
        .name(name)
        .spawn(move || {
            run(connection, jobs, batch.max(1), points);
            // The folder belongs to this process until the last write is in it.
            drop(owned);
        })
        .map_err(Fault::io("starting the writer of", file))
}

/// The points before and after a commit, where the file has some.
type Points = Option<[FaultPoint; 2]>;

fn run(connection: Connection, mut jobs: mpsc::Receiver<Job>, most: usize, points: Points) {
    // As `Schema::migrate` has left it.
    let mut durability = Durability::Synced;
    while let Some(first) = jobs.blocking_recv() {
        let mut batch = vec![first];
        while batch.len() < most
            && let Ok(next) = jobs.try_recv()
        {
            batch.push(next);
        }
        let synced = batch.iter().any(|job| job.durability == Durability::Synced);
        let wanted = if synced {
            Durability::Synced
        } else {
            Durability::Written
        };
        let ready = if wanted == durability {
            Ok(())
        } else {
            set(&connection, wanted)
        };
        if ready.is_ok() {
            durability = wanted;
        }
        commit(&connection, batch, ready, points);
    }
    // The file is whole without this; it only makes the next start quicker.
    let _ = connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
}

fn set(connection: &Connection, durability: Durability) -> rusqlite::Result<()> {
    let word = match durability {
        Durability::Synced => "full",
        Durability::Written => "normal",
    };
    connection.pragma_update(None, "synchronous", word)
}

fn commit(
    connection: &Connection,
    mut batch: Vec<Job>,
    ready: rusqlite::Result<()>,
    points: Points,
) {
    let outcome = ready.and_then(|()| transact(connection, &mut batch, points));
    if outcome.is_err() && !connection.is_autocommit() {
        // Where even this fails, the next BEGIN says so.
        let _ = execute(connection, "ROLLBACK");
    }
    let lost = outcome.err().map(Arc::new);
    for job in batch {
        job.work.finish(lost.clone());
    }
}

fn transact(connection: &Connection, batch: &mut [Job], points: Points) -> rusqlite::Result<()> {
    execute(connection, "BEGIN IMMEDIATE")?;
    for job in batch {
        execute(connection, "SAVEPOINT job")?;
        if !job.work.run(connection) {
            // Fails where SQLite has given up the whole transaction, as on a full disk.
            execute(connection, "ROLLBACK TO job")?;
        }
        execute(connection, "RELEASE job")?;
    }
    if let Some([before, _]) = points {
        before.pass();
    }
    execute(connection, "COMMIT")?;
    if let Some([_, after]) = points {
        after.pass();
    }
    Ok(())
}

fn execute(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}
