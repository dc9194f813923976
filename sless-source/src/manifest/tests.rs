//! What a manifest may say, and how what is wrong is told.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use sless_core::{DeliveryOptions, Runtime, TriggerType};

use super::*;

const LEAST: &str = "name = 'hello'\nruntime = 'python3.11'\n";

fn refused(text: &str) -> String {
    Manifest::parse(text).expect_err(text).to_string()
}

#[test]
fn the_least_manifest_has_the_defaults_of_the_api() {
    let manifest = Manifest::parse(LEAST).unwrap();
    assert_eq!(manifest.name.as_str(), "hello");
    assert_eq!(manifest.spec, FunctionSpec::new(Runtime::Python311));
    assert!(manifest.triggers.is_empty());
}

#[test]
fn every_key_is_the_field_of_the_api() {
    let text = r#"
        name = "thumbnailer"
        runtime = "nodejs20"
        entrypoint = "app.main"
        timeout_seconds = 20
        memory = "256Mi"
        cpu = "500m"
        concurrency = 4
        replicas = 2
        max_replicas = 6
        idle_seconds = 0
        [env]
        MAX_WIDTH = "1024"
        [[trigger]]
        name = "every-morning"
        type = "cron"
        schedule = "0 9 * * 1-5"
        time_zone = "Europe/Berlin"
        enabled = false
        [[trigger]]
        name = "uploads"
        type = "event"
        queue = "uploads"
        [trigger.delivery]
        max_attempts = 5
        min_backoff = "2s"
        [[trigger]]
        name = "url"
        type = "http"
    "#;
    let Manifest { spec, triggers, .. } = Manifest::parse(text).unwrap();
    assert_eq!(
        (spec.timeout_seconds, spec.concurrency, spec.replicas),
        (20, 4, Some(2))
    );
    assert_eq!((spec.max_replicas, spec.idle_seconds), (Some(6), Some(0)));
    assert_eq!(spec.entrypoint.to_string(), "app.main");
    assert_eq!(spec.memory.unwrap().to_string(), "256Mi");
    assert_eq!(spec.env["MAX_WIDTH"], "1024");
    let kinds: Vec<_> = triggers.iter().map(|trigger| trigger.spec.kind).collect();
    assert_eq!(
        kinds,
        [TriggerType::Cron, TriggerType::Event, TriggerType::Http]
    );
    let (cron, event) = (&triggers[0].spec, &triggers[1].spec);
    assert_eq!(cron.function_ref.as_str(), "thumbnailer");
    assert!(!cron.enabled && event.enabled);
    assert_eq!(cron.time_zone.as_deref(), Some("Europe/Berlin"));
    let delivery = event.delivery.unwrap();
    assert_eq!(delivery.min_backoff_ms, 2_000);
    assert_eq!(delivery.in_flight, DeliveryOptions::default().in_flight);
}

#[test]
fn an_error_names_the_key_and_its_place() {
    for (text, place, named) in [
        ("name = 'a", "1:", ""),
        ("name = 'a'\n", "1:1: ", "missing field `runtime`"),
        ("runtime = 'python3.11'\n", "1:1: ", "missing field `name`"),
        (
            "name = 'A'\nruntime = 'nodejs20'\n",
            "1:1: ",
            "not a DNS label",
        ),
        ("name = 'a'\nruntime = 'go'\n", "2:1: ", "runtime"),
        (
            "name = 'a'\nruntime = 'nodejs20'\ncpus = 2\n",
            "3:1: ",
            "unknown field `cpus`",
        ),
        (
            "name = 'a'\nruntime = 'nodejs20'\nreplicas = -1\n",
            "3:12: ",
            "-1",
        ),
        (
            "name = 'a'\nruntime = 'nodejs20'\nmax_replicas = 0\n",
            "3:1: ",
            "max_replicas",
        ),
        (
            "name = 'a'\nruntime = 'nodejs20'\nidle_seconds = -1\n",
            "3:16: ",
            "-1",
        ),
        (
            "name = 'a'\nruntime = 'nodejs20'\nmemory = '1 pint'\n",
            "3:1: ",
            "memory",
        ),
        (
            "name = 'a'\nruntime = 'nodejs20'\nentrypoint = 'x'\n",
            "3:1: ",
            "entrypoint",
        ),
        (
            "name = 'a'\nruntime = 'nodejs20'\ntimeout_seconds = 0\n",
            "3:1: ",
            "timeout_seconds",
        ),
        (
            "name = 'a'\nruntime = 'nodejs20'\n[env]\nN = 1\n",
            "4:5: ",
            "string",
        ),
        (
            "name = 'a'\nruntime = 'nodejs20'\ntrigger = 1\n",
            "3:11: ",
            "[[trigger]]",
        ),
    ] {
        let error = refused(text);
        assert!(error.starts_with(place), "{text}: {error}");
        assert!(error.contains(named), "{text}: {error}");
    }
}

#[test]
fn an_error_in_a_trigger_names_the_key_and_its_place() {
    for (lines, place, named) in [
        ("name = 't'", "3:1: ", "missing field `type`"),
        ("name = 't'\ntype = 'cron'", "5:1: ", "schedule is missing"),
        (
            "name = 't'\ntype = 'cron'\nschedule = '60 * * * *'",
            "6:1: ",
            "schedule",
        ),
        ("name = 't'\ntype = 'mail'", "5:8: ", "mail"),
        (
            "name = 't'\ntype = 'http'\nqueue = 'q'",
            "6:1: ",
            "does not belong",
        ),
        (
            "name = 't'\ntype = 'http'\nfunction_ref = 'x'",
            "6:1: ",
            "function_ref",
        ),
        (
            "name = 't'\ntype = 'http'\nwhen = 'x'",
            "6:1: ",
            "unknown field `when`",
        ),
        (
            "name = 't'\ntype = 'http'\n[[trigger]]\nname = 't'\ntype = 'http'",
            "7:1: ",
            "name is `t` again",
        ),
    ] {
        let error = refused(&format!("{LEAST}[[trigger]]\n{lines}\n"));
        assert!(error.starts_with(place), "{lines}: {error}");
        assert!(error.contains(named), "{lines}: {error}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC*") {
        let _ = Manifest::parse(&text);
    }

    #[test]
    fn no_value_panics(
        key in "name|runtime|entrypoint|env|memory|cpu|replicas|trigger|x",
        value in "'[^'\n]{0,80}'|-?[0-9]{1,20}|[0-9.e-]{1,9}|\\[.{0,20}\\]|\\{.{0,20}\\}|true",
    ) {
        let _ = Manifest::parse(&format!("{key} = {value}\n{LEAST}"));
        let _ = Manifest::parse(&format!("{LEAST}{key} = {value}\n"));
        let _ = Manifest::parse(&format!("{LEAST}[[trigger]]\n{key} = {value}\n"));
    }
}
