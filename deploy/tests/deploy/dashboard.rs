//! The dashboard asks for what a server exports.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use regex::Regex;
use serde_json::Value;

use crate::{function, server::Server, tool::folder};

/// Labels that Prometheus adds to what it reads, and `le` of histograms.
const OF_PROMETHEUS: [&str; 3] = ["instance", "job", "le"];

fn expressions() -> Vec<String> {
    let text = fs::read_to_string(folder("grafana/sless.json")).expect("the dashboard");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().into_iter().flatten())
        .map(|target| &target["expr"]);
    let variables = dashboard["templating"]["list"]
        .as_array()
        .expect("variables");
    let queries = variables
        .iter()
        .filter(|variable| variable["type"] == "query")
        .map(|variable| &variable["query"]["query"]);
    let all = targets.chain(queries);
    all.map(|text| text.as_str().expect("a query").to_owned())
        .collect()
}

/// The samples of a text of metrics, each with the names of its labels.
fn samples(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let label = Regex::new(r#"([a-z_]+)=""#).expect("a pattern");
    let mut samples: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let end = line.find(['{', ' ']).unwrap_or(line.len());
        let labels = line.split_once('{').map_or("", |(_, labels)| labels);
        let names = label.captures_iter(labels).map(|found| found[1].to_owned());
        samples
            .entry(line[..end].to_owned())
            .or_default()
            .extend(names);
    }
    samples
}

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_of_the_dashboard_is_exported() {
    let server = Server::start().await;
    let namespace = server.namespace();
    let client = server.client();
    client
        .ensure_namespace(&namespace)
        .await
        .expect("a namespace");
    function::deploy(&client, &namespace, "hello").await;
    assert_eq!(
        function::call(&server.url(), &namespace, "hello", "Ada").await,
        "Ada"
    );
    // A call is counted when its answer has ended, which may be a moment after the caller has it.
    let text = function::eventually("the call is counted", async || {
        let text = client.metrics().await.expect("metrics");
        if text.contains("sless_calls_total{") {
            Ok(text)
        } else {
            Err(text)
        }
    })
    .await;
    let exported = samples(&text);
    let metric = Regex::new(r"sless_[a-z_]+").expect("a pattern");
    let grouping = Regex::new(r"by \(([^)]*)\)").expect("a pattern");
    let selector = Regex::new(r#"([a-z_]+)(?:=|!=|=~|!~)""#).expect("a pattern");
    let mut asked = BTreeSet::new();
    for expression in expressions() {
        let mut labels: BTreeSet<String> = selector
            .captures_iter(&expression)
            .map(|found| found[1].to_owned())
            .collect();
        for group in grouping.captures_iter(&expression) {
            labels.extend(group[1].split(',').map(|label| label.trim().to_owned()));
        }
        labels.retain(|label| !OF_PROMETHEUS.contains(&label.as_str()));
        for name in metric.find_iter(&expression) {
            let name = name.as_str();
            let has = exported.get(name);
            let has = has.unwrap_or_else(|| panic!("{name} is not exported: {expression}\n{text}"));
            let missing: Vec<_> = labels.difference(has).collect();
            assert!(
                missing.is_empty(),
                "{name} has no label {missing:?}: {expression}"
            );
            asked.insert(name.trim_end_matches("_bucket").to_owned());
        }
    }
    // And what is exported is shown.
    let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    for kind in kinds {
        let (name, kind) = kind.split_once(' ').expect("a name and a kind");
        let name = if kind == "counter" {
            format!("{name}_total")
        } else {
            name.to_owned()
        };
        assert!(asked.contains(&name), "no panel shows {name}");
    }
}
