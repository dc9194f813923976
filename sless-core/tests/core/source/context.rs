//! Build contexts.

use std::io::{Read as _, Write as _};

use sless_core::{
    Entrypoint, ErrorKind, Runtime, RuntimeInfo, RuntimeVersions,
    source::{Context, NewFile, SourceLimits, SourceTree, context},
};

fn info(runtime: Runtime) -> RuntimeInfo {
    let mut versions = RuntimeVersions::default();
    versions.versions.insert(runtime, "v1".into());
    versions.info(runtime, Entrypoint::default()).unwrap()
}

fn tree(files: &[(&str, &str)]) -> SourceTree {
    let files = files
        .iter()
        .map(|(path, text)| NewFile::new(*path, text.to_string()));
    let files = files.map(|file| match file.path.starts_with("bin/") {
        true => file.executable(),
        false => file,
    });
    SourceTree::from_new_files(files, &SourceLimits::default()).unwrap()
}

fn write(tree: &SourceTree, runtime: Runtime) -> Vec<u8> {
    let mut bytes = Vec::new();
    let written = context::write(tree, &info(runtime), &mut bytes).unwrap();
    assert_eq!(written.size, bytes.len() as u64);
    assert_eq!(written.sha256, sless_core::Digest::of(&bytes));
    assert_eq!(written.digest, tree.digest());
    bytes
}

fn read(bytes: &[u8]) -> sless_core::Result<Context> {
    context::read(bytes, &SourceLimits::default())
}

fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut tar = Vec::new();
    flate2::read::GzDecoder::new(bytes)
        .read_to_end(&mut tar)
        .unwrap();
    tar
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

/// What `golden/context-v1.tar.gz` was made of.
fn golden_tree() -> SourceTree {
    let long = format!(
        "{}/file.txt",
        "long-folder-name/".repeat(9).trim_end_matches('/')
    );
    tree(&[
        ("handler.py", "def handle(event):\n    return event\n"),
        ("requirements.txt", "pillow==12.0.0\n"),
        ("bin/run", "#!/bin/sh\n"),
        ("lib/grüße.txt", "hello\n"),
        (&long, "a path that needs a second header\n"),
    ])
}

#[test]
fn a_context_of_version_1_is_read_and_written_to_the_same_bytes() {
    let golden = include_bytes!("../../golden/context-v1.tar.gz");
    let read = read(golden).unwrap();
    assert_eq!(read.version, 1);
    assert_eq!(read.tree.files(), golden_tree().files());
    assert_eq!(read.tree.digest(), golden_tree().digest());
    let written = write(&golden_tree(), Runtime::Python311);
    assert!(gunzip(&written) == gunzip(golden), "the tar differs");
    // Neither a name nor a time nor a system in the gzip's header.
    assert_eq!(written[3..8], [0; 5]);
    assert_eq!(written[9], 0xff);
}

#[test]
fn the_dockerfile_comes_first_and_says_what_is_done() {
    let bytes = write(&golden_tree(), Runtime::Python311);
    let tar = gunzip(&bytes);
    let mut archive = tar::Archive::new(&tar[..]);
    let entries = archive.entries().unwrap().map(Result::unwrap);
    let paths: Vec<_> = entries
        .map(|entry| entry.path().unwrap().into_owned())
        .collect();
    assert_eq!(paths[0].to_str(), Some("Dockerfile"));
    assert_eq!(paths.len(), golden_tree().files().len() + 1);
    assert!(paths[1..].is_sorted(), "{paths:?}");

    let dockerfile = |files: &[(&str, &str)], runtime| {
        let tree = tree(files);
        let text = read(&write(&tree, runtime)).unwrap().dockerfile;
        text.replace(&tree.digest().to_string(), "DIGEST")
    };
    assert_eq!(
        dockerfile(&[("handler.py", "")], Runtime::Python311),
        "# sless-context 1\n\
         # source DIGEST\n\
         ARG SLESS_BASE=sless-runtime-python3.11:v1\n\
         FROM ${SLESS_BASE}\n\
         USER 0:0\n\
         WORKDIR /app\n\
         COPY . ./\n\
         RUN rm Dockerfile\n\
         ENV SLESS_RUNTIME=python3.11 SLESS_ENTRYPOINT=handler.handle\n\
         USER 65532:65532\n"
    );
    let python = [("handler.py", ""), ("requirements.txt", "x")];
    let text = dockerfile(&python, Runtime::Python311);
    assert!(text.contains("RUN rm Dockerfile && pip install "), "{text}");
    assert!(text.contains(" PYTHONPATH=/opt/sless/packages\n"), "{text}");
    let package = ("package.json", r#"{"dependencies":{"a":"1"}}"#);
    let node = [("handler.js", ""), package];
    let text = dockerfile(&node, Runtime::NodeJs20);
    assert!(text.contains(" && npm install --omit=dev"), "{text}");
    let locked = [("handler.js", ""), package, ("package-lock.json", "{}")];
    let text = dockerfile(&locked, Runtime::NodeJs20);
    assert!(text.contains(" && npm ci --omit=dev"), "{text}");
}

#[test]
fn writing_fails_before_the_first_byte() {
    for (files, reason) in [
        (vec![("other.py", "")], "entrypoint_missing"),
        (
            vec![("handler.js", ""), ("package.json", "{")],
            "manifest_malformed",
        ),
    ] {
        let runtime = match reason {
            "manifest_malformed" => Runtime::NodeJs20,
            _ => Runtime::Python311,
        };
        let mut bytes = Vec::new();
        let error = context::write(&tree(&files), &info(runtime), &mut bytes).unwrap_err();
        assert_eq!((error.reason(), bytes.len()), (reason, 0));
    }
}

#[test]
fn a_writer_that_fails_is_an_error() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("disk full"))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let error = context::write(&golden_tree(), &info(Runtime::Python311), Full).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert!(error.chain().contains("disk full"), "{}", error.chain());
}

