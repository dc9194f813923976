//! From the text of an expression to a pattern, or to an error that names the field.

use crate::{
    Error, Result,
    cron::{
        calendar::Pattern,
        field::{DAY_OF_MONTH, DAY_OF_WEEK, Field, FieldKind, HOUR, MINUTE, MONTH},
    },
};

/// The longest expression that is read, in bytes. Every value of every field written out stays
/// below it.
pub const MAX_EXPRESSION_BYTES: usize = 1024;

const ALIASES: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// An expression that was read.
#[derive(Debug)]
pub(super) struct Expression {
    pub(super) pattern: Pattern,
    /// Whether it is a fixed-time schedule (see the module docs).
    pub(super) fixed_time: bool,
    /// The five fields again, with single blanks, numbers for names and without leading zeros.
    pub(super) normal: String,
}

/// Reads five fields or an alias.
pub(super) fn parse(text: &str) -> Result<Expression> {
    if text.len() > MAX_EXPRESSION_BYTES {
        return Err(Error::limit(
            "cron_expression",
            MAX_EXPRESSION_BYTES,
            "bytes",
        ));
    }
    let fields: Vec<&str> = match alias(text)? {
        Some(expanded) => expanded.split(' ').collect(),
        None => text.split_ascii_whitespace().collect(),
    };
    let [minute, hour, day, month, weekday] = fields[..] else {
        return Err(wrong_number(text, &fields));
    };
    let read = |kind: &FieldKind, field: &str| read(text, kind, field);
    let minute = read(&MINUTE, minute)?;
    let hour = read(&HOUR, hour)?;
    let day = read(&DAY_OF_MONTH, day)?;
    let month = read(&MONTH, month)?;
    let weekday = read(&DAY_OF_WEEK, weekday)?;

    let pattern = Pattern {
        minutes: minute.mask,
        hours: low_bits(hour.mask),
        days: low_bits(day.mask),
        months: (month.mask & 0x1ffe) as u16,
        // 7 is Sunday too.
        weekdays: ((weekday.mask | weekday.mask >> 7) & 0x7f) as u8,
        either_day: !day.star && !weekday.star,
    };
    if !pattern.fires_ever() {
        return Err(Error::invalid(format!(
            "schedule {} never fires: day of month is \"{}\" and month is \"{}\", expected a day that one of these months has",
            shown(text), day.normal, month.normal
        ))
        .with_reason("cron_never_fires"));
    }
    Ok(Expression {
        pattern,
        fixed_time: !minute.star && !hour.star,
        normal: [
            minute.normal,
            hour.normal,
            day.normal,
            month.normal,
            weekday.normal,
        ]
        .join(" "),
    })
}

fn alias(text: &str) -> Result<Option<&'static str>> {
    let text = text.trim_ascii();
    if !text.starts_with('@') {
        return Ok(None);
    }
    let found = ALIASES
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(text));
    found.map(|(_, fields)| Some(*fields)).ok_or_else(|| {
        let names = ALIASES.map(|(name, _)| name).join(", ");
        refused(format!(
            "schedule {} is not known, expected five fields or one of {names}",
            shown(text)
        ))
    })
}

fn read(text: &str, kind: &FieldKind, field: &str) -> Result<Field> {
    kind.parse(field).map_err(|problem| {
        refused(format!(
            "schedule {}: {} is {}, expected {}",
            shown(text),
            kind.name,
            shown(&problem.given),
            problem.expected
        ))
    })
}

fn wrong_number(text: &str, fields: &[&str]) -> Error {
    let names = [&MINUTE, &HOUR, &DAY_OF_MONTH, &MONTH, &DAY_OF_WEEK].map(|kind| kind.name);
    let lacking = match names.get(fields.len()) {
        Some(name) => format!("{name} is missing"),
        None => {
            let extra = fields.get(5).copied().unwrap_or_default();
            format!(
                "there is no field for {} (seconds and years are not supported)",
                shown(extra)
            )
        }
    };
    refused(format!(
        "schedule {} has {} fields, expected the five fields {}: {lacking}",
        shown(text),
        fields.len(),
        names.join(", "),
    ))
}

fn refused(message: String) -> Error {
    Error::invalid(message).with_reason("cron_field")
}

/// Input as it stands in a message: quoted, escaped and not longer than it helps.
pub(super) fn shown(text: &str) -> String {
    const SHOWN: usize = 64;
    if text.chars().count() <= SHOWN {
        return format!("{text:?}");
    }
    let start: String = text.chars().take(SHOWN).collect();
    format!("{start:?}…")
}

/// The masks of hours and days fit into 32 bits, since their fields end at 23 and 31.
fn low_bits(mask: u64) -> u32 {
    (mask & u64::from(u32::MAX)) as u32
}
