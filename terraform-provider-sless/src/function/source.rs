//! The code on this machine: its digest for the plan, its zip for the upload.

use std::{
    fs,
    io::{self, BufReader, Seek as _},
    path::{Path, PathBuf},
};

use sless_api::client::Content;
use sless_core::{
    Entrypoint, Runtime,
    source::{SourceArchive, SourceLimits, SourceTree, pack},
};
use tfplugin::{Plan, Value};

/// Where the code is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Folder(PathBuf),
    Zip(PathBuf),
}

/// What a configuration says about where the code is.
pub(super) enum Given {
    /// Nothing: what an import finds before it is configured.
    Nothing,
    /// It is known during apply.
    Later,
    Here(Place),
}

pub(super) fn given(config: &Value) -> Given {
    let (folder, zip) = (config.at("source_dir"), config.at("filename"));
    if folder.is_unknown() || zip.is_unknown() {
        return Given::Later;
    }
    match (folder.as_str(), zip.as_str()) {
        (Some(folder), _) => Given::Here(Place::Folder(folder.into())),
        (_, Some(zip)) => Given::Here(Place::Zip(zip.into())),
        _ => Given::Nothing,
    }
}

impl Place {
    /// The attribute that names it.
    pub(super) const fn attribute(&self) -> &'static str {
        match self {
            Self::Folder(_) => "source_dir",
            Self::Zip(_) => "filename",
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Folder(path) | Self::Zip(path) => path,
        }
    }

    /// Reads and checks the code. The error is a sentence.
    pub(super) async fn read(self) -> Result<SourceTree, String> {
        let read = move || {
            let limits = SourceLimits::default();
            let path = self.path();
            let shown = path.display();
            match &self {
                Self::Folder(_) => {
                    if !path.is_dir() {
                        return Err(format!("{shown} is not a folder that can be read."));
                    }
                    sless_source::read_tree(path, path, &limits).map_err(|error| error.to_string())
                }
                Self::Zip(_) => {
                    let file = fs::File::open(path);
                    let file = file.map_err(|error| format!("{shown} cannot be read: {error}."))?;
                    let tree = SourceArchive::open(BufReader::new(file), &limits);
                    tree.map_err(|error| format!("{shown}: {}.", error.message()))
                }
            }
        };
        let read = tokio::task::spawn_blocking(read).await;
        read.unwrap_or_else(|error| Err(format!("reading the code failed: {error}")))
    }
}

/// The zip of a tree, in a temporary file. The same tree gives the same zip.
pub(super) async fn zip(tree: SourceTree) -> Result<tempfile::NamedTempFile, String> {
    let write = move || -> Result<_, String> {
        let failed = |error: io::Error| format!("the zip cannot be written: {error}");
        let mut file = tempfile::NamedTempFile::new().map_err(failed)?;
        let written = pack::write_zip(&tree, io::BufWriter::new(file.as_file_mut()));
        let written = written.map_err(|error| error.message().to_owned())?;
        written
            .into_inner()
            .map_err(|error| failed(error.into_error()))?;
        file.rewind().map_err(failed)?;
        Ok(file)
    };
    let written = tokio::task::spawn_blocking(write).await;
    written.unwrap_or_else(|error| Err(format!("writing the zip failed: {error}")))
}

/// A zip as the body of an upload.
pub(super) async fn content(zip: &tempfile::NamedTempFile) -> Result<Content, String> {
    let content = Content::file(zip.path()).await;
    content.map_err(|error| crate::api::chain(&error))
}

/// Decides the digest of the code, and what follows from it.
pub(super) async fn plan(plan: &mut Plan) {
    let place = match given(plan.config()) {
        Given::Nothing => return,
        Given::Later => return plan.decide("digest", Value::UNKNOWN),
        Given::Here(place) => place,
    };
    let attribute = place.attribute();
    let tree = match place.read().await {
        Ok(tree) => tree,
        Err(problem) => {
            return plan
                .diagnostics
                .error_at(attribute, "The code cannot be used", problem);
        }
    };
    if let Err(problem) = has_handler(plan.planned(), &tree) {
        return plan
            .diagnostics
            .error_at("entrypoint", "The code has no such handler", problem);
    }
    let digest = tree.digest().hex();
    let is_same = plan.prior().at("digest").as_str() == Some(digest.as_str());
    plan.decide("digest", digest);
    if !is_same {
        return;
    }
    // The same contents somewhere else are no change.
    for name in ["source_dir", "filename", "code_hash"] {
        let (before, now) = (plan.prior().at(name), plan.planned().at(name));
        // An empty one is what an import could not know: that has a rule of its own.
        let is_known = before.as_str().is_some_and(|before| !before.is_empty());
        if is_known && now.as_str().is_some() {
            let before = before.clone();
            plan.decide(name, before);
        }
    }
}

/// Whether the file of the handler is there.
fn has_handler(planned: &Value, tree: &SourceTree) -> Result<(), String> {
    let (Some(runtime), Some(entrypoint)) = (
        planned.at("runtime").as_str(),
        planned.at("entrypoint").as_str(),
    ) else {
        return Ok(());
    };
    let (Ok(runtime), Ok(entrypoint)) =
        (runtime.parse::<Runtime>(), entrypoint.parse::<Entrypoint>())
    else {
        // Told at the attribute already.
        return Ok(());
    };
    entrypoint
        .file(runtime, tree)
        .map(drop)
        .map_err(|error| error.message().to_owned())
}
