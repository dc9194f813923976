//! The Dockerfile of a context.

use std::fmt::Write as _;

use super::VERSION;
use crate::{Digest, Result, error::Error, runtime::RuntimeInfo, source::Dependencies};

/// The user and group that functions run as; a number, so that Kubernetes can check it.
const USER: &str = "65532:65532";

/// Where the files are in the image.
const FOLDER: &str = "/app";

/// Where pip puts packages, out of the way of the function's own files.
const PACKAGES: &str = "/opt/sless/packages";

/// The Dockerfile for a source with this digest.
///
/// The base image is an argument, since a context outlives the version of the runtime that it was
/// written for: a rebuild passes the one of its [`BuildRequest`](crate::BuildRequest).
///
/// The image holds exactly the source below `/app`, and what was installed: the Dockerfile itself,
/// which a builder copies along, is removed.
pub fn dockerfile(info: &RuntimeInfo, dependencies: &Dependencies, digest: &Digest) -> String {
    let RuntimeInfo {
        runtime,
        image,
        entrypoint,
        ..
    } = info;
    let mut text = format!(
        "# sless-context {VERSION}\n\
         # source {digest}\n\
         ARG SLESS_BASE={image}\n\
         FROM ${{SLESS_BASE}}\n\
         USER 0:0\n\
         WORKDIR {FOLDER}\n\
         COPY . ./\n"
    );
    let (install, variables) = match dependencies {
        Dependencies::None => (String::new(), String::new()),
        Dependencies::Python { .. } => (
            format!(
                " && pip install --no-cache-dir --disable-pip-version-check \
                 --root-user-action=ignore --target {PACKAGES} --requirement requirements.txt"
            ),
            format!(" PYTHONPATH={PACKAGES}"),
        ),
        Dependencies::Node { lock, .. } => {
            let command = if lock.is_some() { "ci" } else { "install" };
            let install = format!(" && npm {command} --omit=dev --no-audit --no-fund");
            (install, String::new())
        }
    };
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "RUN rm Dockerfile{install}\n\
         ENV SLESS_RUNTIME={runtime} SLESS_ENTRYPOINT={entrypoint}{variables}\n\
         USER {USER}\n"
    );
    text
}

/// Reads version and digest back out of the first two lines.
pub(super) fn read_marks(dockerfile: &str) -> Result<Digest> {
    let mut lines = dockerfile.lines();
    let mut mark = |name: &str| lines.next().and_then(|line| line.strip_prefix(name));
    let version = mark("# sless-context ").and_then(|text| text.parse::<u32>().ok());
    match version {
        Some(VERSION) => {}
        Some(other) => {
            return Err(super::reader::corrupt(
                "version",
                format_args!("format {other} is not known here; expected {VERSION}"),
            ));
        }
        None => {
            return Err(super::reader::corrupt(
                "version",
                "the Dockerfile does not begin with the format's version",
            ));
        }
    }
    let digest = mark("# source ").map(str::parse);
    digest.and_then(Result::ok).ok_or_else(|| -> Error {
        super::reader::corrupt("digest", "the Dockerfile does not name the source's digest")
    })
}
