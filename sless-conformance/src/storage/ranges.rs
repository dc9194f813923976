//! Parts of objects.

use std::ops::Range;

use bytes::Bytes;
use sless_core::{ErrorKind, GetOptions};

use super::Case;
use crate::{
    Outcome,
    bytes::pattern,
    clause::{While as _, ensure, ensure_eq, refused},
};

const LENGTH: usize = 200_000;

async fn expect(case: &Case<'_>, range: Range<u64>, expected: Bytes) -> Outcome {
    let key = case.key("a")?;
    let options = GetOptions::default().with_range(range.clone());
    let found = case
        .get_with(&key, &options)
        .await
        .while_(format_args!("bytes {range:?}"))?;
    ensure!(
        found == expected,
        "bytes {range:?} of {LENGTH}: read {} bytes that are not the {} expected",
        found.len(),
        expected.len()
    );
    Ok(())
}

pub(super) async fn a_range_reads_only_its_bytes(case: &Case<'_>) -> Outcome {
    let body = pattern(LENGTH, 1);
    let key = case.put("a", body.clone()).await?;
    let all = LENGTH as u64;
    for range in [
        0..1,
        0..all,
        1..2,
        70_000..140_001,
        all - 1..all,
        65_535..65_537,
    ] {
        let slice = body.slice(range.start as usize..range.end as usize);
        expect(case, range, slice).await?;
    }
    let options = GetOptions::default().with_range(10..20);
    let fetched = case.storage().await?.get(&key, &options).await?;
    ensure_eq!(
        fetched.info.size,
        all,
        "the size that a get of a range gives"
    );
    Ok(())
}

pub(super) async fn a_range_is_cut_at_the_end(case: &Case<'_>) -> Outcome {
    let body = pattern(LENGTH, 1);
    case.put("a", body.clone()).await?;
    let all = LENGTH as u64;
    expect(case, all - 5..all + 1, body.slice(LENGTH - 5..)).await?;
    expect(case, all - 1..u64::MAX, body.slice(LENGTH - 1..)).await?;
    expect(case, 0..u64::MAX, body).await
}

pub(super) async fn a_range_without_a_byte_is_refused(case: &Case<'_>) -> Outcome {
    let key = case.put("a", pattern(100, 1)).await?;
    let empty = case.put("empty", Bytes::new()).await?;
    #[allow(
        clippy::reversed_empty_ranges,
        reason = "these are what is to be refused"
    )]
    let ranges = [
        100..101,
        100..200,
        101..200,
        u64::MAX - 1..u64::MAX,
        5..5,
        6..5,
    ];
    for (key, range) in ranges
        .map(|range| (&key, range))
        .into_iter()
        .chain([(&empty, 0..1)])
    {
        let options = GetOptions::default().with_range(range.clone());
        let got = case.get_with(key, &options).await;
        refused(
            got,
            ErrorKind::Invalid,
            format_args!("bytes {range:?} of {key}"),
        )?;
    }
    // The kind does not hide that there is nothing at all.
    let options = GetOptions::default().with_range(5..6);
    let got = case.get_with(&case.key("absent")?, &options).await;
    refused(got, ErrorKind::NotFound, "a range of what is not there")?;
    Ok(())
}
