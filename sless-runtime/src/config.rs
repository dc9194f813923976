//! What a host is started with. Plain data: nothing here reads the environment.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::sandbox::Sandbox;

/// The language that a handler is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Language {
    /// CPython 3.11 or later.
    Python,
    /// Node.js 20 or later.
    Node,
}

impl Language {
    /// The interpreter's command name, looked up in [`HostConfig::path`].
    pub fn default_interpreter(self) -> &'static str {
        match self {
            Language::Python => "python3",
            Language::Node => "node",
        }
    }
}

/// Everything that a [`Host`](crate::Host) needs to know about one function.
///
/// Made by [`HostConfig::new`], then changed field by field. Durations are seconds (whole or
/// fractional) in serialized form. Fields that are left out take the values of `new`.
///
/// Its `Debug` shows the names of environment variables but not their values.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct HostConfig {
    /// The handler's language.
    pub language: Language,
    /// The interpreter: a path, or a command name that is looked up in [`HostConfig::path`].
    /// `None` means [`Language::default_interpreter`].
    #[serde(default)]
    pub interpreter: Option<PathBuf>,
    /// The folder of the function's code; it is also the worker's working directory.
    pub code_dir: PathBuf,
    /// `module.function`. The module may be nested: `pkg.mod.function` is `function` in
    /// `pkg/mod.py` or `pkg/mod.js`.
    #[serde(default = "default_entrypoint")]
    pub entrypoint: String,
    /// The function's environment. The worker sees these variables, a minimal `PATH`, `HOME`,
    /// `LANG` and `TMPDIR` where they are not among them, and the `SLESS_…` names that describe
    /// the function; never the environment of the process that starts it.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The worker's `PATH`, also used to find the interpreter.
    #[serde(default = "default_path")]
    pub path: String,
    /// The worker's `HOME` and, with `/tmp` as the default, its `TMPDIR`.
    #[serde(default = "default_temp_dir")]
    pub temp_dir: PathBuf,
    /// Folders with installed dependencies. Python: put on `sys.path` behind the code folder.
    /// Node: put on `NODE_PATH`; `node_modules` in the code folder needs no mention.
    #[serde(default)]
    pub dependency_dirs: Vec<PathBuf>,
    /// Where the worker's own program is unpacked. It must be writable once, belongs to the
    /// current user alone, and may be shared by any number of hosts. `None` means a folder named
    /// after the user id in the system's temporary folder.
    #[serde(default)]
    pub runtime_dir: Option<PathBuf>,
    /// The namespace that the handler's context shows.
    #[serde(default)]
    pub namespace: String,
    /// The function's name that the handler's context shows.
    #[serde(default)]
    pub name: String,
    /// The function's unique id that the handler's context shows.
    #[serde(default)]
    pub uid: String,
    /// Put into the worker's environment as `SLESS_INSTANCE` and inherited by whatever the
    /// handler starts, so that a supervisor can find leftovers of a dead parent in `/proc`.
    #[serde(default)]
    pub instance: String,
    /// Calls that one worker runs at once; 1 to 1,024.
    #[serde(default = "default_concurrency")]
    pub concurrency: usize,
    /// A call's longest duration when its context names no shorter one, from the moment it
    /// enters the queue to the last byte of its answer.
    #[serde(default = "default_timeout", with = "seconds")]
    pub timeout: Duration,
    /// How long a worker may take until its handler has been imported.
    #[serde(default = "default_start_timeout", with = "seconds")]
    pub start_timeout: Duration,
    /// How long a worker has between SIGTERM and SIGKILL when it is stopped.
    #[serde(default = "default_stop_grace", with = "seconds")]
    pub stop_grace: Duration,
    /// Put in front of the worker's command line, for a launcher that confines it. The launcher
    /// must leave the inherited file descriptors open and end by `exec`.
    #[serde(default)]
    pub command_prefix: Vec<String>,
    /// Whether the worker is kept apart from the rest of the machine. Off by default.
    #[serde(default)]
    pub sandbox: Sandbox,
    /// The worker's memory in bytes, as far as the platform lets us: the address space
    /// (`RLIMIT_AS`) for Python, the old-space size for Node. `None` means no limit.
    #[serde(default)]
    pub memory_limit: Option<u64>,
    /// Sizes and counts that bound what a host holds.
    #[serde(default)]
    pub limits: Limits,
    /// How a worker that ends by itself is started again.
    #[serde(default)]
    pub restart: RestartPolicy,
}

impl HostConfig {
    /// A configuration with the defaults of every other field.
    pub fn new(language: Language, code_dir: impl Into<PathBuf>) -> Self {
        Self {
            language,
            interpreter: None,
            code_dir: code_dir.into(),
            entrypoint: default_entrypoint(),
            env: BTreeMap::new(),
            path: default_path(),
            temp_dir: default_temp_dir(),
            dependency_dirs: Vec::new(),
            runtime_dir: None,
            namespace: String::new(),
            name: String::new(),
            uid: String::new(),
            instance: String::new(),
            concurrency: default_concurrency(),
            timeout: default_timeout(),
            start_timeout: default_start_timeout(),
            stop_grace: default_stop_grace(),
            command_prefix: Vec::new(),
            sandbox: Sandbox::Off,
            memory_limit: None,
            limits: Limits::default(),
            restart: RestartPolicy::default(),
        }
    }

