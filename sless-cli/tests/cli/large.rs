//! A folder of ten thousand files.

#![allow(clippy::print_stderr, reason = "it tells what it measured")]

use std::{
    fs,
    time::{Duration, Instant},
};

use crate::support::{Running, World};

/// What the command may hold in memory, in KiB, as the system counts it: its code, its libraries, and
/// the names of the files. The contents, 40 MB, are not among it.
const MEMORY_KIB: u64 = 100 << 10;

#[test]
fn ten_thousand_files_are_deployed_without_a_stall_and_in_bounded_memory() {
    let world = World::new();
    world.write(&[("f/handler.py", "def handle(event): return 'large'\n")]);
    let folder = world.work().join("f");
    let mut random = fastrand::Rng::with_seed(1);
    for file in 0..9_999 {
        let text: String = (0..4_000).map(|_| random.alphanumeric()).collect();
        fs::write(folder.join(format!("data-{file:04}.txt")), text).unwrap();
    }
    let began = Instant::now();
    let deploy = Running::start(world.command(&["deploy", "f"]));
    let status = format!("/proc/{}/status", deploy.child.id());
    let mut peak = 0;
    while let Ok(status) = fs::read_to_string(&status) {
        let line = status.lines().find(|line| line.starts_with("VmHWM:"));
        let Some(line) = line else { break };
        let kib = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        peak = u64::max(peak, kib);
        std::thread::sleep(Duration::from_millis(20));
    }
    let done = deploy.ended();
    let took = began.elapsed();
    assert_eq!(done.status, 0, "{done:#?}");
    assert!(done.err.contains("10000 files"), "{done:#?}");
    eprintln!("10,000 files of 4 kB: {took:?}, {} MiB at most", peak >> 10);
    assert!(peak > 0 && peak < MEMORY_KIB, "{peak} KiB");
    assert_eq!(world.ok(&["invoke", "f"]), "large");
    // One more is one too many, and the limit is named at once.
    fs::write(folder.join("one-more.txt"), "").unwrap();
    world.fails(&["deploy", "f"], 2, "source_entries");
}
