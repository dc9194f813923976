//! The attribute `timeouts`, as users know it from other providers.

use std::time::Duration;

use jiff::SignedDuration;

use crate::{Action, Attribute, Value};

/// The name of the attribute.
const NAME: &str = "timeouts";

/// The attribute `timeouts` for these actions. Its values are texts such as `90s` or `1h 30m`.
///
/// An import cannot know it: an object without values stands for it then.
pub fn attribute(actions: &[Action], default: Duration) -> Attribute {
    let default = show(default);
    let inner = |action: &Action| {
        let docs = format!(
            "How long {} may take, such as `90s` or `30m`; `{default}` by default.",
            action.name()
        );
        Attribute::string(action.name(), &docs)
            .optional()
            .checked(|value| parse(value.as_str().unwrap_or_default()).map(drop))
            .same_when(|one, other| {
                let parsed = |value: &Value| value.as_str().and_then(|text| parse(text).ok());
                parsed(one).is_some() && parsed(one) == parsed(other)
            })
    };
    let docs = "How long operations may take.";
    let nothing = actions
        .iter()
        .map(|action| (action.name(), Value::Null))
        .collect::<Value>();
    Attribute::single(NAME, actions.iter().map(inner).collect(), docs).with_stand_in(nothing)
}

/// What `timeouts` says about an action; none where it says nothing.
pub fn of(value: &Value, action: Action) -> Option<Duration> {
    let text = value.at(NAME).at(action.name()).as_str()?;
    parse(text).ok()
}

/// Reads a duration: `90s`, `10m`, `1h 30m`. A bare number is refused, since its unit would be a guess.
///
/// # Errors
/// A sentence.
pub fn parse(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<SignedDuration>().ok();
    let parsed = parsed.and_then(|duration| Duration::try_from(duration).ok());
    parsed
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| {
            let given: String = text.chars().take(40).collect();
            format!("`{given}` is not a duration; expected one above zero, such as `90s` or `10m`.")
        })
}

/// A duration as people write it.
pub fn show(duration: Duration) -> String {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    format!("{duration:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(parse("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse("1h 30m"), Ok(Duration::from_secs(5_400)));
        assert_eq!(parse("1h30m"), Ok(Duration::from_secs(5_400)));
        for text in ["90", "", "-1s", "0s", "2x"] {
            assert!(parse(text).expect_err(text).contains("such as"), "{text}");
        }
        assert_eq!(show(Duration::from_secs(1200)), "20m");
    }
}