    /// The interpreter that will be started.
    pub fn interpreter(&self) -> &Path {
        self.interpreter
            .as_deref()
            .unwrap_or_else(|| Path::new(self.language.default_interpreter()))
    }
}

impl fmt::Debug for HostConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostConfig")
            .field("language", &self.language)
            .field("interpreter", &self.interpreter())
            .field("code_dir", &self.code_dir)
            .field("entrypoint", &self.entrypoint)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .field("uid", &self.uid)
            .field("concurrency", &self.concurrency)
            .field("timeout", &self.timeout)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// The named limits of a host. Reaching one is an error that names the field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Limits {
    /// Calls that wait for a free slot. One more is refused with
    /// [`CallError::Overloaded`](crate::CallError::Overloaded). 100 by default; 0 refuses
    /// whatever cannot run at once.
    pub queue_length: usize,
    /// The longest log line in bytes; what is longer is cut there and marked. 16 KiB by default.
    pub max_log_line_bytes: usize,
    /// Bytes of the newest log lines that are kept for errors. 8 KiB by default.
    pub log_tail_bytes: usize,
    /// Bytes that a worker may write into its log in a second, for a long time; a line counts 256 bytes
    /// more than it has. What is more waits, and the function with it: nothing is lost. 1 MiB by
    /// default; 0 is no limit.
    pub log_bytes_per_second: u64,
    /// Bytes that a worker may write into its log at once, before that rate counts. 4 MiB by default.
    pub log_burst_bytes: u64,
    /// Method, path, query and headers of a request, encoded. 256 KiB by default.
    pub max_request_head_bytes: usize,
    /// Status and headers of a response, encoded, which has at most 10,000 fields (`max_response_fields`,
    /// not to be set). 256 KiB by default.
    pub max_response_head_bytes: usize,
    /// A request's body. It streams, so this is not a matter of the host's memory, but a handler
    /// that takes the event gets it whole. 1 GiB by default.
    pub max_request_body_bytes: u64,
    /// A job's result in [`run_once`](crate::run_once). 64 KiB by default.
    pub max_result_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queue_length: 100,
            max_log_line_bytes: 16 * 1024,
            log_tail_bytes: 8 * 1024,
            log_bytes_per_second: 1 << 20,
            log_burst_bytes: 4 << 20,
            max_request_head_bytes: 256 * 1024,
            max_response_head_bytes: 256 * 1024,
            max_request_body_bytes: 1 << 30,
            max_result_bytes: 64 * 1024,
        }
    }
}

/// How often a worker that ends by itself comes back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RestartPolicy {
    /// The pause before the second restart in a row; the first one is immediate. Doubled each
    /// time. 100 ms by default.
    #[serde(with = "seconds")]
    pub min_backoff: Duration,
    /// The longest pause. 30 s by default.
    #[serde(with = "seconds")]
    pub max_backoff: Duration,
    /// A worker that lived this long, or that answered a call, counts as healthy: the next
    /// restart is immediate again. 10 s by default.
    #[serde(with = "seconds")]
    pub healthy_after: Duration,
    /// Ends in a row from which on the state says `crash_loop` and calls are refused instead of
    /// waiting. 3 by default.
    pub crash_loop_after: u32,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            min_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(30),
            healthy_after: Duration::from_secs(10),
            crash_loop_after: 3,
        }
    }
}

fn default_entrypoint() -> String {
    "handler.handle".to_owned()
}

fn default_path() -> String {
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned()
}

fn default_temp_dir() -> PathBuf {
    PathBuf::from("/tmp")
}

fn default_concurrency() -> usize {
    1
}

fn default_timeout() -> Duration {
    Duration::from_secs(60)
}

fn default_start_timeout() -> Duration {
    Duration::from_secs(30)
}

fn default_stop_grace() -> Duration {
    Duration::from_secs(2)
}

/// Durations as a number of seconds.
mod seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(value.as_secs_f64())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let seconds = f64::deserialize(from)?;
        Duration::try_from_secs_f64(seconds)
            .map_err(|_| D::Error::custom("expected a number of seconds that is not negative"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn left_out_fields_take_the_defaults() {
        let config: HostConfig =
            serde_json::from_str(r#"{"language":"node","code_dir":"/code","timeout":0.5}"#)
                .unwrap();
        assert_eq!(config.entrypoint, "handler.handle");
        assert_eq!(config.timeout, Duration::from_millis(500));
        assert_eq!(config.limits, Limits::default());
        let again = serde_json::to_string(&config).unwrap();
        let again: HostConfig = serde_json::from_str(&again).unwrap();
        assert_eq!(again.timeout, config.timeout);
    }

    #[test]
    fn debug_hides_the_values_of_the_environment() {
        let mut config = HostConfig::new(Language::Python, "/code");
        config.env.insert("TOKEN".into(), "hunter2".into());
        let shown = format!("{config:?}");
        assert!(
            shown.contains("TOKEN") && !shown.contains("hunter2"),
            "{shown}"
        );
    }
}
