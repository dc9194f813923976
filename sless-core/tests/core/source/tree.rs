//! Trees, digests, entrypoints, dependencies, reviews and folders.

use std::{fs, io::Read as _, time::SystemTime};

use bytes::Bytes;
use sless_core::{
    Entrypoint, ErrorKind, Runtime,
    source::{Dependencies, NewFile, ReviewSet, SourceLimits, SourceTree, pack},
};

/// The digest that every implementation has to give for these files; see `golden/source-v1.txt`.
pub(crate) fn golden_files() -> Vec<NewFile> {
    vec![
        NewFile::new("handler.py", "def handle(event):\n    return event\n"),
        NewFile::new("bin/run", "#!/bin/sh\n").executable(),
        NewFile::new("lib/__init__.py", ""),
        NewFile::new("lib/grüße.txt", "hello\n"),
    ]
}

#[test]
fn the_digest_is_the_documented_one() {
    let golden = include_str!("../../golden/source-v1.txt");
    let digest = golden.lines().next_back().unwrap();
    let limits = SourceLimits::default();
    let tree = SourceTree::from_new_files(golden_files(), &limits).unwrap();
    assert_eq!(tree.digest().to_string(), digest);
    // The order in which files are given is nothing.
    let reversed = golden_files().into_iter().rev();
    let tree = SourceTree::from_new_files(reversed, &limits).unwrap();
    assert_eq!(tree.digest().to_string(), digest);
}

#[test]
fn the_digest_sees_path_content_and_executable_bit() {
    let digest = |file| {
        let limits = SourceLimits::default();
        SourceTree::from_new_files([file], &limits)
            .unwrap()
            .digest()
    };
    let same = digest(NewFile::new("a", "1"));
    assert_eq!(same, digest(NewFile::new("a", "1")));
    assert_ne!(same, digest(NewFile::new("b", "1")));
    assert_ne!(same, digest(NewFile::new("a", "2")));
    assert_ne!(same, digest(NewFile::new("a", "1").executable()));
}

#[cfg(unix)]
#[test]
fn a_folder_gives_the_same_digest_whatever_its_times_modes_and_owners() {
    use std::os::unix::fs::PermissionsExt as _;

    let limits = SourceLimits::default();
    let tree = SourceTree::from_new_files(golden_files(), &limits).unwrap();
    for (mode, bin, days) in [
        (0o600, 0o700, 1),
        (0o666, 0o777, 4000),
        (0o444, 0o555, 9000),
    ] {
        let folder = tempfile::tempdir().unwrap();
        // Another order of creation, other times, other modes.
        for file in golden_files().iter().rev() {
            let path = folder.path().join(&file.path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &file.bytes).unwrap();
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(days * 86_400);
            fs::File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_modified(time)
                .unwrap();
            let mode = if file.executable { bin } else { mode };
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let read = pack::read_dir(folder.path(), &limits, |_| true).unwrap();
        assert_eq!(read.files(), tree.files());
        assert_eq!(read.digest(), tree.digest());
    }
}

#[cfg(unix)]
#[test]
fn unpacking_gives_the_files_and_refuses_to_write_over_any() {
    let limits = SourceLimits::default();
    let tree = SourceTree::from_new_files(golden_files(), &limits).unwrap();
    let folder = tempfile::tempdir().unwrap();
    tree.unpack(folder.path()).unwrap();
    let read = pack::read_dir(folder.path(), &limits, |_| true).unwrap();
    assert_eq!(read.digest(), tree.digest());
    let error = tree.unpack(folder.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);

    // Nor through a link that stands where a file goes.
    let outside = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let target = outside.path().join("victim");
    std::os::unix::fs::symlink(&target, folder.path().join("handler.py")).unwrap();
    tree.unpack(folder.path()).unwrap_err();
    assert!(!target.exists());
}

#[cfg(unix)]
#[test]
fn reading_a_folder_takes_what_is_wanted_and_refuses_links() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("node_modules")).unwrap();
    fs::write(folder.path().join("node_modules/a.js"), "x").unwrap();
    fs::write(folder.path().join("handler.js"), "x").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link")).unwrap();
    let limits = SourceLimits::default();
    let error = pack::read_dir(folder.path(), &limits, |_| true).unwrap_err();
    assert_eq!(error.reason(), "source_special_file");
    assert!(error.message().contains("link"), "{error}");
    let tree = pack::read_dir(folder.path(), &limits, |path| {
        path != "node_modules" && path != "link"
    });
    assert_eq!(tree.unwrap().files().len(), 1);
    let error = pack::read_dir(&folder.path().join("none"), &limits, |_| true).unwrap_err();
    assert_eq!(error.reason(), "source_unreadable");
}

