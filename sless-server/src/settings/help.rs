//! The part of `--help` that lists the settings.

use std::fmt::Write;

use super::table::SETTINGS;

/// Every setting with its default and what it is for, as text.
pub fn help() -> String {
    let width = SETTINGS
        .iter()
        .map(|setting| setting.name.len())
        .max()
        .unwrap_or(0);
    let mut text = String::from(
        "Settings, from the environment or from a TOML file with the same names (--config, or\n\
         SLESS_CONFIG); the environment wins. A word in brackets is the cargo feature that the\n\
         setting needs.\n",
    );
    for setting in SETTINGS {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {:width$}  {}", setting.name, setting.help);
        if let Some(default) = setting.default.filter(|default| !default.is_empty()) {
            let _ = write!(text, " [default: {default}]");
        }
    }
    text
}
