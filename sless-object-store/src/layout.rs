//! Where the object of a key is found in a store.

use std::fmt;

use object_store::path::Path;
use sless_core::StorageKey;

/// Maps keys to places in a store and back.
///
/// Places begin with no `,`: what does is the adapter's own.
pub trait Layout: fmt::Debug + Send + Sync + 'static {
    /// The place of a key. Two keys never have one place.
    fn place(&self, key: &StorageKey) -> Path;

    /// The folder in which all keys are found that begin with this key and a `/`.
    fn folder(&self, key: &StorageKey) -> Path;

    /// The key of a place; `None` if no key has it.
    fn key(&self, place: &Path) -> Option<StorageKey>;
}

/// For stores in which any text can be a key: each object is found under its own key.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyLayout;

impl Layout for KeyLayout {
    fn place(&self, key: &StorageKey) -> Path {
        Path::from(key.as_str())
    }

    fn folder(&self, key: &StorageKey) -> Path {
        Path::from(key.as_str())
    }

    fn key(&self, place: &Path) -> Option<StorageKey> {
        StorageKey::new(place.as_ref()).ok()
    }
}

/// For file systems, where a name is a file or a folder: the file's name ends in `=`, which occurs in no
/// key, so that `a` and `a/b` can both be keys.
///
/// A segment of a key is so short that the mark, and the suffix of an unfinished file, stay within the
/// 255 bytes that file systems allow.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileLayout;

impl Layout for FileLayout {
    fn place(&self, key: &StorageKey) -> Path {
        Path::from(format!("{key}="))
    }

    fn folder(&self, key: &StorageKey) -> Path {
        Path::from(key.as_str())
    }

    fn key(&self, place: &Path) -> Option<StorageKey> {
        StorageKey::new(place.as_ref().strip_suffix('=')?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: impl AsRef<str>) -> StorageKey {
        StorageKey::new(text).expect("a key")
    }

    #[test]
    fn keys_are_found_again_from_their_places() {
        let long = "k".repeat(StorageKey::SEGMENT_MAX);
        for text in ["a", "a/b", "a.b/-_", "contexts/ns/f/2026.tar.gz", &long] {
            let key = key(text);
            assert_eq!(KeyLayout.key(&KeyLayout.place(&key)).as_ref(), Some(&key));
            assert_eq!(FileLayout.key(&FileLayout.place(&key)), Some(key), "{text}");
        }
        assert_eq!(FileLayout.key(&Path::from("a")), None, "not one of ours");
        assert_eq!(
            FileLayout.key(&Path::from(",staging/x=")),
            None,
            "not one of ours"
        );
    }

    #[test]
    fn no_file_is_a_folder_of_another_key() {
        let (file, other) = (FileLayout.place(&key("a")), FileLayout.place(&key("a/b")));
        assert!(!other.prefix_matches(&file), "{file} {other}");
    }
}
