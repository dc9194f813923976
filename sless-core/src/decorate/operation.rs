//! What a decorator knows of a call.

use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::{Stream, StreamExt as _};

use crate::{ByteStream, Error, Result};

/// One call of a backend's method.
#[derive(Clone, Copy)]
pub struct Operation<'a> {
    name: &'static str,
    subject: &'a (dyn fmt::Display + Send + Sync),
    repeat: Repeat<'a>,
}

#[derive(Clone, Copy)]
pub(super) enum Repeat<'a> {
    /// The same call again does no harm.
    Safe,
    /// It may have happened although it failed, and must not happen twice.
    Never,
    /// Only while nothing of its body was read.
    WhileUnread(&'a Replay),
}

impl<'a> Repeat<'a> {
    pub(super) const fn when(safe: bool) -> Self {
        if safe { Self::Safe } else { Self::Never }
    }

    pub(super) const fn while_unread(self, body: &'a Replay) -> Self {
        match self {
            Self::Never => Self::Never,
            _ => Self::WhileUnread(body),
        }
    }
}

impl<'a> Operation<'a> {
    pub(super) const fn new(
        name: &'static str,
        subject: &'a (dyn fmt::Display + Send + Sync),
        repeat: Repeat<'a>,
    ) -> Self {
        Self {
            name,
            subject,
            repeat,
        }
    }

    /// The trait and the method, such as `storage.put`.
    ///
    /// A stream that a method answers has a name of its own: `storage.get.body`, `storage.list`,
    /// `catalog.watch.events`; so have hints: `builder.changes`, `scheduler.changes`,
    /// `dispatcher.changes`.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// What it is about: an object, a key, a function, a queue.
    pub const fn subject(&self) -> &'a (dyn fmt::Display + Send + Sync) {
        self.subject
    }

    /// Whether the same call can be made again, now that it failed.
    ///
    /// Most can: their methods take a wanted state and do nothing where it is so already. Those that
    /// cannot are `catalog.create`, `catalog.delete` without a uid, `storage.put` if absent,
    /// `publish.publish` and `scheduler.invoke`: had the first call been carried out although it
    /// failed, a second one would fail wrongly, or do harm. A `storage.put` can be repeated as long
    /// as nothing of its body was read.
    pub fn is_repeatable(&self) -> bool {
        match self.repeat {
            Repeat::Safe => true,
            Repeat::Never => false,
            Repeat::WhileUnread(body) => body.is_unread(),
        }
    }

    /// Names operation and subject in an error.
    pub fn name_in(&self, error: Error) -> Error {
        error.during(self.name).on(self.subject)
    }
}

impl fmt::Debug for Operation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.subject)
    }
}

/// A value for one call, in a form that several attempts can share: the first one that needs it
/// takes it.
#[derive(Debug)]
pub(super) struct Once<T>(Arc<Mutex<Option<T>>>);

impl<T> Clone for Once<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Once<T> {
    pub(super) fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(Some(value))))
    }

    pub(super) fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A body that can be offered to several attempts, until one of them reads of it.
#[derive(Clone)]
pub(super) struct Replay {
    body: Once<ByteStream>,
    read: Arc<AtomicBool>,
}

impl Replay {
    pub(super) fn new(body: ByteStream) -> Self {
        Self {
            body: Once::new(body),
            read: Arc::default(),
        }
    }

    fn is_unread(&self) -> bool {
        !self.read.load(Ordering::Acquire)
    }

    /// The body, for one more attempt.
    pub(super) fn stream(self) -> ByteStream {
        Reading {
            replay: self,
            body: None,
        }
        .boxed()
    }
}

/// Takes the body at the first read.
struct Reading {
    replay: Replay,
    body: Option<ByteStream>,
}

impl Stream for Reading {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.body.is_none() {
            self.replay.read.store(true, Ordering::Release);
            self.body = self.replay.body.take();
        }
        match &mut self.body {
            Some(body) => body.as_mut().poll_next(cx),
            // Never a shorter body that looks whole.
            None => Poll::Ready(Some(Err(Error::internal(
                "the body was read by another attempt",
            )))),
        }
    }
}
