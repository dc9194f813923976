//! The manifests, the chart and the dashboard: what they render, and that they install.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "this is how tests fail, and tell what they have measured"
)]

mod chart;
mod cluster;
mod confined;
mod dashboard;
mod forward;
mod function;
mod helm;
mod kustomize;
mod network;
mod render;
mod rights;
mod server;
mod tool;
mod work;
