//! The entry point of function images.

fn main() {}
