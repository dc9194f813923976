//! How objects are read.

use std::ops::Range;

use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::primitives::ByteStream as Bytes;
use futures::{StreamExt as _, stream};
use sless_core::{ByteStream, Error, ErrorKind, Fetched, ObjectInfo, StorageKey};

use crate::{
    bucket::{Bucket, time},
    error::Fault,
};

impl Bucket {
    pub(crate) async fn head(&self, key: &StorageKey) -> Result<ObjectInfo, Fault> {
        let asked = self
            .client
            .head_object()
            .bucket(self.name())
            .key(key.as_str());
        let found = match asked.send().await.map_err(Fault::from) {
            Ok(found) => found,
            Err(fault) => return Err(self.explain(fault).await),
        };
        Ok(ObjectInfo {
            key: key.clone(),
            size: size(found.content_length())?,
            modified_at: time(found.last_modified())?,
        })
    }

    pub(crate) async fn get(
        &self,
        key: &StorageKey,
        range: Option<&Range<u64>>,
    ) -> Result<Fetched, Fault> {
        if let Some(range) = range
            && range.is_empty()
        {
            // What is not there is told first.
            let info = self.head(key).await?;
            return Err(no_byte(range, info.size));
        }
        let asked = self
            .client
            .get_object()
            .bucket(self.name())
            .key(key.as_str())
            .set_range(range.map(asked_range));
        let found = match (asked.send().await.map_err(Fault::from), range) {
            (Ok(found), _) => found,
            (Err(fault), Some(range)) if fault.is_range() => {
                let info = self.head(key).await?;
                return Err(no_byte(range, info.size));
            }
            (Err(fault), _) => return Err(fault),
        };
        let sent = size(found.content_length())?;
        let info = ObjectInfo {
            key: key.clone(),
            size: match range {
                None => sent,
                Some(range) => whole_size(&found, range, sent)?,
            },
            modified_at: time(found.last_modified())?,
        };
        let body = body(found.body, sent);
        Ok(Fetched { info, body })
    }
}

/// As a field of a request (RFC 9110, section 14.1.1).
fn asked_range(range: &Range<u64>) -> String {
    match i64::try_from(range.end) {
        Ok(_) => format!("bytes={}-{}", range.start, range.end - 1),
        // Some services count with a sign.
        Err(_) => format!("bytes={}-", range.start),
    }
}

/// The size of the object that a part was sent of.
fn whole_size(found: &GetObjectOutput, range: &Range<u64>, sent: u64) -> Result<u64, Fault> {
    let Some(told) = found.content_range() else {
        // The whole object, whatever was asked for. Of an empty one, some services send this.
        return Err(if range.start >= sent {
            no_byte(range, sent)
        } else {
            Fault::Lacks("the range that was asked for")
        });
    };
    // `bytes 0-9/100` (RFC 9110, section 14.4).
    let parsed = told.strip_prefix("bytes ").and_then(|rest| {
        let (span, size) = rest.split_once('/')?;
        let (first, last) = span.split_once('-')?;
        let number = |text: &str| text.parse::<u64>().ok();
        Some((number(first)?, number(last)?, number(size)?))
    });
    match parsed {
        Some((first, last, size))
            if first == range.start && last < range.end.min(size) && last - first + 1 == sent =>
        {
            Ok(size)
        }
        _ => Err(Fault::Lacks("the range that was asked for")),
    }
}

fn size(told: Option<i64>) -> Result<u64, Fault> {
    told.and_then(|size| u64::try_from(size).ok())
        .ok_or(Fault::Lacks("the length of an object"))
}

fn no_byte(range: &Range<u64>, size: u64) -> Fault {
    let told = format!(
        "range {}..{}: expected at least one byte, beginning before the end at {size}",
        range.start, range.end
    );
    Fault::Rule(Error::invalid(told).with_reason("range_invalid"))
}

/// Passes a body on, and ends it in `Interrupted` if it is shorter than it should be.
fn body(body: Bytes, expected: u64) -> ByteStream {
    stream::try_unfold((body, expected), |(mut body, left)| async move {
        match body.next().await {
            Some(Ok(chunk)) => {
                let left = left.saturating_sub(chunk.len() as u64);
                Ok(Some((chunk, (body, left))))
            }
            Some(Err(error)) => Err(Error::from(Fault::of_body(error))),
            None if left == 0 => Ok(None),
            None => Err(Error::new(
                ErrorKind::Interrupted,
                format!("the body ends {left} bytes too early"),
            )),
        }
    })
    .boxed()
}
