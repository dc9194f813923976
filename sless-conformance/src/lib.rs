//! Conformance suites for backends of sless: one per trait, one named test per clause.

mod bytes;
mod clause;
mod harness;
mod suite;
mod unique;
mod volatile;
mod wheel;

pub mod builder;
pub mod catalog;
pub mod storage;

pub use clause::{Clause, Outcome, Violation};
pub use harness::{CLAUSE_TIME_MAX, Harness};
pub use volatile::Volatile;

#[doc(hidden)]
pub use harness::run;
