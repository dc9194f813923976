//! The one error type of every trait in this crate.
//!
//! An [`Error`] says *what kind* of thing went wrong, *which operation* on *which subject* met it,
//! *which backend* answered, and *whether trying again can help*. A backend keeps an error enum of
//! its own and converts it in one place; no error type of a third party appears in a signature.
//!
//! An `Err` always means "this could not be done or found out". A refused upload is a
//! [`Verdict`](crate::Verdict), a failing user function is an HTTP response with status 500, and a
//! failed build is a [`BuildStatus`](crate::BuildStatus): all three are values.

use std::{borrow::Cow, fmt, time::Duration};

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

type Source = Box<dyn std::error::Error + Send + Sync + 'static>;

/// What went wrong, in the words that callers branch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The input breaks a rule; the message names the field, the value and what was expected.
    Invalid,
    /// The subject does not exist.
    NotFound,
    /// The subject exists already.
    AlreadyExists,
    /// The subject changed since it was read.
    Conflict,
    /// A named limit was reached; the message carries its name.
    LimitExceeded,
    /// Too much is under way; the same call can succeed a little later.
    Overloaded,
    /// The backend cannot do this at all.
    Unsupported,
    /// Who asks is not known.
    Unauthenticated,
    /// Who asks is known, and may not.
    PermissionDenied,
    /// The backend, or the function, is not there now.
    Unavailable,
    /// No answer came in time.
    Timeout,
    /// The peer broke off in the middle of an answer.
    Interrupted,
    /// The position to continue from is too old; start from a new listing.
    Expired,
    /// What was read is not what was written.
    Corrupt,
    /// A defect of sless or of a backend.
    Internal,
}

impl ErrorKind {
    /// The kind as one lower-case word, as it stands in API answers and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::Conflict => "conflict",
            Self::LimitExceeded => "limit_exceeded",
            Self::Overloaded => "overloaded",
            Self::Unsupported => "unsupported",
            Self::Unauthenticated => "unauthenticated",
            Self::PermissionDenied => "permission_denied",
            Self::Unavailable => "unavailable",
            Self::Timeout => "timeout",
            Self::Interrupted => "interrupted",
            Self::Expired => "expired",
            Self::Corrupt => "corrupt",
            Self::Internal => "internal",
        }
    }

    const fn retry(self) -> Retry {
        match self {
            Self::Conflict
            | Self::Overloaded
            | Self::Unavailable
            | Self::Timeout
            | Self::Interrupted => Retry::Transient,
            _ => Retry::Never,
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether the same call, made again, can succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// It cannot: something else has to change first.
    Never,
    /// It can, after a delay of the caller's choice.
    Transient,
    /// It can, not sooner than this.
    After(Duration),
}

/// What failed, where, and whether trying again can help.
///
/// `Display` tells this layer only, in lower case and without secrets; walk
/// [`source`](std::error::Error::source) for the cause, once, where the error leaves the program.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: Cow<'static, str>,
    reason: Option<Cow<'static, str>>,
    operation: &'static str,
    subject: String,
    backend: &'static str,
    retry: Retry,
    source: Option<Source>,
}

