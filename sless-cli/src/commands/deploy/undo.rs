//! The way back for a deploy that did not get as far as its code.

use std::time::Duration;

use sless_api::PatchFunction;

use crate::{
    failure::{Failure, Result},
    output::Output,
    session::Session,
};

/// How long the way back may take.
const LIMIT: Duration = Duration::from_secs(15);

/// What has been done to the function, or may have been.
#[derive(Debug, Default)]
pub(super) struct Undo(Option<Done>);

#[derive(Debug)]
enum Done {
    Created(String),
    Patched(String, Box<PatchFunction>),
}

impl Undo {
    pub(super) fn will_create(&mut self, name: &str) {
        self.0 = Some(Done::Created(name.to_owned()));
    }

    pub(super) fn will_patch(&mut self, name: &str, back: &PatchFunction) {
        self.0 = Some(Done::Patched(name.to_owned(), Box::new(back.clone())));
    }

    /// The server said no.
    pub(super) fn did_nothing(&mut self) {
        self.0 = None;
    }

    /// Undoes it, unless the code has arrived after all. Answers why the deploy ends.
    pub(super) async fn run(
        self,
        session: &Session,
        output: &Output,
        digest: &str,
        failure: Failure,
    ) -> Failure {
        let Some(done) = self.0 else {
            return failure;
        };
        let undone = tokio::time::timeout(LIMIT, done.undo(session, digest)).await;
        let (Done::Created(name) | Done::Patched(name, _)) = &done;
        match undone {
            Ok(Ok(said)) => output.say(&said),
            Ok(Err(error)) => output.warn(&format!(
                "{name} is half made: {error}; `sless get {name}` shows it, and `sless deploy` again \
                 or `sless delete {name}` brings it in order"
            )),
            Err(_) => output.warn(&format!(
                "{name} may be half made, since the server does not answer: `sless get {name}` tells"
            )),
        }
        failure
    }
}

impl Done {
    async fn undo(&self, session: &Session, digest: &str) -> Result<String> {
        let Session { client, namespace } = session;
        let (Self::Created(name) | Self::Patched(name, _)) = self;
        let function = match client.function(namespace, name).await {
            Ok(function) => function,
            Err(error) if error.is_not_found() => return Ok(format!("nothing of {name} is left")),
            Err(error) => return Err(error.into()),
        };
        if function.code_sha256.as_deref() == Some(digest) {
            return Ok(format!(
                "the server has the code and goes on with it: `sless get {name}` tells"
            ));
        }
        match self {
            // Somebody else's code in it is not ours to remove.
            Self::Created(_) if function.code_sha256.is_some() => {
                Ok(format!("{name} was deployed by somebody else meanwhile"))
            }
            Self::Created(_) => match client.delete_function(namespace, name).await {
                Err(error) if !error.is_not_found() => Err(error.into()),
                _ => Ok(format!("removed the function {name} again")),
            },
            Self::Patched(_, back) => {
                client.patch_function(namespace, name, back).await?;
                Ok(format!("{name} is as it was before"))
            }
        }
    }
}
