//! From an upload to the first answer.

use std::{
    io::Cursor,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use sless_api::{CreateFunction, client::Content};
use sless_core::{
    Runtime,
    source::{SourceTree, pack},
};

use crate::{http::Connection, server::Server};

/// How long a function may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The handler of all measurements: it answers the bytes that it is sent. `version` makes another
/// source of it.
pub fn zip(runtime: Runtime, version: &str) -> Result<Bytes> {
    let file = match runtime {
        Runtime::Python311 => (
            "handler.py",
            format!("# {version}\ndef handle(event):\n    return event\n"),
        ),
        _ => (
            "handler.js",
            format!("// {version}\nexports.handle = (event) => event;\n"),
        ),
    };
    let tree = SourceTree::from_files([file])?;
    Ok(pack::write_zip(&tree, Cursor::new(Vec::new()))?
        .into_inner()
        .into())
}

/// Creates a function without code.
pub async fn create(
    server: &Server,
    name: &str,
    runtime: Runtime,
    replicas: Option<u32>,
) -> Result<()> {
    let function = CreateFunction {
        name: name.to_owned(),
        runtime: runtime.as_str().to_owned(),
        replicas,
        ..CreateFunction::default()
    };
    server
        .client
        .create_function(server.namespace.as_str(), &function)
        .await?;
    Ok(())
}

/// Uploads, and calls until the function answers. Answers how long both took together.
pub async fn until_first_answer(server: &Server, name: &str, zip: Bytes) -> Result<Duration> {
    let path = server.path(name);
    let begun = Instant::now();
    let namespace = server.namespace.as_str();
    server
        .client
        .upload(namespace, name, Content::bytes(zip))
        .await?;
    let mut connection = Connection::open(server.address).await?;
    loop {
        let answer = connection.post(&path, Bytes::from_static(b"ok")).await?;
        if answer.status == 200 {
            return Ok(begun.elapsed());
        }
        if begun.elapsed() > PATIENCE {
            let seen = server
                .client
                .function(namespace, name)
                .await
                .context("asking why")?;
            bail!("{name} does not answer: {seen:?}\n{}", server.last_lines());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
