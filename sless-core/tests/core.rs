//! Integration tests of `sless-core`, in one binary. This file is a list of modules.
#![allow(clippy::unwrap_used)]

#[path = "core/cron_vectors.rs"]
mod cron_vectors;
#[path = "core/engine/mod.rs"]
mod engine;
#[path = "core/simulation/mod.rs"]
mod simulation;
#[path = "core/source/mod.rs"]
mod source;
#[path = "core/year_of_cron/mod.rs"]
mod year_of_cron;
