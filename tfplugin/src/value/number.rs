//! Numbers of any size, as decimals.

use std::{cmp::Ordering, fmt, str::FromStr};

/// Digits of a number, and of its exponent's reach, at most.
const DIGITS_MAX: usize = 4_096;

/// An exact decimal number.
///
/// Terraform computes with 512 bits; a number that went through a 64-bit float comes back as another
/// one, and then a plan never settles. So numbers stay text: digits and an exponent of ten, in one
/// form per value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Number {
    negative: bool,
    /// Without zeros at either end; empty for zero.
    digits: String,
    /// The power of ten of the last digit; 0 for zero.
    exponent: i64,
}

/// A text that is not a number, or one that is too long.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a decimal number of at most {DIGITS_MAX} digits")]
pub struct InvalidNumber {
    given: String,
}

impl Number {
    fn new(negative: bool, digits: &str, exponent: i64) -> Option<Self> {
        let digits = digits.trim_start_matches('0');
        let kept = digits.trim_end_matches('0');
        if kept.is_empty() {
            return Some(Self::default());
        }
        let exponent = exponent.checked_add(i64::try_from(digits.len() - kept.len()).ok()?)?;
        let reach = exponent.unsigned_abs().max(kept.len() as u64);
        (reach <= DIGITS_MAX as u64).then(|| Self {
            negative,
            digits: kept.to_owned(),
            exponent,
        })
    }

    /// The exact value of a float; none for what is not finite.
    pub fn from_f64(value: f64) -> Option<Self> {
        // A double's decimal expansion ends after at most 1,074 places.
        value
            .is_finite()
            .then(|| format!("{value:.1074}").parse().ok())
            .flatten()
    }

    /// The value, where it is whole and fits.
    pub fn to_i64(&self) -> Option<i64> {
        self.to_integer()?.try_into().ok()
    }

    /// The value, where it is whole, not negative, and fits.
    pub fn to_u64(&self) -> Option<u64> {
        self.to_integer()?.try_into().ok()
    }

    fn to_integer(&self) -> Option<i128> {
        let shift = u32::try_from(self.exponent).ok()?;
        if self.digits.is_empty() {
            return Some(0);
        }
        let digits: i128 = self.digits.parse().ok()?;
        let value = digits.checked_mul(10_i128.checked_pow(shift)?)?;
        Some(if self.negative { -value } else { value })
    }
}

impl FromStr for Number {
    type Err = InvalidNumber;

    fn from_str(text: &str) -> Result<Self, InvalidNumber> {
        parse(text).ok_or_else(|| InvalidNumber {
            given: text.chars().take(40).collect(),
        })
    }
}

fn parse(text: &str) -> Option<Number> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => {
            let unsigned = exponent.trim_start_matches(['+', '-']);
            if !is_digits(unsigned) || exponent.len() > unsigned.len() + 1 {
                return None;
            }
            (mantissa, exponent.parse::<i64>().ok()?)
        }
        None => (rest, 0),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) if is_digits(fraction) => (whole, fraction),
        Some(_) => return None,
        None => (mantissa, ""),
    };
    if !is_digits(whole) || mantissa.len() > 2 * DIGITS_MAX {
        return None;
    }
    let exponent = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    Number::new(negative, &format!("{whole}{fraction}"), exponent)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

impl From<i128> for Number {
    fn from(value: i128) -> Self {
        Self::new(value < 0, &value.unsigned_abs().to_string(), 0).unwrap_or_default()
    }
}

impl fmt::Display for Number {
    /// Without an exponent, as Terraform writes numbers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.digits.is_empty() {
            return f.write_str("0");
        }
        if self.negative {
            f.write_str("-")?;
        }
        let digits = self.digits.as_str();
        let zeros = |count: usize| "0".repeat(count);
        let places = usize::try_from(self.exponent.unsigned_abs()).unwrap_or(DIGITS_MAX);
        match self.exponent.cmp(&0) {
            Ordering::Greater => write!(f, "{digits}{}", zeros(places)),
            Ordering::Equal => f.write_str(digits),
            Ordering::Less if digits.len() > places => {
                let (whole, fraction) = digits.split_at(digits.len() - places);
                write!(f, "{whole}.{fraction}")
            }
            Ordering::Less => write!(f, "0.{}{digits}", zeros(places - digits.len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        text.parse().expect(text)
    }

    #[test]
    fn one_value_has_one_form() {
        for (one, other) in [
            ("1.50", "15e-1"),
            ("0", "-0.000"),
            ("100", "1e2"),
            ("+7", "007"),
            ("0.001", "1E-3"),
        ] {
            assert_eq!(number(one), number(other), "{one} {other}");
        }
        assert_ne!(
            number("0.1"),
            number("0.1000000000000000055511151231257827")
        );
    }

    #[test]
    fn what_is_not_a_number_is_refused() {
        for text in [
            "", "-", ".5", "5.", "1e", "1e+-2", "0x10", "NaN", "inf", "1_0", " 1", "1e99999",
        ] {
            assert!(text.parse::<Number>().is_err(), "{text:?}");
        }
        assert!("9".repeat(DIGITS_MAX + 1).parse::<Number>().is_err());
    }

    #[test]
    fn floats_keep_their_exact_value() {
        let float = |value: f64| Number::from_f64(value).expect("finite").to_string();
        assert_eq!(float(0.5), "0.5");
        assert_eq!(float(-1e22), "-10000000000000000000000");
        assert!(float(0.1).starts_with("0.1000000000000000055511151231257827"));
        assert!(
            Number::from_f64(f64::from_bits(1)).is_some(),
            "the smallest one"
        );
        assert_eq!(Number::from_f64(f64::NAN), None);
    }

    #[test]
    fn whole_numbers_that_fit_are_integers() {
        assert_eq!(number("9223372036854775807").to_i64(), Some(i64::MAX));
        assert_eq!(number("9223372036854775808").to_i64(), None);
        assert_eq!(number("18446744073709551615").to_u64(), Some(u64::MAX));
        assert_eq!(number("-1").to_u64(), None);
        assert_eq!(number("1.5").to_i64(), None);
        assert_eq!(number("1e3000").to_i64(), None);
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read_back(text in "-?[0-9]{1,30}(\\.[0-9]{1,30})?(e-?[0-9]{1,2})?") {
            let number = number(&text);
            proptest::prop_assert_eq!(number.to_string().parse(), Ok(number));
        }

        #[test]
        fn integers_survive(value: i64) {
            proptest::prop_assert_eq!(Number::from(i128::from(value)).to_i64(), Some(value));
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = text.parse::<Number>();
        }
    }
}
