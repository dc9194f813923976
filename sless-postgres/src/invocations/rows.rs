//! Records as rows.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use sless_core::{Error, Invocation, Name, Namespace, Origin, resource::Uid};
use tokio_postgres::{Row, types::ToSql};

use crate::error::Fault;

/// What a query selects, in the order that [`record`] reads, and the row's number after it.
pub(super) const COLUMNS: &str = "id, request_id, namespace, function, origin, cause, caller, attempt, \
     started_at, duration_us, status, error, request_bytes, response_bytes, log_tail, number";

/// One statement for a batch of any length: each parameter is a column. All rows go in or none does,
/// and those whose id is there already are passed over.
pub(super) const INSERT: &str = "INSERT INTO sless_invocations (id, request_id, namespace, function, \
     origin, cause, caller, attempt, started_at, duration_us, status, error, request_bytes, \
     response_bytes, log_tail) \
     SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], \
     $7::text[], $8::bigint[], $9::timestamptz[], $10::bigint[], $11::integer[], $12::text[], \
     $13::bigint[], $14::bigint[], $15::text[]) \
     ON CONFLICT (id) DO NOTHING";

/// A batch, column by column.
#[derive(Debug, Default)]
pub(super) struct Columns {
    id: Vec<String>,
    request_id: Vec<String>,
    namespace: Vec<String>,
    function: Vec<String>,
    origin: Vec<&'static str>,
    cause: Vec<Option<String>>,
    caller: Vec<Option<String>>,
    attempt: Vec<i64>,
    started_at: Vec<SystemTime>,
    duration_us: Vec<i64>,
    status: Vec<i32>,
    error: Vec<Option<String>>,
    request_bytes: Vec<i64>,
    response_bytes: Vec<i64>,
    log_tail: Vec<Option<String>>,
}

impl Columns {
    pub(super) fn of(records: Vec<Invocation>) -> Self {
        let mut columns = Self::default();
        for record in records {
            columns.id.push(clean(record.id.as_str().to_owned()));
            columns.request_id.push(clean(record.request_id));
            columns.namespace.push(record.namespace.as_str().to_owned());
            columns.function.push(record.function.as_str().to_owned());
            columns.origin.push(record.origin.as_str());
            columns
                .cause
                .push(record.cause.map(|cause| cause.as_str().to_owned()));
            columns.caller.push(record.caller.map(clean));
            columns.attempt.push(record.attempt.into());
            columns.started_at.push(time(record.started_at));
            columns
                .duration_us
                .push(i64::try_from(record.duration.as_micros()).unwrap_or(i64::MAX));
            columns.status.push(record.status.into());
            columns.error.push(record.error.map(clean));
            columns.request_bytes.push(signed(record.request_bytes));
            columns.response_bytes.push(signed(record.response_bytes));
            columns.log_tail.push(record.log_tail.map(clean));
        }
        columns
    }

    pub(super) fn parameters(&self) -> [&(dyn ToSql + Sync); 15] {
        [
            &self.id,
            &self.request_id,
            &self.namespace,
            &self.function,
            &self.origin,
            &self.cause,
            &self.caller,
            &self.attempt,
            &self.started_at,
            &self.duration_us,
            &self.status,
            &self.error,
            &self.request_bytes,
            &self.response_bytes,
            &self.log_tail,
        ]
    }
}

/// The year 1, in microseconds before 1970.
const FIRST: i64 = -62_135_596_800_000_000;

