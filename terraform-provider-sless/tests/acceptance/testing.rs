//! HashiCorp's own acceptance harness, terraform-plugin-testing, on this provider.

use std::{path::Path, process::Command};

use crate::server::Server;

#[test]
#[ignore = "needs terraform 1.11 and go 1.25"]
fn hashicorps_harness_passes() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let go = ["/usr/local/go/bin/go", "go"]
        .into_iter()
        .find(|go| Command::new(go).arg("version").output().is_ok());
    let go = go.expect("go is installed");
    let mut test = Command::new(go);
    test.args(["test", "-count=1", "-timeout=5m", "./..."])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("acceptance"))
        .env("TF_ACC", "1")
        .env("SLESS_TEST_PROVIDER", crate::server::provider())
        .env("SLESS_TEST_MIRROR", folder.path())
        .env("SLESS_ENDPOINT", server.endpoint())
        .env("SLESS_API_TOKEN", server.token("alice", "1h"));
    let terraform = Command::new("sh")
        .args(["-c", "command -v terraform"])
        .output()
        .unwrap();
    test.env(
        "TF_ACC_TERRAFORM_PATH",
        String::from_utf8(terraform.stdout).unwrap().trim(),
    );
    let tested = test
        .output()
        .expect("Go is missing: see https://go.dev/dl; it fetches the version it needs");
    let text = String::from_utf8_lossy(&tested.stdout).into_owned()
        + &String::from_utf8_lossy(&tested.stderr);
    assert!(tested.status.success(), "{text}");
    assert!(!text.contains("no test files"), "{text}");
    println!("{text}");
    assert_eq!(
        server.count(),
        [0, 0, 0],
        "the harness destroys what it made"
    );
}
