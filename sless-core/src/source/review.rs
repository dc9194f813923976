//! What a validator sees of a source.

use std::io::Read as _;

use super::{SourceTree, tree::spool_error};
use crate::Result;

const EXTENSIONS: &[&str] = &[
    ".py", ".js", ".ts", ".json", ".yaml", ".yml", ".txt", ".sh", ".sql", ".go",
];

/// The files that are worth a review.
///
/// Those ending in one of ten extensions, in upper or lower case, with no segment `node_modules` in their path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReviewSet {
    /// Path and text, in the tree's order. Bytes that are not UTF-8 stand as U+FFFD. Empty where
    /// [`oversized`](Self::oversized).
    pub files: Vec<(String, String)>,
    /// Bytes of the selected files together, also where they are not given.
    pub bytes: u64,
    /// The selected files are larger than [`MOST_BYTES`](Self::MOST_BYTES) together: a validator
    /// answers that it skipped them.
    pub oversized: bool,
}

impl ReviewSet {
    /// Bytes of all selected files at most.
    pub const MOST_BYTES: u64 = 100 * 1024;

    /// Whether a file with this path is selected.
    pub fn selects(path: &str) -> bool {
        let lower = path.to_ascii_lowercase();
        EXTENSIONS.iter().any(|ending| lower.ends_with(ending))
            && !path.split('/').any(|segment| segment == "node_modules")
    }
}

pub(super) fn select(tree: &SourceTree) -> Result<ReviewSet> {
    let selected = || {
        tree.files()
            .iter()
            .filter(|file| ReviewSet::selects(&file.path))
    };
    let bytes = selected().map(|file| file.size).sum();
    let mut set = ReviewSet {
        bytes,
        oversized: bytes > ReviewSet::MOST_BYTES,
        ..ReviewSet::default()
    };
    if set.oversized {
        return Ok(set);
    }
    for file in selected() {
        let mut content = Vec::new();
        tree.open(&file.path)?
            .read_to_end(&mut content)
            .map_err(|source| spool_error("cannot read the unpacked source", source))?;
        let text = String::from_utf8_lossy(&content).into_owned();
        set.files.push((file.path.clone(), text));
    }
    Ok(set)
}
