//! Talking to the server: errors in words, patience with a server that restarts.

use std::{error::Error, fmt::Write as _, future::Future, time::Duration};

use sless_api::client::{ClientError, Result};
use tfplugin::{Interrupt, Operation, Path, Value};
use tokio::time::Instant;

use crate::session::Session;

/// How long a server may be away in the middle of an operation, as while it restarts.
pub(crate) const AWAY_MAX: Duration = Duration::from_secs(60);

/// How often to look at something that is under way: sooner at the beginning.
const LOOK_FIRST: Duration = Duration::from_millis(100);
const LOOK_LAST: Duration = Duration::from_secs(2);

/// An error with its causes.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}

/// What the server said, or why it said nothing.
pub(crate) fn text(error: &ClientError) -> String {
    match error.api() {
        Some(said) => said.message.clone(),
        None => chain(error),
    }
}

/// An error as a detail for the user.
pub(crate) fn describe(session: &Session, error: &ClientError) -> String {
    let Some(said) = error.api() else {
        return format!("{}.", chain(error));
    };
    let mut detail = format!(
        "The server said: {} ({}, status {}).",
        said.message, said.code, said.status
    );
    if said.status == 401
        && let Some(expired) = session.expired()
    {
        let _ = write!(detail, "\n\n{expired}");
    }
    detail
}

/// Where in a configuration something is wrong, by the first word of a message that is a field's name.
pub(crate) fn place(message: &str, fields: &[(&str, &str)]) -> Path {
    let mut words = message.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let found = words.find_map(|word| fields.iter().find(|(field, _)| *field == word));
    found.map_or(Path::ROOT, |(_, attribute)| Path::from(*attribute))
}

/// Tells an error of the server, at the attribute that it names.
pub(crate) fn tell(
    operation: &Operation,
    session: &Session,
    summary: &str,
    error: &ClientError,
    fields: &[(&str, &str)],
) {
    let path = match error.api() {
        Some(said) if matches!(said.status, 400 | 413) => place(&said.message, fields),
        _ => Path::ROOT,
    };
    operation.error_at(path, summary, describe(session, error));
}

/// Why something did not come to its end.
#[derive(Debug)]
pub(crate) enum Failed {
    Client(ClientError),
    Interrupted(Interrupt),
}

impl From<Interrupt> for Failed {
    fn from(interrupt: Interrupt) -> Self {
        Self::Interrupted(interrupt)
    }
}

/// How patient one is with a server that is away.
#[derive(Debug)]
pub(crate) struct Patience {
    away_since: Option<Instant>,
    pause: Duration,
}

impl Patience {
    pub(crate) const fn new() -> Self {
        Self {
            away_since: None,
            pause: LOOK_FIRST,
        }
    }

    /// The server is there.
    pub(crate) const fn is_there(&mut self) {
        self.away_since = None;
    }

    /// Whether it is worth to try again after this error.
    pub(crate) fn forgives(&mut self, error: &ClientError) -> bool {
        if !error.is_transient() {
            return false;
        }
        let since = *self.away_since.get_or_insert_with(Instant::now);
        tracing::warn!(error = chain(error), "the server is away");
        since.elapsed() < AWAY_MAX
    }

    /// Waits until the next look.
    pub(crate) async fn pause(
        &mut self,
        operation: &Operation,
    ) -> std::result::Result<(), Interrupt> {
        let pause = self.pause;
        self.pause = (pause * 3 / 2).min(LOOK_LAST);
        operation.pause(pause).await
    }

    /// Looks often again.
    pub(crate) const fn look_often(&mut self) {
        self.pause = LOOK_FIRST;
    }
}

/// Makes a call that may be made any number of times, until the server answers it.
pub(crate) async fn again<T, F: Future<Output = Result<T>>>(
    operation: &Operation,
    call: impl Fn() -> F,
) -> std::result::Result<T, Failed> {
    let mut patience = Patience::new();
    loop {
        match operation.run(call()).await? {
            Ok(answer) => return Ok(answer),
            Err(error) if patience.forgives(&error) => patience.pause(operation).await?,
            Err(error) => return Err(Failed::Client(error)),
        }
    }
}

/// Makes a call that creates something. A lost answer does not tell whether it did, so then what is
/// there decides: `find` answers what was made, where it is the same as what was asked for.
pub(crate) async fn create<T, F, G>(
    operation: &Operation,
    call: impl Fn() -> F,
    find: impl Fn() -> G,
    is_ours: impl Fn(&T) -> bool,
) -> std::result::Result<T, Failed>
where
    F: Future<Output = Result<T>>,
    G: Future<Output = Result<T>>,
{
    let mut patience = Patience::new();
    let mut is_lost = false;
    loop {
        // Not dropped half-way: then nobody would know of what it made.
        let error = match call().await {
            Ok(made) => return Ok(made),
            Err(error) => error,
        };
        if error.is_conflict() && is_lost {
            match again(operation, &find).await {
                Ok(found) if is_ours(&found) => return Ok(found),
                Err(Failed::Client(missing)) if missing.is_not_found() => {}
                Err(failed @ Failed::Interrupted(_)) => return Err(failed),
                _ => return Err(Failed::Client(error)),
            }
        } else if patience.forgives(&error) {
            is_lost |= !matches!(error, ClientError::Connect { .. });
        } else {
            return Err(Failed::Client(error));
        }
        patience.pause(operation).await?;
    }
}

