//! Querying.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use sless_core::{InvocationQuery, Origin};

use super::{Case, ids};
use crate::{
    Outcome,
    clause::{ensure, ensure_eq},
    unique,
};

pub(super) async fn the_newest_records_come_first(case: &Case<'_>) -> Outcome {
    let records = case.records(9)?;
    // In another order than that of their times, in two batches.
    for part in [[4, 0, 8, 2], [1, 7, 3, 5]] {
        case.append(&part.map(|at| records[at].clone())).await?;
    }
    case.append(&records[6..7]).await?;
    ensure_eq!(
        ids(&case.all(case.query()?).await?),
        ids(&records),
        "the order of the records"
    );
    Ok(())
}

pub(super) async fn pages_give_every_record_once(case: &Case<'_>) -> Outcome {
    // Of many at one time, none is lost between two pages.
    let mut records = case.records(20)?;
    for record in &mut records[4..16] {
        record.started_at = case.now - SignedDuration::from_secs(5);
    }
    case.append(&records).await?;
    let whole = case.all(case.query()?).await?;
    ensure_eq!(whole.len(), 20, "how many are on one page");
    for limit in [1, 3, 7, 19, 20, 21] {
        let mut query = case.query()?;
        query.limit = limit;
        let paged = case.all(query).await?;
        ensure_eq!(ids(&paged), ids(&whole), "what pages of {limit} give");
    }
    let mut query = case.query()?;
    query.namespace = unique::namespace()?;
    let none = case.page(&query).await?;
    ensure!(
        none.items.is_empty() && none.next.is_none(),
        "a page of no records is {none:?}"
    );
    Ok(())
}

pub(super) async fn paging_misses_nothing_while_others_append(case: &Case<'_>) -> Outcome {
    let records = case.records(30)?;
    case.append(&records).await?;
    let mut query = case.query()?;
    query.limit = 4;
    let mut seen = Vec::new();
    let mut newer = 0;
    loop {
        let page = case.page(&query).await?;
        seen.extend(ids(&page.items));
        let Some(next) = page.next else { break };
        query.cursor = Some(next);
        newer += 1;
        case.append(&[case.record("f", -newer)?]).await?;
    }
    let unique: BTreeSet<_> = seen.iter().collect();
    ensure_eq!(
        unique.len(),
        seen.len(),
        "how many different records the pages gave"
    );
    let missing = ids(&records)
        .iter()
        .filter(|id| !unique.contains(id))
        .count();
    ensure_eq!(
        missing,
        0,
        "how many of those that were always there are missing"
    );
    Ok(())
}

pub(super) async fn only_the_records_that_were_asked_for_are_given(case: &Case<'_>) -> Outcome {
    let mut records = Vec::new();
    let (functions, origins) = (["f", "f-2"], [Origin::Http, Origin::Cron, Origin::Event]);
    for seconds in 0..24 {
        let mut record = case.record(functions[seconds % 2], seconds as i64)?;
        record.origin = origins[seconds % 3];
        record.status = [200, 399, 400, 503][seconds % 4];
        records.push(record);
    }
    let mut foreign = records.clone();
    let elsewhere = unique::namespace()?;
    for record in &mut foreign {
        record.namespace = elsewhere.clone();
        record.id = sless_core::Uid::random();
    }
    case.append(&records).await?;
    case.append(&foreign).await?;
    for function in [None, Some("f"), Some("f-2"), Some("none")] {
        for origin in [None, Some(Origin::Cron), Some(Origin::Job)] {
            for failed_only in [false, true] {
                for since in [None, Some(records[11].started_at)] {
                    let mut query = case.query()?;
                    query.function = function.map(unique::name).transpose()?;
                    query.origin = origin;
                    query.failed_only = failed_only;
                    query.since = since;
                    query.limit = 5;
                    compare(case, query, &records).await?;
                }
            }
        }
    }
    Ok(())
}

async fn compare(
    case: &Case<'_>,
    query: InvocationQuery,
    records: &[sless_core::Invocation],
) -> Outcome {
    let meant: Vec<_> = records
        .iter()
        .filter(|record| query.matches(record))
        .cloned()
        .collect();
    let what = format!("{query:?}");
    ensure_eq!(
        ids(&case.all(query).await?),
        ids(&meant),
        "the records of {what}"
    );
    Ok(())
}