#[test]
fn files_are_found_read_and_missed_by_path() {
    let tree = SourceTree::from_files([("b", "22"), ("a/b", "1")]).unwrap();
    assert_eq!(tree.total_bytes(), 3);
    assert_eq!(&tree.read("b").unwrap()[..], b"22");
    let mut text = String::new();
    let clone = tree.clone();
    drop(tree);
    clone
        .open("a/b")
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, "1");
    assert!(clone.get("a").is_none());
    assert_eq!(clone.open("c").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn trees_can_be_shared_between_threads() {
    fn shared<T: Send + Sync + Clone + 'static>() {}
    shared::<SourceTree>();

    let bytes: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
    let files = [
        ("a", bytes.clone()),
        ("b", bytes.iter().rev().copied().collect()),
    ];
    let small = SourceTree::from_files(files).unwrap();
    let zip = pack::write_zip(&small, std::io::Cursor::new(Vec::new())).unwrap();
    let tree = super::forge::accepted(zip.into_inner());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| assert_eq!(tree.read("a").unwrap(), bytes));
            scope.spawn(|| assert!(tree.read("b").unwrap().iter().eq(bytes.iter().rev())));
        }
    });
}

#[test]
fn an_empty_list_and_limits_are_refused() {
    let none: [(&str, &str); 0] = [];
    assert_eq!(
        SourceTree::from_files(none).unwrap_err().reason(),
        "source_empty"
    );
    let mut limits = SourceLimits::default();
    (limits.total_bytes, limits.file_bytes, limits.entries) = (5, 4, 2);
    let tree = |sizes: &[usize]| {
        let files = sizes.iter().enumerate();
        let files = files.map(|(at, size)| NewFile::new(format!("{at}"), vec![0; *size]));
        SourceTree::from_new_files(files, &limits)
    };
    tree(&[4, 1]).unwrap();
    for (sizes, reason) in [
        (&[5][..], "limit_source_file_bytes"),
        (&[3, 3], "limit_source_total_bytes"),
        (&[1, 1, 1], "limit_source_entries"),
    ] {
        assert_eq!(tree(sizes).unwrap_err().reason(), reason);
    }
}

#[test]
fn entrypoints_are_module_and_function() {
    let default = Entrypoint::default();
    assert_eq!(
        (default.module(), default.function()),
        ("handler", "handle")
    );
    let deep: Entrypoint = "app.my-web._h1".parse().unwrap();
    assert_eq!((deep.module(), deep.function()), ("app.my-web", "_h1"));
    for text in [
        "",
        "handle",
        ".",
        "a.",
        ".a",
        "a..b",
        "a/b.c",
        "../a.b",
        "a.b c",
        "1a.b",
        "a.1b",
        "a.b-c",
        "a.b\n",
        "é.a",
        "a.b$",
        "a.b\nRUN x",
    ] {
        let error = text.parse::<Entrypoint>().unwrap_err();
        assert_eq!(error.reason(), "entrypoint_format", "{text:?}");
        assert!(error.message().contains("module.function"), "{error}");
    }
    let long = format!("{}.b", "a".repeat(Entrypoint::BYTES));
    assert_eq!(
        long.parse::<Entrypoint>().unwrap_err().reason(),
        "limit_entrypoint_bytes"
    );
}

#[test]
fn the_entrypoint_has_to_be_in_the_source() {
    let find = |entrypoint: &str, runtime, path: &str| {
        let tree = SourceTree::from_files([(path, "")]).unwrap();
        let entrypoint: Entrypoint = entrypoint.parse().unwrap();
        entrypoint
            .file(runtime, &tree)
            .map(|file| file.path.clone())
    };
    for path in ["a/b.py", "a/b/__init__.py"] {
        assert_eq!(find("a.b.handle", Runtime::Python311, path).unwrap(), path);
        find("a.b.handle", Runtime::NodeJs20, path).unwrap_err();
    }
    for path in ["a/b.js", "a/b.cjs", "a/b.mjs", "a/b/index.js"] {
        assert_eq!(find("a.b.handle", Runtime::NodeJs20, path).unwrap(), path);
    }
    let error = find("handler.handle", Runtime::Python311, "app/handler.py").unwrap_err();
    assert_eq!(error.reason(), "entrypoint_missing");
    for part in [
        "handler.py",
        "handler/__init__.py",
        "app/handler.py",
        "folder around",
    ] {
        assert!(error.message().contains(part), "{error}");
    }
}

