//! Plots of calls, drawn here as SVG: no script, and colours from the style.

use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use crate::{format, text::Texts};

/// How many columns a plot has.
const COLUMNS: usize = 60;
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 96.0;
/// Room for the words below the columns.
const FOOT: f64 = 18.0;

/// One call, as far as plots know it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) at: Timestamp,
    pub(crate) milliseconds: f64,
    pub(crate) failed: bool,
}

#[derive(Clone, Debug, Default)]
struct Column {
    calls: usize,
    failed: usize,
    milliseconds: Vec<f64>,
}

/// Rate, errors and latency of these calls between two times.
pub(crate) fn plots(texts: &Texts, samples: &[Sample], from: Timestamp, to: Timestamp) -> Markup {
    let columns = columns(samples, from, to);
    let calls: Vec<f64> = columns.iter().map(|column| column.calls as f64).collect();
    let failed: Vec<f64> = columns.iter().map(|column| column.failed as f64).collect();
    let part = |part: f64| -> Vec<Option<f64>> {
        let of = |column: &Column| percentile(&column.milliseconds, part);
        columns.iter().map(of).collect()
    };
    let mut all: Vec<f64> = samples.iter().map(|sample| sample.milliseconds).collect();
    all.sort_by(f64::total_cmp);
    let total = |values: &[f64]| values.iter().sum::<f64>();
    let peak = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let counted = |values: &[f64]| {
        format!(
            "{} {:.0}, {} {:.0}",
            texts.total,
            total(values),
            texts.peak,
            peak(values)
        )
    };
    let latency = match (percentile(&all, 0.5), percentile(&all, 0.95)) {
        (Some(median), Some(most)) => format!("{median:.1} / {most:.1}"),
        _ => texts.plot_none.to_owned(),
    };
    html! {
        div.plots {
            (figure(texts.plot_rate, &counted(&calls), from, to, bars(&calls, "rate")))
            (figure(texts.plot_errors, &counted(&failed), from, to, bars(&failed, "errors")))
            (figure(texts.plot_latency, &latency, from, to, lines(&part(0.5), &part(0.95))))
        }
    }
}

fn columns(samples: &[Sample], from: Timestamp, to: Timestamp) -> Vec<Column> {
    let mut columns = vec![Column::default(); COLUMNS];
    let span = to.duration_since(from).max(SignedDuration::from_millis(1));
    for sample in samples {
        let place = sample.at.duration_since(from).as_secs_f64() / span.as_secs_f64();
        if !(0.0..=1.0).contains(&place) {
            continue;
        }
        let place = ((place * COLUMNS as f64) as usize).min(COLUMNS - 1);
        let column = &mut columns[place];
        column.calls += 1;
        column.failed += usize::from(sample.failed);
        column.milliseconds.push(sample.milliseconds);
    }
    for column in &mut columns {
        column.milliseconds.sort_by(f64::total_cmp);
    }
    columns
}

/// The nearest-rank percentile of sorted values.
fn percentile(sorted: &[f64], part: f64) -> Option<f64> {
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

fn figure(title: &str, says: &str, from: Timestamp, to: Timestamp, drawn: Markup) -> Markup {
    let label = format!(
        "{title}: {says}. {} – {}",
        format::plain_time(from),
        format::plain_time(to)
    );
    html! {
        figure.plot {
            figcaption { strong { (title) } " " span.says { (says) } }
            svg viewBox=(format_args!("0 0 {WIDTH} {}", HEIGHT + FOOT)) role="img" aria-label=(label) {
                line.axis x1="0" y1=(HEIGHT) x2=(WIDTH) y2=(HEIGHT) {}
                (drawn)
                text.tick x="0" y=(HEIGHT + FOOT - 4.0) { (from.strftime("%m-%d %H:%M").to_string()) }
                text.tick.end x=(WIDTH) y=(HEIGHT + FOOT - 4.0) {
                    (to.strftime("%m-%d %H:%M").to_string())
                }
            }
        }
    }
}

fn bars(values: &[f64], class: &str) -> Markup {
    let most = values.iter().copied().fold(1.0, f64::max);
    let width = WIDTH / values.len() as f64;
    html! {
        @for (place, value) in values.iter().enumerate().filter(|(_, value)| **value > 0.0) {
            @let height = (value / most * HEIGHT).max(1.0);
            rect class=(class) x=(number(place as f64 * width + 0.5)) y=(number(HEIGHT - height))
                width=(number(width - 1.0)) height=(number(height)) {}
        }
    }
}

fn lines(median: &[Option<f64>], most: &[Option<f64>]) -> Markup {
    let top = most.iter().flatten().copied().fold(1.0, f64::max);
    html! {
        path.most d=(path(most, top)) {}
        path.median d=(path(median, top)) {}
    }
}

/// A line through the values that are there, broken where there is none; a lone one is a dash.
fn path(values: &[Option<f64>], top: f64) -> String {
    let width = WIDTH / values.len() as f64;
    let mut drawn = String::new();
    let mut open = false;
    for (place, value) in values.iter().enumerate() {
        let Some(value) = value else {
            open = false;
            continue;
        };
        let (x, y) = (place as f64 * width, HEIGHT - value / top * (HEIGHT - 2.0));
        let to = if open { 'L' } else { 'M' };
        drawn.push_str(&format!(
            "{to}{} {}h{}",
            number(x),
            number(y),
            number(width)
        ));
        open = true;
    }
    drawn
}

fn number(value: f64) -> String {
    format!("{value:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::ENGLISH;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn sample(second: i64, milliseconds: f64, failed: bool) -> Sample {
        Sample {
            at: at(second),
            milliseconds,
            failed,
        }
    }

    #[test]
    fn calls_are_counted_where_they_belong() {
        let samples = [
            sample(0, 1.0, false),
            sample(600, 9.0, true),
            sample(599, 5.0, false),
            sample(601, 5.0, true),
            sample(-1, 5.0, true),
        ];
        let columns = columns(&samples, at(0), at(600));
        assert_eq!((columns[0].calls, columns[0].failed), (1, 0));
        assert_eq!((columns[59].calls, columns[59].failed), (2, 1));
        assert_eq!(columns[59].milliseconds, [5.0, 9.0]);
        assert_eq!(columns.iter().map(|column| column.calls).sum::<usize>(), 3);
    }

    #[test]
    fn percentiles_are_values_that_were_seen() {
        assert_eq!(percentile(&[], 0.5), None);
        assert_eq!(percentile(&[3.0], 0.95), Some(3.0));
        let sorted: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&sorted, 0.5), Some(50.0));
        assert_eq!(percentile(&sorted, 0.95), Some(95.0));
    }

    #[test]
    fn a_plot_says_in_words_what_it_shows_and_styles_nothing_itself() {
        let samples = [sample(10, 20.0, true), sample(11, 40.0, false)];
        let drawn = plots(&ENGLISH, &samples, at(0), at(60)).into_string();
        assert!(drawn.contains("Failed calls: total 1, peak 1."), "{drawn}");
        assert!(drawn.contains("role=\"img\""), "{drawn}");
        assert!(!drawn.contains("style="), "{drawn}");
        let none = plots(&ENGLISH, &[], at(0), at(0)).into_string();
        assert!(none.contains("no calls"), "{none}");
    }
}
