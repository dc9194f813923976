//! A server that is killed at named points and at any moment of upload, build, deploy, schedule, queue and
//! job, and started again on the same data folder: the old version or the new one serves, never a mix;
//! what was accepted is delivered at least once; a job ends exactly once; nothing is left running, nothing
//! is left over, and nothing grows.

#![allow(clippy::print_stdout, reason = "the kills are counted")]

mod calm;
mod check;
mod code;
mod drive;
mod ledger;
mod plan;
mod world;

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
};

use self::{
    plan::{Plan, points},
    world::World,
};

/// How many rounds there are; others by `SLESS_TEST_ROUNDS`.
const ROUNDS: u32 = 60;

/// How many servers go through them side by side.
const WORLDS: usize = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whenever_it_is_killed_nothing_is_half_done_or_left_over() {
    let rounds = env::var("SLESS_TEST_ROUNDS").map_or(ROUNDS, |count| count.parse().unwrap());
    let seed = env::var("SLESS_TEST_SEED")
        .map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("{rounds} rounds, SLESS_TEST_SEED={seed}");
    let each = rounds.div_ceil(u32::try_from(WORLDS).unwrap());
    let worlds: Vec<_> = (0..WORLDS)
        .map(|world| tokio::spawn(World::new(Plan::new(seed, world, WORLDS)).run(each)))
        .collect();
    let mut reached = BTreeMap::new();
    for world in worlds {
        let mut world = world.await.unwrap();
        println!("{}", world.summary());
        for (point, times) in &world.plan.reached {
            *reached.entry(*point).or_insert(0) += times;
        }
    }
    for (point, times) in &reached {
        println!("{times:>4} {}", point.name());
    }
    let missing: BTreeSet<_> = points()
        .into_iter()
        .filter(|point| !reached.contains_key(point))
        .collect();
    assert!(missing.is_empty(), "never reached: {missing:?}");
}
