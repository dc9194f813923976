//! Source handling: an uploaded zip becomes one checked list of files, and that list is what a
//! validator sees, what is stored as build context and what is built.
//!
//! ```text
//! zip ──SourceArchive::open──▶ SourceTree ──reviewable──▶ Validator
//! folder ─pack::read_dir────▶      │ digest ────────────▶ the name of a deploy
//! context ─context::read────▶      └ context::write ────▶ tar.gz: a Dockerfile and the files
//! ```
//!
//! Everything here is synchronous, reads and writes files and inflates: from async code, call it
//! inside `tokio::task::spawn_blocking`. A [`SourceTree`] is `Send`, `Sync` and cheap to clone.
//!
//! # The digest
//! [`SourceTree::digest`] depends on paths, contents and executable bits only: not on times, owners,
//! the order of entries, the compression or the tool that packed them. It is the SHA-256 of
//! `sless-source-v1\n`, followed for each file, in the order of the bytes of its path, by
//!
//! ```text
//! path \0 ("x" if executable, else "-") \0 size in decimal \0 SHA-256 of the content in lower-case hex \n
//! ```
//!
//! where a path is relative, in UTF-8, with `/` between its segments. Directories do not count.
//!
//! # What a zip may hold
//! Every refusal names the entry and carries a reason word; `docs/decisions/0010-source-archives.md`
//! gives the rules and why each is there. In short: regular files and directories, stored or
//! deflated, each once, whose local header, central header and data say the same, with nothing
//! between, before or after them; relative paths that every file system can hold side by side.
//! `\` in a name becomes `/`. Modes are dropped but for the executable bit. `__MACOSX/` and
//! `.DS_Store`, which macOS adds by itself, are left out and listed in [`SourceTree::skipped`].
//! A single folder around everything is *not* stripped, and a zip inside the zip is a file like any
//! other.

pub mod context;
mod dependencies;
mod entrypoint;
mod file_reader;
mod limits;
pub mod pack;
mod path;
mod review;
mod tree;
mod tree_writer;
mod zip;

pub use self::{
    context::{Context, ContextInfo},
    dependencies::Dependencies,
    entrypoint::Entrypoint,
    file_reader::FileReader,
    limits::SourceLimits,
    review::ReviewSet,
    tree::{NewFile, SourceFile, SourceTree},
    zip::SourceArchive,
};
