//! Retaining.

use std::time::Duration;

use sless_core::Retention;

use super::{Case, ids};
use crate::{Outcome, clause::ensure_eq};

fn rule(seconds: u64, max_records: u64) -> Retention {
    Retention {
        max_age: Duration::from_secs(seconds),
        max_records,
    }
}

pub(super) async fn what_is_too_old_is_dropped(case: &Case<'_>) -> Outcome {
    let (log, records) = (case.log().await?, case.records(10)?);
    case.append(&records).await?;
    ensure_eq!(
        log.retain(&rule(1_000, 1_000), case.now).await?,
        0,
        "how many of none went"
    );
    // The fifth is as old as it may be.
    ensure_eq!(
        log.retain(&rule(4, 1_000), case.now).await?,
        5,
        "how many were too old"
    );
    ensure_eq!(
        ids(&case.all(case.query()?).await?),
        ids(&records[..5]),
        "what is left"
    );
    ensure_eq!(
        log.retain(&rule(4, 1_000), case.now).await?,
        0,
        "how many go the second time"
    );
    ensure_eq!(
        log.retain(&Retention::default(), case.now).await?,
        0,
        "what the default drops"
    );
    Ok(())
}

pub(super) async fn what_is_too_much_is_dropped_oldest_first(case: &Case<'_>) -> Outcome {
    let (log, mut records) = (case.log().await?, case.records(10)?);
    for (at, record) in records.iter_mut().enumerate() {
        record.function = crate::unique::name(format!("f-{}", at % 3))?;
    }
    case.append(&records).await?;
    ensure_eq!(
        log.retain(&rule(1_000, 10), case.now).await?,
        0,
        "how many went of as many as may be"
    );
    ensure_eq!(
        log.retain(&rule(1_000, 6), case.now).await?,
        4,
        "how many were too much"
    );
    ensure_eq!(
        ids(&case.all(case.query()?).await?),
        ids(&records[..6]),
        "what is left"
    );
    ensure_eq!(
        log.retain(&rule(1_000, 0), case.now).await?,
        6,
        "how many go where none may stay"
    );
    ensure_eq!(case.all(case.query()?).await?, [], "what is left of that");
    Ok(())
}