/// Removes something, and waits until it is gone.
pub(crate) async fn remove<T, F, G>(
    operation: &Operation,
    session: &Session,
    what: &str,
    delete: impl Fn() -> F,
    find: impl Fn() -> G,
) where
    F: Future<Output = Result<sless_api::Receipt>>,
    G: Future<Output = Result<T>>,
{
    let mut left = String::new();
    let gone = match again(operation, delete).await {
        Ok(receipt) => {
            for item in &receipt.left {
                let _ = write!(
                    left,
                    "\n- {} {} in {}: {}",
                    item.kind, item.name, item.backend, item.why
                );
            }
            if receipt.complete {
                Ok(())
            } else {
                wait_until_gone(operation, find).await
            }
        }
        Err(failed) => Err(failed),
    };
    match gone {
        Ok(()) => operation.save(&Value::Null),
        Err(Failed::Client(error)) if error.is_not_found() => operation.save(&Value::Null),
        Err(Failed::Client(error)) => {
            operation.error(
                format!("The {what} cannot be removed"),
                describe(session, &error),
            );
        }
        Err(Failed::Interrupted(interrupt)) => {
            let (summary, mut detail) =
                interrupted(operation, interrupt, &format!("removing the {what}"));
            detail.push_str(" The server goes on to remove it.");
            if !left.is_empty() {
                let _ = write!(detail, "\n\nLeft so far:{left}");
            }
            operation.error(summary, detail);
        }
    }
}

async fn wait_until_gone<T, G: Future<Output = Result<T>>>(
    operation: &Operation,
    find: impl Fn() -> G,
) -> std::result::Result<(), Failed> {
    let mut patience = Patience::new();
    loop {
        match again(operation, &find).await {
            Ok(_) => patience.pause(operation).await?,
            Err(Failed::Client(error)) if error.is_not_found() => return Ok(()),
            Err(failed) => return Err(failed),
        }
    }
}

/// Summary and detail of an operation that had to end.
pub(crate) fn interrupted(
    operation: &Operation,
    interrupt: Interrupt,
    doing: &str,
) -> (String, String) {
    match interrupt {
        Interrupt::Stopped => (
            "Interrupted".to_owned(),
            format!("Terraform was asked to stop while {doing}."),
        ),
        _ => {
            let limit = tfplugin::timeouts::show(operation.timeout());
            (
                "Timed out".to_owned(),
                format!("The limit of {limit} was reached while {doing}; `timeouts` sets it."),
            )
        }
    }
}

/// Tells why something did not come to its end.
pub(crate) fn tell_failed(
    operation: &Operation,
    session: &Session,
    summary: &str,
    doing: &str,
    failed: &Failed,
    fields: &[(&str, &str)],
) {
    match failed {
        Failed::Client(error) => tell(operation, session, summary, error, fields),
        Failed::Interrupted(interrupt) => {
            let (summary, detail) = interrupted(operation, *interrupt, doing);
            operation.error(summary, detail);
        }
    }
}

/// Tells that a name is taken, and how to take over what has it.
pub(crate) fn tell_taken(operation: &Operation, kind: &str, name: &str) {
    operation.error_at(
        "name",
        format!("There is a {kind} named `{name}` already"),
        format!(
            "It was not made by this configuration. To manage it here, import it: \
             `terraform import sless_{kind}.LABEL {name}`."
        ),
    );
}

/// What an import is asked for: the name, where it is given with or without the namespace.
pub(crate) fn import_name<'a>(
    session: &Session,
    id: &'a str,
) -> std::result::Result<&'a str, String> {
    let name = match id.split_once('/') {
        None => id,
        Some((namespace, name)) if namespace == session.namespace => name,
        Some((namespace, _)) => {
            return Err(format!(
                "The token opens the namespace {}, not `{namespace}`.",
                session.namespace
            ));
        }
    };
    sless_core::Name::new(name).map_err(|error| error.message().to_owned())?;
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_points_at_the_first_field_that_it_names() {
        let fields = &[
            ("timeout_seconds", "timeout"),
            ("min_backoff", "delivery.min_backoff"),
        ];
        for (message, path) in [
            ("timeout_seconds is 0: expected 1 to 900 seconds", "timeout"),
            (
                "field min_backoff: expected whole milliseconds",
                "delivery.min_backoff",
            ),
            ("the timeout_seconds_left", ""),
            ("nothing of it", ""),
        ] {
            assert_eq!(place(message, fields).to_string(), path, "{message}");
        }
    }

    #[test]
    fn patience_ends_with_what_does_not_pass() {
        let mut patience = Patience::new();
        assert!(!patience.forgives(&ClientError::Invalid("x".to_owned())));
        assert!(patience.forgives(&ClientError::Connect {
            server: "http://x".to_owned(),
            source: "refused".into(),
        }));
    }
}
