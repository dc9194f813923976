//! Asking a service what it can do.

use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};

use crate::{bucket::Bucket, error::Fault};

/// Whether the service refuses to replace an object, by a put and by the end of an upload in parts.
///
/// That it has one winner among several at once cannot be asked; the conformance suite can see it.
pub(crate) async fn if_absent(bucket: &Bucket) -> Result<bool, Fault> {
    // Keys of sless have no comma.
    let key = format!(",sless-probe-{}", uuid::Uuid::new_v4());
    let answer = ask(bucket, &key).await;
    let asked = bucket.client.delete_object();
    let removed = asked.bucket(bucket.name()).key(&key).send().await;
    let answer = answer?;
    removed?;
    Ok(answer)
}

async fn ask(bucket: &Bucket, key: &str) -> Result<bool, Fault> {
    let put = || async {
        let asked = bucket.client.put_object().bucket(bucket.name()).key(key);
        let asked = asked.if_none_match("*").body(b"probe".to_vec().into());
        asked.send().await.map(drop).map_err(Fault::from)
    };
    // A service that does not know the field ignores it, or says that it does not.
    match put().await {
        Err(fault) if is_unknown(&fault) => return Ok(false),
        // Its answer was lost, and the repetition has met what it did.
        Err(fault) if fault.is_exists() => {}
        first => first?,
    }
    match put().await {
        Ok(()) => return Ok(false),
        Err(fault) if fault.is_exists() => {}
        Err(fault) if is_unknown(&fault) => return Ok(false),
        Err(fault) => return Err(fault),
    }
    let asked = bucket.client.create_multipart_upload();
    let begun = asked.bucket(bucket.name()).key(key).send().await?;
    let id = begun
        .upload_id()
        .ok_or(Fault::Lacks("the id of an upload"))?;
    let answer = complete(bucket, key, id).await;
    let aborted = bucket.abort(key, id).await;
    let answer = answer?;
    aborted?;
    Ok(answer)
}

/// Completes an upload where an object is.
async fn complete(bucket: &Bucket, key: &str, id: &str) -> Result<bool, Fault> {
    let asked = bucket.client.upload_part().bucket(bucket.name()).key(key);
    let asked = asked.upload_id(id).part_number(1);
    let sent = asked.body(b"probe".to_vec().into()).send().await?;
    let part = CompletedPart::builder()
        .part_number(1)
        .set_e_tag(sent.e_tag)
        .set_checksum_crc32(sent.checksum_crc32)
        .build();
    let asked = bucket.client.complete_multipart_upload();
    let asked = asked.bucket(bucket.name()).key(key).upload_id(id);
    let parts = CompletedMultipartUpload::builder().parts(part).build();
    let done = asked
        .multipart_upload(parts)
        .if_none_match("*")
        .send()
        .await;
    match done.map_err(Fault::from) {
        Ok(_) => Ok(false),
        Err(fault) if fault.is_exists() => Ok(true),
        Err(fault) if is_unknown(&fault) => Ok(false),
        Err(fault) => Err(fault),
    }
}

fn is_unknown(fault: &Fault) -> bool {
    matches!(
        fault.code(),
        Some("NotImplemented" | "InvalidArgument" | "InvalidRequest")
    )
}
