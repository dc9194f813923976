//! What the fuzz targets do with their input, apart from libFuzzer, so that the stored inputs, and changed
//! ones, run as an ordinary test too. A target answers whether its input was accepted where all is well, and
//! panics where it is not.

mod cron;
mod manifest;
mod token;
mod zip;

/// A target: its name, and what it does.
pub type Target = (&'static str, fn(&[u8]) -> bool);

/// All targets.
pub const TARGETS: [Target; 5] = [
    ("cron", cron::run),
    ("frames", sless_runtime::fuzzing::frames),
    ("manifest", manifest::run),
    ("token", token::run),
    ("zip", zip::run),
];

/// Runs the target of this name.
///
/// # Panics
/// Where there is none of this name, and where the input shows a fault.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    let Some((_, run)) = target else {
        panic!("there is no target {name}");
    };
    run(data);
}
