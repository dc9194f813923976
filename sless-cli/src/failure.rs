//! Errors as people see them: what went wrong, what to do next, and the exit status.

use std::{error::Error, fmt, io};

use sless_api::client::ClientError;
use sless_source::FolderError;

/// The exit statuses, for scripts to branch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Exit {
    /// What was asked for was tried and failed: a build, a call, a job, a check.
    Failed = 1,
    /// The command, a file or a value cannot be used as it is.
    Usage = 2,
    /// No server or no token is known.
    Setup = 3,
    /// What was named is not there.
    NotFound = 4,
    /// The server does not accept the token, or the token does not open the namespace.
    Refused = 5,
    /// It exists already, or changed meanwhile.
    Conflict = 6,
    /// The server could not be reached, did not answer in time, or could not do its work.
    Unavailable = 7,
    /// Cut off by Ctrl-C.
    Interrupted = 130,
    /// Cut off by a request to terminate.
    Terminated = 143,
}

impl Exit {
    /// All of them, with what they mean, for the reference.
    pub const ALL: &[(Self, &str)] = &[
        (
            Self::Failed,
            "it was tried and failed: a build, a call, a job, a check",
        ),
        (
            Self::Usage,
            "the command, a file or a value cannot be used as it is",
        ),
        (Self::Setup, "no server or no token is known"),
        (Self::NotFound, "what was named is not there"),
        (
            Self::Refused,
            "the token is not accepted, or does not open the namespace",
        ),
        (Self::Conflict, "it exists already, or changed meanwhile"),
        (
            Self::Unavailable,
            "the server cannot be reached, or cannot do its work now",
        ),
        (Self::Interrupted, "cut off by Ctrl-C"),
        (Self::Terminated, "cut off by SIGTERM"),
    ];
}

/// Why a command ends without having done what was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    message: String,
    hint: Option<String>,
    /// Everything has been said already.
    silent: bool,
}

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            hint: None,
            silent: false,
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Ends with this status and says nothing more.
    pub(crate) fn silent(exit: Exit) -> Self {
        Self {
            silent: true,
            ..Self::new(exit, "")
        }
    }

    /// What to do next.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What to do next, where nothing better is known.
    #[must_use]
    pub(crate) fn or_hint(self, hint: impl Into<String>) -> Self {
        if self.hint.is_some() {
            return self;
        }
        self.hint(hint)
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.silent
    }

    pub(crate) fn next(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let text = chain(&error);
        match &error {
            ClientError::Api(api) => {
                let exit = match api.status {
                    401 | 403 => Exit::Refused,
                    404 => Exit::NotFound,
                    409 => Exit::Conflict,
                    429 | 500.. => Exit::Unavailable,
                    _ => Exit::Usage,
                };
                let failure = Self::new(exit, format!("{} ({})", api.message, api.code));
                match api.status {
                    401 => failure.hint("sign in again with a new token: sless login"),
                    403 => failure.hint(
                        "a token opens the namespace of its own subject: leave --namespace out, or \
                         choose another context with --context",
                    ),
                    429 | 503 => failure.hint("the server asks to try again later"),
                    500 => failure.hint("the server's log says why"),
                    _ => failure,
                }
            }
            ClientError::Connect { .. } | ClientError::Timeout { .. } => {
                Self::new(Exit::Unavailable, text)
                    .hint("`sless doctor` checks the way to the server, step by step")
            }
            ClientError::Broken { .. } => Self::new(Exit::Unavailable, text)
                .hint("the connection may work again: repeat the command"),
            ClientError::Answer { .. } => Self::new(Exit::Unavailable, text).hint(
                "is it a sless server, and of the version of this command? `sless doctor` tells",
            ),
            _ => Self::new(Exit::Usage, text),
        }
    }
}

impl From<FolderError> for Failure {
    fn from(error: FolderError) -> Self {
        let hint = match &error {
            FolderError::NoHandler { .. } => Some(
                "`sless init FOLDER` makes a function to begin with; another file than \
                 handler.py or handler.js is named by `entrypoint` in sless.toml",
            ),
            FolderError::Source { source, .. } if source.reason().contains("entries") => {
                Some("name what the function does not need in a file .slessignore")
            }
            _ => None,
        };
        let failure = Self::usage(error.to_string());
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// A source that cannot be read, or a temporary file that cannot be written.
impl From<sless_core::Error> for Failure {
    fn from(error: sless_core::Error) -> Self {
        Self::new(Exit::Failed, error.message())
    }
}

/// Writing to standard output failed. Whoever read it may have seen enough.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::silent(Exit::Failed);
        }
        Self::new(Exit::Failed, format!("cannot write the output: {error}"))
    }
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        // Some errors repeat their cause in their own text.
        if !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}
