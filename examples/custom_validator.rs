//! A validator of your own: it looks at every upload, and refuses code that opens sockets.
//!
//! A search for words is easily evaded and stands here because it is short. What matters is where a
//! validator stands: between the checked upload and everything that is kept.
//!
//! `cargo run -p sless-examples --example custom_validator`
#![allow(clippy::print_stdout, reason = "it shows what an uploader would see")]

use std::{error::Error, sync::Arc};

use async_trait::async_trait;
use futures::StreamExt as _;
use sless_core::{
    Backends, Body, CatalogExt as _, Deploy, ErrorKind, Function, FunctionSpec, Name, Namespace,
    Result, Runtime, Sless, Validator, Verdict, memory::MemoryScheduler, source::SourceTree,
};

/// Refuses Python that imports `socket`, and Node that asks for `net`, `tls` or `dgram`.
#[derive(Debug)]
struct NoSockets;

#[async_trait]
impl Validator for NoSockets {
    fn identity(&self) -> String {
        "no-sockets 1".to_owned()
    }

    async fn validate(&self, source: &SourceTree, runtime: Runtime) -> Result<Verdict> {
        let signs: &[&str] = match runtime {
            Runtime::Python311 => &["import socket", "from socket"],
            _ => &["require('net')", "require('tls')", "require('dgram')"],
        };
        // The files that are worth a look: text, and nothing below `node_modules`.
        let review = source.reviewable()?;
        if review.oversized {
            let reason = format!("{} bytes of code are too much to look at", review.bytes);
            return Ok(Verdict::Skipped { reason });
        }
        for (path, text) in &review.files {
            for (number, line) in text.lines().enumerate() {
                if let Some(sign) = signs.iter().find(|sign| line.contains(*sign)) {
                    let number = number + 1;
                    let reason = format!("{path}, line {number}: {sign:?} opens sockets");
                    return Ok(Verdict::Unsafe { reason });
                }
            }
        }
        Ok(Verdict::Safe)
    }
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn Error>> {
    let mut backends = Backends::in_memory();
    backends.validator = Arc::new(NoSockets);
    // In memory a function is a closure of this program, whatever its code says.
    let scheduler = MemoryScheduler::new(backends.clock.clone())
        .with_handler("handler.handle", |_, _| async {
            Ok(http::Response::new(Body::from("ok")))
        });
    backends.scheduler = Arc::new(scheduler);
    let sless = Sless::new(backends)?;

    let sockets = "import json\nimport socket\n\ndef handle(event):\n    return 'ok'\n";
    let error = deploy(&sless, sockets).await.expect_err("it opens sockets");
    println!("{}", error.message());
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(
        error.message(),
        "code validation failed: handler.py, line 2: \"import socket\" opens sockets"
    );
    // Nothing of it was kept: no object in the store, no code in the function.
    let storage = &sless.backends().storage;
    assert_eq!(storage.list("").count().await, 0);
    let function: Function = sless
        .backends()
        .catalog
        .read(&namespace()?, &name()?)
        .await?;
    assert_eq!(function.spec.code_sha256, None);

    // Other code is let through, and the function shows who said so.
    let function = deploy(&sless, "def handle(event):\n    return 'ok'\n").await?;
    let verification = function.status.verification.expect("somebody looked");
    assert_eq!(verification.verdict, "safe");
    assert_eq!(verification.by, "no-sockets 1");
    println!("{} by {}", verification.verdict, verification.by);
    sless.shutdown().await;
    Ok(())
}

fn namespace() -> Result<Namespace> {
    Namespace::new("demo")
}

fn name() -> Result<Name> {
    Name::new("hello")
}

async fn deploy(sless: &Sless, code: &'static str) -> Result<Function> {
    let spec = FunctionSpec::new(Runtime::Python311);
    let deploy = Deploy::files(namespace()?, name()?, spec, [("handler.py", code)])?;
    sless.deploy(deploy).await
}
