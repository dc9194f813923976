//! What a backend says that it keeps for one object.

use futures::StreamExt as _;
use sless_core::{ErrorKind, Held, HeldStream, ObjectKey, Uid};

use crate::{
    Violation,
    clause::{While as _, ensure},
};

/// What is kept for this object, and whether the backend keeps more than it can list.
pub(crate) struct Kept {
    pub(crate) items: Vec<Held>,
    pub(crate) more: bool,
}

impl Kept {
    /// Reads a listing. What belongs to other objects is passed over.
    pub(crate) async fn of(
        mut held: HeldStream,
        key: &ObjectKey,
        uid: &Uid,
    ) -> Result<Self, Violation> {
        let (mut items, mut more) = (Vec::new(), false);
        while let Some(next) = held.next().await {
            match next {
                Err(error) if error.kind() == ErrorKind::Unsupported => {
                    ensure!(
                        !error.message().is_empty(),
                        "what cannot be listed is not named"
                    );
                    more = true;
                }
                next => items.push(next.while_("listing what is held")?),
            }
        }
        items.retain(|held| held.uid.as_ref() == Some(uid));
        for held in &items {
            let (kind, owner) = (&held.kind, &held.owner);
            ensure!(
                owner.as_ref().is_none_or(|owner| owner == key),
                "a {kind} of {key} is said to be one of {owner:?}"
            );
            ensure!(
                !kind.is_empty() && !held.name.is_empty(),
                "no kind or no name: {held:?}"
            );
        }
        Ok(Self { items, more })
    }

    /// Whether the object is known: something of it is listed, or that could not be.
    pub(crate) const fn is_told(&self) -> bool {
        !self.items.is_empty() || self.more
    }
}
