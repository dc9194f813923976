//! What holds for any input.

use std::{collections::BTreeMap, io::Cursor, path::Component};

use bytes::Bytes;
use proptest::prelude::*;
use sless_core::{
    Digest, Entrypoint, Runtime, RuntimeVersions,
    source::{NewFile, SourceArchive, SourceLimits, SourceTree, context, pack},
};

use super::forge::{Entry, zip};

/// Trees of up to a dozen files, a handler among them. Folders and files have other letters, so that
/// no path is both.
fn trees() -> impl Strategy<Value = Vec<NewFile>> {
    let path = "([a-cü]{1,3}/){0,3}[x-zé_]{1,4}(\\.(py|txt))?";
    let content = prop::collection::vec(any::<u8>(), 0..600).prop_map(Bytes::from);
    let files = prop::collection::btree_map(path, (content, any::<bool>()), 0..12);
    files.prop_map(|files: BTreeMap<String, (Bytes, bool)>| {
        let files = files
            .into_iter()
            .map(|(path, (bytes, executable))| NewFile {
                path,
                bytes,
                executable,
            });
        files.chain([NewFile::new("handler.py", "x")]).collect()
    })
}

fn tree(files: Vec<NewFile>) -> SourceTree {
    SourceTree::from_new_files(files, &SourceLimits::default()).unwrap()
}

fn open(bytes: &[u8]) -> sless_core::Result<SourceTree> {
    let mut limits = SourceLimits::default();
    // Both ways of keeping contents.
    limits.memory_bytes = bytes.len() % 2 * 10_000;
    SourceArchive::open(Cursor::new(bytes), &limits)
}

fn stored(tree: &SourceTree) -> Vec<u8> {
    let info = RuntimeVersions::default()
        .info(Runtime::Python311, Entrypoint::default())
        .unwrap();
    let mut bytes = Vec::new();
    context::write(tree, &info, &mut bytes).unwrap();
    bytes
}

/// One change to some bytes: flip, cut, double, insert.
fn mutated(mut bytes: Vec<u8>, changes: &[(u8, prop::sample::Index, u8)]) -> Vec<u8> {
    for (kind, at, value) in changes {
        if bytes.is_empty() {
            break;
        }
        let at = at.index(bytes.len());
        match kind % 5 {
            0 => bytes[at] ^= value | 1,
            1 => bytes.truncate(at),
            2 => bytes.insert(at, *value),
            3 => {
                let end = (at + usize::from(*value)).min(bytes.len());
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            _ => {
                bytes.remove(at);
            }
        }
    }
    bytes
}

fn changes() -> impl Strategy<Value = Vec<(u8, prop::sample::Index, u8)>> {
    prop::collection::vec((0_u8..5, any::<prop::sample::Index>(), any::<u8>()), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn zip_tree_context_tree_keep_the_digest(files in trees()) {
        let made = tree(files.clone());
        let packed = pack::write_zip(&made, Cursor::new(Vec::new())).unwrap().into_inner();
        let again = pack::write_zip(&made, Cursor::new(Vec::new())).unwrap().into_inner();
        prop_assert_eq!(&packed, &again);
        let unzipped = open(&packed).unwrap();
        prop_assert_eq!(unzipped.files(), made.files());
        prop_assert_eq!(unzipped.digest(), made.digest());
        let bytes = stored(&unzipped);
        let context = context::read(&bytes[..], &SourceLimits::default()).unwrap();
        prop_assert_eq!(context.tree.digest(), made.digest());
        prop_assert_eq!(stored(&context.tree), bytes);
        for file in files {
            prop_assert_eq!(&context.tree.read(&file.path).unwrap(), &file.bytes);
            prop_assert_eq!(context.tree.get(&file.path).unwrap().sha256, Digest::of(&file.bytes));
        }
    }

    #[test]
    fn the_order_of_files_is_nothing(files in trees().prop_shuffle()) {
        let entries = files.iter().map(|file| {
            let mode = if file.executable { 0o100_755 } else { 0o100_644 };
            Entry::deflated(&file.path, &file.bytes).with(|e| e.mode = mode)
        });
        let shuffled = open(&zip(entries)).unwrap();
        let mut sorted = files.clone();
        sorted.sort_by(|a, b| a.path.cmp(&b.path));
        prop_assert_eq!(shuffled.digest(), tree(sorted).digest());
    }

    #[test]
    fn a_changed_zip_is_refused_or_read_without_a_panic(
        files in trees(), changes in changes(), streamed in any::<bool>(),
    ) {
        let entries = files.iter().enumerate().map(|(at, file)| {
            let entry = Entry::deflated(&file.path, &file.bytes);
            if streamed { entry.streamed(at % 2 == 0) } else { entry }
        });
        let bytes = mutated(zip(entries), &changes);
        if let Ok(tree) = open(&bytes) {
            // Whatever it is now, it is whole and can be stored or is refused for a reason.
            for file in tree.files() {
                prop_assert_eq!(tree.read(&file.path).unwrap().len() as u64, file.size);
            }
        }
    }

    #[test]
    fn a_changed_context_gives_the_same_files_or_none(files in trees(), changes in changes()) {
        let made = tree(files);
        let bytes = mutated(stored(&made), &changes);
        if let Ok(read) = context::read(&bytes[..], &SourceLimits::default()) {
            prop_assert_eq!(read.tree.digest(), made.digest());
        }
    }

    #[test]
    fn bytes_of_any_kind_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(open(&bytes).is_err());
        prop_assert!(context::read(&bytes[..], &SourceLimits::default()).is_err());
    }

    #[test]
    fn an_accepted_path_stays_below_its_folder(path in "[a-c./\\\\:~ü\u{301}\u{0}-\u{20}]{0,12}|\\PC{0,12}") {
        if let Ok(tree) = SourceTree::from_files([(path.clone(), "")]) {
            let kept = &tree.files()[0].path;
            prop_assert_eq!(kept, &path.replace('\\', "/"));
            let parts = std::path::Path::new(kept).components();
            prop_assert!(parts.clone().all(|part| matches!(part, Component::Normal(_))));
            prop_assert_eq!(parts.count(), kept.split('/').count());
        }
    }

    #[test]
    fn an_entrypoint_is_read_back_or_refused(text in "[a-z_.0-9-]{0,12}|\\PC{0,12}") {
        if let Ok(entrypoint) = text.parse::<Entrypoint>() {
            prop_assert_eq!(entrypoint.as_str(), &text);
            prop_assert_eq!(format!("{}.{}", entrypoint.module(), entrypoint.function()), text);
        }
    }
}
