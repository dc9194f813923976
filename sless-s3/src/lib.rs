#![doc = include_str!("../README.md")]

mod bucket;
mod client;
mod config;
mod dropped;
mod error;
mod get;
mod list;
mod parts;
mod presign;
mod probe;
mod put;
mod refusal;
mod storage;
mod upload;

pub use self::{
    config::{
        S3Addressing, S3Checksums, S3Config, S3Credentials, S3Encryption, S3IfAbsent, S3Limits,
        S3Patience,
    },
    storage::S3Storage,
};
