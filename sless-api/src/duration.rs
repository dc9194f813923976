//! Durations as people write them.

use std::{fmt, str::FromStr, time::Duration};

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A duration that is text on the wire: `"500ms"`, `"15s"`, `"1m 30s"`, or ISO 8601 `"PT15S"`.
///
/// Never negative. A bare number is refused, since its unit would be a guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WireDuration(pub Duration);

/// A text that is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{given}` is not a duration; expected a number with a unit, such as `500ms`, `15s` or `1m 30s`"
)]
pub struct InvalidDuration {
    given: String,
}

impl FromStr for WireDuration {
    type Err = InvalidDuration;

    fn from_str(text: &str) -> Result<Self, InvalidDuration> {
        text.parse::<SignedDuration>()
            .ok()
            .and_then(|duration| Duration::try_from(duration).ok())
            .map(Self)
            .ok_or_else(|| InvalidDuration {
                given: text.chars().take(64).collect(),
            })
    }
}

impl fmt::Display for WireDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let duration = SignedDuration::try_from(self.0).unwrap_or(SignedDuration::MAX);
        write!(f, "{duration:#}")
    }
}

impl From<Duration> for WireDuration {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl From<WireDuration> for Duration {
    fn from(duration: WireDuration) -> Self {
        duration.0
    }
}

impl Serialize for WireDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for WireDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = WireDuration;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration such as \"500ms\", \"15s\" or \"1m 30s\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<WireDuration, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_write_durations_in_several_ways() {
        for (text, milliseconds) in [
            ("500ms", 500),
            ("15s", 15_000),
            ("1m 30s", 90_000),
            ("PT15S", 15_000),
            ("0s", 0),
        ] {
            let duration: WireDuration = text.parse().expect(text);
            assert_eq!(duration.0, Duration::from_millis(milliseconds), "{text}");
        }
    }

    #[test]
    fn a_bare_number_a_negative_and_nonsense_are_refused() {
        for text in ["15", "-1s", "", "soon", "1 fortnight"] {
            assert!(text.parse::<WireDuration>().is_err(), "{text}");
        }
        assert!(serde_json::from_str::<WireDuration>("15").is_err());
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read_back(nanoseconds in 0..=u64::MAX / 2) {
            let duration = WireDuration(Duration::from_nanos(nanoseconds));
            proptest::prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = text.parse::<WireDuration>();
        }
    }
}
