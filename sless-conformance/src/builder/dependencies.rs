//! Installing what a source asks for. The packages lie in the source: no network is needed.

use sless_core::{
    BuildStatus, ErrorKind, Runtime, reason,
    source::{NewFile, SourceLimits, SourceTree},
};

use super::{Case, contexts::Source};
use crate::{Outcome, Violation, clause::ensure, unique, wheel::wheel};

/// A source that asks for a package that it brings along, or for one that is not there.
fn source(runtime: Runtime, there: bool) -> Result<Source, Violation> {
    let limits = SourceLimits::default();
    let package = if there { "package" } else { "missing" };
    // Another content each time, so that nothing is found that was built before.
    let tag = unique::tag();
    let files = match runtime {
        Runtime::Python311 => vec![
            NewFile::new(
                "handler.py",
                format!(
                    "import brought\n\ndef handle(event):\n    return brought.ANSWER  # {tag}\n"
                ),
            ),
            NewFile::new(
                "requirements.txt",
                format!("./{package}/brought-1.0-py3-none-any.whl\n"),
            ),
            NewFile::new(
                "package/brought-1.0-py3-none-any.whl",
                wheel("brought", "ANSWER = 42\n")?,
            ),
        ],
        _ => vec![
            NewFile::new(
                "handler.js",
                format!("exports.handle = () => require('brought'); // {tag}\n"),
            ),
            NewFile::new(
                "package.json",
                format!(r#"{{"private":true,"dependencies":{{"brought":"file:./{package}"}}}}"#),
            ),
            NewFile::new(
                "package/package.json",
                r#"{"name":"brought","version":"1.0.0"}"#,
            ),
            NewFile::new("package/index.js", "module.exports = 42;\n"),
        ],
    };
    Ok(Source::new(
        SourceTree::from_new_files(files, &limits),
        true,
    ))
}

pub(super) async fn dependencies_are_installed_or_refused(case: &Case<'_>) -> Outcome {
    let builder = case.builder().await?;
    let request = case
        .request(&case.function()?, source(case.harness.runtime(), true)?)
        .await?;
    if builder.capabilities().installs {
        if case.harness.installs_here() {
            let artifact = case.built(&request).await?;
            ensure!(
                case.harness.keeps(&artifact).await?,
                "the artifact is not kept"
            );
        }
        return Ok(());
    }
    // Nobody asks such a builder; it does not pretend either.
    match builder.ensure(&request).await {
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => case
            .failed(&request, reason::BUILD_UNSUPPORTED)
            .await
            .map(drop),
    }
}

pub(super) async fn a_failed_install_fails_the_build(case: &Case<'_>) -> Outcome {
    let builder = case.builder().await?;
    if !builder.capabilities().installs || !case.harness.installs_here() {
        return Ok(());
    }
    let request = case
        .request(&case.function()?, source(case.harness.runtime(), false)?)
        .await?;
    let failure = case.failed(&request, reason::INSTALL_FAILED).await?;
    ensure!(
        failure.log_tail.contains("missing"),
        "the log does not name what is missing: {failure:?}"
    );
    let status = builder.ensure(&request).await?;
    let for_good = matches!(
        status,
        BuildStatus::Failed {
            transient: false,
            ..
        }
    );
    ensure!(
        for_good,
        "a package that is not there is called a passing failure: {status:?}"
    );
    let lines = case.log(&request.id).await?;
    ensure!(!lines.is_empty(), "the log of the failed install is empty");
    let found = lines.iter().any(|line| line.text.contains("missing"));
    if !found {
        return Err(Violation::new(
            "the log of the failed install does not name what is missing",
        ));
    }
    Ok(())
}
