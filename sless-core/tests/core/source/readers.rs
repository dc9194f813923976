//! What Python's zipfile, Info-ZIP and bsdtar read out of the zips that are accepted here.
#![allow(clippy::print_stderr)]

use std::{
    collections::BTreeMap,
    fs,
    io::{Cursor, Read as _},
    path::{Path, PathBuf},
    process::Command,
};

use sless_core::{
    Entrypoint, Runtime, RuntimeVersions,
    source::{SourceArchive, SourceLimits, SourceTree, context, pack},
};

use super::forge::{Entry, zip};

type Files = BTreeMap<String, Vec<u8>>;

const READERS: [&str; 3] = ["python3", "unzip", "bsdtar"];

/// The vectors, where they are beside the checkout.
fn vectors() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/vectors");
    let path = std::env::var_os("SLESS_VECTORS").map_or(beside, PathBuf::from);
    path.is_dir().then(|| path.join("archives"))
}

/// Unpacks with another program. `None` where it refuses the archive.
fn read_with(reader: &str, archive: &Path) -> Option<Files> {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(reader);
    match reader {
        "python3" => command
            .args(["-m", "zipfile", "-e"])
            .arg(archive)
            .arg(folder.path()),
        "unzip" => command
            .args(["-qq", "-o"])
            .arg(archive)
            .arg("-d")
            .arg(folder.path()),
        _ => command.arg("-xf").arg(archive).arg("-C").arg(folder.path()),
    };
    let output = command
        .env("LC_ALL", "C.UTF-8")
        .output()
        .unwrap_or_else(|error| panic!("{reader} is needed: {error}"));
    // 1 is Info-ZIP's "done, with a warning", which it gives for backslashes.
    let done = output.status.success() || reader == "unzip" && output.status.code() == Some(1);
    done.then(|| files_below(folder.path(), folder.path()))
}

fn files_below(root: &Path, folder: &Path) -> Files {
    let mut files = Files::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.append(&mut files_below(root, &path));
        } else {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap();
            // The one thing in which they differ among each other, too.
            files.insert(name.replace('\\', "/"), fs::read(&path).unwrap());
        }
    }
    files
}

fn ours(tree: &SourceTree) -> Files {
    let read = |path: &String| (path.clone(), tree.read(path).unwrap().to_vec());
    tree.files().iter().map(|file| read(&file.path)).collect()
}

fn open(bytes: &[u8]) -> sless_core::Result<SourceTree> {
    SourceArchive::open(Cursor::new(bytes), &SourceLimits::default())
}

/// Holds an accepted archive against all readers, which have to accept it too.
fn compare(name: &str, bytes: &[u8], tree: &SourceTree) {
    let file = tempfile::Builder::new().suffix(".zip").tempfile().unwrap();
    fs::write(file.path(), bytes).unwrap();
    let mut expected = ours(tree);
    expected.retain(|path, _| !tree.skipped().contains(path));
    for reader in READERS {
        let mut read = read_with(reader, file.path())
            .unwrap_or_else(|| panic!("{name}: accepted here and refused by {reader}"));
        read.retain(|path, _| !tree.skipped().contains(path));
        assert!(
            read == expected,
            "{name}: {reader} reads {:?}, not {:?}",
            read.keys(),
            expected.keys()
        );
    }
}

/// Every archive of the vectors, with its name.
fn archives(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder.join("safearchive")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "zip") {
            all.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
    let packed = fs::File::open(folder.join("ambiguous-zips.tar.gz")).unwrap();
    let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(packed));
    for entry in tar.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        if name.ends_with(".zip") {
            all.push((name, bytes));
        }
    }
    all
}

#[test]
#[ignore = "needs unzip, bsdtar and python3: it compares what they read with what is read here"]
fn what_is_accepted_is_read_alike_by_all_readers() {
    let Some(folder) = vectors() else {
        eprintln!("skipped: no vectors beside the checkout, and SLESS_VECTORS is not set");
        return;
    };
    let (mut accepted, mut refused) = (0, BTreeMap::<String, usize>::new());
    let all = archives(&folder);
    for (name, bytes) in &all {
        match open(bytes) {
            Ok(tree) => {
                accepted += 1;
                compare(name, bytes, &tree);
            }
            Err(error) => *refused.entry(error.reason().to_owned()).or_default() += 1,
        }
    }
    eprintln!(
        "{} archives, {accepted} accepted and read alike, refused: {refused:#?}",
        all.len()
    );
    assert!(all.len() > 5000, "only {} archives", all.len());
    assert!(accepted > 100, "only {accepted} accepted");
}

