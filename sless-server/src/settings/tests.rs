//! Tests of the settings.

#![allow(clippy::unwrap_used)]

use std::{fs, path::Path};

use proptest::prelude::*;

use super::{table::SETTINGS, *};

fn load_with(given: &[(&str, &str)], file: Option<&Path>) -> Result<Settings, SettingsError> {
    let environment = given
        .iter()
        .map(|(name, value)| (name.into(), value.into()));
    Settings::load(&Sources::new(environment, file))
}

fn load(given: &[(&str, &str)]) -> Result<Settings, SettingsError> {
    load_with(given, None)
}

fn problems(given: &[(&str, &str)]) -> Vec<String> {
    let error = load(given).expect_err("problems");
    error.problems().iter().map(ToString::to_string).collect()
}

#[test]
fn nothing_given_is_a_server_on_the_loopback() {
    let settings = load(&[("SLESS_DATA_DIR", "/data")]).unwrap();
    assert!(settings.listen.ip().is_loopback());
    assert_eq!(settings.external_url, "http://127.0.0.1:8080");
    assert_eq!(settings.backend, BackendKind::Local);
    assert_eq!(settings.roles.len(), 4);
    assert_eq!(settings.auth.kind, AuthKind::Hs256);
    assert_eq!(settings.auth.hs256_key_file, Path::new("/data/hs256.key"));
    assert_eq!(settings.limits.zip_bytes, 50 << 20);
    assert_eq!(settings.warnings, Vec::<String>::new());
}

#[test]
fn a_wrong_one_is_named_with_what_was_given_and_expected() {
    for (name, value, expected) in [
        ("SLESS_LISTEN", "8080", "expected an IP address and a port"),
        (
            "SLESS_LOCAL_SANDBOX",
            "on",
            "expected auto or required or off",
        ),
        ("SLESS_LOCAL_SANDBOX_READ", "/nothing/here", "is not there"),
        ("SLESS_BACKEND", "docker", "expected local or kubernetes"),
        ("SLESS_ROLES", "api,cook", "`cook` is no role"),
        ("SLESS_ROLES", ",", "at least one"),
        ("SLESS_AUTH", "none", "expected jwks or hs256 or structural"),
        (
            "EXTERNAL_URL",
            "sless.example.com",
            "https://sless.example.com",
        ),
        ("EXTERNAL_URL", "ftp://x", "expected an address"),
        ("SLESS_MAX_ZIP_BYTES", "50MB", "50MiB"),
        ("SLESS_MAX_ZIP_BYTES", "0", "expected bytes"),
        ("SLESS_MAX_ZIP_BYTES", "99999999999GiB", "expected bytes"),
        ("SLESS_MAX_UPLOADS", "-1", "above zero"),
        ("SLESS_MAX_HEADER_BYTES", "1KiB", "at least 8KiB"),
        ("SLESS_DRAIN_TIMEOUT", "30", "such as 500ms"),
        ("SLESS_LOG", "a=b=c", "expected levels"),
        ("SLESS_LOG_FORMAT", "xml", "expected auto or pretty or json"),
        ("LLM_ENABLED", "yes", "expected true or false"),
        ("LLM_TIMEOUT", "0s", "above zero"),
    ] {
        let problems = problems(&[(name, value)]);
        assert_eq!(problems.len(), 1, "{problems:?}");
        let start = format!("{name} is `{value}` (from the environment): ");
        assert!(problems[0].starts_with(&start), "{problems:?}");
        assert!(problems[0].contains(expected), "{problems:?}");
    }
}

#[test]
fn all_that_is_wrong_is_told_at_once_in_the_order_of_the_table() {
    let problems = problems(&[
        ("SLESS_MAX_UPLOADS", "x"),
        ("SLESS_AUTH", "jwks"),
        ("SLESS_LISTEN", "x"),
    ]);
    let names: Vec<_> = problems
        .iter()
        .map(|text| text.split(' ').next().unwrap())
        .collect();
    assert_eq!(
        names,
        ["SLESS_LISTEN", "SLESS_JWKS_URL", "SLESS_MAX_UPLOADS"]
    );
    assert!(problems[1].contains("is missing"), "{problems:?}");
}

#[test]
fn a_setting_of_a_backend_left_out_names_the_feature() {
    let of_the_store = if cfg!(feature = "s3") {
        "S3_BUCKET is missing: it is needed since other settings of the S3 store are given"
    } else {
        "S3_ENDPOINT asks for the S3 store, which this build leaves out: build with --features s3"
    };
    assert_eq!(problems(&[("S3_ENDPOINT", "http://x")]), [of_the_store]);
    for (name, value, feature) in [
        ("SLESS_BACKEND", "kubernetes", "kubernetes"),
        ("REGISTRY_HOST", "x", "kubernetes"),
        ("RABBITMQ_URL", "amqp://guest:hunter2@x", "amqp"),
        ("DATABASE_URL", "postgres://sless:hunter2@x", "postgres"),
        ("LLM_ENABLED", "true", "llm"),
        ("LLM_API_KEY", "hunter2", "llm"),
    ] {
        if BACKENDS
            .iter()
            .any(|backend| backend.feature == feature && backend.built_in)
        {
            continue;
        }
        let problems = problems(&[(name, value)]);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(
            problems[0].ends_with(&format!("build with --features {feature}")),
            "{problems:?}"
        );
        assert!(!problems[0].contains("hunter2"));
    }
    assert!(load(&[("LLM_ENABLED", "false"), ("SLESS_BACKEND", "local")]).is_ok());
}

