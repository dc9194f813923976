//! Amounts of memory and processor, written as Kubernetes writes them.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// An amount such as `256Mi`, `1.5G` or `500m`: a decimal number and one of the suffixes `m`, `k`,
/// `M`, `G`, `T`, `Ki`, `Mi`, `Gi`, `Ti` (Kubernetes API reference, "Quantity", without exponents).
///
/// Keeps the text as it was written; two quantities are equal when their amounts are.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Quantity {
    text: String,
    milli: u64,
}

impl Quantity {
    /// The amount in thousandths: for a processor share, 1000 is one core.
    pub const fn milli(&self) -> u64 {
        self.milli
    }

    /// The amount, rounded up: for memory, bytes.
    pub const fn value(&self) -> u64 {
        self.milli.div_ceil(1000)
    }

    /// The text as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.milli == other.milli
    }
}

impl Eq for Quantity {}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Quantity> for String {
    fn from(quantity: Quantity) -> Self {
        quantity.text
    }
}

impl TryFrom<String> for Quantity {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl FromStr for Quantity {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse(text).map(|milli| Self { text: text.to_owned(), milli }).ok_or_else(|| {
            let shown: String = text.chars().take(40).collect();
            Error::invalid(format!(
                "quantity {shown:?}: expected a positive number with an optional suffix m, k, M, G, \
                 T, Ki, Mi, Gi or Ti, such as 256Mi or 500m"
            ))
            .with_reason("quantity_invalid")
        })
    }
}

/// The amount in thousandths; `None` where the text is no quantity, is nothing, or is too much.
fn parse(text: &str) -> Option<u64> {
    const SUFFIXES: [(&str, u128); 9] = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("k", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
        ("", 1),
    ];
    let (number, milli) = match text.strip_suffix('m') {
        Some(number) => (number, 1),
        None => SUFFIXES
            .iter()
            .find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, factor * 1_000)))?,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    if number.ends_with('.') {
        return None;
    }
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let amount = digits.checked_mul(milli)?.div_ceil(scale);
    u64::try_from(amount).ok().filter(|amount| *amount > 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn suffixes_count_as_kubernetes_counts_them() {
        for (text, milli) in [
            ("1", 1_000),
            ("500m", 500),
            ("1.5", 1_500),
            ("2k", 2_000_000),
            ("1Ki", 1_024_000),
            ("256Mi", 268_435_456_000),
            ("0.0005", 1),
        ] {
            assert_eq!(
                text.parse::<Quantity>().expect(text).milli(),
                milli,
                "{text}"
            );
        }
        for bad in [
            "",
            "m",
            "Mi",
            "-1",
            "0",
            "1.",
            ".5",
            "1e3",
            "1 Mi",
            "1mi",
            "99999999999999Ti",
        ] {
            assert!(bad.parse::<Quantity>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_accepted_or_refused(text in ".{0,24}") {
            if let Ok(quantity) = text.parse::<Quantity>() {
                prop_assert_eq!(quantity.to_string(), text);
            }
        }
    }
}
