//! What becomes of uploads that a validator looks at.

use sless_core::{ValidationAction, ValidationFailure, ValidationPolicy};

use super::{
    parse,
    reader::{Noted, Reader},
};

/// Who looks at uploads beside a model, and what becomes of verdicts.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ValidationSettings {
    /// What becomes of verdicts, and of uploads without one.
    pub policy: ValidationPolicy,
    /// Whether the rules that need no network look too.
    pub static_rules: bool,
}

pub(super) fn read(reader: &mut Reader<'_>) -> Result<ValidationSettings, Noted> {
    let action = reader.value("SLESS_VALIDATION", |text| {
        let words = [
            ("block", ValidationAction::Block),
            ("warn", ValidationAction::Warn),
            ("off", ValidationAction::Off),
        ];
        parse::word(text, &words)
    });
    let on_failure = reader.value("SLESS_VALIDATION_ON_FAILURE", |text| {
        let words = [
            ("soft", ValidationFailure::Soft),
            ("hard", ValidationFailure::Hard),
        ];
        parse::word(text, &words)
    });
    let static_rules = reader.value("SLESS_STATIC_VALIDATION", parse::boolean);
    Ok(ValidationSettings {
        policy: ValidationPolicy {
            action: action?,
            on_failure: on_failure?,
        },
        static_rules: static_rules?,
    })
}
