//! What is left once nothing is under way: what the objects that are there need, and no more.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, OpenFlags};

/// What was found in a data folder whose server was stopped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// The bytes of the SQLite files and the logs.
    pub(super) bytes: u64,
}

/// Everything that may lie in a data folder.
const PLACES: [&str; 12] = [
    "artifacts",
    "cache",
    "console.key",
    "db",
    "format",
    "home",
    "hs256.key",
    "lock",
    "logs",
    "runtime",
    "storage",
    "work",
];

/// How many sources are kept of a function, each with its context.
const SOURCES: usize = 3;

/// Looks at a folder that holds two functions with their versions of now, two triggers, and no job.
pub(super) fn look(data: &Path) -> Size {
    let places: BTreeSet<_> = entries(data).into_iter().collect();
    let unknown: Vec<_> = places
        .iter()
        .filter(|place| !PLACES.contains(&&***place))
        .collect();
    assert!(unknown.is_empty(), "left over: {unknown:?}");
    let artifacts = entries(&data.join("artifacts"));
    assert_eq!(artifacts.len(), 2, "{artifacts:?}");
    let work = entries(&data.join("work"));
    assert!(work.is_empty(), "{work:?}");
    for home in homes(data) {
        let files = entries(&home);
        assert!(
            files.iter().all(|file| file == "notes"),
            "{home:?}: {files:?}"
        );
    }
    assert_eq!(homes(data).len(), 2, "{:?}", homes(data));
    logs_are_few(data);
    let stored = files(&data.join("storage"));
    for kind in ["contexts", "functions"] {
        for name in ["steady", "installed"] {
            let of = |path: &&PathBuf| {
                let path = path.to_string_lossy();
                path.contains(&format!("/{kind}/")) && path.contains(&format!("/{name}/"))
            };
            let count = stored.iter().filter(of).count();
            assert!(
                (1..=SOURCES).contains(&count),
                "{kind} of {name}: {stored:#?}"
            );
        }
    }
    assert!(stored.len() <= 4 * SOURCES, "{stored:#?}");
    let whole = |path: &PathBuf| !path.to_string_lossy().contains('#');
    assert!(stored.iter().all(whole), "{stored:#?}");
    // A program of the workers that is not in its place yet is named after it.
    let part = |file: &&PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(".sless_") || name.starts_with(".worker")
    };
    let runtime = files(&data.join("runtime"));
    assert_eq!(runtime.iter().find(part), None);
    rows_are_few(data);
    let bytes = ["db", "logs"].map(|place| {
        let files = files(&data.join(place));
        files
            .iter()
            .map(|file| fs::metadata(file).unwrap().len())
            .sum::<u64>()
    });
    Size {
        bytes: bytes.iter().sum(),
    }
}

/// One log of each function, and one of its last build.
fn logs_are_few(data: &Path) {
    let files = entries(&data.join("logs"));
    let logs: BTreeSet<_> = files
        .iter()
        .map(|file| file.trim_end_matches(".jsonl").trim_end_matches(".1"))
        .collect();
    for (kind, most) in [("function-", 2), ("build-", 2), ("", 4)] {
        let count = logs.iter().filter(|log| log.starts_with(kind)).count();
        assert!(count <= most, "{kind}: {logs:?}");
    }
}

fn rows_are_few(data: &Path) {
    for (file, query, rows) in [
        ("catalog", "SELECT count(*) FROM objects", 4),
        ("queue", "SELECT count(*) FROM messages", 0),
        ("queue", "SELECT count(*) FROM dead_letters", 0),
        (
            "queue",
            "SELECT total(waiting) + total(dead) + total(bytes) FROM queues",
            0,
        ),
        (
            "work",
            "SELECT count(*) FROM record WHERE kind = 'build'",
            2,
        ),
        (
            "work",
            "SELECT count(*) FROM record WHERE kind = 'workload'",
            2,
        ),
        ("work", "SELECT count(*) FROM record WHERE kind = 'run'", 0),
        ("work", "SELECT count(*) FROM record", 5),
    ] {
        let path = data.join(format!("db/{file}.db"));
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let database = Connection::open_with_flags(&path, flags).unwrap();
        let found: f64 = database
            .query_row(&format!("SELECT CAST(({query}) AS REAL)"), [], |row| {
                row.get(0)
            })
            .unwrap();
        assert_eq!(found, f64::from(rows), "{query}");
    }
}

fn homes(data: &Path) -> Vec<PathBuf> {
    let home = data.join("home");
    entries(&home)
        .into_iter()
        .map(|name| home.join(name))
        .collect()
}

fn entries(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut pending = vec![folder.to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder { &mut pending } else { &mut files }.push(entry.path());
        }
    }
    files
}
