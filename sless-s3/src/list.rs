//! Listings.

use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _, stream, stream::BoxStream};
use sless_core::{Error, ObjectInfo, Result, StorageKey};

use crate::{
    bucket::{Bucket, time},
    error::{BACKEND, Fault},
};

pub(crate) fn list(bucket: Arc<Bucket>, prefix: String) -> BoxStream<'static, Result<ObjectInfo>> {
    let sorted = async move {
        let found = bucket.objects(&prefix).await.map_err(|fault| {
            let error = Error::from(fault);
            error.during("storage.list").on(&prefix).at(BACKEND)
        })?;
        Ok::<_, Error>(stream::iter(found.into_iter().map(Ok)))
    };
    stream::once(sorted).try_flatten().boxed()
}

impl Bucket {
    /// All that begins with this, in order: S3 gives it so, some of its relatives do not.
    async fn objects(&self, prefix: &str) -> Result<Vec<ObjectInfo>, Fault> {
        let right = |b: u8| b.is_ascii_alphanumeric() || b"-_./".contains(&b);
        if !prefix.bytes().all(right) {
            return Ok(Vec::new()); // No key begins like that.
        }
        let limit = self.config.limits.list_objects;
        let (mut found, mut next) = (Vec::new(), None);
        loop {
            let asked = self.client.list_objects_v2().bucket(self.name());
            let page = asked
                .prefix(prefix)
                .set_continuation_token(next)
                .send()
                .await?;
            for object in page.contents() {
                // What is no key was put by another program.
                let key = object.key().and_then(|key| StorageKey::new(key).ok());
                let Some(key) = key.filter(|key| key.as_str().starts_with(prefix)) else {
                    continue;
                };
                if found.len() == limit {
                    return Err(Error::limit("list_objects", limit, "objects").into());
                }
                found.push(ObjectInfo {
                    key,
                    size: object
                        .size()
                        .and_then(|size| u64::try_from(size).ok())
                        .ok_or(Fault::Lacks("the length of an object"))?,
                    modified_at: time(object.last_modified())?,
                });
            }
            if !page.is_truncated().unwrap_or(false) {
                break;
            }
            next = page.next_continuation_token;
            if next.is_none() {
                return Err(Fault::Lacks("where a listing goes on"));
            }
        }
        found.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        Ok(found)
    }
}
