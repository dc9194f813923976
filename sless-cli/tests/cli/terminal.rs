//! The command in a pseudo-terminal, as people see it.

use rexpect::{process::WaitStatus, session::PtySession};

use crate::support::{DEADLINE, World};

fn begin(mut command: std::process::Command, terminal: &str) -> PtySession {
    // What the tests leave closed is the terminal here.
    command
        .env("TERM", terminal)
        .stdin(std::process::Stdio::inherit());
    rexpect::session::spawn_command(command, Some(DEADLINE.as_millis() as u64)).unwrap()
}

/// All that came until the end, and the exit status.
fn end(mut session: PtySession) -> (String, i32) {
    let seen = session.exp_eof().unwrap();
    match session.process().wait().unwrap() {
        WaitStatus::Exited(_, status) => (seen, status),
        other => panic!("{other:?}: {seen}"),
    }
}

#[test]
fn a_deploy_shows_colours_and_progress_on_a_terminal_and_the_url_last() {
    let world = World::new();
    world.ok(&["init", "hello"]);
    let (seen, status) = end(begin(world.command(&["deploy", "hello"]), "xterm-256color"));
    assert_eq!(status, 0, "{seen}");
    assert!(seen.contains("\u{1b}[32mhello is Ready"), "{seen:?}");
    // A step that is over at once need not be drawn.
    let steps = ["reading hello", "packing", "building"];
    let spins = steps.iter().any(|step| seen.contains(step));
    assert!(spins && seen.contains("uploading ["), "progress: {seen:?}");
    let last = seen.trim_end().lines().last().unwrap();
    assert!(last.ends_with("/hello"), "{seen:?}");
    let (seen, _) = end(begin(world.command(&["list"]), "xterm-256color"));
    assert!(seen.contains("\u{1b}[32mReady\u{1b}[0m"), "{seen:?}");
    let (seen, _) = end(begin(world.command(&["invoke", "hello"]), "xterm-256color"));
    assert!(
        seen.contains("{\r\n  \"message\": \"Hello, world!\"\r\n}"),
        "indented: {seen:?}"
    );
}

#[test]
fn no_color_and_a_dumb_terminal_are_respected() {
    let world = World::new();
    world.hello();
    let mut plain = world.command(&["list"]);
    plain.env("NO_COLOR", "1");
    let (seen, _) = end(begin(plain, "xterm-256color"));
    assert!(
        seen.contains("Ready") && !seen.contains('\u{1b}'),
        "{seen:?}"
    );
    let (seen, _) = end(begin(
        world.command(&["deploy", "hello", "--force"]),
        "dumb",
    ));
    assert!(
        seen.contains("hello is Ready") && !seen.contains('\u{1b}'),
        "{seen:?}"
    );
    let coloured = world.ok(&["list", "--color", "always"]);
    assert!(coloured.contains("\u{1b}[32mReady"), "{coloured:?}");
}

#[test]
fn bytes_of_an_upload_are_shown_as_they_go() {
    let world = World::new();
    let mut random = fastrand::Rng::with_seed(1);
    let ballast: String = (0..20_000_000).map(|_| random.alphanumeric()).collect();
    world.write(&[
        ("f/handler.py", "def handle(event): pass\n"),
        ("f/ballast.txt", &ballast),
    ]);
    let (seen, status) = end(begin(world.command(&["deploy", "f"]), "xterm-256color"));
    assert_eq!(status, 0, "{seen}");
    assert!(
        seen.contains("uploading [") && seen.contains("MB/"),
        "{seen:?}"
    );
}

#[test]
fn what_is_lost_is_asked_about_first() {
    let world = World::new();
    world.hello();
    let mut session = begin(world.command(&["delete", "hello"]), "xterm-256color");
    session.exp_string("remove hello from ").unwrap();
    session.send_line("n").unwrap();
    let (seen, status) = end(session);
    assert!(
        seen.contains("nothing was changed") && status == 1,
        "{status}: {seen}"
    );
    assert_eq!(world.json(&["get", "hello"])["name"], "hello");
    let mut session = begin(world.command(&["delete", "hello"]), "xterm-256color");
    session.exp_string("[y/N] ").unwrap();
    session.send_line("y").unwrap();
    let (seen, status) = end(session);
    assert!(seen.contains("removed") && status == 0, "{status}: {seen}");
}

#[test]
fn a_token_that_is_typed_is_not_shown() {
    let world = World::new();
    let login = world.bare(&["login", "--server", &world.endpoint, "--name", "typed"]);
    let mut session = begin(login, "xterm-256color");
    session.exp_string("(it is not shown): ").unwrap();
    session.send_line(&world.token).unwrap();
    let (seen, status) = end(session);
    assert!(
        seen.contains("signed in to") && status == 0,
        "{status}: {seen}"
    );
    assert!(!seen.contains(&world.token), "{seen}");
    assert!(
        std::fs::read_to_string(world.contexts())
            .unwrap()
            .contains(&world.token)
    );
}

#[test]
fn control_c_ends_a_question_and_nothing_is_done() {
    let world = World::new();
    world.hello();
    let mut session = begin(world.command(&["delete", "hello"]), "xterm-256color");
    session.exp_string("[y/N] ").unwrap();
    session.send_control('c').unwrap();
    let (seen, status) = end(session);
    assert_eq!(status, 130, "{seen:?}");
    assert_eq!(world.json(&["get", "hello"])["name"], "hello");
    let login = world.bare(&["login", "--server", &world.endpoint]);
    let mut session = begin(login, "xterm-256color");
    session.exp_string("(it is not shown): ").unwrap();
    session.send_control('c').unwrap();
    let (seen, status) = end(session);
    assert_eq!(status, 130, "{seen:?}");
    assert!(!world.contexts().exists());
}

#[test]
fn control_c_ends_what_follows_and_leaves_the_terminal_as_it_was() {
    let world = World::new();
    world.hello();
    world.ok(&["invoke", "hello"]);
    let mut session = begin(world.command(&["logs", "hello", "-f"]), "xterm-256color");
    session.exp_string("greeting world").unwrap();
    session.send_control('c').unwrap();
    let (seen, status) = end(session);
    assert_eq!(status, 130, "{seen:?}");
    let mut session = begin(world.command(&["watch", "hello"]), "xterm-256color");
    session.exp_string("waiting for a change").unwrap();
    session.send_control('c').unwrap();
    let (seen, status) = end(session);
    assert_eq!(status, 130, "{seen:?}");
    assert!(
        !seen.contains("\u{1b}[?25l"),
        "the cursor is not left hidden: {seen:?}"
    );
}
