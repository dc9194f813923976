//! The manifests of this folder, read back as values: for tests that compare what the two ways of
//! installing sless render, and that look at what its roles may do.
//!
//! The folder itself holds what is installed: `crds` and `kustomize` for kubectl, `helm` for Helm, `image`
//! for the server's image, `grafana` for what it looks like when it runs.

mod objects;
mod rules;

pub use objects::{Id, Objects, Unreadable};
pub use rules::{Right, rights_of};
