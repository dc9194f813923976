//! The fault points of these backends.

use sless_core::FaultPoint;

sless_core::fault_points! {
    /// The file `format` is written, and not in its place.
    FORMAT_BEFORE = "data_dir.format.before";
    /// It is in its place.
    FORMAT_AFTER = "data_dir.format.after";
    /// A step of a schema is done, and not committed.
    SCHEMA_BEFORE = "database.schema.before";
    /// It is committed.
    SCHEMA_AFTER = "database.schema.after";
    /// Writes of the catalog are done, and not committed.
    CATALOG_BEFORE = "catalog.commit.before";
    /// They are, and nobody was told.
    CATALOG_AFTER = "catalog.commit.after";
    /// The same of the queues, of messages that come and of those that are done with.
    QUEUE_BEFORE = "queue.commit.before";
    /// The same of the queues, committed.
    QUEUE_AFTER = "queue.commit.after";
    /// The same of the invocation log.
    INVOCATIONS_BEFORE = "invocations.commit.before";
    /// The same of the invocation log, committed.
    INVOCATIONS_AFTER = "invocations.commit.after";
    /// The same of what builder and scheduler remember.
    WORK_BEFORE = "work.commit.before";
    /// The same of what builder and scheduler remember, committed.
    WORK_AFTER = "work.commit.after";
    /// What an earlier process left running was ended.
    KILLED = "start.kill.after";
    /// What it left of builds was removed.
    SWEPT = "start.work.after";
    /// A run that was cut off is about to be written down as such.
    INTERRUPT_BEFORE = "start.interrupt.before";
    /// It was.
    INTERRUPT_AFTER = "start.interrupt.after";
    /// A source is unpacked.
    UNPACKED = "build.unpack.after";
    /// An installer is about to be started.
    INSTALL_BEFORE = "build.spawn.before";
    /// It runs.
    INSTALL_AFTER = "build.spawn.after";
    /// An artifact is whole, and not in its place.
    ARTIFACT_BEFORE = "build.rename.before";
    /// It is in its place, and nobody remembers.
    ARTIFACT_AFTER = "build.rename.after";
    /// A build is forgotten, and its log is there.
    BUILD_FORGOTTEN = "build.forget.between";
    /// An artifact that nobody uses is about to go.
    TRASH_BEFORE = "artifact.trash.before";
    /// It is out of its place, and not removed.
    TRASH_BETWEEN = "artifact.trash.between";
    /// It is removed.
    TRASH_AFTER = "artifact.trash.after";
    /// A workload is about to be remembered as the one that is wanted.
    APPLY_BEFORE = "workload.apply.before";
    /// It is.
    APPLY_AFTER = "workload.apply.after";
    /// A worker is about to be started.
    WORKER_BEFORE = "worker.spawn.before";
    /// It has imported its handler, and gets no calls yet.
    WORKER_AFTER = "worker.spawn.after";
    /// A new version is up, and not remembered as the one that serves.
    TAKE_OVER_BEFORE = "workload.take_over.before";
    /// It is, and the old one still gets the calls.
    TAKE_OVER_AFTER = "workload.take_over.after";
    /// The workers of an old version have ended.
    RETIRED = "worker.end.after";
    /// A workload is forgotten, and its log and files are there.
    WORKLOAD_FORGOTTEN = "workload.forget.between";
    /// Messages are held.
    TAKEN = "queue.take.after";
    /// What became of a message is about to be written.
    SETTLE_BEFORE = "queue.settle.before";
    /// It is.
    SETTLE_AFTER = "queue.settle.after";
    /// A run is about to be remembered as begun.
    RUN_BEFORE = "job.begin.before";
    /// It is, and nothing runs yet.
    RUN_AFTER = "job.begin.after";
    /// A run has ended, and nobody remembers.
    END_BEFORE = "job.end.before";
    /// It is remembered.
    END_AFTER = "job.end.after";
    /// A run is forgotten, and its log is there.
    RUN_FORGOTTEN = "job.forget.between";
    /// A log is full, and begins anew.
    ROTATE_BEFORE = "log.rotate.before";
    /// Its older half is in its place.
    ROTATE_AFTER = "log.rotate.after";
}

/// The points before and after a commit to the SQLite file of this name.
pub(crate) fn commit(file: &str) -> Option<[FaultPoint; 2]> {
    match file {
        "catalog.db" => Some([CATALOG_BEFORE, CATALOG_AFTER]),
        "queue.db" => Some([QUEUE_BEFORE, QUEUE_AFTER]),
        "invocations.db" => Some([INVOCATIONS_BEFORE, INVOCATIONS_AFTER]),
        "work.db" => Some([WORK_BEFORE, WORK_AFTER]),
        _ => None,
    }
}
