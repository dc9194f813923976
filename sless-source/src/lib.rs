//! The folder of a function, as people keep it: a manifest `sless.toml`, the code, and what is ignored
//! of it. What `sless-server dev`, the command `sless` and a Terraform provider share, so that one
//! folder is the same function to all of them.
//!
//! ```
//! use sless_core::source::SourceLimits;
//! use sless_source::{Folder, Overrides};
//!
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path().join("hello");
//! # std::fs::create_dir(&folder)?;
//! std::fs::write(folder.join("handler.py"), "def handle(event): return event\n")?;
//! let content = Folder::open(&folder)?.read(&SourceLimits::default(), &Overrides::default())?;
//! assert_eq!(content.name.as_str(), "hello");
//! assert_eq!(content.request.runtime, "python3.11");
//! let zip = content.zip()?; // an unnamed file, at its start
//! println!("{} bytes, {}", zip.bytes, content.tree.digest());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Everything here blocks: from async code, call it inside `spawn_blocking`. Contents go through a
//! temporary file, so that memory stays bounded whatever a folder holds; how much it may hold is
//! [`SourceLimits`](sless_core::source::SourceLimits).

mod error;
mod files;
mod folder;
mod manifest;
mod overrides;
#[cfg(feature = "watch")]
mod watch;
pub mod wire;

pub use error::FolderError;
pub use files::{IGNORE_FILES, is_taken, read_tree};
pub use folder::{Content, Folder, Zip};
pub use manifest::{Declared, FILE, Manifest, ManifestError};
pub use overrides::Overrides;
#[cfg(feature = "watch")]
pub use watch::{Told, Watch};
