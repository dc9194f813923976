//! `S3Storage` on a real service, and on that service behind a proxy that does what networks do.
//!
//! All but a few need one: `testing/s3/up` starts it, and gives the variables that these tests read.

mod conformance;
mod connect;
mod faults;
mod memory;
mod options;
mod proxy;
mod races;
mod service;
mod uploads;
