//! A registry of the test's own, on the machine's address as pods see it, that asks for name and password.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
};

use sless_k8s::Credentials;

use super::world::{self, eventually};

const NAME: &str = "ada";
const PASSWORD: &str = "lovelace";

/// A running registry; it ends with the test.
pub(crate) struct ClosedRegistry {
    pub(crate) host: String,
    process: Child,
    _folder: tempfile::TempDir,
}

impl Drop for ClosedRegistry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl ClosedRegistry {
    pub(crate) async fn start() -> Self {
        let address = world::variable("SLESS_TEST_KUBERNETES_HOST");
        let free = std::net::TcpListener::bind((address.as_str(), 0)).expect("a port");
        let host = free.local_addr().expect("its address").to_string();
        drop(free);
        let folder = tempfile::tempdir().expect("a folder");
        write(folder.path(), &host);
        let process = Command::new("docker-registry")
            .arg("serve")
            .arg(folder.path().join("config.yml"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("docker-registry is there: testing/kubernetes/up installs it");
        eventually("the registry answers", async || {
            let connected = tokio::net::TcpStream::connect(&host).await;
            connected.map(drop).map_err(|error| error.to_string())
        })
        .await;
        Self {
            host,
            process,
            _folder: folder,
        }
    }

    pub(crate) fn credentials(&self) -> Credentials {
        Credentials {
            username: NAME.to_owned(),
            password: PASSWORD.to_owned(),
        }
    }
}

fn write(folder: &Path, host: &str) {
    let program = format!(
        "import crypt; print('{NAME}:' + crypt.crypt('{PASSWORD}', crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=16)))"
    );
    let hashed = Command::new("/usr/bin/python3")
        .args(["-W", "ignore", "-c", &program])
        .output()
        .expect("python3 starts");
    assert!(hashed.status.success(), "python3 cannot hash a password");
    std::fs::write(folder.join("users"), hashed.stdout).expect("a file");
    let config = format!(
        "version: 0.1\n\
         storage: {{filesystem: {{rootdirectory: {0}/data}}, delete: {{enabled: true}}}}\n\
         http: {{addr: \"{host}\"}}\n\
         auth: {{htpasswd: {{realm: tests, path: {0}/users}}}}\n",
        folder.display()
    );
    std::fs::write(folder.join("config.yml"), config).expect("a file");
}
