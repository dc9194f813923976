//! Annotations that the engine keeps on functions.

use crate::Runtime;

/// How often somebody asked for a failed build again.
pub(super) const BUILD_ATTEMPT: &str = "sless.io/build-attempt";

/// Whether the source asks for dependencies, and for which runtime that was found.
pub(super) const INSTALLS: &str = "sless.io/installs";

/// The value of [`INSTALLS`].
pub(super) fn write_installs(installs: bool, runtime: Runtime) -> String {
    format!("{runtime}:{installs}")
}

/// What [`INSTALLS`] says, if it was found for this runtime.
pub(super) fn read_installs(value: &str, runtime: Runtime) -> Option<bool> {
    let (found_for, installs) = value.split_once(':')?;
    (found_for == runtime.as_str()).then(|| installs.parse().ok())?
}