impl Error {
    /// An error of this kind. The message is shown to clients: it names what was given and what was
    /// expected, and holds no secret.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            reason: None,
            operation: "",
            subject: String::new(),
            backend: "",
            retry: kind.retry(),
            source: None,
        }))
    }

    /// Shorthand for [`ErrorKind::Invalid`].
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// Shorthand for [`ErrorKind::NotFound`].
    pub fn not_found(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// Shorthand for [`ErrorKind::Conflict`].
    pub fn conflict(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }

    /// Shorthand for [`ErrorKind::Unavailable`].
    pub fn unavailable(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// Shorthand for [`ErrorKind::Internal`].
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// Shorthand for [`ErrorKind::LimitExceeded`]: the limit's name, its value and its unit.
    pub fn limit(name: &str, value: impl fmt::Display, unit: &str) -> Self {
        let space = if unit.is_empty() { "" } else { " " };
        Self::new(
            ErrorKind::LimitExceeded,
            format!("limit {name} of {value}{space}{unit} exceeded"),
        )
        .with_reason(format!("limit_{name}"))
    }

    /// Shorthand for [`ErrorKind::Unsupported`], naming the operation and the backend.
    pub fn unsupported(operation: &'static str, backend: &'static str) -> Self {
        Self::new(
            ErrorKind::Unsupported,
            format!("{backend} does not support {operation}"),
        )
        .during(operation)
        .at(backend)
    }

    /// Sets the machine word that goes beyond the kind, such as `zip_duplicate_entry`.
    #[must_use]
    pub fn with_reason(mut self, reason: impl Into<Cow<'static, str>>) -> Self {
        self.0.reason = Some(reason.into());
        self
    }

    /// Names the operation, as `trait.method`. The innermost name stays.
    #[must_use]
    pub fn during(mut self, operation: &'static str) -> Self {
        if self.0.operation.is_empty() {
            self.0.operation = operation;
        }
        self
    }

    /// Names what the operation was about: a function, a key, a queue. The innermost name stays.
    #[must_use]
    pub fn on(mut self, subject: impl fmt::Display) -> Self {
        if self.0.subject.is_empty() {
            self.0.subject = subject.to_string();
        }
        self
    }

    /// Names the backend. The innermost name stays.
    #[must_use]
    pub fn at(mut self, backend: &'static str) -> Self {
        if self.0.backend.is_empty() {
            self.0.backend = backend;
        }
        self
    }

    /// Overrides whether trying again can help.
    #[must_use]
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.0.retry = retry;
        self
    }

    /// Keeps the cause. It is for logs; clients never see it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The message for clients, without operation, subject and backend.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The machine word: the reason where one is set, else the kind.
    pub fn reason(&self) -> &str {
        self.0.reason.as_deref().unwrap_or(self.0.kind.as_str())
    }

    /// The operation, as `trait.method`; empty where none was named.
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// What the operation was about; empty where nothing was named.
    pub fn subject(&self) -> &str {
        &self.0.subject
    }

    /// The backend; empty where none was named.
    pub fn backend(&self) -> &'static str {
        self.0.backend
    }

    /// Whether the same call, made again, can succeed.
    pub fn retry(&self) -> Retry {
        self.0.retry
    }

    /// Whether the subject does not exist.
    pub fn is_not_found(&self) -> bool {
        self.0.kind == ErrorKind::NotFound
    }

    /// Whether the subject changed since it was read.
    pub fn is_conflict(&self) -> bool {
        self.0.kind == ErrorKind::Conflict
    }

    /// This layer and every cause below it on one line, for a log.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut next = std::error::Error::source(self);
        while let Some(cause) = next {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            next = cause.source();
        }
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner {
            operation,
            subject,
            backend,
            message,
            ..
        } = &*self.0;
        let named = [*operation, subject.as_str()]
            .iter()
            .any(|word| !word.is_empty());
        if !operation.is_empty() {
            f.write_str(operation)?;
        }
        if !subject.is_empty() {
            let space = if operation.is_empty() { "" } else { " " };
            write!(f, "{space}{subject}")?;
        }
        if !backend.is_empty() {
            let space = if named { " " } else { "" };
            write!(f, "{space}({backend})")?;
        }
        if named || !backend.is_empty() {
            f.write_str(": ")?;
        }
        f.write_str(message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner {
            kind,
            message,
            reason,
            operation,
            subject,
            backend,
            retry,
            source,
        } = &*self.0;
        f.debug_struct("Error")
            .field("kind", kind)
            .field("message", message)
            .field("reason", reason)
            .field("operation", operation)
            .field("subject", subject)
            .field("backend", backend)
            .field("retry", retry)
            .field("source", source)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0
            .source
            .as_ref()
            .map(|source| &**source as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_tells_its_own_layer_only() {
        let error = Error::not_found("no such key")
            .during("storage.get")
            .on("functions/a")
            .at("memory")
            .with_source(std::io::Error::other("disk on fire"));
        assert_eq!(
            error.to_string(),
            "storage.get functions/a (memory): no such key"
        );
        assert_eq!(
            error.chain(),
            "storage.get functions/a (memory): no such key: disk on fire"
        );
    }

    #[test]
    fn the_innermost_names_stay() {
        let error = Error::internal("x").during("inner").on("a").at("b");
        let error = error.during("outer").on("c").at("d");
        assert_eq!(
            (error.operation(), error.subject(), error.backend()),
            ("inner", "a", "b")
        );
    }

    #[test]
    fn a_limit_carries_its_name_as_reason() {
        let error = Error::limit("zip_entries", 10, "entries");
        assert_eq!(error.reason(), "limit_zip_entries");
        assert_eq!(error.message(), "limit zip_entries of 10 entries exceeded");
    }
}
