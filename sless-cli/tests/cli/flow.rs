//! What somebody does with a function from signing in to its end: the same on one machine and in a cluster.

use std::{fs, process::Command};

use serde_json::{Value, json};

use crate::support::{Done, Running, World, run, until};

const HANDLER: &str = "import time\n\ndef handle(event):\n    print('got', event.get('n'), flush=True)\n    \
                       return {'n': event.get('n', 0) + 1}\n";

/// Somebody who has nothing but what was signed in to.
struct User<'a>(&'a World);

impl User<'_> {
    fn command(&self, arguments: &[&str]) -> Command {
        self.0.bare(arguments)
    }

    fn run(&self, arguments: &[&str]) -> Done {
        run(self.command(arguments), None)
    }

    fn does(&self, arguments: &[&str]) -> Done {
        let done = self.run(arguments);
        assert_eq!(done.status, 0, "{arguments:?}: {done:#?}");
        done
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let done = self.does(&[arguments, &["-o", "json"]].concat());
        serde_json::from_str(&done.out).unwrap_or_else(|error| panic!("{error}: {done:#?}"))
    }

    fn signs_in(&self) {
        let world = self.0;
        fs::write(world.work().join("token"), &world.token).unwrap();
        let done = self.does(&[
            "login",
            "--server",
            &world.endpoint,
            "--token-file",
            "token",
        ]);
        assert!(done.err.contains("signed in to"), "{done:#?}");
    }

    /// A folder is made, filled, and becomes a URL, with the log of its build meanwhile.
    fn deploys(&self) {
        let made = self.does(&["init", "one"]);
        assert!(
            made.out.lines().any(|line| line == "one/handler.py"),
            "{made:#?}"
        );
        self.0.write(&[("one/handler.py", HANDLER)]);
        let deploy = Running::start(self.command(&["deploy", "one"]));
        deploy.says("uploaded");
        let done = deploy.ended();
        assert_eq!(done.status, 0, "{done:#?}");
        let path = format!("/fn/{}/one\n", self.0.namespace);
        assert!(done.out.ends_with(&path), "{done:#?}");
        assert!(done.err.contains("one is Ready"), "{done:#?}");
        let built = self.does(&["logs", "one", "--build"]);
        let lines: Vec<_> = built.out.lines().filter(|line| !line.is_empty()).collect();
        assert!(!lines.is_empty(), "{built:#?}");
        for line in lines {
            assert!(done.err.contains(line), "{line:?} was not shown: {done:#?}");
        }
        let listed = self.json(&["list"]);
        assert_eq!(
            (&listed[0]["name"], &listed[0]["phase"]),
            (&json!("one"), &json!("Ready"))
        );
    }

    fn calls(&self) {
        let done = self.does(&["invoke", "one", "--data", r#"{"n": 41}"#]);
        assert_eq!(done.out, r#"{"n":42}"#);
    }

    /// Lines come as they are written, until the follower is told to end.
    fn follows_the_log(&self) {
        let follow = Running::start(self.command(&["logs", "one", "--follow", "--runs"]));
        let shown = |line: &str| {
            until(
                &format!("{line:?} is shown"),
                || follow.out().contains(line),
                || format!("{} {}", follow.out(), follow.err()),
            );
        };
        shown("got 41");
        self.does(&["invoke", "one", "--data", r#"{"n": 6}"#]);
        shown("got 6");
        follow.signal("INT");
        let done = follow.ended();
        assert_eq!(done.status, 130, "{done:#?}");
    }

    fn switches_triggers(&self) {
        let create = ["trigger", "create", "nightly", "--function", "one"];
        let made = self.does(&[&create[..], &["--cron", "0 3 * * *"]].concat());
        assert!(made.out.contains("0 3 * * *"), "{made:#?}");
        let next = self.does(&["trigger", "next", "nightly"]);
        assert_eq!(next.out.lines().count(), 5, "{next:#?}");
        self.does(&["trigger", "disable", "nightly"]);
        assert_eq!(self.json(&["trigger", "get", "nightly"])["enabled"], false);
        self.does(&["trigger", "enable", "nightly"]);
        assert_eq!(self.json(&["trigger", "get", "nightly"])["enabled"], true);

        self.does(&["trigger", "create", "url", "--function", "one", "--http"]);
        let listed = self.json(&["trigger", "list"]);
        assert_eq!(
            (&listed[0]["name"], &listed[1]["name"], &listed[2]),
            (&json!("nightly"), &json!("url"), &Value::Null)
        );
        for (switch, status) in [("disable", 503), ("enable", 200)] {
            self.does(&["trigger", switch, "url"]);
            let call = || self.run(&["invoke", "one", "--data", "{}", "-o", "json"]);
            until(
                &format!("{switch}d"),
                || {
                    let told: Value = serde_json::from_str(&call().out).unwrap_or_default();
                    told["status"] == status
                },
                || format!("{:#?}", call()),
            );
        }
    }

    fn runs_jobs(&self) {
        let run = [
            "job",
            "run",
            "one",
            "--name",
            "once",
            "--data",
            r#"{"n": 99}"#,
        ];
        assert_eq!(self.does(&run).out, "once\n");
        assert_eq!(self.does(&["job", "wait", "once"]).out, "Succeeded\n");
        assert_eq!(self.json(&["job", "result", "once"]), json!({"n": 100}));
    }

    fn pulls_its_source(&self) {
        self.does(&["source", "pull", "copy", "--name", "one", "--yes"]);
        let pulled = fs::read_to_string(self.0.work().join("copy/handler.py")).unwrap();
        assert_eq!(pulled, HANDLER);
    }

    /// All of it goes, each with a receipt.
    fn deletes(&self) {
        for trigger in ["nightly", "url"] {
            self.does(&["trigger", "delete", trigger, "--yes"]);
        }
        self.does(&["job", "delete", "once", "--yes"]);
        let receipt = self.does(&["delete", "one", "--yes"]);
        let removed = receipt.out.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            words.next().filter(|word| *word == "removed")?;
            words.next()
        });
        let removed: Vec<_> = removed.collect();
        let mut wanted = vec!["stored_source", "stored_context"];
        if self.0.ground.is_some() {
            wanted.extend(["deployment", "service", "image"]);
        }
        for kind in wanted {
            assert!(removed.contains(&kind), "{kind}: {receipt:#?}");
        }
        until(
            "it is gone",
            || self.run(&["get", "one"]).status == 4,
            || format!("{:#?}", self.run(&["get", "one"])),
        );
        assert_eq!(self.json(&["list"]), json!([]));
        if let Some(ground) = &self.0.ground {
            ground.is_bare_again();
        }
    }

    fn goes_through_it(&self) {
        self.signs_in();
        self.deploys();
        self.calls();
        self.follows_the_log();
        self.switches_triggers();
        self.runs_jobs();
        self.pulls_its_source();
        self.deletes();
    }
}

#[test]
fn a_function_lives_on_one_machine() {
    User(&World::new()).goes_through_it();
}

#[test]
#[ignore = "needs S3, RabbitMQ, PostgreSQL and Kubernetes: testing/*/up"]
fn a_function_lives_in_a_cluster() {
    User(&World::in_a_cluster()).goes_through_it();
}
