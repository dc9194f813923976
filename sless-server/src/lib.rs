//! The reference server of sless.
