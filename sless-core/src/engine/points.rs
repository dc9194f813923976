//! The engine's fault points. What its backends do has points of its own there.

crate::fault_points! {
    /// Zip and context are stored, and the function does not know.
    ADOPT_BEFORE = "upload.adopt.before";
    /// The function knows, and whoever uploaded does not.
    ADOPT_AFTER = "upload.adopt.after";
    /// A new version serves, and the old ones are not dropped.
    TIDY_BEFORE = "function.tidy.before";
    /// They are, and the status does not say that the new one serves.
    TIDY_AFTER = "function.tidy.after";
    /// Of what was found out, nothing is written.
    FUNCTION_BEFORE = "function.status.before";
    /// It is.
    FUNCTION_AFTER = "function.status.after";
    /// All that a deleted object made is gone, and the object is not.
    RELEASE_BEFORE = "object.release.before";
    /// The object is gone too.
    RELEASE_AFTER = "object.release.after";
    /// A due time, or the end of its run, is not in the ledger.
    LEDGER_BEFORE = "cron.ledger.before";
    /// It is, and nothing runs yet.
    LEDGER_AFTER = "cron.ledger.after";
    /// The function has answered, and nobody was told.
    CRON_CALLED = "cron.call.after";
    /// The function has answered, and the queue does not know.
    EVENT_CALLED = "event.call.after";
    /// Of what is known of a run, nothing is written.
    JOB_BEFORE = "job.status.before";
    /// It is.
    JOB_AFTER = "job.status.after";
}
