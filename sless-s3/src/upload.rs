//! Multipart uploads, which are aborted unless they are completed.

use std::{sync::Arc, time::Duration};

use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use bytes::Bytes;
use sless_core::{ErrorKind, PutMode, PutOptions, StorageKey};
use tokio::sync::oneshot;

use crate::{bucket::Bucket, dropped::Dropped, error::Fault, put::exists};

/// How often an upload is aborted until it is gone: a part that was under way may arrive after the first
/// time.
const ABORTS: u32 = 4;

/// An upload that has begun. Dropped, it is aborted by a task.
pub(crate) struct Upload {
    bucket: Arc<Bucket>,
    dropped: Arc<Dropped>,
    key: StorageKey,
    mark: String,
    /// `None` once there is nothing to abort.
    id: Option<String>,
}

impl Upload {
    /// Begins one, in a task: a put that is dropped meanwhile would not learn what it has begun.
    pub(crate) async fn begin(
        bucket: Arc<Bucket>,
        dropped: Arc<Dropped>,
        key: &StorageKey,
        options: &PutOptions,
    ) -> Result<Self, Fault> {
        let (tell, told) = oneshot::channel();
        let (key, options) = (key.clone(), options.clone());
        let tasks = dropped.clone();
        tasks.spawn(async move {
            let begun = create(bucket, dropped, key, &options).await;
            // Where nobody waits any more, the upload is dropped here, and so aborted.
            let _ = tell.send(begun);
        });
        told.await.unwrap_or_else(|_| Err(closed()))
    }

    pub(crate) fn parts_in_flight(&self) -> usize {
        self.bucket.config.limits.parts_in_flight
    }

    fn id(&self) -> Result<&str, Fault> {
        self.id
            .as_deref()
            .ok_or(Fault::Lacks("the id of an upload"))
    }

    pub(crate) async fn part(&self, number: i32, body: Bytes) -> Result<CompletedPart, Fault> {
        let asked = self
            .bucket
            .client
            .upload_part()
            .bucket(self.bucket.name())
            .key(self.key.as_str())
            .upload_id(self.id()?)
            .part_number(number)
            .set_checksum_algorithm(self.bucket.checksum())
            .body(body.into());
        let sent = asked.send().await?;
        let tag = sent.e_tag.ok_or(Fault::Lacks("the ETag of a part"))?;
        Ok(CompletedPart::builder()
            .part_number(number)
            .e_tag(tag)
            .set_checksum_crc32(sent.checksum_crc32)
            .set_checksum_sha256(sent.checksum_sha256)
            .build())
    }

    /// Makes an object of the parts. An upload that cannot be completed is aborted.
    pub(crate) async fn complete(
        mut self,
        parts: Vec<CompletedPart>,
        mode: PutMode,
    ) -> Result<(), Fault> {
        let parts = CompletedMultipartUpload::builder()
            .set_parts(Some(parts))
            .build();
        let asked = self
            .bucket
            .client
            .complete_multipart_upload()
            .bucket(self.bucket.name())
            .key(self.key.as_str())
            .upload_id(self.id()?)
            .set_if_none_match((mode == PutMode::IfAbsent).then(|| "*".to_owned()))
            .multipart_upload(parts);
        let Err(fault) = asked.send().await.map_err(Fault::from) else {
            self.id = None;
            return Ok(());
        };
        // From here on it cannot become an object any more; perhaps it is one already.
        let (bucket, key, mark) = (self.bucket.clone(), self.key.clone(), self.mark.clone());
        self.abort().await;
        if fault.is_open() && bucket.is_stored_by(&key, &mark).await? {
            return Ok(());
        }
        Err(if fault.is_exists() {
            exists(fault)
        } else {
            fault
        })
    }

