//! The validators from outside: by the suite, by rules one by one, through a scripted server, and on a
//! real one.

#![allow(clippy::unwrap_used)]

mod chain;
mod conformance;
mod corpus;
mod rules;

#[cfg(feature = "llm")]
mod attacks;
#[cfg(feature = "llm")]
mod failures;
#[cfg(feature = "llm")]
mod peer;
#[cfg(feature = "llm")]
mod real;
#[cfg(feature = "llm")]
mod requests;
#[cfg(feature = "llm")]
mod selection;
