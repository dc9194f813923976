//! The whole engine on backends in memory, a virtual clock and faults, all from one number.
//!
//! A seed gives a script: what clients ask for, what fails, when the process is restarted or crashes,
//! when the lease moves between two engines. When it is over the faults end, and what is must become
//! what is wanted: [`checks`] says what that means. A seed goes the same way each time it is run, so
//! that one that fails can be looked at, and is then added to [`FAILED_ONCE`].
//!
//! `SLESS_TEST_SEEDS` says which seeds are run, `10000` or `500..600`.

mod checks;
mod client;
mod ops;
mod script;
mod seen;
mod watched;
mod world;

use std::ops::Range;

use self::{script::Script, world::Ended};

/// The seeds of a run where nothing is said.
const SEEDS: Range<u64> = 0..120;

/// Seeds that once found a fault, each in the version that had it.
const FAILED_ONCE: &[u64] = &[
    // A revision without a handler was begun anew at each look, which hinted at the next look.
    2,
    // What a crash took along was said to serve on while its successor could not be built.
    31,
    // A claim whose answer was lost was never run, and stopped its schedule until the next restart.
    125, // A version that was given up before it served left its build behind.
    1068,
    // A function was told of its new code, the answer was lost, and the code was removed.
    758, 1149,
    // A version that came up while its successor could not be built was not said to serve.
    884, 1463, // A job whose function went during its run stayed Running.
    3529, 7234,
    // A trigger that had become one of another type left its dead letters behind when it was deleted.
    1559,
];

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("SLESS_TEST_SEEDS") else {
        return SEEDS;
    };
    let number = |text: &str| {
        text.parse()
            .expect("SLESS_TEST_SEEDS is `count` or `first..end`")
    };
    match text.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => 0..number(&text),
    }
}

/// Runs a seed, and tells everything of it where it fails.
fn check(seed: u64) -> Ended {
    let script = Script::of(seed);
    let ended = world::run(&script);
    if !ended.broken.is_empty() {
        let (script, trace) = (script.to_string(), ended.trace.join("\n"));
        panic!(
            "seed {seed}:\n{}\n\nscript:\n{script}\nthe last that happened:\n{trace}",
            ended.broken.join("\n")
        );
    }
    ended
}

#[test]
fn every_seed_converges() {
    let mut failed = Vec::new();
    for seed in seeds() {
        // The others are run all the same: how many fail says what kind of fault it is.
        if std::panic::catch_unwind(|| check(seed)).is_err() {
            failed.push(seed);
        }
    }
    assert!(
        failed.is_empty(),
        "{} seeds failed: {failed:?}",
        failed.len()
    );
}

#[test]
fn a_seed_goes_the_same_way_each_time() {
    for seed in 0..12 {
        let (first, second) = (check(seed), check(seed));
        assert_eq!(first.digest, second.digest, "seed {seed}");
    }
    assert_ne!(check(0).digest, check(1).digest, "a digest of nothing");
}

#[test]
fn seeds_that_failed_once_converge() {
    for seed in FAILED_ONCE {
        check(*seed);
    }
}