/// The files of the tree that a validator is given are the files that a build is given: read by `tar`
/// alone, with a Dockerfile beside them, and nothing else. None of these archives holds a handler, so
/// one is added.
fn runs_as_it_was_seen(name: &str, seen: &SourceTree) {
    let mut expected = ours(seen);
    let handler = "def handle(event): pass".as_bytes().to_vec();
    expected.insert("handler.py".to_owned(), handler);
    let tree = SourceTree::from_files(expected.clone())
        .unwrap_or_else(|error| panic!("{name}: accepted, and no source: {}", error.chain()));
    let info = RuntimeVersions::default()
        .info(Runtime::Python311, Entrypoint::default())
        .unwrap();
    let mut context = Vec::new();
    let told = context::write(&tree, &info, &mut context).unwrap();
    assert_eq!(told.digest, tree.digest(), "{name}");
    let mut runs = Files::new();
    let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(&context[..]));
    for entry in tar.entries().unwrap() {
        let mut entry = entry.unwrap();
        assert!(entry.header().entry_type().is_file(), "{name}");
        let path = entry.path().unwrap().to_str().unwrap().to_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        assert!(runs.insert(path, bytes).is_none(), "{name}: a path twice");
    }
    assert!(runs.remove("Dockerfile").is_some(), "{name}");
    assert!(
        runs == expected,
        "{name}: {:?}, not {:?}",
        runs.keys(),
        expected.keys()
    );
}

/// 5,926 zips that readers read differently, and seven that try to leave their folder.
#[test]
fn what_a_validator_saw_is_what_runs_or_it_is_refused() {
    let Some(folder) = vectors() else {
        eprintln!("skipped: no vectors beside the checkout, and SLESS_VECTORS is not set");
        return;
    };
    let all = archives(&folder);
    let mut accepted = 0;
    for (name, bytes) in &all {
        if let Ok(tree) = open(bytes) {
            accepted += 1;
            runs_as_it_was_seen(name, &tree);
        }
    }
    assert_eq!((all.len(), accepted), (5_926 + 7, 146));
}

#[test]
fn no_ambiguous_zip_takes_long_or_breaks_anything() {
    let Some(folder) = vectors() else {
        eprintln!("skipped: no vectors beside the checkout, and SLESS_VECTORS is not set");
        return;
    };
    let started = std::time::Instant::now();
    let all = archives(&folder);
    let accepted = all.iter().filter(|(_, bytes)| open(bytes).is_ok()).count();
    let took = started.elapsed();
    assert!(
        (100..500).contains(&accepted),
        "{accepted} of {}",
        all.len()
    );
    assert!(took.as_secs() < 20, "{took:?}");
}

#[test]
#[ignore = "needs unzip, bsdtar and python3: it compares what they read with what is read here"]
fn what_we_pack_is_read_alike_by_all_readers() {
    let tree = SourceTree::from_files([
        ("handler.py", b"def handle(event): pass".to_vec()),
        ("lib/grüße.txt", vec![b'x'; 100_000]),
        ("lib/日本/empty", Vec::new()),
    ])
    .unwrap();
    let packed = pack::write_zip(&tree, Cursor::new(Vec::new())).unwrap();
    let packed = packed.into_inner();
    compare("ours", &packed, &open(&packed).unwrap());

    let streamed = zip([
        Entry::deflated("handler.py", "x").streamed(true),
        Entry::stored(r"lib\a.py", "y").streamed(false),
        Entry::stored("lib/.DS_Store", "z"),
        Entry::stored("empty/", "").with(|e| e.mode = 0o040_755),
    ]);
    compare("streamed", &streamed, &open(&streamed).unwrap());
}

