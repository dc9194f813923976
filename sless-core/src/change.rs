//! Look-again hints, and what a deletion reports.

use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};

use crate::{Result, resource::ObjectKey};

/// A hint that something about this object may have changed: *look again*.
///
/// Hints may be dropped, repeated and reordered. Whoever acts on one reads the state first, and a
/// slow resync covers for those that were lost.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Look at this object again.
    Object(ObjectKey),
    /// Hints were lost: look at everything again.
    All,
}

/// A stream of hints. It ends when its backend is shut down.
pub type ChangeStream = BoxStream<'static, Change>;

/// A sender of hints to any number of [`ChangeStream`]s, for backends.
///
/// A stream that lags more than its capacity behind gets one [`Change::All`] instead of what it
/// missed, so that nobody waits for a slow reader.
#[derive(Clone, Debug)]
pub struct Changes(tokio::sync::broadcast::Sender<ObjectKey>);

impl Changes {
    /// How many hints a stream may lag behind.
    pub const CAPACITY: usize = 4096;

    /// Sends a hint.
    pub fn notify(&self, key: ObjectKey) {
        // An error means that nobody listens, which is nobody's loss.
        let _ = self.0.send(key);
    }

    /// A stream of the hints sent from now on.
    pub fn subscribe(&self) -> ChangeStream {
        let receiver = self.0.subscribe();
        Box::pin(futures::stream::unfold(receiver, |mut receiver| async {
            use tokio::sync::broadcast::error::RecvError;
            match receiver.recv().await {
                Ok(key) => Some((Change::Object(key), receiver)),
                Err(RecvError::Lagged(_)) => Some((Change::All, receiver)),
                Err(RecvError::Closed) => None,
            }
        }))
    }
}

impl Default for Changes {
    fn default() -> Self {
        Self(tokio::sync::broadcast::Sender::new(Self::CAPACITY))
    }
}

/// What a deletion removed, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// One line for each thing that was there and is gone.
    pub removed: Vec<Removed>,
    /// One line for each thing that is still there: it ends a little later, or cannot be removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<Left>,
}

/// One thing that a deletion removed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Removed {
    /// What it was: `process`, `deployment`, `artifact`, `stored_source`.
    pub kind: String,
    /// Its name where it was kept.
    pub name: String,
    /// The backend that kept it.
    pub backend: String,
}

/// One thing that a deletion could not remove, or not yet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Left {
    /// What it is.
    pub kind: String,
    /// Its name where it is kept.
    pub name: String,
    /// The backend that keeps it.
    pub backend: String,
    /// Why it is still there, in a sentence.
    pub why: String,
    /// Whether it goes: asking again, a little later, removes it. Where not, nothing here can.
    pub again: bool,
}

impl Receipt {
    /// Whether asking again, a little later, removes more.
    pub fn is_unfinished(&self) -> bool {
        self.left.iter().any(|left| left.again)
    }

    /// Adds a line.
    pub fn add(&mut self, kind: &str, name: impl Into<String>, backend: &str) {
        self.removed.push(Removed {
            kind: kind.to_owned(),
            name: name.into(),
            backend: backend.to_owned(),
        });
    }

    /// Adds the lines of `other`.
    pub fn merge(&mut self, other: Self) {
        self.removed.extend(other.removed);
        self.left.extend(other.left);
    }

    /// Adds the lines of `other` if it could be done, and keeps its error in `failed` if not, so that
    /// the rest of a deletion goes on.
    pub fn merge_or_keep(&mut self, other: Result<Self>, failed: &mut Option<crate::Error>) {
        match other {
            Ok(other) => self.merge(other),
            Err(error) if error.is_not_found() => {}
            Err(error) => *failed = Some(error),
        }
    }
}
