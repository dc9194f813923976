//! Ctrl-C at every place of a deploy: nothing is left half-made.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use serde_json::json;

use crate::support::{Running, World, until};

/// A way to the server on which uploads get stuck in their middle.
struct Stuck {
    address: SocketAddr,
    /// Whether an upload is stuck.
    reached: Arc<AtomicBool>,
}

impl Stuck {
    fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let reached = Arc::new(AtomicBool::new(false));
        let told = reached.clone();
        // The thread ends with the process; it holds nothing but sockets.
        thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(server)) else {
                    break;
                };
                let (back_from, back_to) =
                    (server.try_clone().unwrap(), client.try_clone().unwrap());
                thread::spawn(move || forward(back_from, back_to, None));
                let told = told.clone();
                thread::spawn(move || forward(client, server, Some(&told)));
            }
        });
        Self { address, reached }
    }
}

/// Passes bytes on; of an upload the head and a little of its body only.
fn forward(mut from: TcpStream, mut to: TcpStream, stuck: Option<&AtomicBool>) {
    let mut buffer = [0; 2048];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        let is_upload = String::from_utf8_lossy(&buffer[..read]).contains("/upload HTTP/1.1");
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
        if let Some(stuck) = stuck.filter(|_| is_upload) {
            stuck.store(true, Ordering::SeqCst);
            // Until the client leaves.
            while from.peek(&mut [0]).is_ok_and(|more| more > 0) && from.read(&mut buffer).is_ok() {
            }
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// A folder that is too large for one piece.
fn write(world: &World, manifest: &str) {
    let mut random = fastrand::Rng::with_seed(1);
    let ballast: String = (0..8_000_000).map(|_| random.alphanumeric()).collect();
    world.write(&[
        ("f/handler.py", "def handle(event): return 'new'\n"),
        ("f/ballast.txt", &ballast),
        (
            "f/sless.toml",
            &format!("name = 'f'\nruntime = 'python3.11'\n{manifest}"),
        ),
    ]);
}

fn cut_off(world: &World, stuck: &Stuck, signal: &str) -> crate::support::Done {
    stuck.reached.store(false, Ordering::SeqCst);
    let server = format!("http://{}", stuck.address);
    let deploy = Running::start(world.command(&["deploy", "f", "--server", &server]));
    let seen = || format!("{} {}", deploy.out(), deploy.err());
    until(
        "the upload is under way",
        || stuck.reached.load(Ordering::SeqCst),
        seen,
    );
    deploy.signal(signal);
    deploy.ended()
}

#[test]
fn a_deploy_that_is_cut_off_in_its_upload_takes_back_what_it_did() {
    let world = World::new();
    let stuck = Stuck::before(world.server.address);
    write(&world, "memory = '64Mi'\n");
    let done = cut_off(&world, &stuck, "INT");
    assert_eq!(done.status, 130, "{done:#?}");
    assert!(
        done.err.contains("removed the function f again") && done.out.is_empty(),
        "{done:#?}"
    );
    assert_eq!(
        world.json(&["list"]),
        json!([]),
        "no function without code is left"
    );

    // One that was there before is what it was.
    world.write(&[("old/handler.py", "def handle(event): return 'old'\n")]);
    world.ok(&[
        "deploy",
        "old",
        "--name",
        "f",
        "--memory",
        "32Mi",
        "--timeout-seconds",
        "7",
    ]);
    let before = world.json(&["get", "f"]);
    let done = cut_off(&world, &stuck, "TERM");
    assert_eq!(done.status, 143, "{done:#?}");
    assert!(done.err.contains("f is as it was before"), "{done:#?}");
    let after = world.json(&["get", "f"]);
    for field in [
        "memory",
        "timeout_seconds",
        "code_sha256",
        "env",
        "entrypoint",
    ] {
        assert_eq!(before[field], after[field], "{field}");
    }
    until(
        "it answers",
        || world.run(&["invoke", "f"]).out == "old",
        || format!("{:?}", world.run(&["invoke", "f"])),
    );
}

#[test]
fn a_build_goes_on_without_the_command_that_asked_for_it() {
    let world = World::new();
    world.write(&[
        (
            "f/handler.py",
            "import time\ntime.sleep(2)\ndef handle(event): return 'slow'\n",
        ),
        (
            "f/sless.toml",
            "name = 'f'\nruntime = 'python3.11'\n[[trigger]]\nname = 'url'\ntype = 'http'\n",
        ),
    ]);
    let deploy = Running::start(world.command(&["deploy", "f"]));
    deploy.says("made the trigger url");
    deploy.signal("INT");
    let done = deploy.ended();
    assert_eq!(done.status, 130, "{done:#?}");
    assert!(
        done.err.contains("the build goes on: `sless get f` tells"),
        "{done:#?}"
    );
    until(
        "it is ready",
        || world.json(&["get", "f"])["phase"] == "Ready",
        || world.ok(&["get", "f"]),
    );
    assert_eq!(world.json(&["trigger", "get", "url"])["enabled"], true);
}

#[test]
fn following_a_log_ends_with_the_signal() {
    let world = World::new();
    world.hello();
    let logs = Running::start(world.command(&["logs", "hello", "--follow", "--runs"]));
    world.ok(&["invoke", "hello", "--data", r#"{"name":"Ada"}"#]);
    let seen = || format!("{} {}", logs.out(), logs.err());
    until("the line is there", || logs.out() == "greeting Ada\n", seen);
    logs.signal("INT");
    let done = logs.ended();
    assert_eq!((done.status, done.err.as_str()), (130, ""), "{done:#?}");
}
