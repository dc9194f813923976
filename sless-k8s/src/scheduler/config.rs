//! Settings of [`KubeScheduler`](crate::KubeScheduler).

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use sless_core::Quantity;

/// Settings of [`KubeScheduler`](crate::KubeScheduler).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SchedulerConfig {
    /// How long a function is without calls until its pods end, in milliseconds, where the function
    /// does not say. Zero is never: a function that sleeps is woken by calls through sless only, not by
    /// those that go to its Service.
    pub idle_ms: u64,
    /// How often it is looked which functions are idle, in milliseconds; zero for a process that leaves
    /// that to others.
    pub idle_check_ms: u64,
    /// How often it is looked whether functions whose copies follow their calls have the right number, in
    /// milliseconds; zero for a process that leaves that to others.
    pub scale_check_ms: u64,
    /// How long fewer copies must have been enough until some are taken away, in milliseconds.
    pub scale_down_ms: u64,
    /// How long a pod's handler may take to be imported, in milliseconds.
    pub start_ms: u64,
    /// How long a pod that ends goes on as if nothing were, in milliseconds, rounded up to seconds: until
    /// everyone who calls it has seen that it ends.
    pub notice_ms: u64,
    /// How long a pod that ends has for the calls it is at, in milliseconds, where the function's timeout
    /// is not shorter.
    pub drain_ms: u64,
    /// Calls that wait in one pod; more are refused there.
    pub queue_length: usize,
    /// Calls that wait for a pod of one function; more are refused here.
    pub wake_queue_length: usize,
    /// The longest body of a request, in bytes.
    pub request_bytes: u64,
    /// How long a connection to a pod may take, in milliseconds.
    pub connect_ms: u64,
    /// Idle connections that are kept for each pod.
    pub idle_connections: usize,
    /// How long an idle connection is kept, in milliseconds. The runtime closes it after a minute.
    pub idle_connection_ms: u64,
    /// The most bytes of a pod's log that are read where nobody follows it.
    pub log_bytes: i64,
    /// How often everything is listed anew, in seconds, in case a watch has lost something.
    pub resync_seconds: u64,
    /// How often an apply reads again because the object changed under it.
    pub apply_attempts: usize,
    /// How long a run of a job may be without a pod until it is asked why, in milliseconds.
    pub job_patience_ms: u64,
    /// How long a run of a job waits for an image that cannot be pulled, in milliseconds.
    pub image_patience_ms: u64,
    /// The Service of each function, for callers in the cluster that do not go through sless. Where there
    /// is an Ingress, or KEDA, it has an address whatever is said here.
    pub services: ServiceKind,
    /// Whether each function has an Ingress, for callers outside the cluster that do not go through
    /// sless: where sless itself has no address out there.
    pub ingress: Option<IngressConfig>,
    /// Whether cron triggers are CronJobs of the cluster; where absent, the engine fires them.
    pub cron_jobs: Option<CronJobConfig>,
    /// Whether KEDA's HTTP add-on scales functions, where it is installed; where absent, or where it is
    /// not there, sless does it.
    pub keda: Option<KedaConfig>,
    /// Pods.
    pub pods: PodConfig,
    /// Who may talk with whom.
    pub network: NetworkConfig,
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        Self {
            idle_ms: 0,
            idle_check_ms: 500,
            scale_check_ms: 1_000,
            scale_down_ms: 60_000,
            start_ms: 30_000,
            notice_ms: 2_000,
            drain_ms: 30_000,
            queue_length: 100,
            wake_queue_length: 1_000,
            request_bytes: 1 << 30,
            connect_ms: 2_000,
            idle_connections: 64,
            idle_connection_ms: 30_000,
            log_bytes: 8 << 20,
            resync_seconds: 300,
            apply_attempts: 8,
            job_patience_ms: 3_000,
            image_patience_ms: 60_000,
            services: ServiceKind::default(),
            ingress: None,
            cron_jobs: None,
            keda: None,
            pods: PodConfig::default(),
            network: NetworkConfig::default(),
        }
    }
}

impl SchedulerConfig {
    pub(super) const fn start(&self) -> Duration {
        Duration::from_millis(self.start_ms)
    }

    /// The Services that there are, with what is in front of them.
    pub(super) const fn services(&self, keda: bool) -> ServiceKind {
        if keda || self.ingress.is_some() {
            ServiceKind::ClusterIp
        } else {
            self.services
        }
    }

    /// How long a pod goes on before it is told to end.
    pub(super) const fn notice_seconds(&self) -> u64 {
        self.notice_ms.div_ceil(1000)
    }

    /// How long the calls of a function may go on in a pod that ends.
    pub(super) fn drain(&self, timeout: Duration) -> Duration {
        Duration::from_millis(self.drain_ms).min(timeout)
    }
}

/// How callers in the cluster that do not go through sless find the pods of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceKind {
    /// Not at all.
    None,
    /// By the name of a Service without an address of its own
    /// ([headless](https://kubernetes.io/docs/concepts/services-networking/service/#headless-services)),
    /// which stands for the addresses of the pods, on port 8080. A cluster has only so many addresses for
    /// Services, hands them out one after the other, and tells each node of each of them.
    #[default]
    Headless,
    /// By a Service with an address, on port 80.
    ClusterIp,
}

/// Settings of Ingresses. A function is at `/fn/{namespace}/{name}` of the host, as it is through sless;
/// the runtime takes that off the path. The controller has to be among
/// [`NetworkConfig::callers`], and what sleeps is not woken by its calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IngressConfig {
    /// The host name.
    pub host: String,
    /// The class of the controller; the cluster's default one where absent.
    pub class: Option<String>,
    /// The Secret with the host's certificate, in each namespace of workloads; no TLS where absent.
    pub tls_secret: Option<String>,
    /// Annotations, for the controller.
    pub annotations: BTreeMap<String, String>,
}

