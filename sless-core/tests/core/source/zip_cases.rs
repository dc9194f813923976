//! Zips on which systems of this kind have failed.

use std::io::Write as _;

use sless_core::{
    Entrypoint, Runtime, RuntimeVersions,
    source::{SourceArchive, SourceLimits, context, pack},
};

use super::forge::{Entry, accepted, open, refused, zeroes_mib, zip};

/// Made on Windows, with a separator of Windows, and a file that only its owner may read.
fn made_on_windows() -> Vec<u8> {
    zip([
        Entry::stored("handler.py", "from lib.util import x").with(|e| e.mode = 0o100_600),
        Entry::deflated(r"lib\util.py", "x = 1").with(|e| e.made_by = 20),
    ])
}

#[test]
fn case_1_separators_of_windows_become_slashes() {
    let tree = accepted(made_on_windows());
    let paths: Vec<_> = tree.files().iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["handler.py", "lib/util.py"]);
    assert_eq!(&tree.read("lib/util.py").unwrap()[..], b"x = 1");
    let entrypoint: Entrypoint = "lib.util.handle".parse().unwrap();
    let file = entrypoint.file(Runtime::Python311, &tree).unwrap();
    assert_eq!(file.path, "lib/util.py");
}

#[cfg(unix)]
#[test]
fn case_1_private_files_become_readable_in_folder_and_context_alike() {
    use std::os::unix::fs::PermissionsExt as _;

    let tree = accepted(made_on_windows());
    let folder = tempfile::tempdir().unwrap();
    tree.unpack(folder.path()).unwrap();
    let mode = |path: &str| {
        let metadata = std::fs::metadata(folder.path().join(path)).unwrap();
        metadata.permissions().mode() & 0o7777
    };
    assert_eq!(
        [mode("handler.py"), mode("lib"), mode("lib/util.py")],
        [0o644, 0o755, 0o644]
    );

    let info = RuntimeVersions::default()
        .info(Runtime::Python311, Entrypoint::default())
        .unwrap();
    let mut stored = Vec::new();
    context::write(&tree, &info, &mut stored).unwrap();
    let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(&stored[..]));
    for entry in tar.entries().unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.header().mode().unwrap(), 0o644, "{:?}", entry.path());
    }
}

#[test]
fn case_2_two_entries_with_one_name() {
    let twice = [Entry::stored("a.py", "good"), Entry::stored("a.py", "bad")];
    refused(zip(twice), "zip_duplicate_entry", "\"a.py\"");
    // Also where the names become the same only here.
    let slashes = [Entry::stored("a/b", "1"), Entry::stored(r"a\b", "2")];
    refused(zip(slashes), "zip_duplicate_entry", "a/b");
    let case = [Entry::stored("a.py", "1"), Entry::stored("A.py", "2")];
    refused(zip(case), "zip_name_clash", "A.py");
    let folder_case = [Entry::stored("lib/a", "1"), Entry::stored("LIB/b", "2")];
    refused(zip(folder_case), "zip_name_clash", "LIB/b");
    let composed = [
        Entry::stored("é.py", "1"),
        Entry::stored("e\u{301}.py", "2"),
    ];
    refused(zip(composed), "zip_name_clash", ".py");
    let directory = [Entry::stored("a", "1"), Entry::stored("a/b", "2")];
    refused(zip(directory), "zip_file_directory_clash", "a/b");
    let directory = [Entry::stored("a/b", "1"), Entry::stored("a", "2")];
    refused(zip(directory), "zip_file_directory_clash", "\"a\"");
    let folders = [
        Entry::stored("a/", "").with(|e| e.mode = 0o040_755),
        Entry::stored("a/", "").with(|e| e.mode = 0o040_755),
    ];
    refused(zip(folders), "zip_duplicate_entry", "\"a\"");
}

