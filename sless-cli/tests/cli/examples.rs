//! Every command's help has examples, and each of them works as it stands there.

use std::{fs, process::Command};

use crate::support::{Done, Running, World, run, until};

/// The commands in an order in which a user could type them.
const ORDER: &[&str] = &[
    "login",
    "context list",
    "context use",
    "context remove",
    "doctor",
    "completion",
    "init",
    "deploy",
    "watch",
    "list",
    "get",
    "invoke",
    "logs",
    "source pull",
    "trigger create",
    "trigger list",
    "trigger get",
    "trigger disable",
    "trigger enable",
    "trigger next",
    "trigger dead-letters list",
    "trigger dead-letters show",
    "trigger dead-letters redrive",
    "trigger dead-letters purge",
    "trigger delete",
    "job run",
    "job wait",
    "job result",
    "job list",
    "job logs",
    "job delete",
    "delete",
];

/// The commands that do something, by their words behind `sless`, with the lines of their examples.
fn examples() -> Vec<(String, Vec<String>)> {
    fn walk(command: &clap::Command, path: &str, found: &mut Vec<(String, Vec<String>)>) {
        for sub in command.get_subcommands() {
            let path = format!("{path} {}", sub.get_name()).trim().to_owned();
            if sub.has_subcommands() {
                walk(sub, &path, found);
                continue;
            }
            let help = sub
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            let lines = help.lines().filter_map(|line| line.strip_prefix("  $ "));
            found.push((path, lines.map(str::to_owned).collect()));
        }
    }
    let mut found = Vec::new();
    walk(&sless_cli::command(), "", &mut found);
    found
}

#[test]
fn every_command_has_examples_of_itself() {
    let examples = examples();
    for (path, lines) in &examples {
        assert!(!lines.is_empty(), "{path} has no example");
        assert!(
            ORDER.contains(&path.as_str()),
            "{path} is not in the order of this test"
        );
        for line in lines {
            assert!(line.contains(&format!("sless {path}")), "{path}: {line}");
        }
    }
    assert_eq!(examples.len(), ORDER.len());
}

/// Alice's shell.
struct Shell<'a>(&'a World);

impl Shell<'_> {
    fn command(&self, line: &str) -> Command {
        let world = self.0;
        let sless = std::path::Path::new(env!("CARGO_BIN_EXE_sless"))
            .parent()
            .unwrap();
        let path = std::env::var("PATH").unwrap();
        // The addresses of the examples are those of a server on this machine, and of alice.
        let line = line.replace("http://127.0.0.1:8080", &world.endpoint);
        let mut sh = Command::new("sh");
        sh.args(["-e", "-c", &line])
            .current_dir(world.work())
            .env_clear()
            .env("PATH", format!("{}:{path}", sless.display()))
            .env("HOME", world.contexts().ancestors().nth(3).unwrap());
        sh
    }

    fn run(&self, line: &str) -> Done {
        run(self.command(line), None)
    }
}

/// What has to be there before an example of this command, as its reader would have it.
fn prepare(world: &World, shell: &Shell<'_>, path: &str) {
    let letters = || {
        let done = shell.run("sless trigger dead-letters list uploads -o json");
        let letters: serde_json::Value = serde_json::from_str(&done.out).unwrap();
        letters.as_array().unwrap().clone()
    };
    match path {
        "login" => fs::write(world.work().join("token.txt"), &world.token).unwrap(),
        "context remove" => {
            let done = shell.run(
                "sless login --server http://127.0.0.1:8080 --name other --token-file token.txt",
            );
            assert_eq!(done.status, 0, "{done:#?}");
        }
        "doctor" => {
            let done =
                shell.run("sless login --server http://127.0.0.1:8080 --token-file token.txt");
            assert_eq!(done.status, 0, "{done:#?}");
        }
        "invoke" => fs::write(world.work().join("event.json"), r#"{"name": "Eve"}"#).unwrap(),
        "trigger dead-letters list" => {
            // A message that the function cannot take: it is no object.
            for _ in 0..2 {
                world.api(async |client, namespace| {
                    let body = sless_api::client::Content::bytes("[1]");
                    client
                        .publish(namespace, "uploads", "application/json", body)
                        .await
                        .unwrap();
                });
            }
            until(
                "both are given up",
                || letters().len() == 2,
                || format!("{:?}", letters()),
            );
        }
        _ => {}
    }
}

#[test]
fn every_example_works_as_it_stands_there() {
    let world = World::new();
    let shell = Shell(&world);
    let examples = examples();
    for path in ORDER {
        let (_, lines) = examples.iter().find(|(found, _)| found == path).unwrap();
        prepare(&world, &shell, path);
        for line in lines {
            let mut line = line.clone();
            if line.contains("\"$ID\"") {
                let first = "ID=$(sless trigger dead-letters list uploads -o json | \
                             sed -n 's/^ *\"id\": \"\\(.*\\)\",*$/\\1/p' | head -n 1)";
                line = format!("{first}; {line}");
            }
            if *path == "watch" {
                let watch = Running::start(shell.command(&format!("exec {line}")));
                watch.says("waiting for a change");
                watch.signal("INT");
                assert_eq!(watch.ended().status, 130);
                continue;
            }
            let done = shell.run(&line);
            assert_eq!(done.status, 0, "{line}: {done:#?}");
        }
    }
}
