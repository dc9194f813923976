//! The Terraform provider of sless, as the program that Terraform starts.

use std::{io::Write as _, process::ExitCode, sync::Arc};

use terraform_provider_sless::{Sless, docs};
use tfplugin::{HclogLayer, ServeOptions};
use tracing_subscriber::prelude::*;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if let Some("docs") = arguments.next().as_deref() {
        let folder = arguments.next().unwrap_or_else(|| "docs".to_owned());
        return finish(docs::write(folder.as_ref()).map_err(Into::into));
    }
    let layer = HclogLayer::new("sless", |name| std::env::var(name).ok());
    tracing_subscriber::registry().with(layer).init();
    // A panic reaches the user as a diagnostic; here it becomes a line of the log.
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    finish(runtime.map_err(Into::into).and_then(|runtime| {
        let provider = Arc::new(Sless::from_env());
        Ok(runtime.block_on(tfplugin::serve(provider, &ServeOptions::from_env()))?)
    }))
}

fn finish(result: Result<(), Box<dyn std::error::Error>>) -> ExitCode {
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    let mut text = format!("terraform-provider-sless: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    // Where standard error is gone, there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "{text}");
    ExitCode::FAILURE
}