#[test]
fn case_2_headers_that_disagree() {
    type Lie = fn(&mut Entry);
    let lies: [(&str, Lie); 8] = [
        ("zip_name_mismatch", |e| {
            e.local_name = Some(b"b.py".to_vec())
        }),
        ("zip_name_mismatch", |e| {
            e.local_name = Some(b"a.pyc".to_vec())
        }),
        ("zip_size_mismatch", |e| e.local_size = Some(3)),
        ("zip_size_mismatch", |e| e.local_compressed = Some(3)),
        ("zip_crc_mismatch", |e| e.local_crc = Some(3)),
        ("zip_method_mismatch", |e| e.local_method = Some(0)),
        ("zip_flags_mismatch", |e| e.local_flags = Some(1 << 3)),
        ("zip_flags_mismatch", |e| e.local_flags = Some(1 << 11)),
    ];
    for (reason, lie) in lies {
        refused(
            zip([Entry::deflated("a.py", "x = 1").with(lie)]),
            reason,
            "\"a.py\"",
        );
    }
}

#[test]
fn case_2_paths_that_leave_the_folder() {
    for (name, reason) in [
        ("../x", "zip_path_traversal"),
        ("a/../../x", "zip_path_traversal"),
        ("a/..", "zip_path_traversal"),
        (r"..\x", "zip_path_traversal"),
        ("./x", "zip_path_traversal"),
        ("/x", "zip_absolute_path"),
        ("//host/x", "zip_absolute_path"),
        (r"\x", "zip_absolute_path"),
        (r"C:\x", "zip_absolute_path"),
        ("c:x", "zip_absolute_path"),
        ("a/C:x", "zip_reserved_character"),
        ("", "zip_empty_name"),
        ("/", "zip_absolute_path"),
        ("a//b", "zip_empty_segment"),
        ("a\0b", "zip_control_character"),
        ("a\nb", "zip_control_character"),
        ("a\u{202e}yp.b", "zip_hidden_character"),
        ("a/NUL.txt", "zip_reserved_name"),
        ("com1", "zip_reserved_name"),
        ("a.", "zip_reserved_name"),
        ("a /b", "zip_reserved_name"),
        ("Dockerfile", "zip_reserved_name"),
        (".dockerignore", "zip_reserved_name"),
    ] {
        let error = refused(zip([Entry::stored(name, "x")]), reason, "zip entry");
        assert!(!error.message().contains('\n'), "{error}");
    }
    // What only looks like one of them.
    for name in [
        "..a",
        "a..b",
        "...a",
        "nul_.py",
        "common.py",
        "lib/Dockerfile",
        "con/..x",
    ] {
        let result = open(zip([Entry::stored(name, "x")]));
        assert_eq!(result.is_ok(), name != "con/..x", "{name}");
    }
}

#[test]
fn case_2_links_and_devices() {
    for (mode, reason) in [
        (0o120_777, "zip_symlink"),
        (0o020_644, "zip_special_file"),
        (0o060_644, "zip_special_file"),
        (0o010_644, "zip_special_file"),
        (0o140_644, "zip_special_file"),
        (0o040_755, "zip_kind_mismatch"),
    ] {
        let entry = Entry::stored("a", "../../etc/passwd").with(|e| e.mode = mode);
        refused(zip([entry.clone()]), reason, "\"a\"");
        // Whatever system is said to have made it.
        refused(zip([entry.with(|e| e.made_by = 20)]), reason, "\"a\"");
    }
}

#[test]
fn case_2_a_name_that_is_not_utf8() {
    let bytes = zip([Entry::stored(b"caf\xe9.py", "x")]);
    refused(bytes, "zip_name_encoding", "caf\\xe9.py");
    // UTF-8, but readers that follow the format read it as code page 437.
    let unmarked = zip([Entry::stored("café.py", "x").with(|e| e.flags = 0)]);
    refused(unmarked, "zip_name_encoding", "café.py");
    assert_eq!(
        accepted(zip([Entry::stored("café.py", "x")])).files()[0].path,
        "café.py"
    );
}

#[test]
fn case_2_two_hundred_thousand_empty_entries() {
    // As a zip64, which says their number in the end record, and as one that lies about it.
    let mut zip64 = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for at in 0..200_000 {
        zip64.start_file(format!("{at}"), options).unwrap();
    }
    let mut bytes = zip64.finish().unwrap().into_inner();
    refused(&bytes, "limit_source_entries", "10000");

    let end = bytes.len() - 22;
    let locator = end - 20;
    bytes[locator..locator + 4].fill(0);
    bytes[end + 8..end + 12].copy_from_slice(&[1, 0, 1, 0]);
    refused(&bytes, "zip_end_record", "end record");
}

