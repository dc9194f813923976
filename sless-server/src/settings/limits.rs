//! The named limits of the server.

use std::time::Duration;

use super::{
    parse,
    reader::{Noted, Reader},
};

/// The named limits. Reaching one is an error that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The largest zip of an upload.
    pub zip_bytes: u64,
    /// The largest sum of the files in a zip.
    pub source_bytes: u64,
    /// The most entries of a zip.
    pub source_entries: u64,
    /// The largest file in a zip.
    pub source_file_bytes: u64,
    /// The most uploads that are checked at once.
    pub uploads: usize,
    /// The most Python functions of the local backend that keep a process to fork workers from.
    pub zygotes: usize,
    /// The largest JSON body of a request.
    pub json_bytes: usize,
    /// The largest message that is published to a queue.
    pub message_bytes: usize,
    /// The largest head of a request.
    pub header_bytes: usize,
    /// The most fields in the head of a request.
    pub headers: usize,
    /// The most connections at once.
    pub connections: usize,
    /// The most requests at once on one connection of HTTP/2.
    pub streams: usize,
    /// How long the head of a request may take to arrive.
    pub header_timeout: Duration,
    /// How long a client may send nothing of a body that is wanted, or take nothing of an answer.
    pub stall_timeout: Duration,
    /// How long a request to the API may take, streams aside.
    pub request_timeout: Duration,
    /// How long an upload may take.
    pub upload_timeout: Duration,
    /// The most items on one page of a list.
    pub page_items: usize,
    /// The longest bearer token.
    pub token_bytes: usize,
    /// The largest source that is shown as JSON.
    pub source_view_bytes: usize,
    /// The most records of the invocation log.
    pub invocations_kept: u64,
    /// How long records of the invocation log are kept.
    pub invocations_kept_for: Duration,
}

impl Limits {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Noted> {
        let zip_bytes = reader.value("SLESS_MAX_ZIP_BYTES", parse::bytes);
        let source_bytes = reader.value("SLESS_MAX_SOURCE_BYTES", parse::bytes);
        let source_entries = reader.value("SLESS_MAX_SOURCE_ENTRIES", parse::count);
        let source_file_bytes = reader.value("SLESS_MAX_SOURCE_FILE_BYTES", parse::bytes);
        let uploads = reader.value("SLESS_MAX_UPLOADS", parse::size);
        let zygotes = reader.value("SLESS_MAX_ZYGOTES", parse::size_or_none);
        let json_bytes = reader.value("SLESS_MAX_JSON_BYTES", parse::byte_size);
        let message_bytes = reader.value("SLESS_MAX_MESSAGE_BYTES", parse::byte_size);
        let header_bytes = reader.value("SLESS_MAX_HEADER_BYTES", parse::head_bytes);
        let headers = reader.value("SLESS_MAX_HEADERS", parse::size);
        let connections = reader.value("SLESS_MAX_CONNECTIONS", parse::size);
        let streams = reader.value("SLESS_MAX_STREAMS", parse::size);
        let header_timeout = reader.value("SLESS_HEADER_TIMEOUT", parse::duration);
        let stall_timeout = reader.value("SLESS_STALL_TIMEOUT", parse::duration);
        let request_timeout = reader.value("SLESS_REQUEST_TIMEOUT", parse::duration);
        let upload_timeout = reader.value("SLESS_UPLOAD_TIMEOUT", parse::duration);
        let page_items = reader.value("SLESS_MAX_PAGE_ITEMS", parse::size);
        let token_bytes = reader.value("SLESS_MAX_TOKEN_BYTES", parse::byte_size);
        let source_view_bytes = reader.value("SLESS_MAX_SOURCE_VIEW_BYTES", parse::byte_size);
        let invocations_kept = reader.value("SLESS_INVOCATIONS_KEPT", parse::count);
        let invocations_kept_for = reader.value("SLESS_INVOCATIONS_KEPT_FOR", parse::duration);
        Ok(Self {
            zip_bytes: zip_bytes?,
            source_bytes: source_bytes?,
            source_entries: source_entries?,
            source_file_bytes: source_file_bytes?,
            uploads: uploads?,
            zygotes: zygotes?,
            json_bytes: json_bytes?,
            message_bytes: message_bytes?,
            header_bytes: header_bytes?,
            headers: headers?,
            connections: connections?,
            streams: streams?,
            header_timeout: header_timeout?,
            stall_timeout: stall_timeout?,
            request_timeout: request_timeout?,
            upload_timeout: upload_timeout?,
            page_items: page_items?,
            token_bytes: token_bytes?,
            source_view_bytes: source_view_bytes?,
            invocations_kept: invocations_kept?,
            invocations_kept_for: invocations_kept_for?,
        })
    }
}
