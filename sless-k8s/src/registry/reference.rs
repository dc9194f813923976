//! Names of images.

use std::{fmt, str::FromStr};

use sless_core::{Digest, Error, Result};

/// The host that a name without one means, and the one that answers for it.
const HUB: (&str, &str) = ("docker.io", "registry-1.docker.io");

/// The name of an image: `host/repository:tag`, or `…@sha256:…`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reference {
    /// The registry, with its port where it has one.
    pub(crate) host: String,
    /// The path in it.
    pub(crate) repository: String,
    /// The tag or digest; `latest` where none is named.
    pub(crate) version: String,
}

impl Reference {
    /// The host to connect to.
    pub(crate) fn api_host(&self) -> &str {
        if self.host == HUB.0 {
            HUB.1
        } else {
            &self.host
        }
    }

    /// The same repository at this digest.
    pub(crate) fn at(&self, digest: Digest) -> Self {
        Self {
            version: digest.to_string(),
            ..self.clone()
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.version.contains(':') { '@' } else { ':' };
        write!(f, "{}/{}{mark}{}", self.host, self.repository, self.version)
    }
}

impl FromStr for Reference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse(text).ok_or_else(|| {
            let shown: String = text.chars().take(200).collect();
            Error::invalid(format!(
                "image {shown:?}: expected a name such as `registry.example.com/path:tag`"
            ))
            .with_reason("image_name")
        })
    }
}

fn parse(text: &str) -> Option<Reference> {
    let (name, version) = if let Some((name, digest)) = text.split_once('@') {
        digest.parse::<Digest>().ok()?;
        (name, digest)
    } else {
        match text.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, tag),
            _ => (text, "latest"),
        }
    };
    let (host, repository) = match name.split_once('/') {
        Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" => {
            (host, rest.to_owned())
        }
        Some(_) => (HUB.0, name.to_owned()),
        None => (HUB.0, format!("library/{name}")),
    };
    let segment = |part: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let inner = |byte: u8| plain(byte) || b"._-".contains(&byte);
        let ends = |byte: Option<&u8>| byte.copied().is_some_and(plain);
        part.bytes().all(inner) && ends(part.as_bytes().first()) && ends(part.as_bytes().last())
    };
    let host_is_plain = |host: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
        !host.is_empty() && host.bytes().all(plain)
    };
    let version_is_plain = |version: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:".contains(&byte);
        !version.is_empty() && version.len() <= 128 && version.bytes().all(plain)
    };
    let right =
        host_is_plain(host) && repository.split('/').all(segment) && version_is_plain(version);
    right.then(|| Reference {
        host: host.to_owned(),
        repository,
        version: version.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_read_as_container_tools_read_them() {
        for (text, host, repository, version) in [
            ("python:3.11", "docker.io", "library/python", "3.11"),
            ("acme/x", "docker.io", "acme/x", "latest"),
            ("localhost:5000/a/b:v1", "localhost:5000", "a/b", "v1"),
            ("10.0.0.1:5000/a", "10.0.0.1:5000", "a", "latest"),
            ("r.example/a--b/c_d:x", "r.example", "a--b/c_d", "x"),
        ] {
            let read: Reference = text.parse().expect(text);
            let seen = (&*read.host, &*read.repository, &*read.version);
            assert_eq!(seen, (host, repository, version), "{text}");
        }
        let digest = Digest::of("x");
        let read: Reference = format!("r.example/a@{digest}").parse().expect("a digest");
        assert_eq!(read.to_string(), format!("r.example/a@{digest}"));
        for bad in [
            "",
            "r.example/",
            "r.example/A",
            "r.example/a:",
            "r.example/a b",
            "a@sha256:1",
        ] {
            assert!(bad.parse::<Reference>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_the_same(text in "[a-z./:@-]{0,40}") {
            if let Ok(read) = text.parse::<Reference>() {
                let again: Reference = read.to_string().parse().expect("its own text");
                prop_assert_eq!(again, read);
            }
        }
    }
}