#[test]
fn damage_is_seen() {
    let good = write(&golden_tree(), Runtime::Python311);
    let tar = gunzip(&good);
    let corrupt = |bytes: &[u8], reason: &str| {
        let error = read(bytes).unwrap_err();
        assert_eq!(
            (error.kind(), error.reason()),
            (ErrorKind::Corrupt, reason),
            "{error}"
        );
    };
    corrupt(b"", "context_unreadable");
    corrupt(&good[..good.len() - 1], "context_unreadable");
    corrupt(&good[..good.len() / 2], "context_unreadable");
    corrupt(&[&good[..], b"x"].concat(), "context_trailing_data");
    corrupt(&gzip(&[&tar[..], &[1]].concat()), "context_trailing_data");
    corrupt(&gzip(b"not a tar"), "context_unreadable");
    corrupt(&gzip(&tar[1024..]), "context_dockerfile");

    let replace = |from: &str, to: &str| {
        assert_eq!(from.len(), to.len());
        let at = tar
            .windows(from.len())
            .position(|w| w == from.as_bytes())
            .unwrap();
        let mut tar = tar.clone();
        tar[at..at + from.len()].copy_from_slice(to.as_bytes());
        gzip(&tar)
    };
    corrupt(&replace("return event", "return 12345"), "context_digest");
    corrupt(
        &replace("# sless-context 1", "# sless-context 2"),
        "context_version",
    );
    corrupt(
        &replace("# source sha256", "# source sha25x"),
        "context_digest",
    );
}

#[test]
fn a_context_cannot_write_outside_or_twice() {
    type Change = fn(&mut tar::Header);
    let with = |name: &str, change: Change| {
        let mut tar = tar::Builder::new(Vec::new());
        for (name, change) in [
            ("Dockerfile", (|_| ()) as Change),
            ("a", |_| ()),
            (name, change),
        ] {
            let mut header = tar::Header::new_gnu();
            header.set_mode(0o644);
            header.set_size(0);
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            change(&mut header);
            header.set_cksum();
            tar.append(&header, std::io::empty()).unwrap();
        }
        let bytes = gzip(&tar.into_inner().unwrap());
        read(&bytes).unwrap_err().reason().to_owned()
    };
    for (name, reason) in [
        ("../x", "context_path_traversal"),
        ("/x", "context_absolute_path"),
        ("b/", "context_path"),
        (r"b\c", "context_path"),
        ("a", "context_duplicate_entry"),
        ("A", "context_name_clash"),
        ("a/b", "context_file_directory_clash"),
        ("Dockerfile", "context_reserved_name"),
        // Otherwise well, but without the marks.
        ("b", "context_version"),
    ] {
        assert_eq!(with(name, |_| ()), reason, "{name}");
    }
    assert_eq!(with("b", |h| h.set_mode(0o777)), "context_special_file");
    let kinds: [Change; 4] = [
        |h| h.set_entry_type(tar::EntryType::Symlink),
        |h| h.set_entry_type(tar::EntryType::Link),
        |h| h.set_entry_type(tar::EntryType::Directory),
        |h| h.set_entry_type(tar::EntryType::Char),
    ];
    for kind in kinds {
        assert_eq!(with("b", kind), "context_special_file");
    }
}

#[test]
fn limits_hold_for_contexts_too() {
    let bytes = write(&golden_tree(), Runtime::Python311);
    let with = |change: fn(&mut SourceLimits)| {
        let mut limits = SourceLimits::default();
        change(&mut limits);
        context::read(&bytes[..], &limits)
            .unwrap_err()
            .reason()
            .to_owned()
    };
    assert_eq!(with(|l| l.entries = 4), "limit_source_entries");
    assert_eq!(with(|l| l.file_bytes = 20), "limit_source_file_bytes");
    assert_eq!(with(|l| l.total_bytes = 50), "limit_source_total_bytes");
    assert_eq!(with(|l| l.path_bytes = 100), "context_long_name");
}
