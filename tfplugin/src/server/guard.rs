//! Operations that cannot take the provider with them.

use std::{any::Any, future::Future, time::Duration};

use crate::{
    Operation,
    operation::{Interrupt, Told},
};

/// How long an operation whose time is up, or which is asked to stop, may take to tell what it did,
/// before it is dropped.
pub const GRACE: Duration = Duration::from_secs(10);

/// Runs an operation in a task of its own: a panic becomes a diagnostic, a time-out ends it, and what
/// was saved stays saved.
pub(super) async fn run(
    operation: &Operation,
    what: &str,
    work: impl Future<Output = ()> + Send + 'static,
) -> Told {
    let mut task = tokio::spawn(work);
    let ended = tokio::select! {
        ended = &mut task => Some(ended),
        // A stop is the operation's own to notice: a request under way may still be answered.
        () = timed_out(operation) => {
            let ended = tokio::time::timeout(GRACE, &mut task).await.ok();
            if ended.is_none() {
                task.abort();
            }
            ended
        }
    };
    match ended {
        Some(Ok(())) => {}
        Some(Err(error)) => {
            let reason = match error.try_into_panic() {
                Ok(panic) => text(&*panic).to_owned(),
                Err(error) => error.to_string(),
            };
            tracing::error!("{what} panicked: {reason}");
            let detail = format!("{reason}\n\nThis is a bug in the provider; please report it.");
            operation.error(format!("{what} failed inside the provider"), detail);
        }
        // One error per failure: the operation says it better, where it says anything.
        None if operation.has_failed() => {}
        None => {
            let limit = crate::timeouts::show(operation.timeout());
            let detail = format!("It did not end within {limit}.");
            operation.error(format!("{what} took too long"), detail);
        }
    }
    operation.snapshot()
}

async fn timed_out(operation: &Operation) {
    loop {
        match operation.interrupted().await {
            Interrupt::TimedOut => return,
            Interrupt::Stopped => tokio::time::sleep(operation.remaining()).await,
        }
        if operation.remaining().is_zero() {
            return;
        }
    }
}

/// What a panic said.
pub(super) fn text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("it did not say why")
}
