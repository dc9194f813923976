//! The five sets of an expression against the calendar, without any time zone.
//!
//! Times are *local minutes*: minutes since 1970-01-01 00:00 on a wall clock that never changes.
//! Searches jump by month, day, hour and minute with bit operations, so their cost depends on the
//! number of months passed over and never on the number of minutes.

/// Minutes of a day.
const DAY: i64 = 1440;

/// The Gregorian calendar, weekdays included, repeats after this many years. A day that does not
/// come within them never comes.
const CYCLE_YEARS: i64 = 400;

/// What an expression matches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pattern {
    pub(super) minutes: u64,
    pub(super) hours: u32,
    /// Bits 1 to 31.
    pub(super) days: u32,
    /// Bits 1 to 12.
    pub(super) months: u16,
    /// Bits 0 (Sunday) to 6.
    pub(super) weekdays: u8,
    /// Whether a day needs to satisfy only one of the two day fields.
    pub(super) either_day: bool,
}

impl Pattern {
    /// Whether any day satisfies the day, month and weekday fields.
    pub(super) fn fires_ever(&self) -> bool {
        self.next_day(0).is_some()
    }

    /// Whether this local minute matches.
    pub(super) fn matches(&self, at: i64) -> bool {
        let (hour, minute) = time_of_day(at);
        self.day_matches(at.div_euclid(DAY))
            && self.hours & (1 << hour) != 0
            && self.minutes & (1 << minute) != 0
    }

    /// The first match at or after this local minute.
    pub(super) fn next(&self, from: i64) -> Option<i64> {
        let day = from.div_euclid(DAY);
        let (hour, minute) = time_of_day(from);
        if self.day_matches(day)
            && let Some(time) = self.next_time(hour, minute)
        {
            return Some(day * DAY + time);
        }
        Some(self.next_day(day + 1)? * DAY + self.next_time(0, 0)?)
    }

    /// The last match at or before this local minute.
    pub(super) fn previous(&self, from: i64) -> Option<i64> {
        let day = from.div_euclid(DAY);
        let (hour, minute) = time_of_day(from);
        if self.day_matches(day)
            && let Some(time) = self.previous_time(hour, minute)
        {
            return Some(day * DAY + time);
        }
        Some(self.previous_day(day - 1)? * DAY + self.previous_time(23, 59)?)
    }

    /// How many local minutes match from `from` (inclusive) to `until` (exclusive).
    pub(super) fn count(&self, from: i64, until: i64) -> u64 {
        if from >= until {
            return 0;
        }
        let (first, last) = (from.div_euclid(DAY), until.div_euclid(DAY));
        let on = |day, times| if self.day_matches(day) { times } else { 0 };
        let (before, upto) = (self.times_before(from), self.times_before(until));
        if first == last {
            return on(first, upto - before);
        }
        let daily = u64::from(self.hours.count_ones()) * u64::from(self.minutes.count_ones());
        on(first, daily - before) + daily * self.count_days(first + 1, last) + on(last, upto)
    }

    /// How many times of day match before this one.
    fn times_before(&self, at: i64) -> u64 {
        let (hour, minute) = time_of_day(at);
        let hours = self.hours & ((1 << hour) - 1);
        let mut count = u64::from(hours.count_ones()) * u64::from(self.minutes.count_ones());
        if self.hours & (1 << hour) != 0 {
            count += u64::from((self.minutes & ((1 << minute) - 1)).count_ones());
        }
        count
    }

    fn next_time(&self, hour: u32, minute: u32) -> Option<i64> {
        let rest = self.minutes & (u64::MAX << minute);
        if self.hours & (1 << hour) != 0 && rest != 0 {
            return Some(i64::from(hour * 60 + rest.trailing_zeros()));
        }
        let hours = self.hours & (u32::MAX << hour << 1);
        (hours != 0 && self.minutes != 0)
            .then(|| i64::from(hours.trailing_zeros() * 60 + self.minutes.trailing_zeros()))
    }

    fn previous_time(&self, hour: u32, minute: u32) -> Option<i64> {
        let rest = self.minutes & (u64::MAX >> (63 - minute));
        if self.hours & (1 << hour) != 0 && rest != 0 {
            return Some(i64::from(hour * 60 + rest.ilog2()));
        }
        let hours = self.hours & ((1 << hour) - 1);
        (hours != 0 && self.minutes != 0)
            .then(|| i64::from(hours.ilog2() * 60 + self.minutes.ilog2()))
    }

    fn day_matches(&self, day: i64) -> bool {
        let (year, month, of_month) = date_of(day);
        self.days_of(year, month) & (1 << of_month) != 0
    }

    fn next_day(&self, from: i64) -> Option<i64> {
        let (first_year, mut month, of_month) = date_of(from);
        let mut wanted = u32::MAX << of_month;
        let mut year = first_year;
        while year <= first_year + CYCLE_YEARS {
            let days = self.days_of(year, month) & wanted;
            if days != 0 {
                return Some(day_of(year, month, days.trailing_zeros()));
            }
            wanted = u32::MAX;
            (year, month) = following_month(year, month);
        }
        None
    }