/// Settings of CronJobs: each calls the URL of its function at its times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CronJobConfig {
    /// The image, which has `curl`.
    pub image: String,
    /// Where the pods reach sless, without a trailing `/`. It is in one of the namespaces of
    /// [`NetworkConfig::callers`], or at one of the addresses of [`NetworkConfig::caller_cidrs`].
    pub url: String,
    /// The memory of a pod.
    pub memory: Quantity,
    /// The processor share of a pod.
    pub cpu: Quantity,
    /// How many ended runs are kept, of those that succeeded and of those that did not.
    pub kept: u32,
}

impl Default for CronJobConfig {
    fn default() -> Self {
        Self {
            image: "curlimages/curl:8.5.0".to_owned(),
            url: "http://sless.sless-system.svc".to_owned(),
            memory: quantity("32Mi"),
            cpu: quantity("100m"),
            kept: 1,
        }
    }
}

/// Settings of KEDA's HTTP add-on. Where its custom resource `HTTPScaledObject` is in the cluster when
/// sless starts, functions that sleep, and those whose copies follow their calls, are scaled by it, and
/// their calls go through its interceptor. The namespace of that has to be among
/// [`NetworkConfig::callers`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KedaConfig {
    /// Host and port of the interceptor.
    pub interceptor: String,
    /// What the host names end in by which it tells functions apart; they are in no DNS.
    pub domain: String,
}

impl Default for KedaConfig {
    fn default() -> Self {
        Self {
            interceptor: "keda-add-ons-http-interceptor-proxy.keda.svc:8080".to_owned(),
            domain: "functions.sless.internal".to_owned(),
        }
    }
}

/// Settings of pods. They meet the *restricted* level of the Pod Security Standards whatever is set here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PodConfig {
    /// The memory of a pod whose function names none.
    pub memory: Quantity,
    /// The processor share of a pod whose function names none.
    pub cpu: Quantity,
    /// How much of the memory is reserved, in percent; the whole is the limit.
    pub memory_request_percent: u64,
    /// How much of the processor share is reserved, in percent; the whole is the limit.
    pub cpu_request_percent: u64,
    /// The size of `/tmp`, the only folder that can be written.
    pub tmp: Quantity,
    /// The user and group that functions run as; not 0.
    pub user: i64,
    /// The service account. No token of it is mounted.
    pub service_account: String,
    /// Secrets with which nodes pull images.
    pub image_pull_secrets: Vec<String>,
    /// Labels that a node must have.
    pub node_selector: BTreeMap<String, String>,
    /// Taints that are tolerated, as in a pod's `tolerations`.
    pub tolerations: Vec<serde_json::Value>,
    /// The class of the container runtime, such as `gvisor`.
    pub runtime_class: Option<String>,
    /// The priority class.
    pub priority_class: Option<String>,
    /// How often a pod is asked whether it is ready, in seconds.
    pub ready_seconds: u32,
    /// How often a pod is asked whether it lives, in seconds; three times without an answer restart it.
    pub live_seconds: u32,
}

impl Default for PodConfig {
    fn default() -> Self {
        Self {
            memory: quantity("256Mi"),
            cpu: quantity("1"),
            memory_request_percent: 50,
            cpu_request_percent: 5,
            tmp: quantity("64Mi"),
            user: 65532,
            service_account: "default".to_owned(),
            image_pull_secrets: Vec::new(),
            node_selector: BTreeMap::new(),
            tolerations: Vec::new(),
            runtime_class: None,
            priority_class: None,
            ready_seconds: 1,
            live_seconds: 10,
        }
    }
}

/// A quantity that is written here.
#[allow(clippy::expect_used, reason = "the texts are constants of this file")]
fn quantity(text: &'static str) -> Quantity {
    text.parse().expect("a constant quantity is well formed")
}

/// Who may talk with whom, as NetworkPolicies say it. Something in the cluster has to enforce them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkConfig {
    /// Whether there are policies at all.
    pub policies: bool,
    /// Who may call functions: labels of namespaces. Nobody else in the cluster may.
    pub callers: Vec<BTreeMap<String, String>>,
    /// Who may call functions, by address: for a sless outside the cluster's network.
    pub caller_cidrs: Vec<String>,
    /// Labels of the pods that answer DNS, in `kube-system`.
    pub dns_pods: BTreeMap<String, String>,
    /// What answers DNS, by address: a cache on the node.
    pub dns_cidrs: Vec<String>,
    /// Where functions may connect to.
    pub egress_cidrs: Vec<String>,
    /// Where functions may not connect to, of those: private networks, and the address of the cloud's
    /// metadata.
    pub egress_except: Vec<String>,
}

impl Default for NetworkConfig {
    fn default() -> Self {
        let own = |name: &str| {
            BTreeMap::from([("kubernetes.io/metadata.name".to_owned(), name.to_owned())])
        };
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
        Self {
            policies: true,
            callers: vec![own("sless-system")],
            caller_cidrs: Vec::new(),
            dns_pods: BTreeMap::from([("k8s-app".to_owned(), "kube-dns".to_owned())]),
            dns_cidrs: Vec::new(),
            egress_cidrs: texts(&["0.0.0.0/0", "::/0"]),
            egress_except: texts(&[
                // Private, shared and link-local networks (RFC 6890); the metadata of clouds is among
                // the last ones.
                "10.0.0.0/8",
                "100.64.0.0/10",
                "169.254.0.0/16",
                "172.16.0.0/12",
                "192.168.0.0/16",
                "fc00::/7",
                "fe80::/10",
            ]),
        }
    }
}
