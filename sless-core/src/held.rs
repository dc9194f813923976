//! [`Held`]: what a backend tells of what it keeps, for whoever looks for what nobody wants any more.

use futures::{StreamExt as _, stream, stream::BoxStream};
use jiff::Timestamp;

use crate::{
    Error, ErrorKind, Result,
    resource::{ObjectKey, Uid},
};

/// Something that a backend keeps for an object of the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Held {
    /// What it is, in the words of a receipt: `deployment`, `workload`, `build`.
    pub kind: String,
    /// Its name where it is kept.
    pub name: String,
    /// The backend that keeps it.
    pub backend: String,
    /// The object that it was made for, as far as the backend knows it.
    pub owner: Option<ObjectKey>,
    /// The uid of that object, as far as the backend knows it.
    pub uid: Option<Uid>,
    /// Since when it is there, as far as the backend knows.
    pub since: Option<Timestamp>,
}

/// What a backend keeps, one by one.
pub type HeldStream = BoxStream<'static, Result<Held>>;

impl Held {
    /// Something of which no owner is known.
    pub fn new(kind: &str, name: impl Into<String>, backend: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            name: name.into(),
            backend: backend.to_owned(),
            owner: None,
            uid: None,
            since: None,
        }
    }

    /// Says for which object it was made.
    #[must_use]
    pub fn of(mut self, owner: ObjectKey, uid: Uid) -> Self {
        (self.owner, self.uid) = (Some(owner), Some(uid));
        self
    }

    /// Says since when it is there.
    #[must_use]
    pub const fn since(mut self, since: Option<Timestamp>) -> Self {
        self.since = since;
        self
    }

    /// The error that stands in a stream for what a backend keeps and cannot list.
    pub fn cannot_list(backend: &'static str, sentence: impl Into<String>) -> Error {
        Error::new(ErrorKind::Unsupported, sentence.into())
            .with_reason("cannot_list")
            .at(backend)
    }

    /// The answer of a backend that can list nothing of what it keeps.
    pub fn nothing_listed(backend: &'static str, sentence: impl Into<String>) -> HeldStream {
        let error = Self::cannot_list(backend, sentence);
        stream::once(async { Err(error) }).boxed()
    }

    /// The answer of a backend that knows all that it keeps.
    pub fn all(items: impl IntoIterator<Item = Self>) -> HeldStream {
        let items: Vec<_> = items.into_iter().map(Ok).collect();
        stream::iter(items).boxed()
    }
}
