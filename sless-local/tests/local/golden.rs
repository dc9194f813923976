//! What is stored keeps its form: the schemas, and a data folder of each released version.

use std::{fmt::Write as _, path::Path};

use rusqlite::Connection;
use sless_core::{
    Catalog as _, DeadLetterQuery, Dispatcher as _, InvocationLog as _, InvocationQuery, Kind,
    Lease as _, ListQuery, Name, Namespace,
    resource::{TriggerId, Uid},
};
use sless_local::{Local, LocalConfig};

const FILES: [&str; 4] = ["catalog", "queue", "invocations", "work"];

/// Every definition in a file, in order of their names.
fn schema(file: &Path) -> String {
    let connection = Connection::open(file).expect("a database");
    let version: i64 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .expect("a version");
    let mut text = format!("PRAGMA user_version = {version};\n");
    let sql = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'
               ORDER BY name";
    let mut statement = connection.prepare(sql).expect("a statement");
    let rows = statement
        .query_map([], |row| row.get::<_, String>(0))
        .expect("rows");
    for row in rows {
        writeln!(text, "\n{};", row.expect("a row")).expect("to a string");
    }
    text
}

fn golden(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

/// A change here is a migration: another step at the end of the file's steps, and a new golden file.
#[tokio::test]
async fn the_layout_of_a_data_folder_is_the_golden_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let local = Local::open(LocalConfig::new(folder.path()))
        .await
        .expect("opens");
    local.shutdown().await;
    drop(local);
    let mut names: Vec<_> = std::fs::read_dir(folder.path())
        .expect("a folder")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("UTF-8")
        })
        .collect();
    names.sort();
    let expected = [
        "artifacts",
        "cache",
        "db",
        "format",
        "home",
        "lock",
        "logs",
        "runtime",
        "storage",
        "work",
    ];
    assert_eq!(names, expected, "as in the table of DataDir");
    let format = std::fs::read_to_string(folder.path().join("format")).expect("a file");
    assert_eq!(format, "sless-local 1\n");
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    for name in FILES {
        let found = schema(&folder.path().join(format!("db/{name}.db")));
        let path = golden(&format!("{name}.schema.sql"));
        if update {
            std::fs::write(&path, &found).expect("written");
        }
        let expected = std::fs::read_to_string(&path).expect("a golden file");
        assert_eq!(
            found,
            expected,
            "{} differs: see UPDATE_GOLDEN",
            path.display()
        );
    }
}

pub(super) fn text_of(name: &str) -> String {
    std::fs::read_to_string(golden(name)).expect("a golden file")
}

/// Makes a database of the data folder: schema and rows as this version wrote them.
pub(super) fn restore(folder: &Path, version: &str, name: &str) {
    let connection = Connection::open(folder.join(format!("db/{name}.db"))).expect("a database");
    for part in ["schema", "rows"] {
        let sql = text_of(&format!("{version}/{name}.{part}.sql"));
        connection.execute_batch(&sql).expect(name);
    }
}

/// A data folder with nothing in it yet.
pub(super) fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["db", "logs"] {
        std::fs::create_dir(folder.path().join(name)).expect("made");
    }
    std::fs::write(folder.path().join("format"), "sless-local 1\n").expect("written");
    folder
}

/// The files hold what version 1 wrote: schema and rows.
#[tokio::test]
async fn a_data_folder_of_version_1_is_read() {
    let folder = folder();
    for name in FILES {
        restore(folder.path(), "v1", name);
    }
    let local = Local::open(LocalConfig::new(folder.path()))
        .await
        .expect("opens");
    let mut found = Vec::new();
    for kind in Kind::ALL {
        for object in local
            .catalog()
            .list(&ListQuery::all(kind))
            .await
            .expect("a list")
            .items
        {
            let version = object.metadata().version.to_string();
            found.push((
                object.key().to_string(),
                version,
                object.metadata().generation,
            ));
        }
    }
    let expected = [
        ("Function ns/hello", "4", 2),
        ("Trigger ns/on-order", "5", 1),
        ("FunctionJob ns/once", "6", 1),
    ];
    assert_eq!(
        found,
        expected.map(|(key, version, n)| (key.to_owned(), version.to_owned(), n))
    );
    let trigger = TriggerId {
        namespace: Namespace::new("ns").expect("a namespace"),
        name: Name::new("on-order").expect("a name"),
        uid: Uid::new("3b0fc8a2-4a6f-4c5e-9f0a-000000000002"),
    };
    let page = local
        .dispatcher()
        .dead_letters(&trigger, &DeadLetterQuery::first(10))
        .await;
    let letters = page.expect("a page").items;
    assert_eq!(
        (letters[0].message.id.as_str(), letters[0].attempts),
        ("order-1", 5)
    );
    let query = InvocationQuery::of_function(
        Namespace::new("ns").expect("a namespace"),
        Name::new("hello").expect("a name"),
        10,
    );
    let page = local.invocations().query(&query).await.expect("a page");
    assert_eq!(
        page.items
            .iter()
            .map(|record| record.status)
            .collect::<Vec<_>>(),
        [500, 200]
    );
    let grant = local
        .lease()
        .acquire("operator", "a", std::time::Duration::from_secs(1))
        .await;
    assert_eq!(
        grant.expect("acquired").expect("free").token,
        8,
        "after the 7 that was given"
    );
    local.shutdown().await;
}
