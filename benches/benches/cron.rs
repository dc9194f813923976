//! When a schedule fires next: what the engine asks once for each fire, and the API for each list.
#![allow(
    missing_docs,
    reason = "criterion's macros make public functions without documentation"
)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use jiff::Timestamp;
use sless_core::cron::Schedule;

fn cron(criterion: &mut Criterion) {
    let after: Timestamp = "2026-03-01T12:34:56Z".parse().expect("a time");
    let mut group = criterion.benchmark_group("cron");
    for (name, expression, zone) in [
        ("every_five_minutes", "*/5 * * * *", None),
        (
            "working_days_in_berlin",
            "0 9 * * 1-5",
            Some("Europe/Berlin"),
        ),
        // Two years ahead.
        ("leap_day", "0 0 29 2 *", None),
        (
            "leap_day_in_new_york",
            "30 2 29 2 *",
            Some("America/New_York"),
        ),
    ] {
        let schedule = Schedule::parse(expression, zone).expect("a schedule");
        group.bench_function(format!("next_after/{name}"), |bencher| {
            bencher.iter(|| schedule.next_after(black_box(after)));
        });
    }
    group.bench_function("parse", |bencher| {
        let parse = |text| Schedule::parse(text, Some("Europe/Berlin")).expect("a schedule");
        bencher.iter(|| parse(black_box("0 9 * * 1-5")));
    });
    group.finish();
}

criterion_group!(benches, cron);
criterion_main!(benches);
