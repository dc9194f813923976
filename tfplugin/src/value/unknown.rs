//! What is known of a value that is not known yet.

use std::sync::Arc;

use super::reader::Reader;

/// A value that comes later, and what is known of it already: that it will not be null, how its text
/// begins, between which bounds it lies.
///
/// What Terraform says about it is kept as it came, so that it goes back unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unknown {
    /// The refinements as MessagePack; none where nothing is known.
    pub(super) refined: Option<Arc<[u8]>>,
}

/// Keys of refinements, as Terraform numbers them.
const IS_NULL: u64 = 1;
const PREFIX: u64 = 2;

impl Unknown {
    /// A value of which nothing is known.
    pub const ANY: Self = Self { refined: None };

    /// Whether it is known that it will not be null.
    pub fn is_not_null(&self) -> bool {
        self.find(IS_NULL, |reader| reader.bool().ok()) == Some(false)
    }

    /// How its text will begin, where that is known.
    pub fn prefix(&self) -> Option<String> {
        self.find(PREFIX, |reader| reader.text().ok())
    }

    /// The refinement of this number. What cannot be read counts as nothing known.
    fn find<T>(&self, wanted: u64, read: impl Fn(&mut Reader<'_>) -> Option<T>) -> Option<T> {
        let mut reader = Reader::new(self.refined.as_deref()?);
        for _ in 0..reader.map_length().ok()? {
            if reader.unsigned().ok()? == wanted {
                return read(&mut reader);
            }
            reader.skip().ok()?;
        }
        None
    }
}
