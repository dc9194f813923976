//! Numbers and times, as people read them.

use std::time::Duration;

use jiff::Timestamp;
use maud::{Markup, html};

/// A time in UTC, to the second.
pub(crate) fn time(at: Timestamp) -> Markup {
    html! { time datetime=(format_args!("{at:.0}")) { (plain_time(at)) } }
}

/// A time in UTC as text, to the second.
pub(crate) fn plain_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// A duration in the unit that suits it.
pub(crate) fn duration(of: Duration) -> String {
    let milliseconds = of.as_secs_f64() * 1000.0;
    if milliseconds < 10.0 {
        format!("{milliseconds:.1} ms")
    } else if milliseconds < 10_000.0 {
        format!("{milliseconds:.0} ms")
    } else {
        format!("{:.1} s", milliseconds / 1000.0)
    }
}

/// A number of bytes in the unit that suits it.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let unit = UNITS[unit];
    if unit == "B" || value >= 100.0 {
        format!("{value:.0} {unit}")
    } else {
        format!("{value:.1} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_unit_that_suits_them() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(u64::MAX), "17179869184 GiB");
        assert_eq!(duration(Duration::from_micros(1500)), "1.5 ms");
        assert_eq!(duration(Duration::from_millis(1500)), "1500 ms");
        assert_eq!(duration(Duration::from_secs(61)), "61.0 s");
        let at = Timestamp::from_second(1_800_000_000).expect("in range");
        assert_eq!(plain_time(at), "2027-01-15 08:00:00 UTC");
    }
}
