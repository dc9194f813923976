//! [`PostgresConfig`].

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    error::Fault,
    tls::{Roots, TlsMode},
};

/// Settings of a [`PostgresInvocationLog`](crate::PostgresInvocationLog).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PostgresConfig {
    /// Where the database is, as libpq's URL. It may hold a password, so `Debug` leaves it out.
    pub url: String,
    /// The schema in which the table is, made where it is missing; the first one of the role's search
    /// path where absent.
    pub schema: Option<String>,
    /// The most connections at once. One is enough for appends; readers and the retention use others.
    pub connections: usize,
    /// How long a connection may take to come about, in milliseconds.
    pub connect_timeout_ms: u64,
    /// How long an operation may wait for a connection that is free, in milliseconds.
    pub connection_wait_ms: u64,
    /// How long a statement may take, in milliseconds.
    pub statement_timeout_ms: u64,
    /// The most records of one append.
    pub append_records: usize,
    /// How many records are dropped in one step of a retention, each a transaction of its own.
    pub retain_step: u32,
}

impl Default for PostgresConfig {
    fn default() -> Self {
        Self {
            url: "postgres://localhost/sless".to_owned(),
            schema: None,
            connections: 4,
            connect_timeout_ms: 5_000,
            connection_wait_ms: 10_000,
            statement_timeout_ms: 15_000,
            append_records: 10_000,
            retain_step: 5_000,
        }
    }
}

impl fmt::Debug for PostgresConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresConfig")
            .field("url", &"…")
            .field("schema", &self.schema)
            .field("connections", &self.connections)
            .field("connect_timeout_ms", &self.connect_timeout_ms)
            .field("connection_wait_ms", &self.connection_wait_ms)
            .field("statement_timeout_ms", &self.statement_timeout_ms)
            .field("append_records", &self.append_records)
            .field("retain_step", &self.retain_step)
            .finish()
    }
}

impl PostgresConfig {
    /// The default settings for this database.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            ..Self::default()
        }
    }

    /// Keeps the table in this schema.
    #[must_use]
    pub fn with_schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = Some(schema.into());
        self
    }

    pub(crate) const fn statement_timeout(&self) -> Duration {
        Duration::from_millis(self.statement_timeout_ms)
    }

    /// Reads the URL: what the client library is told, and how TLS is done.
    pub(crate) fn parse(&self) -> Result<Parsed, Fault> {
        let (url, tls, roots) = take_tls(&self.url)?;
        let mut client = tokio_postgres::Config::from_str(&url).map_err(Fault::Url)?;
        if client.get_hosts().is_empty() {
            return Err(Fault::Setting("url: it names no host".to_owned()));
        }
        if self.connections == 0 {
            return Err(Fault::Setting(
                "connections: expected at least 1".to_owned(),
            ));
        }
        client.ssl_mode(tls.client_mode());
        if client.get_application_name().is_none() {
            client.application_name("sless");
        }
        client.connect_timeout(Duration::from_millis(self.connect_timeout_ms));
        // A peer that is gone without a word is noticed, also where nothing is being sent.
        client.keepalives_idle(Duration::from_secs(30));
        client.keepalives_interval(Duration::from_secs(10));
        client.keepalives_retries(3);
        client.tcp_user_timeout(Duration::from_secs(60));
        Ok(Parsed { client, tls, roots })
    }
}

/// A URL that was read.
pub(crate) struct Parsed {
    pub(crate) client: tokio_postgres::Config,
    pub(crate) tls: TlsMode,
    pub(crate) roots: Roots,
}

/// Takes the parameters of libpq out of the URL that the client library does not know.
fn take_tls(url: &str) -> Result<(String, TlsMode, Roots), Fault> {
    let (mut mode, mut roots) = (TlsMode::Prefer, Roots::System);
    let Some((base, query)) = url.split_once('?') else {
        return Ok((url.to_owned(), mode, roots));
    };
    let mut kept = Vec::new();
    for parameter in query.split('&') {
        match parameter.split_once('=') {
            Some(("sslmode", value)) => mode = value.parse()?,
            Some(("sslrootcert", "system")) => roots = Roots::System,
            Some(("sslrootcert", file)) => roots = Roots::File(decoded(file)?.into()),
            _ => kept.push(parameter),
        }
    }
    let url = if kept.is_empty() {
        base.to_owned()
    } else {
        format!("{base}?{}", kept.join("&"))
    };
    Ok((url, mode, roots))
}

/// Undoes percent-encoding.
fn decoded(text: &str) -> Result<String, Fault> {
    let wrong = || Fault::Setting("url: sslrootcert is no path".to_owned());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or_else(wrong)?;
        let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Parsed, Fault> {
        PostgresConfig::new(url).parse()
    }

    #[test]
    fn tls_is_what_the_url_says() {
        for (query, mode, roots) in [
            ("", TlsMode::Prefer, Roots::System),
            ("?sslmode=disable", TlsMode::Disable, Roots::System),
            (
                "?application_name=a&sslmode=require&connect_timeout=3",
                TlsMode::Require,
                Roots::System,
            ),
            (
                "?sslrootcert=%2Fetc%2Fa%20b.pem&sslmode=verify-full",
                TlsMode::VerifyFull,
                Roots::File("/etc/a b.pem".into()),
            ),
        ] {
            let parsed = parse(&format!("postgres://u:p@h/d{query}")).expect("a URL");
            assert_eq!((parsed.tls, parsed.roots), (mode, roots), "{query}");
            assert_eq!(parsed.client.get_dbname(), Some("d"));
        }
    }

    #[test]
    fn a_wrong_setting_is_named_and_no_secret_is_shown() {
        for (url, named) in [
            ("postgres://u:hunter2@h/d?sslmode=verify-ca", "sslmode"),
            ("postgres://u:hunter2@h/d?sslmode=allow", "sslmode"),
            ("postgres://u:hunter2@h/d?sslrootcert=%zz", "sslrootcert"),
            ("postgres://u:hunter2@h/d?nonsense=1", "url"),
            ("mysql://u:hunter2@h/d", "url"),
        ] {
            let fault = parse(url).err().expect(url);
            let error = sless_core::Error::from(fault);
            assert_eq!(error.kind(), sless_core::ErrorKind::Invalid, "{url}");
            let chain = error.chain();
            assert!(chain.contains(named), "{url}: {chain}");
            assert!(!chain.contains("hunter2"), "{chain}");
        }
        let config = PostgresConfig::new("postgres://u:hunter2@h/d");
        assert!(!format!("{config:?}").contains("hunter2"));
        let none = PostgresConfig {
            connections: 0,
            ..config
        };
        assert!(none.parse().is_err());
    }
}
