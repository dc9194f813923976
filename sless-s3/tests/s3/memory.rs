//! How much memory a large body takes, as the kernel counts it.
//!
//! The test runs itself as another process, with a body of 200 MB and one of 400 MB, and compares the
//! most memory that each has had. A process takes its most within the first 200 MB: the allocator keeps
//! what parts in flight have needed at one time or another.

#![allow(clippy::print_stdout, reason = "it tells what it measured")]

use std::{env, fs, process::Command};

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use sless_core::{GetOptions, PutOptions, Storage as _};

use crate::service::{key, storage};

const SIZE: &str = "SLESS_S3_MEMORY_MEGABYTES";
const TEST: &str = "memory::a_body_of_400_megabytes_takes_no_more_memory_than_one_of_200";
const CHUNK: usize = 1_000_000;
/// How much more the larger body may take. It is 200 MB longer.
const GROWTH_KIB: u64 = 12 << 10;

#[tokio::test]
#[ignore = "needs S3: testing/s3/up"]
async fn a_body_of_400_megabytes_takes_no_more_memory_than_one_of_200() {
    if let Ok(megabytes) = env::var(SIZE) {
        return put_and_get(megabytes.parse().expect("a number")).await;
    }
    let (small, large) = (measure(200), measure(400));
    println!("200 MB: put {} KiB, put and get {} KiB", small.0, small.1);
    println!("400 MB: put {} KiB, put and get {} KiB", large.0, large.1);
    assert!(
        large.0 < small.0 + GROWTH_KIB,
        "putting: {small:?}, {large:?}"
    );
    assert!(
        large.1 < small.1 + GROWTH_KIB,
        "getting: {small:?}, {large:?}"
    );
}

/// The least of two processes: what the allocator keeps differs by some megabytes from one to the next,
/// while a body that is kept would show in both.
fn measure(megabytes: usize) -> (u64, u64) {
    let (first, second) = (measure_once(megabytes), measure_once(megabytes));
    (first.0.min(second.0), first.1.min(second.1))
}

fn measure_once(megabytes: usize) -> (u64, u64) {
    let child = Command::new(env::current_exe().expect("this program"))
        .args(["--exact", TEST, "--include-ignored", "--nocapture"])
        .env(SIZE, megabytes.to_string())
        .output()
        .expect("a child");
    let text = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(child.status.success(), "{text}");
    let told = |name: &str| {
        let line = text.lines().find_map(|line| line.split(name).nth(1));
        let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
        line.trim().parse().expect("a number")
    };
    (told("most-after-put:"), told("most-after-get:"))
}

async fn put_and_get(megabytes: usize) {
    let (storage, key) = (storage().await, key("large"));
    let chunks = (0..megabytes).map(|number| {
        let chunk: Vec<u8> = (0..CHUNK).map(|at| (at ^ number) as u8).collect();
        Ok(Bytes::from(chunk))
    });
    let body = stream::iter(chunks).boxed();
    let stored = storage.put(&key, body, &PutOptions::default()).await;
    assert_eq!(stored.expect("stored").size, (megabytes * CHUNK) as u64);
    println!("most-after-put: {}", most_kib());
    let fetched = storage
        .get(&key, &GetOptions::default())
        .await
        .expect("there");
    let read = fetched
        .body
        .try_fold(0, async |sum, chunk| Ok(sum + chunk.len()));
    assert_eq!(read.await.expect("a body"), megabytes * CHUNK);
    println!("most-after-get: {}", most_kib());
    storage.delete(&key).await.expect("gone");
}

/// The most memory that this process has had.
fn most_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.expect("VmHWM").parse().expect("a number")
}
