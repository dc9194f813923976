//! The upload of a deploy.

use futures::TryStreamExt as _;
use sless_api::{VerdictOutcome, client::Content as Body};
use sless_source::Content;
use tokio_util::io::ReaderStream;

use super::Deploy;
use crate::{
    failure::{Exit, Failure, Result},
    output::{Paint, beside},
};

/// How much is read of the zip at once, in bytes.
const PIECE: usize = 64 << 10;

impl Deploy<'_> {
    /// Packs the files and sends them. Cut off, nothing of it is kept anywhere.
    pub(super) async fn upload(&self) -> Result<()> {
        let output = self.output;
        let spinner = output.spinner("packing");
        let zip = pack(self.content.clone()).await;
        spinner.finish_and_clear();
        let (file, bytes) = zip?;
        let bar = output.bar(bytes, "uploading");
        let counted = bar.clone();
        let pieces = ReaderStream::with_capacity(tokio::fs::File::from_std(file), PIECE)
            .inspect_ok(move |piece| counted.inc(piece.len() as u64));
        let session = self.session;
        let body = Body::stream(pieces).with_length(bytes);
        let sent = session
            .client
            .upload(&session.namespace, self.name(), body)
            .await;
        bar.finish_and_clear();
        let answer = sent.map_err(|error| {
            let refused = error.api().is_some_and(|api| api.status == 400);
            let failure = Failure::from(error);
            if refused {
                failure.or_hint("nothing was stored: correct the code and deploy again")
            } else {
                failure
            }
        })?;
        if answer.code_sha256 != self.digest() {
            let text = "the server read other files than were sent: it answers with another digest";
            return Err(Failure::new(Exit::Failed, text).hint("`sless doctor` compares versions"));
        }
        for warning in &answer.warnings {
            output.warn(warning);
        }
        if answer.verdict.outcome == VerdictOutcome::Unsafe {
            let reason = answer
                .verdict
                .reason
                .as_deref()
                .unwrap_or("without a reason");
            output.warn(&format!("the validator finds the code unsafe: {reason}"));
        }
        let sent = super::shown::bytes(bytes);
        output.say_painted(
            Paint::Faint,
            &format!("uploaded {sent}, sha256:{}", self.digest()),
        );
        Ok(())
    }
}

async fn pack(content: Content) -> Result<(std::fs::File, u64)> {
    let zip = beside(move || Ok(content.zip()?)).await?;
    Ok((zip.file, zip.bytes))
}
