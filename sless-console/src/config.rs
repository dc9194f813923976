//! What a console is held to.

use std::time::Duration;

/// How a console works. Every bound has a name here.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConsoleConfig {
    /// Whether everything that can be read is shown to whoever asks, without sign-in. What changes
    /// something still needs a session.
    pub public: bool,
    /// The address that users see, without a slash at the end: forms are taken from pages of this
    /// origin, and the cookie is marked `Secure` where it is an `https` one.
    pub external_url: String,
    /// The longest token that can be signed in with, in bytes.
    pub token_bytes: usize,
    /// The longest session, where the token lasts longer.
    pub session_time: Duration,
    /// The most functions on one page.
    pub page_functions: usize,
    /// The most calls, and the most dead letters, on one page.
    pub page_items: usize,
    /// The most records of calls that plots are drawn from.
    pub plot_records: usize,
    /// The largest source that is shown, in bytes.
    pub source_bytes: u64,
    /// The largest file that is highlighted, in bytes; a larger one is shown plain, up to
    /// [`source_bytes`](Self::source_bytes).
    pub highlight_bytes: usize,
    /// The log lines that a page begins with.
    pub log_lines: usize,
    /// The most streams of events at once.
    pub streams: usize,
    /// The longest stream of events. The browser opens the next, which looks at the session again.
    pub stream_time: Duration,
    /// The largest request to a function that the form sends, in bytes.
    pub call_bytes: usize,
    /// The most of a function's answer that is shown, in bytes.
    pub answer_bytes: usize,
    /// The largest form, files aside, in bytes.
    pub form_bytes: usize,
    /// How long an upload may take.
    pub upload_time: Duration,
}

impl ConsoleConfig {
    /// The defaults, for a console that users reach at this address.
    pub fn new(external_url: impl Into<String>) -> Self {
        Self {
            public: false,
            external_url: external_url.into(),
            token_bytes: 16 * 1024,
            session_time: Duration::from_secs(12 * 3600),
            page_functions: 1000,
            page_items: 50,
            plot_records: 5000,
            source_bytes: 8 * 1024 * 1024,
            highlight_bytes: 256 * 1024,
            log_lines: 300,
            streams: 256,
            stream_time: Duration::from_secs(600),
            call_bytes: 1024 * 1024,
            answer_bytes: 256 * 1024,
            form_bytes: 64 * 1024,
            upload_time: Duration::from_secs(600),
        }
    }

    /// Shows everything that can be read without sign-in.
    #[must_use]
    pub const fn with_public(mut self, public: bool) -> Self {
        self.public = public;
        self
    }

    /// Whether users come over TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.external_url.starts_with("https://")
    }

    /// Host and port that users see.
    pub(crate) fn authority(&self) -> Option<&str> {
        let (_, rest) = self.external_url.split_once("://")?;
        rest.split('/').next()
    }
}
