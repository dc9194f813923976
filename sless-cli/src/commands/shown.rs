//! How values of the API are shown to people.

use jiff::{SignedDuration, Timestamp, Unit};
use sless_api::{
    Function, FunctionPhase, Job, JobPhase, LogLine, LogSource, Receipt, Trigger, TriggerType,
};

use crate::{
    failure::Result,
    output::{Output, Paint},
};

/// What stands where there is nothing.
pub(super) const NOTHING: &str = "-";

pub(super) fn phase(output: &Output, function: &Function) -> String {
    let paint = match function.phase {
        FunctionPhase::Ready => Paint::Good,
        FunctionPhase::Failed => Paint::Bad,
        FunctionPhase::Stopped => Paint::Faint,
        _ => Paint::Busy,
    };
    output
        .paint(paint, &format!("{:?}", function.phase))
        .into_owned()
}

pub(super) fn job_phase(output: &Output, job: &Job) -> String {
    let paint = match job.phase {
        JobPhase::Succeeded => Paint::Good,
        JobPhase::Failed => Paint::Bad,
        JobPhase::Skipped => Paint::Faint,
        _ => Paint::Busy,
    };
    output
        .paint(paint, &format!("{:?}", job.phase))
        .into_owned()
}

/// How long ago, or how long until, in one or two units.
pub(super) fn ago(then: Timestamp, now: Timestamp) -> String {
    let distance = now.duration_since(then);
    let text = rough(distance.abs());
    if distance.is_negative() {
        format!("in {text}")
    } else {
        format!("{text} ago")
    }
}

fn rough(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A time to the second.
pub(super) fn time(at: Timestamp) -> String {
    at.round(Unit::Second).unwrap_or(at).to_string()
}

/// A number of bytes, in the units that people read.
pub(super) fn bytes(count: u64) -> String {
    indicatif::HumanBytes(count).to_string()
}

/// What a trigger waits for.
pub(super) fn waits_for(trigger: &Trigger) -> String {
    match trigger.kind {
        TriggerType::Cron => {
            let zone = trigger.time_zone.as_deref().unwrap_or("UTC");
            format!(
                "{} ({zone})",
                trigger.schedule.as_deref().unwrap_or(NOTHING)
            )
        }
        TriggerType::Event => trigger.queue.clone().unwrap_or_default(),
        _ => trigger.url.clone().unwrap_or_else(|| NOTHING.to_owned()),
    }
}

pub(super) fn trigger_type(kind: TriggerType) -> &'static str {
    match kind {
        TriggerType::Cron => "cron",
        TriggerType::Event => "event",
        _ => "http",
    }
}

/// How a trigger does, in a word.
pub(super) fn trigger_state(output: &Output, trigger: &Trigger) -> String {
    let (paint, word) = if !trigger.enabled {
        (Paint::Faint, "disabled")
    } else if trigger.active && trigger.connected != Some(false) {
        (Paint::Good, "active")
    } else {
        (Paint::Busy, trigger.reason.as_deref().unwrap_or("waiting"))
    };
    output.paint(paint, word).into_owned()
}

/// A line of a log as people read it.
pub(super) fn log_line(output: &Output, line: &LogLine, times: bool) -> String {
    let (paint, mark) = match line.source {
        LogSource::Build => (Paint::Faint, "build | "),
        LogSource::System => (Paint::Faint, "sless | "),
        _ => (Paint::Plain, ""),
    };
    let time = if times {
        format!("{} ", line.at)
    } else {
        String::new()
    };
    let cut = if line.truncated { " …[cut]" } else { "" };
    let text = safe(&line.text);
    output
        .paint(paint, &format!("{time}{mark}{text}{cut}"))
        .into_owned()
}

/// Text of others without what would steer the terminal.
pub(super) fn safe(text: &str) -> String {
    let text = console::strip_ansi_codes(text);
    let is_seen = |letter: &char| !letter.is_control() || matches!(letter, '\t' | '\n');
    text.chars().filter(is_seen).collect()
}

/// What a deletion removed, and what it has left.
pub(super) fn receipt(output: &Output, receipt: &Receipt) -> Result<()> {
    let rows = receipt.removed.iter().map(|item| {
        let removed = output.paint(Paint::Good, "removed").into_owned();
        vec![
            removed,
            item.kind.clone(),
            item.name.clone(),
            item.backend.clone(),
            String::new(),
        ]
    });
    let left = receipt.left.iter().map(|item| {
        let left = output.paint(Paint::Bad, "left").into_owned();
        let next = if item.again {
            "the server goes on"
        } else {
            "needs an operator"
        };
        let why = format!("{} ({next})", item.why);
        vec![
            left,
            item.kind.clone(),
            item.name.clone(),
            item.backend.clone(),
            why,
        ]
    });
    let rows: Vec<_> = rows.chain(left).collect();
    if rows.is_empty() {
        return output.line("nothing had been made for it");
    }
    output.table(&["STATE", "KIND", "NAME", "WHERE", "WHY"], rows)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn times_are_told_roughly() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        for (then, text) in [
            ("2025-12-31T23:59:59Z", "1s ago"),
            ("2025-12-31T23:57:30Z", "2m ago"),
            ("2025-12-31T00:00:00Z", "24h ago"),
            ("2025-12-01T00:00:00Z", "31d ago"),
            ("2026-01-01T00:01:30Z", "in 90s"),
        ] {
            assert_eq!(ago(then.parse().unwrap(), now), text);
        }
    }

    #[test]
    fn a_function_cannot_steer_the_terminal() {
        assert_eq!(safe("a\rb\u{8}c\u{7}\td"), "abc\td");
        assert_eq!(
            safe("\u{1b}[31mred\u{1b}[0m \u{1b}[2Jgone \u{1b}]0;title\u{7}x"),
            "red gone x"
        );
    }
}
