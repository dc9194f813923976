//! Cron: when a trigger fires, in which time zone, and what happens to runs that were missed.
//!
//! Nothing here reads a clock, sleeps or stores: a [`Schedule`] is arithmetic on instants, and
//! [`decide`] is a pure function from what was stored ([`Ledger`]) and the time to what to do now.
//!
//! ```
//! use jiff::Timestamp;
//! use sless_core::cron::Schedule;
//!
//! let workdays = Schedule::parse("0 9 * * mon-fri", Some("Europe/Berlin"))?;
//! let friday: Timestamp = "2026-03-27T12:00:00Z".parse().unwrap();
//! let monday: Timestamp = "2026-03-30T07:00:00Z".parse().unwrap(); // 09:00, now in summer time
//! assert_eq!(workdays.next_after(friday), Some(monday));
//! # Ok::<(), sless_core::Error>(())
//! ```
//!
//! # Expressions
//!
//! Five fields, as in the POSIX `crontab` utility, divided by blanks:
//!
//! | field | values | names |
//! |---|---|---|
//! | minute | 0-59 | |
//! | hour | 0-23 | |
//! | day of month | 1-31 | |
//! | month | 1-12 | `jan`-`dec` |
//! | day of week | 0-7, Sunday is 0 and 7 | `sun`-`sat` |
//!
//! A field is a comma-separated list of `*`, `n`, `a-b`, each with an optional step: `*/s`,
//! `a-b/s`, and `n/s`, which means from `n` to the field's last value. Names are the first three
//! letters in any case and stand wherever a number can; `sun` at the end of a range is 7, so that
//! `fri-sun` is three days.
//!
//! `@hourly`, `@daily` (also `@midnight`), `@weekly`, `@monthly` and `@yearly` (also `@annually`)
//! stand for `0 * * * *`, `0 0 * * *`, `0 0 * * 0`, `0 0 1 * *` and `0 0 1 1 *`.
//!
//! **Days.** Where day of month and day of week are both restricted, a day that satisfies *either*
//! one matches (POSIX). Restricted means, as in Vixie's cron, that the field does not *begin* with
//! `*`: `0 0 */2 * 1` fires on odd days that are Mondays, `0 0 1-31/2 * 1` on odd days and on
//! Mondays.
//!
//! What is malformed, what can never fire (`0 0 31 2 *`) and what needs a field that is not there
//! (seconds, years, `@reboot`, `L`, `W`, `#`, `?`) is refused by [`Schedule::parse`], which names
//! the field.
//!
//! # Days on which the clock is changed
//!
//! A schedule is read on the wall clock of its zone. Two kinds of schedule behave differently where
//! that clock jumps, as in Vixie's cron:
//!
//! - An **interval schedule** has a minute field or an hour field that begins with `*`
//!   (`*/15 * * * *`, `0 * * * *`, `*/10 2 * * *`). It means "every so often", so it follows the
//!   time that really passes: minutes that the wall clock skips do not exist and do not fire;
//!   minutes that it shows twice fire twice.
//! - Every other schedule is a **fixed-time schedule** (`30 2 * * *`, `0 8-18 * * *`,
//!   `0-59 2 * * *`). It means "at this time of day, each day once", so each wall-clock minute
//!   counts once. What falls into a skipped stretch fires at the first instant after it, and
//!   several times that fall into the same skipped stretch (or onto that very instant) fire
//!   together, once. Of a stretch that is shown twice, only the first showing fires.
//!
//! It does not matter why the clock jumps: summer time, by an hour or by half an hour, a changed
//! standard offset, or a whole skipped day as on Samoa in 2011.
//!
//! # Missed and overlapping runs
//!
//! See [`decide`].

mod calendar;
mod clock_changes;
mod decision;
mod field;
mod ledger;
mod parse;
mod policy;
mod schedule;

#[cfg(test)]
mod tests;

pub use decision::{Cause, Decision, decide};
pub use ledger::{Ledger, RunEnd};
pub use parse::MAX_EXPRESSION_BYTES;
pub use policy::{MissedRunPolicy, OverlapPolicy, Policies};
pub use schedule::{Due, Schedule, Upcoming};