#[test]
fn every_backend_is_asked_for_by_settings_of_the_table() {
    for backend in BACKENDS {
        for name in backend.asked_by {
            let setting = table::find(name).expect(name);
            assert!(
                setting.help.contains(&format!("({})", backend.feature)),
                "{name}"
            );
        }
    }
}

#[test]
fn the_environment_wins_over_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sless.toml");
    let text = "SLESS_LISTEN = '0.0.0.0:1'\nSLESS_MAX_UPLOADS = 7\n\
                SLESS_ROLES = ['api', 'console']\nSLESS_ADMIN_SUBS = 'a, b'\n";
    fs::write(&file, text).unwrap();
    let settings = load_with(&[("SLESS_LISTEN", "127.0.0.1:2")], Some(&file)).unwrap();
    assert_eq!(settings.listen.port(), 2);
    assert_eq!(settings.limits.uploads, 7);
    assert_eq!(settings.roles, [Role::Api, Role::Console]);
    assert_eq!(settings.auth.admin_subs, ["a", "b"]);
    let origin = |name| {
        settings
            .shown()
            .iter()
            .find(|shown| shown.name == name)
            .unwrap()
    };
    assert_eq!(origin("SLESS_LISTEN").origin, Origin::Environment);
    assert_eq!(origin("SLESS_MAX_UPLOADS").origin, Origin::File(file));
    assert_eq!(origin("SLESS_LOG").origin, Origin::Default);
}

#[test]
fn what_is_wrong_with_a_file_is_told_without_its_content() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sless.toml");
    let named = file.display().to_string();
    for (text, expected) in [
        ("S3_SECRET_KEY = hunter2", "is not TOML at line 1"),
        ("\n\nS3_SECRET_KEY = 'hunter2", "is not TOML at line 3"),
        (
            "SLESS_LISTN = 'hunter2'",
            "is no setting; SLESS_LISTEN is one",
        ),
        ("hunter = 'hunter2'", "is no setting"),
        ("SLESS_LOG = 1979-05-27", "is a datetime"),
        ("[SLESS_LOG]\nx = 1", "is a table"),
        ("SLESS_ROLES = [1]", "is a array"),
    ] {
        fs::write(&file, text).unwrap();
        let error = load_with(&[], Some(&file)).expect_err(text).to_string();
        assert!(error.contains(expected), "{error}");
        assert!(error.contains(&named), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
    let error = load_with(&[], Some(Path::new("/nowhere/sless.toml")))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("/nowhere/sless.toml cannot be read"),
        "{error}"
    );
}

#[test]
fn an_empty_value_counts_as_not_given() {
    assert!(load(&[("SLESS_LISTEN", ""), ("S3_ENDPOINT", "")]).is_ok());
}

#[test]
fn a_misspelt_name_in_the_environment_is_a_warning() {
    let settings = load(&[("SLESS_LISTN", "x"), ("SLESS_TOKEN", "x"), ("PATH", "x")]).unwrap();
    assert_eq!(
        settings.warnings,
        ["SLESS_LISTN in the environment is no setting; SLESS_LISTEN is one"]
    );
}

#[test]
fn no_secret_is_shown() {
    let settings = load(&[("SLESS_SERVICE_TOKEN", "hunter2")]).unwrap();
    assert!(!format!("{settings:?}").contains("hunter2"));
    assert_eq!(settings.auth.service_token.unwrap().expose(), "hunter2");
}

#[test]
fn the_help_lists_every_setting_once_with_its_default() {
    let help = help();
    for setting in SETTINGS {
        let lines: Vec<_> = help
            .lines()
            .filter(|line| line.split_whitespace().next() == Some(setting.name))
            .collect();
        assert_eq!(lines.len(), 1, "{}", setting.name);
        if let Some(default) = setting.default.filter(|default| !default.is_empty()) {
            assert!(
                lines[0].ends_with(&format!("[default: {default}]")),
                "{}",
                lines[0]
            );
        }
    }
}

proptest! {
    #[test]
    fn no_value_panics(index in 0..SETTINGS.len(), value in "[^\0]{0,60}") {
        let _ = load(&[(SETTINGS[index].name, &value)]);
    }

    #[test]
    fn bytes_with_a_unit_are_what_they_say(number in 1u64..1 << 20) {
        prop_assert_eq!(parse::bytes(&number.to_string()), Ok(number));
        prop_assert_eq!(parse::bytes(&format!("{number}KiB")), Ok(number << 10));
        prop_assert_eq!(parse::bytes(&format!("{number} MiB")), Ok(number << 20));
    }
}
