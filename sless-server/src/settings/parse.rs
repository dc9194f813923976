//! From text to values. An error says what was expected.

use std::{net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};

use sless_api::WireDuration;

type Parsed<T> = Result<T, String>;

/// What runs functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackendKind {
    /// Processes on this machine.
    Local,
    /// A Kubernetes cluster.
    Kubernetes,
}

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// Answers the REST API and proxies calls.
    Api,
    /// Brings what is to what is wanted.
    Operator,
    /// Takes messages from queues.
    Dispatcher,
    /// Shows the web console.
    Console,
}

/// How tokens are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthKind {
    /// By the keys of an identity provider.
    Jwks,
    /// By a shared secret.
    Hs256,
    /// By shape and expiry only.
    Structural,
}

/// In which form the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogFormat {
    /// Pretty on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Pretty,
    /// One JSON object per line.
    Json,
}

pub(super) fn word<T: Copy>(text: &str, words: &[(&str, T)]) -> Parsed<T> {
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        format!("expected {}", words.join(" or "))
    })
}

pub(super) fn backend(text: &str) -> Parsed<BackendKind> {
    word(
        text,
        &[
            ("local", BackendKind::Local),
            ("kubernetes", BackendKind::Kubernetes),
        ],
    )
}

pub(super) fn auth(text: &str) -> Parsed<AuthKind> {
    let words = [
        ("jwks", AuthKind::Jwks),
        ("hs256", AuthKind::Hs256),
        ("structural", AuthKind::Structural),
    ];
    word(text, &words)
}

pub(super) fn log_format(text: &str) -> Parsed<LogFormat> {
    let words = [
        ("auto", LogFormat::Auto),
        ("pretty", LogFormat::Pretty),
        ("json", LogFormat::Json),
    ];
    word(text, &words)
}

pub(super) fn boolean(text: &str) -> Parsed<bool> {
    word(text, &[("true", true), ("false", false)])
}

pub(super) fn roles(text: &str) -> Parsed<Vec<Role>> {
    let words = [
        ("api", Role::Api),
        ("operator", Role::Operator),
        ("dispatcher", Role::Dispatcher),
        ("console", Role::Console),
    ];
    let mut roles = Vec::new();
    for name in list(text)? {
        let role = word(&name, &words)
            .map_err(|_| format!("`{name}` is no role; expected any of api, operator, dispatcher and console, with commas"))?;
        if !roles.contains(&role) {
            roles.push(role);
        }
    }
    if roles.is_empty() {
        return Err("expected at least one of api, operator, dispatcher and console".to_owned());
    }
    Ok(roles)
}

pub(super) fn list(text: &str) -> Parsed<Vec<String>> {
    let items = text
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty());
    Ok(items.map(str::to_owned).collect())
}

#[allow(clippy::unnecessary_wraps)]
pub(super) fn text(text: &str) -> Parsed<String> {
    Ok(text.to_owned())
}

#[allow(clippy::unnecessary_wraps)]
pub(super) fn path(text: &str) -> Parsed<PathBuf> {
    Ok(PathBuf::from(text))
}

pub(super) fn address(text: &str) -> Parsed<SocketAddr> {
    SocketAddr::from_str(text)
        .map_err(|_| "expected an IP address and a port, such as 127.0.0.1:8080".to_owned())
}

/// An `http` or `https` address, without the slash at its end.
pub(super) fn url(text: &str) -> Parsed<String> {
    let expected = "expected an address such as https://sless.example.com";
    let url = reqwest::Url::parse(text).map_err(|error| format!("{error}; {expected}"))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(expected.to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err(format!(
            "{expected}, without a user, a password and a fragment"
        ));
    }
    Ok(text.trim_end_matches('/').to_owned())
}

pub(super) fn log_filter(text: &str) -> Parsed<String> {
    tracing_subscriber::EnvFilter::try_new(text)
        .map(|_| text.to_owned())
        .map_err(|error| {
            format!("{error}; expected levels such as info or sless_server=debug,info")
        })
}

/// A duration above zero.
pub(super) fn duration(text: &str) -> Parsed<Duration> {
    match text.parse::<WireDuration>() {
        Ok(WireDuration(duration)) if !duration.is_zero() => Ok(duration),
        _ => Err("expected a duration above zero, such as 500ms, 15s or 10m".to_owned()),
    }
}

/// A whole number above zero.
pub(super) fn count(text: &str) -> Parsed<u64> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err("expected a whole number above zero".to_owned()),
    }
}

pub(super) fn size(text: &str) -> Parsed<usize> {
    usize::try_from(count(text)?).map_err(|_| "is too large for this machine".to_owned())
}

/// A number of things of which there may be none.
pub(super) fn size_or_none(text: &str) -> Parsed<usize> {
    text.parse()
        .map_err(|_| "expected a whole number".to_owned())
}

/// Bytes above zero, as a number with or without a binary unit.
pub(super) fn bytes(text: &str) -> Parsed<u64> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
    let (number, shift) = units
        .iter()
        .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)))
        .unwrap_or((text, 0));
    let number: Option<u64> = number.trim_end().parse().ok();
    number
        .and_then(|number| number.checked_mul(1 << shift))
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "expected bytes, such as 1048576, 64KiB, 50MiB or 1GiB".to_owned())
}

pub(super) fn byte_size(text: &str) -> Parsed<usize> {
    usize::try_from(bytes(text)?).map_err(|_| "is too large for this machine".to_owned())
}

/// The least that the HTTP implementation can be held to.
const HEAD_BYTES_MIN: usize = 8 * 1024;

pub(super) fn head_bytes(text: &str) -> Parsed<usize> {
    let bytes = byte_size(text)?;
    if bytes < HEAD_BYTES_MIN {
        return Err("expected at least 8KiB".to_owned());
    }
    Ok(bytes)
}
