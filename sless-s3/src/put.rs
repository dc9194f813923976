//! How a body is put: in one request, or in parts.

use std::{pin::pin, sync::Arc};

use aws_sdk_s3::types::CompletedPart;
use bytes::Bytes;
use futures::{StreamExt as _, stream::FuturesUnordered};
use sless_core::{ByteStream, Error, ErrorKind, PutMode, PutOptions, StorageKey, Stored};

use crate::{bucket::Bucket, dropped::Dropped, error::Fault, parts::Parts, upload::Upload};

impl Bucket {
    pub(crate) async fn put(
        self: &Arc<Self>,
        dropped: &Arc<Dropped>,
        key: &StorageKey,
        body: ByteStream,
        options: &PutOptions,
    ) -> Result<Stored, Fault> {
        let mut parts = Parts::new(body, &self.config.limits);
        let first = parts.next().await?;
        if parts.ended {
            self.put_whole(key, first, options).await?;
        } else {
            let upload = Upload::begin(self.clone(), dropped.clone(), key, options).await?;
            match send(&upload, first, &mut parts).await {
                Ok(sent) => upload.complete(sent, options.mode).await?,
                Err(fault) => {
                    // The first fault is the one that counts.
                    upload.abort().await;
                    return Err(fault);
                }
            }
        }
        Ok(parts.stored())
    }

    async fn put_whole(
        &self,
        key: &StorageKey,
        body: Bytes,
        options: &PutOptions,
    ) -> Result<(), Fault> {
        let if_absent = options.mode == PutMode::IfAbsent;
        let mark = uuid::Uuid::new_v4().to_string();
        let mut attempt = 1;
        loop {
            let (encryption, kms_key) = self.encryption();
            let asked = self
                .client
                .put_object()
                .bucket(self.name())
                .key(key.as_str())
                .set_content_type(options.content_type.clone())
                .set_checksum_algorithm(self.checksum())
                .set_server_side_encryption(encryption)
                .set_ssekms_key_id(kms_key)
                .set_storage_class(self.storage_class())
                .set_metadata(Self::marked(&mark))
                .set_if_none_match(if_absent.then(|| "*".to_owned()))
                .body(body.clone().into());
            match asked.send().await.map_err(Fault::from) {
                Err(fault) if if_absent && fault.is_exists() => {
                    return match self.is_stored_by(key, &mark).await? {
                        true => Ok(()),
                        false => Err(exists(fault)),
                    };
                }
                // The body is still here: of several writers at once, one has to win.
                Err(fault) if if_absent && fault.is_race() => {
                    if attempt >= self.config.patience.attempts {
                        return Err(fault);
                    }
                    self.back_off(attempt).await;
                    attempt += 1;
                }
                other => return other.map(drop),
            }
        }
    }
}

/// Sends a body in parts, several at once.
async fn send(
    upload: &Upload,
    first: Bytes,
    parts: &mut Parts,
) -> Result<Vec<CompletedPart>, Fault> {
    let (mut sent, mut number) = (Vec::new(), 1);
    let mut under_way = FuturesUnordered::new();
    under_way.push(upload.part(number, first));
    while !parts.ended {
        while under_way.len() >= upload.parts_in_flight()
            && let Some(part) = under_way.next().await
        {
            sent.push(part?);
        }
        let part = {
            let mut gathered = pin!(parts.next());
            loop {
                tokio::select! {
                    biased;
                    Some(part) = under_way.next() => sent.push(part?),
                    part = &mut gathered => break part?,
                }
            }
        };
        if !part.is_empty() {
            number += 1;
            under_way.push(upload.part(number, part));
        }
    }
    while let Some(part) = under_way.next().await {
        sent.push(part?);
    }
    sent.sort_unstable_by_key(|part: &CompletedPart| part.part_number());
    Ok(sent)
}

/// The refusal of a put that may not replace anything.
pub(crate) fn exists(fault: Fault) -> Fault {
    let told = Error::new(
        ErrorKind::AlreadyExists,
        "an object is stored under this key already",
    );
    Fault::Rule(told.with_source(fault))
}
