//! Many at once.

use std::{
    fmt::Write as _,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::server::{Server, function, provider};

#[test]
#[ignore = "needs terraform 1.11"]
fn two_hundred_resources_in_one_apply() {
    let server = Server::start();
    let tf = server.workspace();
    tf.code("src", "1");
    let mut body =
        function("f", "count = 50").replace("name = \"f\"", "name = \"f${count.index}\"");
    for (kind, more) in [("http", ""), ("cron", "schedule = \"0 3 * * *\"")] {
        let _ = write!(
            body,
            "resource \"sless_trigger\" {kind:?} {{\n count = 50\n name = \"{kind}-${{count.index}}\"\n \
             type = {kind:?}\n function = sless_function.f[count.index].name\n {more}\n}}\n"
        );
    }
    body += "resource \"sless_job\" \"j\" {\n count = 50\n name = \"j${count.index}\"\n \
             function = sless_function.f[count.index].name\n}\n";
    tf.config(&body);
    let began = Instant::now();
    tf.run(&["apply", "-auto-approve", "-parallelism=20"])
        .ok()
        .says("200 added");
    let applied = began.elapsed();
    let began = Instant::now();
    tf.nothing_to_do();
    let planned = began.elapsed();
    // The same without this provider: what Terraform itself takes.
    let began = Instant::now();
    tf.run(&["plan", "-refresh=false", "-target=terraform_data.none"]);
    let alone = began.elapsed();
    println!(
        "200 resources: applied in {applied:?}, unchanged plan in {planned:?}; an empty plan takes {alone:?}"
    );
    assert!(
        planned < Duration::from_secs(2) + 5 * alone,
        "a plan of 200 unchanged resources took {planned:?}, where an empty one takes {alone:?}"
    );
    tf.run(&["destroy", "-auto-approve", "-parallelism=20"])
        .ok()
        .says("200 destroyed");
    assert_eq!(server.count(), [0, 0, 0]);
}

#[test]
#[ignore = "needs terraform 1.11"]
fn two_applies_at_once() {
    let server = Server::start();
    let (one, other) = (server.workspace(), server.workspace());
    for (tf, prefix) in [(&one, "a"), (&other, "b")] {
        tf.code("src", "1");
        let own: String = (0..4)
            .map(|at| function(&format!("{prefix}{at}"), ""))
            .collect();
        tf.config(&(own + &function("shared", "")));
    }
    let running = [&one, &other].map(|tf| tf.start(&["apply", "-auto-approve"]));
    let said = running.map(tfplugin_acceptance::Running::wait);
    // One has it, and the other is told so; all else is there.
    let mut codes = said.iter().map(|said| said.code).collect::<Vec<_>>();
    codes.sort_unstable();
    assert_eq!(codes, [0, 1], "{said:?}");
    let (winner, loser) = if said[0].code == 0 {
        (&one, 1)
    } else {
        (&other, 0)
    };
    said[loser]
        .failed()
        .says("There is a function named `shared` already");
    winner.nothing_to_do();
    assert_eq!(server.count()[0], 9);
    for tf in [&one, &other] {
        tf.run(&["destroy", "-auto-approve"]).ok();
    }
    assert_eq!(server.count(), [0, 0, 0]);
}

#[test]
fn it_starts_at_once() {
    let start = || {
        let folder = tempfile::tempdir().unwrap();
        let began = Instant::now();
        let mut child = Command::new(provider())
            .env(
                "TF_PLUGIN_MAGIC_COOKIE",
                "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2",
            )
            .env("PLUGIN_UNIX_SOCKET_DIR", folder.path())
            .env_remove("PLUGIN_CLIENT_CERT")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let took = began.elapsed();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(line.starts_with("1|6|unix|"), "{line}");
        took
    };
    // What starting any program takes here now, to be fair on a busy machine.
    let program = || {
        let began = Instant::now();
        Command::new("true").status().unwrap();
        began.elapsed()
    };
    let (mut ours, mut theirs): (Vec<_>, Vec<_>) = (0..15).map(|_| (start(), program())).unzip();
    ours.sort_unstable();
    theirs.sort_unstable();
    let (ours, theirs) = (ours[7], theirs[7]);
    println!("started in {ours:?}, where `true` takes {theirs:?}");
    assert!(
        ours < Duration::from_millis(50) + 20 * theirs,
        "{ours:?}, where `true` takes {theirs:?}"
    );
}
