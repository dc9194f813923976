//! An uploaded zip: what was looked at is what is stored, built and handed back.

use std::{
    collections::BTreeMap,
    io::{Cursor, Read},
};

use sless_core::{
    Entrypoint, Runtime, RuntimeVersions,
    source::{SourceArchive, SourceLimits, SourceTree, context, pack},
};
use zip::read::ZipFile;

type Files = BTreeMap<String, Vec<u8>>;

/// Small, so that an input of a few bytes cannot ask for much.
fn limits() -> SourceLimits {
    let mut limits = SourceLimits::default();
    limits.total_bytes = 1 << 20;
    limits
}

pub(crate) fn run(data: &[u8]) -> bool {
    let Ok(tree) = SourceArchive::open(Cursor::new(data), &limits()) else {
        return false;
    };
    let seen = files(&tree);
    for mut other in [Some(read_by_another(data)), read_in_order(data)]
        .into_iter()
        .flatten()
    {
        other.retain(|path, _| !tree.skipped().contains(path));
        assert_eq!(other, seen, "another reader reads something else");
    }

    let packed = pack::write_zip(&tree, Cursor::new(Vec::new())).expect("a tree can be packed");
    let again = SourceArchive::open(Cursor::new(packed.into_inner()), &limits());
    let again = again.expect("what is packed here is accepted here");
    assert_eq!(again.digest(), tree.digest(), "packing changed something");

    for runtime in [Runtime::Python311, Runtime::NodeJs20] {
        built(&tree, runtime, &seen);
    }
    true
}

/// What a build is given holds these files and a Dockerfile.
fn built(tree: &SourceTree, runtime: Runtime, seen: &Files) {
    let info = RuntimeVersions::default().info(runtime, Entrypoint::default());
    let info = info.expect("the defaults are valid");
    let mut packed = Vec::new();
    let Ok(told) = context::write(tree, &info, &mut packed) else {
        // It has no such entrypoint, say.
        return;
    };
    let context = context::read(&packed[..], &limits()).expect("what is stored can be read");
    assert_eq!(told.digest, tree.digest());
    assert_eq!(
        context.tree.digest(),
        tree.digest(),
        "the context holds other files"
    );

    let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(&packed[..]));
    let mut files = Files::new();
    for entry in tar.entries().expect("a tar") {
        let mut entry = entry.expect("an entry");
        let path = entry
            .path()
            .expect("a path")
            .to_str()
            .expect("text")
            .to_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("a whole entry");
        assert!(files.insert(path, bytes).is_none(), "a path twice");
    }
    assert!(files.remove("Dockerfile").is_some(), "no Dockerfile");
    assert_eq!(files, *seen, "the build sees something else");
}

fn files(tree: &SourceTree) -> Files {
    let read = |path: &String| (path.clone(), tree.read(path).expect("it is there").to_vec());
    tree.files().iter().map(|file| read(&file.path)).collect()
}

/// All files of an accepted zip, as the `zip` crate reads them by its directory.
fn read_by_another(data: &[u8]) -> Files {
    let mut archive = zip::ZipArchive::new(Cursor::new(data)).expect("accepted, and no zip");
    let mut files = Files::new();
    for index in 0..archive.len() {
        add(archive.by_index(index).expect("an entry"), &mut files);
    }
    files
}

/// The same from front to end, as one who does not see the directory: `None` where that cannot be done,
/// since an entry does not say before its data how long that is.
fn read_in_order(mut data: &[u8]) -> Option<Files> {
    let mut files = Files::new();
    while let Some(entry) = zip::read::read_zipfile_from_stream(&mut data).ok()? {
        add(entry, &mut files);
    }
    Some(files)
}

fn add<R: Read>(mut entry: ZipFile<'_, R>, files: &mut Files) {
    let path = entry.name().expect("text").replace('\\', "/");
    if path.ends_with('/') {
        return;
    }
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes).expect("a whole entry");
    assert!(files.insert(path, bytes).is_none(), "a path twice");
}