    fn previous_day(&self, from: i64) -> Option<i64> {
        let (first_year, mut month, of_month) = date_of(from);
        let mut wanted = u32::MAX >> (31 - of_month);
        let mut year = first_year;
        while year >= first_year - CYCLE_YEARS {
            let days = self.days_of(year, month) & wanted;
            if days != 0 {
                return Some(day_of(year, month, days.ilog2()));
            }
            wanted = u32::MAX;
            (year, month) = match month {
                1 => (year - 1, 12),
                _ => (year, month - 1),
            };
        }
        None
    }

    /// How many days match from `from` (inclusive) to `until` (exclusive).
    fn count_days(&self, from: i64, until: i64) -> u64 {
        if from >= until {
            return 0;
        }
        let (mut year, mut month, of_month) = date_of(from);
        let (last_year, last_month, last_of_month) = date_of(until);
        let mut wanted = u32::MAX << of_month;
        let mut count = 0;
        loop {
            let last = (year, month) == (last_year, last_month);
            if last {
                wanted &= (1 << last_of_month) - 1;
            }
            count += u64::from((self.days_of(year, month) & wanted).count_ones());
            if last {
                return count;
            }
            wanted = u32::MAX;
            (year, month) = following_month(year, month);
        }
    }

    /// The matching days of a month, as bits 1 to 31.
    fn days_of(&self, year: i64, month: u32) -> u32 {
        if self.months & (1 << month) == 0 {
            return 0;
        }
        let (year_after, month_after) = following_month(year, month);
        let first = day_of(year, month, 1);
        let length = day_of(year_after, month_after, 1) - first;
        let exist = ((1_u64 << length) - 1) << 1;
        // Seven bits turned so that the weekday of the 1st comes first, then repeated five times.
        let weekday = (first + 4).rem_euclid(7);
        let weekdays = u64::from(self.weekdays);
        let week = (weekdays >> weekday | weekdays << (7 - weekday)) & 0x7f;
        let by_weekday = (0..5).fold(0, |bits, n| bits | week << (7 * n)) << 1;
        let by_day = u64::from(self.days);
        let days = if self.either_day {
            by_day | by_weekday
        } else {
            by_day & by_weekday
        };
        u32::try_from(days & exist).unwrap_or(0)
    }
}

fn time_of_day(at: i64) -> (u32, u32) {
    let minute = u32::try_from(at.rem_euclid(DAY)).unwrap_or(0);
    (minute / 60, minute % 60)
}

fn following_month(year: i64, month: u32) -> (i64, u32) {
    match month {
        12 => (year + 1, 1),
        _ => (year, month + 1),
    }
}

/// Days since 1970-01-01 of a date of the proleptic Gregorian calendar. Years are counted from
/// March, so that the leap day is the last day of its year; 400 years have 146,097 days.
fn day_of(year: i64, month: u32, of_month: u32) -> i64 {
    let from_march = (i64::from(month) + 9) % 12;
    let year = year - i64::from(month <= 2);
    let of_cycle = year.rem_euclid(400);
    let of_year = (153 * from_march + 2) / 5 + i64::from(of_month) - 1;
    let day = of_cycle * 365 + of_cycle / 4 - of_cycle / 100 + of_year;
    year.div_euclid(400) * 146_097 + day - 719_468
}

/// The inverse of [`day_of`]: year, month and day of the month.
fn date_of(day: i64) -> (i64, u32, u32) {
    let shifted = day + 719_468;
    let of_cycle = shifted.rem_euclid(146_097);
    let year = (of_cycle - of_cycle / 1460 + of_cycle / 36_524 - of_cycle / 146_096) / 365;
    let of_year = of_cycle - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12 + 1;
    let year = year + shifted.div_euclid(146_097) * 400 + i64::from(month <= 2);
    let small = |value: i64| u32::try_from(value).unwrap_or(1);
    (year, small(month), small(of_month))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::{Date, date};

    #[test]
    fn dates_agree_with_jiff() {
        let mut day = day_of(1895, 1, 1);
        let mut expected: Date = date(1895, 1, 1);
        while expected < date(2405, 1, 1) {
            let (year, month, of_month) = date_of(day);
            let found = (year, month, of_month);
            let wanted = (
                i64::from(expected.year()),
                u32::try_from(expected.month()).expect("1 to 12"),
                u32::try_from(expected.day()).expect("1 to 31"),
            );
            assert_eq!(found, wanted);
            assert_eq!(day_of(year, month, of_month), day);
            day += 1;
            expected = expected.tomorrow().expect("in range");
        }
        assert_eq!(day_of(1970, 1, 1), 0);
        assert_eq!(date_of(day_of(-401, 2, 28)), (-401, 2, 28));
    }
}
