//! `source pull`.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::json;

use crate::support::World;

#[test]
fn a_pull_shows_the_difference_first_and_then_makes_it_so() {
    let world = World::new();
    world.write(&[
        ("f/handler.py", "def handle(event):\n    return 1\n"),
        ("f/lib/data.txt", "one\ntwo\n"),
        ("f/run.sh", "#!/bin/sh\n"),
        ("f/sless.toml", "name = 'f'\nruntime = 'python3.11'\n"),
    ]);
    let run = world.work().join("f/run.sh");
    fs::set_permissions(&run, fs::Permissions::from_mode(0o755)).unwrap();
    world.ok(&["deploy", "f"]);
    let same = world.run(&["source", "pull", "f"]);
    assert_eq!(same.status, 0, "{same:#?}");
    assert!(
        same.err.contains("is what is on the server") && same.out.is_empty(),
        "{same:#?}"
    );

    world.write(&[
        ("f/handler.py", "def handle(event):\n    return 2\n"),
        ("f/mine.txt", "mine\n"),
    ]);
    fs::remove_dir_all(world.work().join("f/lib")).unwrap();
    fs::set_permissions(&run, fs::Permissions::from_mode(0o644)).unwrap();
    let shown = world.run(&["source", "pull", "f", "--dry-run"]);
    for line in [
        "--- here/handler.py",
        "+++ server/handler.py",
        "-    return 2",
        "+    return 1",
        "--- /dev/null",
        "+++ server/lib/data.txt",
        "+two",
        "run.sh becomes executable",
    ] {
        assert!(
            shown.out.lines().any(|shown| shown == line),
            "{line}: {shown:#?}"
        );
    }
    assert!(
        shown.err.contains("only here, and kept: mine.txt"),
        "{shown:#?}"
    );
    assert!(
        !world.work().join("f/lib").exists(),
        "a dry run changes nothing"
    );
    world.fails(&["source", "pull", "f"], 2, "--yes");
    let value = world.json(&["source", "pull", "f", "--dry-run"]);
    let expected = json!({
        "added": ["lib/data.txt"], "changed": ["handler.py", "run.sh"], "only_here": ["mine.txt"],
    });
    assert_eq!(value, expected);

    let pulled = world.run(&["source", "pull", "f", "--yes"]);
    assert!(pulled.err.contains("3 files changed"), "{pulled:#?}");
    let read = |path: &str| fs::read_to_string(world.work().join(path)).unwrap();
    assert_eq!(read("f/handler.py"), "def handle(event):\n    return 1\n");
    assert_eq!(read("f/lib/data.txt"), "one\ntwo\n");
    assert_eq!(
        fs::metadata(&run).unwrap().permissions().mode() & 0o777,
        0o755
    );
    assert_eq!(read("f/mine.txt"), "mine\n");
    assert!(
        read("f/sless.toml").contains("name"),
        "what is not uploaded is not touched"
    );
    world.ok(&["source", "pull", "f", "--delete", "--yes"]);
    assert!(!world.work().join("f/mine.txt").exists());

    world.ok(&["source", "pull", "elsewhere", "--name", "f", "--yes"]);
    assert_eq!(read("elsewhere/handler.py"), read("f/handler.py"));
    assert!(!world.work().join("elsewhere/sless.toml").exists());
}

#[test]
fn nothing_is_written_through_a_link() {
    let world = World::new();
    world.write(&[
        ("f/handler.py", "def handle(event): pass\n"),
        ("f/lib/util.py", "there\n"),
        ("outside/util.py", "mine\n"),
        ("g/.slessignore", "lib\n"),
        ("g/handler.py", ""),
    ]);
    world.ok(&["deploy", "f"]);
    let link = world.work().join("g/lib");
    std::os::unix::fs::symlink(world.work().join("outside"), link).unwrap();
    world.fails(
        &["source", "pull", "g", "--name", "f", "--yes"],
        2,
        "is a link",
    );
    assert_eq!(
        fs::read_to_string(world.work().join("outside/util.py")).unwrap(),
        "mine\n"
    );
}

#[test]
fn bytes_are_not_shown_and_a_function_that_is_not_there_is_named() {
    let world = World::new();
    world.write(&[
        ("f/handler.py", "def handle(event): pass\n"),
        ("f/blob", "a\0b"),
    ]);
    world.ok(&["deploy", "f"]);
    world.write(&[("f/blob", "c\0d\0")]);
    let shown = world.ok(&["source", "pull", "f", "--dry-run"]);
    assert_eq!(shown, "blob: not compared line by line, 4 B becomes 3 B\n");
    world.fails(&["source", "pull", "nobody"], 4, "sless list");
}
