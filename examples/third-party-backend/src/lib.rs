#![doc = include_str!("../README.md")]

pub mod closures;
pub mod folder;

pub use closures::Closures;
pub use folder::FolderStorage;
