//! `init`: what it makes passes its own test.

use std::process::Command;

use crate::support::World;

fn passes(world: &World, folder: &str, program: &str, arguments: &[&str]) {
    let mut test = Command::new(program);
    test.args(arguments).current_dir(world.work().join(folder));
    // npm and node leave their marks in the environment of what they run.
    test.env_remove("NODE_TEST_CONTEXT");
    let done = test.output().unwrap();
    assert!(
        done.status.success(),
        "{program}: {} {}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
}

#[test]
fn the_python_template_passes_its_test_and_answers() {
    let world = World::new();
    world.ok(&["init", "My Python"]);
    passes(&world, "My Python", "python3", &["-m", "unittest"]);
    let url = world.ok(&["deploy", "My Python"]);
    assert!(url.ends_with("/my-python\n"), "{url}");
    assert_eq!(
        world.ok(&["invoke", "my-python"]),
        r#"{"message":"Hello, world!"}"#
    );
}

#[test]
fn the_node_template_passes_its_test_and_answers() {
    let world = World::new();
    world.ok(&[
        "init",
        "greeter",
        "--runtime",
        "nodejs20",
        "--name",
        "greeter-js",
    ]);
    passes(&world, "greeter", "npm", &["test"]);
    let url = world.ok(&["deploy", "greeter"]);
    assert!(url.ends_with("/greeter-js\n"), "{url}");
    let answer = world.ok(&["invoke", "greeter-js", "--data", r#"{"name":"Ada"}"#]);
    assert_eq!(answer, r#"{"message":"Hello, Ada!"}"#);
}

#[test]
fn nothing_that_is_there_is_written_over() {
    let world = World::new();
    world.write(&[("mine/handler.py", "mine")]);
    world.fails(&["init", "mine"], 6, "mine/handler.py is there already");
    let left: Vec<_> = std::fs::read_dir(world.work().join("mine"))
        .unwrap()
        .collect();
    assert_eq!(left.len(), 1, "{left:?}");
    world.fails(&["init", "x", "--name", "No"], 2, "DNS label");
    assert!(!world.work().join("x").exists());
    let made = world.json(&["init", "new"]);
    assert_eq!(made["name"], "new");
    assert_eq!(made["files"].as_array().unwrap().len(), 5);
}
