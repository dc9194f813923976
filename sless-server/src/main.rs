//! The reference server.
fn main() {}