#[test]
fn case_2_one_that_inflates_to_four_gigabytes() {
    let declared = |mib: u32| {
        let mut entry = Entry::stored("bomb.txt", "");
        entry.method = 8;
        entry.packed = zeroes_mib(mib as usize);
        entry.compressed = u32::try_from(entry.packed.len()).unwrap();
        entry.size = mib << 20;
        entry
    };
    refused(
        zip([declared(4095)]),
        "limit_source_file_bytes",
        "\"bomb.txt\"",
    );
    refused(zip([declared(90)]), "limit_source_ratio", "\"bomb.txt\"");
    // The headers agree on a harmless size; the data is what it is.
    let lie = declared(4095).with(|e| e.size = 1000);
    refused(zip([lie]), "zip_size_mismatch", "\"bomb.txt\"");

    // Many that are small enough alone.
    let many = (0..400).map(|at| {
        let mut entry = declared(1);
        entry.name = format!("{at}").into_bytes();
        entry
    });
    refused(zip(many), "limit_source_total_bytes", "zip entry");

    // Many directory records for one piece of data.
    let first = Entry::deflated("first", vec![b'x'; 1 << 20]);
    let others = (0..500).map(|at| Entry {
        name: format!("{at}").into_bytes(),
        offset: Some(0),
        ..first.clone()
    });
    let limits = SourceLimits::default();
    let mut wide = limits.clone();
    (wide.total_bytes, wide.ratio) = (u64::MAX, u64::MAX);
    let bytes = zip(std::iter::once(first.clone()).chain(others));
    let error = SourceArchive::open(std::io::Cursor::new(bytes), &wide).unwrap_err();
    assert_eq!(error.reason(), "zip_overlap", "{error}");
}

#[test]
fn case_2_nested_zips_are_files() {
    let mut inner = zip([Entry::deflated("x", vec![0; 1 << 20])]);
    for _ in 0..20 {
        inner = zip([Entry::stored("inner.zip", &inner), Entry::stored("y", "")]);
    }
    let tree = accepted(&inner);
    let paths: Vec<_> = tree.files().iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["inner.zip", "y"]);
}

#[test]
fn case_2_what_the_validator_sees_is_what_is_built() {
    let tree = accepted(zip([
        Entry::deflated("handler.py", "def handle(event): pass"),
        Entry::deflated(r"lib\util.PY", "x = 1"),
        Entry::deflated("node_modules/a.js", "hidden"),
        Entry::deflated("logo.png", b"\x89PNG"),
    ]));
    let info = RuntimeVersions::default()
        .info(Runtime::Python311, Entrypoint::default())
        .unwrap();
    let mut stored = Vec::new();
    context::write(&tree, &info, &mut stored).unwrap();
    let built = context::read(&stored[..], &SourceLimits::default()).unwrap();
    assert_eq!(built.tree.files(), tree.files());
    assert_eq!(built.tree.digest(), tree.digest());

    let review = built.tree.reviewable().unwrap();
    assert_eq!(review, tree.reviewable().unwrap());
    let seen: Vec<_> = review.files.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(seen, ["handler.py", "lib/util.PY"]);
}

#[test]
fn the_largest_zip_is_kept_on_disk_and_not_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let mut limits = SourceLimits::default();
    limits.spool_dir = Some(folder.path().join("missing"));
    let mut zip_file = tempfile::tempfile().unwrap();
    let small = accepted(zip([Entry::stored("a", "1")]));
    zip_file = pack::write_zip(&small, zip_file).unwrap();
    SourceArchive::open(&mut zip_file, &limits).unwrap();
    // More than `memory_bytes` goes to the folder, and shows it by failing here.
    let content: Vec<u8> = (0..400_000_u32).flat_map(u32::to_le_bytes).collect();
    let large = accepted(zip([Entry::stored("a", content)]));
    let mut zip_file = tempfile::tempfile().unwrap();
    zip_file = pack::write_zip(&large, zip_file).unwrap();
    zip_file.flush().unwrap();
    let error = SourceArchive::open(&mut zip_file, &limits).unwrap_err();
    assert_eq!(error.kind(), sless_core::ErrorKind::Internal, "{error}");
}
