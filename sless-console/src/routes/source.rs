//! Source.

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, header};
use serde::Deserialize;
use sless_core::{CatalogExt, Error, Function, Name, source::SourceTree};

use crate::{
    error::Failure,
    extract::{Query, Reading},
    negotiate::Form,
    pages::source::{self, Marked, Shown},
};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SourceQuery {
    file: String,
    zip: bool,
}

/// The files of a function and one of them; as plain text that one, or all; or the zip.
pub(super) async fn read(
    reading: Reading,
    Query(query): Query<SourceQuery>,
) -> Result<Response, Failure> {
    let name = reading.name()?;
    if query.zip {
        return zip(&reading, &name).await;
    }
    let sless = reading.console.sless();
    let namespace = &reading.namespace;
    let function: Function = sless.backends().catalog.read(namespace, &name).await?;
    let tree = sless.source(namespace, &name).await?;
    let limits = Limits {
        source: reading.console.config().source_bytes,
        highlight: reading.console.config().highlight_bytes,
    };
    if reading.frame.form == Form::Text {
        let text = blocking(move || plain(&tree, &query.file, &limits)).await?;
        return Ok(text.into_response());
    }
    let chosen = if query.file.is_empty() {
        let runtime = function.spec.runtime;
        first(&tree, &function.spec.entrypoint.candidates(runtime))
    } else {
        query.file
    };
    let (tree, chosen, shown) = blocking(move || {
        let shown = shown(&tree, &chosen, &limits)?;
        Ok((tree, chosen, shown))
    })
    .await?;
    let content = source::content(&reading, &name, &tree, &chosen, &shown);
    Ok(reading.answer_part(
        Some(&name),
        &format!("{name}: {}", reading.texts().source),
        content,
    ))
}

#[derive(Clone, Copy)]
struct Limits {
    source: u64,
    highlight: usize,
}

/// The file that is shown first: the handler, else the first of all.
fn first(tree: &SourceTree, candidates: &[String]) -> String {
    let handler = candidates.iter().find(|path| tree.get(path).is_some());
    let file = handler.or_else(|| tree.files().first().map(|file| &file.path));
    file.cloned().unwrap_or_default()
}

fn shown(tree: &SourceTree, path: &str, limits: &Limits) -> Result<Shown, Error> {
    let file = tree
        .get(path)
        .ok_or_else(|| Error::not_found("the source has no such file"))?;
    if file.size > limits.source {
        return Ok(Shown::TooLarge);
    }
    let Ok(text) = String::from_utf8(tree.read(path)?.into()) else {
        return Ok(Shown::Binary);
    };
    let marked = if text.len() <= limits.highlight {
        Marked::Yes
    } else {
        Marked::No
    };
    Ok(Shown::Text(text, marked))
}

fn plain(tree: &SourceTree, chosen: &str, limits: &Limits) -> Result<String, Error> {
    let read = |path: &str| {
        Ok::<_, Error>(match shown(tree, path, limits)? {
            Shown::Text(text, _) => text,
            Shown::Binary => "(not text)\n".to_owned(),
            Shown::TooLarge => "(too large)\n".to_owned(),
        })
    };
    if !chosen.is_empty() {
        return read(chosen);
    }
    if tree.total_bytes() > limits.source {
        return Err(Error::limit("source_bytes", limits.source, "bytes"));
    }
    let files = tree.files().iter();
    let files: Result<Vec<_>, Error> = files
        .map(|file| Ok((file.path.clone(), read(&file.path)?)))
        .collect();
    Ok(source::plain(&files?))
}

async fn zip(reading: &Reading, name: &Name) -> Result<Response, Failure> {
    let zip = reading
        .console
        .sless()
        .source_zip(&reading.namespace, name)
        .await?;
    let mut response = Body::from_stream(zip).into_response();
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("application/zip");
    headers.insert(header::CONTENT_TYPE, kind);
    // A name is a DNS label, so it needs no quoting.
    if let Ok(name) = HeaderValue::try_from(format!("attachment; filename=\"{name}.zip\"")) {
        headers.insert(header::CONTENT_DISPOSITION, name);
    }
    Ok(response)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    Ok(done.map_err(|cause| Error::internal("reading broke off").with_source(cause))??)
}
