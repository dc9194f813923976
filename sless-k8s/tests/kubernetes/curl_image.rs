//! An image with something that does what `curl` does, made by hand: no image with the real one can be had
//! without a network.

use std::io::Write as _;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Takes what a CronJob gives to `curl`, and does the same with it.
const CURL: &str = r#"#!/usr/bin/env python3
import sys, urllib.error, urllib.request

headers, data, seconds, url = {}, None, 10.0, None
rest = iter(sys.argv[1:])
for option in rest:
    if option in ("--silent", "--show-error", "--fail"):
        continue
    elif option == "--output":
        assert next(rest) == "/dev/null"
    elif option == "--max-time":
        seconds = float(next(rest))
    elif option == "--header":
        name, value = next(rest).split(":", 1)
        headers[name] = value.strip()
    elif option == "--data-raw":
        data = next(rest).encode()
    elif option.startswith("-"):
        sys.exit(f"curl: option {option}: is unknown")
    else:
        url = option
try:
    urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=seconds).read()
except urllib.error.HTTPError as error:
    print(f"curl: (22) The requested URL returned error: {error.code}", file=sys.stderr)
    sys.exit(22)
"#;

fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("sha256:{hex}")
}

/// A registry without a password, as that of the tests is.
struct Registry {
    http: reqwest::Client,
    base: String,
}

impl Registry {
    async fn get(&self, path: &str) -> Vec<u8> {
        let types =
            "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.config.v1+json";
        let request = self
            .http
            .get(format!("{}/{path}", self.base))
            .header("accept", types);
        let answer = request.send().await.expect("an answer");
        let answer = answer.error_for_status().expect("it is there");
        answer.bytes().await.expect("a body").to_vec()
    }

    async fn put_blob(&self, repository: &str, bytes: Vec<u8>) -> (String, usize) {
        let (digest, size) = (digest(&bytes), bytes.len());
        let begun = self
            .http
            .post(format!("{}/{repository}/blobs/uploads/", self.base));
        let begun = begun.send().await.expect("an answer");
        let location = begun.headers()["location"]
            .to_str()
            .expect("text")
            .to_owned();
        let join = if location.contains('?') { '&' } else { '?' };
        let put = self
            .http
            .put(format!("{location}{join}digest={digest}"))
            .body(bytes);
        let put = put
            .header("content-type", "application/octet-stream")
            .send()
            .await;
        put.expect("an answer")
            .error_for_status()
            .expect("it is taken");
        (digest, size)
    }
}

/// An image with a `curl`: that of functions in Python, which has this name, and a file more. `here` is the
/// registry.
pub(crate) async fn image_with_curl(here: &str, name: &str) -> String {
    let (node, path) = name.split_once('/').expect("a host");
    let (repository, tag) = path.rsplit_once(':').expect("a tag");
    let registry = Registry {
        http: reqwest::Client::new(),
        base: format!("http://{here}/v2"),
    };
    let manifest = registry.get(&format!("{repository}/manifests/{tag}")).await;
    let mut manifest: Value = serde_json::from_slice(&manifest).expect("JSON");
    if let Some(first) = manifest["manifests"][0]["digest"].as_str() {
        let one = registry
            .get(&format!("{repository}/manifests/{first}"))
            .await;
        manifest = serde_json::from_slice(&one).expect("JSON");
    }
    let config = manifest["config"]["digest"].as_str().expect("a digest");
    let config = registry.get(&format!("{repository}/blobs/{config}")).await;
    let mut config: Value = serde_json::from_slice(&config).expect("JSON");

    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_size(CURL.len() as u64);
    header.set_mode(0o755);
    header.set_cksum();
    archive
        .append_data(&mut header, "usr/local/bin/curl", CURL.as_bytes())
        .expect("written");
    let archive = archive.into_inner().expect("written");
    let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    zipped.write_all(&archive).expect("written");
    let layer = registry
        .put_blob(repository, zipped.finish().expect("written"))
        .await;
    let add = |list: &mut Value, item: Value| list.as_array_mut().expect("a list").push(item);
    add(&mut config["rootfs"]["diff_ids"], json!(digest(&archive)));
    if config["history"].is_array() {
        add(&mut config["history"], json!({"comment": "curl"}));
    }
    let config = registry
        .put_blob(repository, config.to_string().into_bytes())
        .await;
    let layer_type = manifest["layers"][0]["mediaType"].clone();
    manifest["config"]["digest"] = json!(config.0);
    manifest["config"]["size"] = json!(config.1);
    add(
        &mut manifest["layers"],
        json!({"mediaType": layer_type, "digest": layer.0, "size": layer.1}),
    );
    let manifest_type = manifest["mediaType"].as_str().expect("a type").to_owned();
    let manifest = manifest.to_string().into_bytes();
    let digest = digest(&manifest);
    let put = registry
        .http
        .put(format!("{}/{repository}/manifests/{digest}", registry.base))
        .header("content-type", manifest_type)
        .body(manifest);
    let put = put.send().await.expect("an answer");
    put.error_for_status().expect("it is taken");
    format!("{node}/{repository}@{digest}")
}