/// Packs a folder with what people use; everything that they write has to be accepted.
#[test]
#[ignore = "needs zip, bsdtar and python3: it reads what they pack"]
fn what_common_packers_write_is_accepted() {
    let tree = SourceTree::from_files([
        ("handler.py", b"def handle(event): pass".to_vec()),
        ("lib/util.py", vec![b'x'; 100_000]),
        ("lib/empty", Vec::new()),
    ])
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    fs::create_dir(&source).unwrap();
    tree.unpack(&source).unwrap();
    let streaming = "import sys, zipfile\n\
        out = type('Out', (), {'write': lambda s, b: sys.stdout.buffer.write(b), 'flush': lambda s: None})()\n\
        with zipfile.ZipFile(out, 'w', int(sys.argv[1])) as z:\n \
        [z.write(name) for name in sys.argv[2:]]";
    let zip64 = "import sys, zipfile\n\
        with zipfile.ZipFile(sys.argv[1], 'w', 8) as z:\n \
        [z.open(name, 'w', force_zip64=True).write(open(name, 'rb').read()) for name in sys.argv[2:]]";
    let names = ["handler.py", "lib/util.py", "lib/empty"];
    let packers: [(&str, Vec<&str>, bool); 8] = [
        ("zip", vec!["-qr", "-", "."], true),
        ("zip", vec!["-qr", "../out.zip", "."], false),
        (
            "zip",
            vec!["-q0r", "../out.zip", "handler.py", "lib"],
            false,
        ),
        (
            "bsdtar",
            vec![
                "-c",
                "--format",
                "zip",
                "-f",
                "../out.zip",
                "handler.py",
                "lib",
            ],
            false,
        ),
        (
            "python3",
            [&["-c", streaming, "0"][..], &names].concat(),
            true,
        ),
        (
            "python3",
            [&["-c", streaming, "8"][..], &names].concat(),
            true,
        ),
        (
            "python3",
            [&["-c", zip64, "../out.zip"][..], &names].concat(),
            false,
        ),
        (
            "python3",
            vec!["-m", "zipfile", "-c", "../out.zip", "handler.py", "lib"],
            false,
        ),
    ];
    for (packer, arguments, to_stdout) in packers {
        let out = folder.path().join("out.zip");
        let _ = fs::remove_file(&out);
        let output = Command::new(packer)
            .args(&arguments)
            .current_dir(&source)
            .output()
            .unwrap_or_else(|error| panic!("{packer} is needed: {error}"));
        assert!(
            output.status.success(),
            "{packer} {arguments:?}: {output:?}"
        );
        let bytes = if to_stdout {
            output.stdout
        } else {
            fs::read(&out).unwrap()
        };
        let read = open(&bytes)
            .unwrap_or_else(|error| panic!("{packer} {arguments:?}: {}", error.chain()));
        assert_eq!(read.digest(), tree.digest(), "{packer} {arguments:?}");
    }
}

/// The digest as its documentation gives it, written again in another language.
#[test]
#[ignore = "needs python3: it computes the digest of a folder on its own"]
fn python_computes_the_same_digest() {
    const SCRIPT: &str = "import hashlib, os, sys\n\
        root, lines = sys.argv[1], []\n\
        for folder, _, names in os.walk(root):\n \
        for name in names:\n  \
        path = os.path.join(folder, name)\n  \
        data = open(path, 'rb').read()\n  \
        mark = 'x' if os.stat(path).st_mode & 0o111 else '-'\n  \
        line = '%s\\0%s\\0%d\\0%s\\n' % (os.path.relpath(path, root), mark, len(data), hashlib.sha256(data).hexdigest())\n  \
        lines.append((os.path.relpath(path, root).encode(), line.encode()))\n\
        print('sha256:' + hashlib.sha256(b'sless-source-v1\\n' + b''.join(l for _, l in sorted(lines))).hexdigest())";
    let limits = SourceLimits::default();
    let tree = SourceTree::from_new_files(super::tree::golden_files(), &limits).unwrap();
    let folder = tempfile::tempdir().unwrap();
    tree.unpack(folder.path()).unwrap();
    let output = Command::new("python3")
        .args(["-c", SCRIPT])
        .arg(folder.path())
        .output()
        .expect("python3 is needed");
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(printed.trim(), tree.digest().to_string());
}
