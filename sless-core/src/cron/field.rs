//! One field of an expression: text to the set of values it stands for.

use std::fmt::Write as _;

/// Which field, with its name in messages, its values and its names for values.
#[derive(Debug)]
pub(super) struct FieldKind {
    pub(super) name: &'static str,
    pub(super) min: u8,
    pub(super) max: u8,
    /// Names of the values, from `min` on.
    names: &'static [&'static str],
}

pub(super) const MINUTE: FieldKind = FieldKind {
    name: "minute",
    min: 0,
    max: 59,
    names: &[],
};
pub(super) const HOUR: FieldKind = FieldKind {
    name: "hour",
    min: 0,
    max: 23,
    names: &[],
};
pub(super) const DAY_OF_MONTH: FieldKind = FieldKind {
    name: "day of month",
    min: 1,
    max: 31,
    names: &[],
};
pub(super) const MONTH: FieldKind = FieldKind {
    name: "month",
    min: 1,
    max: 12,
    names: &[
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ],
};
pub(super) const DAY_OF_WEEK: FieldKind = FieldKind {
    name: "day of week",
    min: 0,
    max: 7,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

/// A parsed field.
#[derive(Debug)]
pub(super) struct Field {
    /// Bit `n` stands for the value `n`.
    pub(super) mask: u64,
    /// Whether the text begins with `*`, on which Vixie's rules turn.
    pub(super) star: bool,
    /// The field again, with numbers for names and without leading zeros.
    pub(super) normal: String,
}

/// What was wrong with a field: the part that was given, and what was expected in its place.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) given: String,
    pub(super) expected: String,
}

impl FieldKind {
    /// Reads the whole field.
    pub(super) fn parse(&self, text: &str) -> Result<Field, Problem> {
        let mut field = Field {
            mask: 0,
            star: text.starts_with('*'),
            normal: String::with_capacity(text.len()),
        };
        for item in text.split(',') {
            if item.is_empty() {
                return Err(Problem {
                    given: text.to_owned(),
                    expected: "a value between any two commas".to_owned(),
                });
            }
            if !field.normal.is_empty() {
                field.normal.push(',');
            }
            self.item(item, &mut field)?;
        }
        Ok(field)
    }

    fn item(&self, item: &str, field: &mut Field) -> Result<(), Problem> {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(self.step(step, item)?)),
            None => (item, None),
        };
        let (first, last) = if range == "*" {
            field.normal.push('*');
            (self.min, self.max)
        } else if let Some((first, last)) = range.split_once('-') {
            let first = self.value(first, item)?;
            let last = self.range_end(first, last, item)?;
            let _ = write!(field.normal, "{first}-{last}");
            (first, last)
        } else {
            let value = self.value(range, item)?;
            let _ = write!(field.normal, "{value}");
            (value, if step.is_some() { self.max } else { value })
        };
        // `*/1` is `*` and `a-b/1` is `a-b`, but `n/1` is not `n`.
        if let Some(step) = step
            && (step > 1 || !range.contains(['*', '-']))
        {
            let _ = write!(field.normal, "/{step}");
        }
        for value in (first..=last).step_by(usize::from(step.unwrap_or(1))) {
            field.mask |= 1 << value;
        }
        Ok(())
    }

    fn step(&self, text: &str, item: &str) -> Result<u8, Problem> {
        number(text)
            .filter(|step| (1..=self.max).contains(step))
            .ok_or_else(|| Problem {
                given: item.to_owned(),
                expected: format!("a step from 1 to {} after \"/\"", self.max),
            })
    }

    fn range_end(&self, first: u8, text: &str, item: &str) -> Result<u8, Problem> {
        let last = match self.value(text, item)? {
            // Sunday ends the week as well as it begins it: `fri-sun`, but not `5-0`.
            0 if self.max == 7 && first > 0 && number(text).is_none() => 7,
            last => last,
        };
        if first > last {
            return Err(Problem {
                given: item.to_owned(),
                expected: "a range that does not end before it begins".to_owned(),
            });
        }
        Ok(last)
    }

    fn value(&self, text: &str, item: &str) -> Result<u8, Problem> {
        let named = || {
            let at = self
                .names
                .iter()
                .position(|name| name.eq_ignore_ascii_case(text))?;
            u8::try_from(at).ok().map(|at| at + self.min)
        };
        number(text)
            .filter(|value| (self.min..=self.max).contains(value))
            .or_else(named)
            .ok_or_else(|| Problem {
                given: item.to_owned(),
                expected: self.expected(),
            })
    }

    fn expected(&self) -> String {
        let mut text = format!("a number from {} to {}", self.min, self.max);
        if let (Some(first), Some(last)) = (self.names.first(), self.names.last()) {
            let _ = write!(text, " or a name from \"{first}\" to \"{last}\"");
        }
        text.push_str(", \"*\", a range such as \"1-5\", each with a step such as \"/2\" if wanted, or a comma-separated list of these");
        text
    }
}

/// Decimal digits and nothing else; `str::parse` alone would let a sign pass.
fn number(text: &str) -> Option<u8> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}
