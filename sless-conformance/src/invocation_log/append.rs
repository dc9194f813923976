//! Appending.

use std::time::Duration;

use sless_core::{Invocation, Origin};

use super::{Case, ids};
use crate::{
    Outcome,
    clause::{ensure, ensure_eq},
    unique,
};

pub(super) async fn an_appended_record_is_read_back_whole(case: &Case<'_>) -> Outcome {
    let mut records = case.records(6)?;
    let origins = [
        Origin::Http,
        Origin::Cron,
        Origin::Event,
        Origin::Job,
        Origin::Direct,
        Origin::Http,
    ];
    for (record, origin) in records.iter_mut().zip(origins) {
        record.origin = origin;
        record.cause = (origin != Origin::Http)
            .then(|| unique::name("cause"))
            .transpose()?;
    }
    records[1].attempt = 5;
    records[2].status = 504;
    records[2].error = Some("timeout".to_owned());
    records[3].duration = Duration::from_secs(3_600);
    records[4].response_bytes = 5 << 30;
    records[0].caller = Some("2001:db8::1".to_owned());
    records[0].log_tail = Some("one \"ü\"\n\ttwo '; --\n".to_owned());
    records[3].request_bytes = 6 << 30;
    records[3].log_tail = Some("ä".repeat(Invocation::LOG_TAIL_MAX / 2));
    records[5].caller = Some("c".repeat(Invocation::CALLER_MAX));
    records[5].request_id = "ü \"quoted\" '; --".to_owned();
    case.append(&records).await?;
    ensure_eq!(case.all(case.query()?).await?, records, "the records");
    // Nothing is appended to.
    case.append(&[]).await?;
    ensure_eq!(
        case.all(case.query()?).await?,
        records,
        "the records after an empty batch"
    );
    Ok(())
}

pub(super) async fn a_batch_can_be_sent_again(case: &Case<'_>) -> Outcome {
    let records = case.records(6)?;
    case.append(&records[1..4]).await?;
    case.append(&records[1..4]).await?;
    // What is new in a batch is kept, whatever else is in it.
    case.append(&records).await?;
    let mut changed = records.clone();
    changed[2].status = 500;
    case.append(&changed).await?;
    ensure_eq!(case.all(case.query()?).await?, records, "the records");
    Ok(())
}

pub(super) async fn a_large_batch_is_kept(case: &Case<'_>) -> Outcome {
    const RECORDS: i64 = 5_000;
    let records = case.records(RECORDS)?;
    case.append(&records).await?;
    let found = case.all(case.query()?).await?;
    ensure!(
        ids(&found) == ids(&records),
        "{} of {RECORDS} records are given",
        found.len()
    );
    Ok(())
}

pub(super) async fn records_survive_a_reopen(case: &Case<'_>) -> Outcome {
    let records = case.records(5)?;
    case.append(&records).await?;
    if !case.harness.reopen().await? {
        return Ok(());
    }
    ensure_eq!(
        case.all(case.query()?).await?,
        records,
        "the records after a reopen"
    );
    case.append(&records).await?;
    ensure_eq!(
        case.all(case.query()?).await?,
        records,
        "the records after they were sent again"
    );
    Ok(())
}
