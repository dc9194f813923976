//! An installation of sless on the test cluster, in a namespace of its own.

use std::{path::PathBuf, process::Output, time::Duration};

use sless_api::client::Client;
use sless_core::{Namespace, Uid};
use tempfile::TempDir;

use crate::{
    forward::Forward,
    function::{self, PATIENCE},
    server,
    tool::{apply, folder, kubectl, kubectl_with, run, variable},
    work,
};

/// The function of these tests.
pub(crate) const FUNCTION: &str = "hello";

/// What an installation has outside of its namespace.
const OF_THE_CLUSTER: &str = "clusterroles,clusterrolebindings,\
    validatingadmissionpolicies,validatingadmissionpolicybindings";

/// A namespace for sless and a user, with all that an installation is given.
pub(crate) struct Site {
    /// Its namespace, which is also what its objects' names begin with.
    pub(crate) name: String,
    /// The user's namespace.
    pub(crate) user: String,
    /// The image of the server: repository and tag.
    pub(crate) image: (String, String),
    /// Settings that are no secrets.
    pub(crate) settings: Vec<(&'static str, String)>,
    pub(crate) folder: TempDir,
    token: String,
    _services: [Forward; 2],
}

impl Site {
    /// Makes the image, the namespace, its secrets and the custom resources.
    pub(crate) async fn prepare(kind: &str) -> Self {
        let uid = Uid::random();
        let mark = &uid.as_str()[..6];
        let name = format!("dep-{kind}-{mark}");
        let subject = format!("deploy-{mark}");
        let user = Namespace::of_subject(&subject).to_string();
        let own = tempfile::tempdir().expect("a folder");
        let secret = server::secret(own.path());
        let token = server::token(&secret, &subject);
        let registry = variable("SLESS_TEST_REGISTRY");
        let image = tokio::task::spawn_blocking({
            let registry = registry.clone();
            move || image(&registry)
        });
        let image = image.await.expect("an image");
        let store = variable("SLESS_TEST_S3_ENDPOINT");
        let store = store.strip_prefix("http://").expect("plain HTTP");
        let store = Forward::start(&variable("SLESS_TEST_KUBERNETES_HOST"), store).await;
        let url = variable("SLESS_TEST_RABBITMQ_URL");
        let at = url.rfind('@').expect("a user") + 1;
        let end = at + url[at..].find('/').expect("a virtual host");
        let broker = Forward::start(&variable("SLESS_TEST_KUBERNETES_HOST"), &url[at..end]).await;
        let broker_url = format!("{}{}{}", &url[..at], broker.address(), &url[end..]);
        let settings = vec![
            ("EXTERNAL_URL", format!("http://{name}.example.com")),
            ("REGISTRY_HOST", format!("{registry}/{name}")),
            ("REGISTRY_PLAIN_HTTP", "true".to_owned()),
            ("SLESS_RUNTIME_REGISTRY", registry),
            ("S3_ENDPOINT", format!("http://{}", store.address())),
            ("S3_REGION", variable("SLESS_TEST_S3_REGION")),
            ("S3_BUCKET", name.clone()),
            ("S3_CREATE_BUCKET", "true".to_owned()),
            (
                "SLESS_CONSOLE_KEY_FILE",
                "/etc/sless/keys/console.key".to_owned(),
            ),
            // Other tests have servers of their own on this cluster.
            ("SLESS_NAMESPACE_PREFIX", user.clone()),
        ];
        kubectl(&["apply", "-k", &folder("crds").display().to_string()]);
        let labels = ["enforce", "warn"]
            .map(|mode| format!("pod-security.kubernetes.io/{mode}: restricted"))
            .join(", ");
        apply(&format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}, labels: {{{labels}}}}}\n"
        ));
        // As docs/operating.md says.
        let console = own.path().join("console.key");
        // It is made with a token, as the other one is.
        server::token(&console, &subject);
        let keys = [&secret, &console].map(|key| format!("--from-file={}", key.display()));
        let of_keys = ["-n", &name, "create", "secret", "generic", "sless-keys"];
        kubectl(&[&of_keys[..], &[&keys[0], &keys[1]]].concat());
        let literal = |name: &str, variable_name: &str| {
            format!("--from-literal={name}={}", variable(variable_name))
        };
        let access = literal("S3_ACCESS_KEY", "SLESS_TEST_S3_ACCESS_KEY");
        let key = literal("S3_SECRET_KEY", "SLESS_TEST_S3_SECRET_KEY");
        let broker_url = format!("--from-literal=RABBITMQ_URL={broker_url}");
        let secret = ["-n", &name, "create", "secret", "generic", "sless-secrets"];
        kubectl(&[&secret[..], &[&access, &key, &broker_url]].concat());
        Self {
            name,
            user,
            image,
            settings,
            folder: own,
            token,
            _services: [store, broker],
        }
    }

    /// Waits until all Deployments of sless are there.
    pub(crate) async fn available(&self) {
        let name = self.name.clone();
        let waited = tokio::task::spawn_blocking(move || {
            let timeout = format!("--timeout={}s", PATIENCE.as_secs());
            let arguments = [
                "-n",
                &name,
                "wait",
                "--for=condition=Available",
                "deployment",
                "--all",
                &timeout,
            ];
            kubectl_with(&arguments, "")
        });
        let waited = waited.await.expect("it ends");
        assert!(waited.status.success(), "{}", self.what_is_there(&waited));
    }

    /// What helps to see why an installation does not come up.
    fn what_is_there(&self, output: &Output) -> String {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let of = |arguments: &[&str]| {
            let all = [&["-n", &self.name][..], arguments].concat();
            String::from_utf8_lossy(&kubectl_with(&all, "").stdout).into_owned()
        };
        let pods = of(&["get", "pods", "-o", "wide"]);
        let events = of(&["get", "events"]);
        let logs = of(&[
            "logs",
            "-l",
            "app.kubernetes.io/name=sless",
            "--tail=20",
            "--prefix",
            "--ignore-errors",
        ]);
        format!("{said}\n{pods}\n{events}\n{logs}")
    }

    /// Where the API is, from this machine.
    pub(crate) fn url(&self, service: &str) -> String {
        let path = "jsonpath={.spec.clusterIP}";
        let address = kubectl(&["-n", &self.name, "get", "service", service, "-o", path]);
        format!("http://{address}:80")
    }

    /// The user's client.
    pub(crate) fn client(&self, url: &str) -> Client {
        server::client(url, &self.token)
    }

    /// Uploads the function and has it called in every way.
    pub(crate) async fn serve(&self, url: &str) {
        let client = self.client(url);
        client
            .ensure_namespace(&self.user)
            .await
            .expect("a namespace");
        function::deploy(&client, &self.user, FUNCTION).await;
        assert_eq!(
            function::call(url, &self.user, FUNCTION, "Ada").await,
            "Ada"
        );
        work::logged(&client, &self.user, FUNCTION, "greeting Ada").await;
        work::job(&client, &self.user, FUNCTION).await;
        work::message(&client, &self.user, FUNCTION, &self.name).await;
    }

    /// Calls the function again and again while something is done, and answers how often. No call may fail.
    pub(crate) async fn under_load(&self, url: &str, done: impl Future<Output = ()>) -> usize {
        let mut count = 0;
        tokio::pin!(done);
        loop {
            let call = async {
                let answer = function::try_call(url, &self.user, FUNCTION, "Ada").await;
                tokio::time::sleep(Duration::from_millis(20)).await;
                answer
            };
            tokio::select! {
                () = &mut done => return count,
                answer = call => assert_eq!(answer.as_deref(), Ok("Ada"), "after {count} calls"),
            }
            count += 1;
        }
    }

    /// That functions and their namespaces outlive sless.
    pub(crate) async fn still_there(&self) {
        let workloads = format!("sless-fn-{}", self.user);
        for namespace in [&self.user, &workloads] {
            let phase = [
                "get",
                "namespace",
                namespace,
                "-o",
                "jsonpath={.status.phase}",
            ];
            assert_eq!(kubectl(&phase), "Active", "{namespace}");
        }
        let function = [
            "-n",
            &self.user,
            "get",
            "functions.sless.io",
            FUNCTION,
            "-o",
            "name",
        ];
        assert!(kubectl(&function).contains(FUNCTION));
        let ready = "jsonpath={.items[*].status.readyReplicas}";
        let deployments = ["-n", &workloads, "get", "deployments", "-o", ready];
        assert_eq!(kubectl(&deployments), "1");
        // And nothing of sless itself is.
        function::eventually("no pod of sless is left", async || {
            let pods = kubectl(&["-n", &self.name, "get", "pods", "-o", "name"]);
            if pods.is_empty() { Ok(()) } else { Err(pods) }
        })
        .await;
        let whole = kubectl(&["get", OF_THE_CLUSTER, "-o", "name"]);
        assert!(!whole.contains(&self.name), "{whole}");
    }
}