#[test]
fn dependencies_are_read_from_the_root() {
    let detect = |runtime, files: &[(&str, &str)]| {
        let files = files.iter().map(|(path, text)| (*path, text.to_string()));
        Dependencies::detect(runtime, &SourceTree::from_files(files).unwrap())
    };
    let python = |text| detect(Runtime::Python311, &[("requirements.txt", text)]);
    assert!(matches!(
        python("pillow\n").unwrap(),
        Dependencies::Python { .. }
    ));
    assert!(matches!(
        python("\n-r more.txt").unwrap(),
        Dependencies::Python { .. }
    ));
    for nothing in ["", "\n\n", "# pillow\n  # x\r\n", "\u{feff}# x"] {
        assert!(python(nothing).unwrap().is_none(), "{nothing:?}");
    }
    let nested = detect(Runtime::Python311, &[("lib/requirements.txt", "pillow")]);
    assert!(nested.unwrap().is_none());

    let node = |text| detect(Runtime::NodeJs20, &[("package.json", text)]);
    for nothing in [
        "{}",
        r#"{"dependencies":{},"devDependencies":{"a":"1"}}"#,
        "\u{feff}{}",
    ] {
        assert!(node(nothing).unwrap().is_none(), "{nothing}");
    }
    let some = r#"{"dependencies":{"marked":"^1"}}"#;
    assert!(matches!(
        node(some).unwrap(),
        Dependencies::Node { lock: None, .. }
    ));
    let locked = [("package.json", some), ("package-lock.json", "{}")];
    let locked = detect(Runtime::NodeJs20, &locked).unwrap();
    assert!(matches!(locked, Dependencies::Node { lock: Some(_), .. }));
    // A runtime looks at its own manifest only.
    assert!(
        detect(Runtime::NodeJs20, &[("requirements.txt", "x")])
            .unwrap()
            .is_none()
    );
}

#[test]
fn a_manifest_that_cannot_be_read_names_file_and_place() {
    for (runtime, files, place) in [
        (
            Runtime::NodeJs20,
            vec![("package.json", "{\n \"dependencies\": {,}")],
            "line 2 column 19",
        ),
        (
            Runtime::NodeJs20,
            vec![("package.json", "[]")],
            "package.json",
        ),
        (
            Runtime::NodeJs20,
            vec![("package.json", r#"{"dependencies":["a"]}"#)],
            "dependencies",
        ),
        (
            Runtime::NodeJs20,
            vec![("package.json", r#"{"dependencies":{"a":1}}"#)],
            "\"a\"",
        ),
        (
            Runtime::NodeJs20,
            vec![
                ("package.json", r#"{"dependencies":{"a":"1"}}"#),
                ("package-lock.json", "{\n}}"),
            ],
            "package-lock.json: trailing characters at line 2",
        ),
    ] {
        let tree = SourceTree::from_files(files).unwrap();
        let error = Dependencies::detect(runtime, &tree).unwrap_err();
        assert_eq!(error.reason(), "manifest_malformed");
        assert!(error.message().contains(place), "{place} in {error}");
    }
    let latin1 = Bytes::from_static(b"a\nb\xe9\n");
    let tree = SourceTree::from_files([("requirements.txt", latin1)]).unwrap();
    let error = Dependencies::detect(Runtime::Python311, &tree).unwrap_err();
    assert_eq!(error.message(), "requirements.txt: line 2: not UTF-8");
    let huge = vec![b'#'; Dependencies::MANIFEST_BYTES as usize + 1];
    let tree = SourceTree::from_files([("requirements.txt", huge)]).unwrap();
    let error = Dependencies::detect(Runtime::Python311, &tree).unwrap_err();
    assert_eq!(error.reason(), "limit_manifest_bytes");
}

#[test]
fn a_review_shows_text_outside_node_modules_up_to_its_limit() {
    let endings = [
        "py", "js", "ts", "json", "yaml", "yml", "txt", "sh", "sql", "go",
    ];
    let seen = endings.map(|ending| (format!("f.{ending}"), "x"));
    let unseen = [
        "node_modules/a.js",
        "a/node_modules/b/c.py",
        "a.png",
        "py",
        "a.pyc",
    ];
    let unseen = unseen.map(|path| (path.to_owned(), "x"));
    let tree = SourceTree::from_files(seen.into_iter().chain(unseen)).unwrap();
    let review = tree.reviewable().unwrap();
    assert_eq!(
        (review.files.len(), review.bytes, review.oversized),
        (10, 10, false)
    );

    let review = |size: usize| {
        let files = [("a.py", vec![b'a'; size]), ("a.bin", vec![0; 1 << 20])];
        SourceTree::from_files(files).unwrap().reviewable().unwrap()
    };
    let most = ReviewSet::MOST_BYTES as usize;
    assert!(!review(most).oversized);
    let over = review(most + 1);
    assert_eq!(
        (over.oversized, over.files.len(), over.bytes),
        (true, 0, most as u64 + 1)
    );
    let binary = SourceTree::from_files([("a.py", Bytes::from_static(b"\xff"))]).unwrap();
    assert_eq!(binary.reviewable().unwrap().files[0].1, "\u{fffd}");
}
