//! TLS, logins, and addresses where nobody answers.

use std::time::{Duration, Instant};

use sless_core::{Error, ErrorKind, InvocationLog as _, Retry};
use sless_postgres::{PostgresConfig, PostgresInvocationLog};

use super::support::{record, setting, url};

/// The tests' URL, on this host and with these parameters.
fn at(host: &str, parameters: &str) -> String {
    format!("{}?{parameters}", url().replace("127.0.0.1", host))
}

/// Connects, and answers whether bytes were encrypted.
async fn encrypted(url: &str) -> Result<bool, Error> {
    let schema = super::support::Schema::at(url.to_owned());
    let name = format!("application_name={}", &schema.name[6..20]);
    let url = format!("{url}&{name}");
    let log = PostgresInvocationLog::connect(PostgresConfig::new(url).with_schema(&schema.name));
    let log = log.await?;
    log.append(vec![record(0)]).await?;
    let plain = super::support::Schema {
        url: super::support::url(),
        name: schema.name.clone(),
    };
    let client = plain.client().await;
    let sql = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
               WHERE application_name = $1";
    let row = client.query_one(sql, &[&&schema.name[6..20]]).await;
    let encrypted = row.expect("a row").get(0);
    plain.drop().await;
    Ok(encrypted)
}

#[tokio::test]
#[ignore = "needs PostgreSQL: testing/postgres/up"]
async fn sslmode_means_what_libpq_says() {
    let ca = setting("SLESS_TEST_POSTGRES_CA");
    for (host, parameters, expected) in [
        ("127.0.0.1", "sslmode=disable".to_owned(), false),
        ("127.0.0.1", "sslmode=prefer".to_owned(), true),
        ("127.0.0.1", "sslmode=require".to_owned(), true),
        (
            "localhost",
            format!("sslmode=verify-full&sslrootcert={ca}"),
            true,
        ),
    ] {
        let found = encrypted(&at(host, &parameters)).await;
        let found = found.unwrap_or_else(|error| panic!("{parameters}: {}", error.chain()));
        assert_eq!(found, expected, "{parameters}");
    }
    for (host, parameters) in [
        // The certificate is one for another name, or by an authority that nobody knows.
        ("127.0.0.1", format!("sslmode=verify-full&sslrootcert={ca}")),
        ("localhost", "sslmode=verify-full".to_owned()),
    ] {
        let error = encrypted(&at(host, &parameters))
            .await
            .expect_err("refused");
        let chain = error.chain();
        assert!(chain.to_lowercase().contains("certificate"), "{chain}");
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: testing/postgres/up"]
async fn a_wrong_login_is_told_without_the_password() {
    let url = url();
    let password = url
        .split(':')
        .nth(2)
        .and_then(|rest| rest.split('@').next());
    let password = password.expect("a password");
    let wrong = url.replace(password, "hunter2");
    let error = PostgresInvocationLog::connect(PostgresConfig::new(wrong)).await;
    let error = error.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert_eq!(error.reason(), "database_login");
    // Somebody may set it right: what waits is not thrown away.
    assert_eq!(error.retry(), Retry::Transient);
    assert!(!error.chain().contains("hunter2"));
    let missing = format!("{}-missing", url);
    let error = PostgresInvocationLog::connect(PostgresConfig::new(missing)).await;
    assert_eq!(error.expect_err("not there").reason(), "database_missing");
}

/// A port at which nobody listens, and one at which somebody does who says nothing.
#[tokio::test]
async fn a_database_that_does_not_answer_is_given_up_in_time() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let (silent_at, closed_at) = (silent.local_addr(), closed.local_addr());
    drop(closed);
    for address in [
        silent_at.expect("an address"),
        closed_at.expect("an address"),
    ] {
        let mut config = PostgresConfig::new(format!("postgres://u:hunter2@{address}/d"));
        config.connect_timeout_ms = 300;
        config.connection_wait_ms = 300;
        config.statement_timeout_ms = 300;
        let log = PostgresInvocationLog::open(config).expect("a config");
        let began = Instant::now();
        let error = log.append(vec![record(0)]).await.expect_err("away");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{}", error.chain());
        assert_eq!(error.retry(), Retry::Transient);
        assert!(!error.chain().contains("hunter2"));
        assert!(began.elapsed() < Duration::from_secs(10));
        assert!(log.problem().is_some());
    }
}