/// A time to the microsecond, as the database keeps it; rounded towards the past, so that the order of
/// two times is kept.
pub(super) fn time(time: Timestamp) -> SystemTime {
    let microseconds = time.as_nanosecond().div_euclid(1_000);
    // A time's nanoseconds fit, so its microseconds do. The database begins later than a time can.
    let microseconds = i64::try_from(microseconds).unwrap_or(i64::MAX).max(FIRST);
    let distance = Duration::from_micros(microseconds.unsigned_abs());
    if microseconds < 0 {
        SystemTime::UNIX_EPOCH - distance
    } else {
        SystemTime::UNIX_EPOCH + distance
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Text in PostgreSQL holds no NUL (its manual, 8.3).
fn clean(text: String) -> String {
    if text.contains('\0') {
        text.replace('\0', "\u{fffd}")
    } else {
        text
    }
}

/// The record in a row of [`COLUMNS`].
pub(super) fn record(row: &Row) -> Result<Invocation, Fault> {
    let origin = match row.try_get::<_, &str>(4)? {
        "http" => Origin::Http,
        "cron" => Origin::Cron,
        "event" => Origin::Event,
        "job" => Origin::Job,
        "direct" => Origin::Direct,
        _ => return Err(Fault::Row("origin")),
    };
    let unsigned = |at: usize, what| {
        let value: i64 = row.try_get(at)?;
        u64::try_from(value).map_err(|_| Fault::Row(what))
    };
    let cause: Option<String> = row.try_get(5)?;
    let attempt: i64 = row.try_get(7)?;
    let status: i32 = row.try_get(10)?;
    Ok(Invocation {
        id: Uid::new(row.try_get::<_, String>(0)?),
        request_id: row.try_get(1)?,
        namespace: Namespace::new(row.try_get::<_, String>(2)?)?,
        function: Name::new(row.try_get::<_, String>(3)?)?,
        origin,
        cause: cause.map(Name::new).transpose()?,
        caller: row.try_get(6)?,
        attempt: u32::try_from(attempt).map_err(|_| Fault::Row("attempt"))?,
        started_at: started_at(row)?,
        duration: Duration::from_micros(unsigned(9, "duration")?),
        status: u16::try_from(status).map_err(|_| Fault::Row("status"))?,
        error: row.try_get(11)?,
        request_bytes: unsigned(12, "size")?,
        response_bytes: unsigned(13, "size")?,
        log_tail: row.try_get(14)?,
    })
}

fn started_at(row: &Row) -> Result<Timestamp, Fault> {
    let time: SystemTime = row.try_get(8)?;
    Timestamp::try_from(time).map_err(|_| Fault::Row("time"))
}

/// A place between two records: behind this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) started_at: Timestamp,
    pub(super) number: i64,
}

impl Cursor {
    pub(super) fn behind(row: &Row) -> Result<Self, Fault> {
        Ok(Self {
            started_at: started_at(row)?,
            number: row.try_get(15)?,
        })
    }

    pub(super) fn text(self) -> String {
        format!("{}.{}", self.started_at.as_microsecond(), self.number)
    }

    pub(super) fn read(text: &str) -> Result<Self, Error> {
        let parse = || {
            let (time, number) = text.split_once('.')?;
            Some(Self {
                started_at: Timestamp::from_microsecond(time.parse().ok()?).ok()?,
                number: number.parse().ok()?,
            })
        };
        parse().ok_or_else(|| {
            Error::invalid("cursor: expected the `next` of a page").with_reason("cursor_invalid")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back_and_nothing_else_is() {
        let cursor = Cursor {
            started_at: Timestamp::from_microsecond(-1_234_567).expect("a time"),
            number: 42,
        };
        assert_eq!(Cursor::read(&cursor.text()).ok(), Some(cursor));
        for wrong in ["", "1", "1.", ".1", "a.b", "1.2.3", "9223372036854775807.1"] {
            let error = Cursor::read(wrong).expect_err(wrong);
            assert_eq!(error.reason(), "cursor_invalid");
        }
    }

    #[test]
    fn times_are_cut_towards_the_past() {
        for nanoseconds in [0, 1_999, -1, -1_000, -1_001, 1_767_225_601_000_000_999] {
            let exact = Timestamp::from_nanosecond(nanoseconds).expect("a time");
            let kept = Timestamp::try_from(time(exact)).expect("a time");
            assert_eq!(kept.as_nanosecond(), nanoseconds.div_euclid(1_000) * 1_000);
        }
    }

    #[test]
    fn text_loses_what_the_database_does_not_hold() {
        assert_eq!(clean("a\0b".to_owned()), "a\u{fffd}b");
        assert_eq!(clean("aüb\n".to_owned()), "aüb\n");
    }
}