/// Removes what is left, also of a test that failed.
impl Drop for Site {
    fn drop(&mut self) {
        let ours = kubectl_with(&["get", OF_THE_CLUSTER, "-o", "name"], "");
        let ours = String::from_utf8_lossy(&ours.stdout).into_owned();
        let ours = ours.lines().filter(|object| object.contains(&self.name));
        let ours: Vec<_> = ours.collect();
        let _ = kubectl_with(&[&["delete", "--wait=false"][..], &ours].concat(), "");
        // Nobody is there any more to end the finalizer.
        let ended = r#"{"metadata":{"finalizers":null}}"#;
        let arguments = [
            "-n",
            &self.user,
            "patch",
            "functions.sless.io",
            FUNCTION,
            "--type=merge",
            "-p",
            ended,
        ];
        let _ = kubectl_with(&arguments, "");
        let workloads = format!("sless-fn-{}", self.user);
        let gone = [
            "delete",
            "namespace",
            "--wait=false",
            "--ignore-not-found",
            &self.name,
            &self.user,
            &workloads,
        ];
        let _ = kubectl_with(&gone, "");
    }
}

/// Makes the image of the server and puts it into the registry.
fn image(registry: &str) -> (String, String) {
    let script = folder("../testing/kubernetes/server-image");
    let binary = server::binary().display().to_string();
    let output = run(&script, &[registry, &binary], "");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let image = told
        .trim()
        .strip_prefix("SLESS_TEST_IMAGE_SERVER=")
        .expect("a line");
    let (repository, tag) = image.rsplit_once(':').expect("a tag");
    (repository.to_owned(), tag.to_owned())
}

/// From a folder of the system to one of this repository, as kustomizations name each other.
pub(crate) fn relative(from: &std::path::Path, to: &std::path::Path) -> PathBuf {
    let from = from.canonicalize().expect("a folder");
    let to = to.canonicalize().expect("a folder");
    let up = from.components().skip(1).map(|_| "..");
    up.collect::<PathBuf>()
        .join(to.strip_prefix("/").expect("a whole path"))
}