    /// Aborts it. What goes wrong is logged: who calls this has a fault to tell already.
    pub(crate) async fn abort(mut self) {
        let Some(id) = self.id.clone() else { return };
        match self.bucket.abort(self.key.as_str(), &id).await {
            Ok(()) => self.id = None,
            Err(fault) => {
                // Not tried again at once by the drop: the service has just refused it.
                self.id = None;
                warn_left(&self.key, &fault);
            }
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let (bucket, key) = (self.bucket.clone(), self.key.clone());
        self.dropped.abort(self.key.clone(), async move {
            if let Err(fault) = bucket.abort(key.as_str(), &id).await {
                warn_left(&key, &fault);
            }
        });
    }
}

fn warn_left(key: &StorageKey, fault: &Fault) {
    tracing::warn!(%key, error = fault as &dyn std::error::Error, "parts of an upload are left");
}

fn closed() -> Fault {
    let told = sless_core::Error::new(ErrorKind::Unavailable, "the storage is closed");
    Fault::Rule(told.with_reason("closed"))
}

async fn create(
    bucket: Arc<Bucket>,
    dropped: Arc<Dropped>,
    key: StorageKey,
    options: &PutOptions,
) -> Result<Upload, Fault> {
    let mark = uuid::Uuid::new_v4().to_string();
    let (encryption, kms_key) = bucket.encryption();
    let asked = bucket
        .client
        .create_multipart_upload()
        .bucket(bucket.name())
        .key(key.as_str())
        .set_content_type(options.content_type.clone())
        .set_checksum_algorithm(bucket.checksum())
        .set_checksum_type(bucket.checksum_type())
        .set_server_side_encryption(encryption)
        .set_ssekms_key_id(kms_key)
        .set_storage_class(bucket.storage_class())
        .set_metadata(Bucket::marked(&mark));
    let begun = asked.send().await?;
    let id = begun.upload_id.ok_or(Fault::Lacks("the id of an upload"))?;
    Ok(Upload {
        bucket,
        dropped,
        key,
        mark,
        id: Some(id),
    })
}

impl Bucket {
    /// Aborts an upload, and makes sure that it is gone. One that is not there is fine.
    pub(crate) async fn abort(&self, key: &str, id: &str) -> Result<(), Fault> {
        for attempt in 0..ABORTS {
            let asked = self.client.abort_multipart_upload();
            let asked = asked.bucket(self.name()).key(key).upload_id(id);
            match asked.send().await.map_err(Fault::from) {
                Err(fault) if fault.is_not_found() => return Ok(()),
                other => other.map(drop)?,
            }
            let asked = self.client.list_parts().bucket(self.name()).key(key);
            let left = asked.upload_id(id).max_parts(1).send().await;
            match left.map_err(Fault::from) {
                Err(fault) if fault.is_not_found() => return Ok(()),
                Err(fault) => return Err(fault),
                Ok(_) => self.back_off(attempt).await,
            }
        }
        Err(Fault::Lacks("the end of an upload that was aborted"))
    }

    pub(crate) async fn abort_stale_uploads(
        &self,
        prefix: &str,
        older_than: Duration,
    ) -> Result<usize, Fault> {
        let now = self.clock.now().as_second();
        let age = i64::try_from(older_than.as_secs()).unwrap_or(i64::MAX);
        let (mut aborted, mut key_marker, mut id_marker) = (0, None, None);
        loop {
            let asked = self.client.list_multipart_uploads().bucket(self.name());
            let page = asked
                .prefix(prefix)
                .set_key_marker(key_marker)
                .set_upload_id_marker(id_marker)
                .send()
                .await?;
            for upload in page.uploads() {
                let (Some(key), Some(id)) = (upload.key(), upload.upload_id()) else {
                    return Err(Fault::Lacks("the key of an upload"));
                };
                let begun = upload.initiated().map_or(i64::MAX, |time| time.secs());
                // What is no key was begun by another program, whatever its name begins with.
                if begun <= now.saturating_sub(age) && StorageKey::new(key).is_ok() {
                    self.abort(key, id).await?;
                    aborted += 1;
                }
            }
            if !page.is_truncated().unwrap_or(false) {
                return Ok(aborted);
            }
            if page.next_key_marker().is_none() {
                return Err(Fault::Lacks("where a listing goes on"));
            }
            key_marker = page.next_key_marker;
            id_marker = page.next_upload_id_marker;
        }
    }
}
