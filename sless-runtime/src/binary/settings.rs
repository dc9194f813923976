//! Settings of the binary: environment variables, and command-line flags of the same names.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use sless_runtime::{HostConfig, Language};

/// What `--help` prints.
pub(crate) const HELP: &str = "\
Runs the handler of a Python or Node function.

  sless-runtime serve [FLAGS]   HTTP in front of the handler
  sless-runtime once [FLAGS]    one event in, one result out

Each flag --some-name is also the environment variable SLESS_SOME_NAME; the flag wins.
Times are seconds, sizes are bytes.

  --language NAME          python or node (also python3.11, nodejs20); required
  --code-dir PATH          the function's code [.]
  --entrypoint NAME        module.function [handler.handle]
  --interpreter PATH       [python3 or node, looked up in PATH]
  --dependency-dirs LIST   folders with installed packages, separated by colons
  --runtime-dir PATH       where the worker's program is unpacked
  --namespace, --function, --uid, --instance NAME
                           what the handler's context and the worker's environment say
  --concurrency N          calls at once [1]
  --queue-length N         calls that wait; one more is answered with 429 [100]
  --timeout TIME           a call's longest duration [60]
  --start-timeout TIME     until the handler must be imported [30]
  --memory-limit SIZE      the worker's memory, best effort
  --max-request-body-bytes SIZE, --max-log-line-bytes SIZE, --max-result-bytes SIZE
  --log-format FORMAT      json or text [json]
  --termination-file PATH  where it is told, as JSON of at most 4096 bytes, why the handler was not
                           imported or the worker not kept alive, or how a job ended

serve
  --listen ADDRESS         [0.0.0.0 and the port in PORT, or 8080]
  --base-path PATH         taken off a request's path before the handler sees it
  --drain-timeout TIME     what calls in flight get after SIGTERM [25]
  --max-connections N      connections at once; more wait to be accepted [1024]
  --exit-when-failing yes  end with code 4 once the worker has ended several times in a row, so that
                           whoever watches this process sees it [no]
  --threads N              of the front; one is enough for tens of thousands of calls a second,
                           and the quickest for calls that come one by one [1]

once
  --event JSON             the event [{}]
  --event-file PATH        a file with the event; - is standard input
  --request-id NAME        [job]
  --result-file PATH       where the outcome is written [standard output]

The function sees this process's environment without the variables named SLESS_….
";

const NAMES: [&str; 31] = [
    "LANGUAGE",
    "CODE_DIR",
    "ENTRYPOINT",
    "INTERPRETER",
    "DEPENDENCY_DIRS",
    "RUNTIME_DIR",
    "NAMESPACE",
    "FUNCTION",
    "UID",
    "INSTANCE",
    "CONCURRENCY",
    "QUEUE_LENGTH",
    "TIMEOUT",
    "START_TIMEOUT",
    "MEMORY_LIMIT",
    "MAX_REQUEST_BODY_BYTES",
    "MAX_LOG_LINE_BYTES",
    "MAX_RESULT_BYTES",
    "LOG_FORMAT",
    "TERMINATION_FILE",
    "EXIT_WHEN_FAILING",
    "LISTEN",
    "BASE_PATH",
    "DRAIN_TIMEOUT",
    "MAX_CONNECTIONS",
    "THREADS",
    "EVENT",
    "EVENT_FILE",
    "REQUEST_ID",
    "RESULT_FILE",
    "PORT",
];

/// What the binary is asked to do.
#[derive(Debug)]
pub(crate) enum Command {
    Serve(Settings),
    Once(Settings),
    Help,
}

/// Values by upper-case name, without the prefix.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    values: BTreeMap<&'static str, String>,
    environment: BTreeMap<String, String>,
}

/// A setting that is missing or wrong: the text names it and says what was expected.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Wrong(String);

impl From<lexopt::Error> for Wrong {
    fn from(error: lexopt::Error) -> Self {
        Self(error.to_string())
    }
}

impl Command {
    pub(crate) fn parse(
        arguments: impl IntoIterator<Item = OsString>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, Wrong> {
        let mut settings = Settings::from_environment(environment);
        let mut parser = lexopt::Parser::from_args(arguments);
        let mut once = None;
        while let Some(argument) = parser.next()? {
            match argument {
                lexopt::Arg::Long("help") | lexopt::Arg::Short('h') => return Ok(Command::Help),
                lexopt::Arg::Long(flag) => {
                    let name = flag.to_uppercase().replace('-', "_");
                    let Some(name) = NAMES.into_iter().find(|known| *known == name) else {
                        return Err(Wrong(format!("there is no flag --{flag}; see --help")));
                    };
                    let value = parser.value()?.into_string();
                    let value = value.map_err(|_| Wrong(format!("SLESS_{name} is no UTF-8")))?;
                    settings.values.insert(name, value);
                }
                lexopt::Arg::Value(word) if once.is_none() => match word.to_str() {
                    Some("serve") => once = Some(false),
                    Some("once") => once = Some(true),
                    _ => {
                        return Err(Wrong(format!(
                            "{word:?} is no command; expected serve or once"
                        )));
                    }
                },
                other => return Err(other.unexpected().into()),
            }
        }
        match once {
            Some(false) => Ok(Command::Serve(settings)),
            Some(true) => Ok(Command::Once(settings)),
            None => Err(Wrong(
                "a command is missing; expected serve or once".to_owned(),
            )),
        }
    }
}

impl Settings {
    fn from_environment(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut settings = Self::default();
        for (name, value) in variables {
            // A function's variable that is no UTF-8 is not passed on.
            let (Ok(name), Ok(value)) = (name.into_string(), value.into_string()) else {
                continue;
            };
            if let Some(short) = name.strip_prefix("SLESS_") {
                if let Some(known) = NAMES.into_iter().find(|known| *known == short) {
                    settings.values.insert(known, value);
                }
                continue;
            }
            if name == "PORT" {
                settings
                    .values
                    .entry("PORT")
                    .or_insert_with(|| value.clone());
            }
            settings.environment.insert(name, value);
        }
        settings
    }

    pub(crate) fn text(&self, name: &'static str) -> Option<&str> {
        self.values
            .get(name)
            .map(String::as_str)
            .filter(|text| !text.is_empty())
    }

    fn number<T: FromStr>(&self, name: &'static str, default: T) -> Result<T, Wrong> {
        let Some(text) = self.text(name) else {
            return Ok(default);
        };
        text.parse()
            .map_err(|_| Wrong(format!("SLESS_{name} is {text:?}; expected a number")))
    }

    fn time(&self, name: &'static str, default: Duration) -> Result<Duration, Wrong> {
        let seconds = self.number(name, default.as_secs_f64())?;
        Duration::try_from_secs_f64(seconds)
            .map_err(|_| Wrong(format!("SLESS_{name} is {seconds}; expected seconds")))
    }

    pub(crate) fn host(&self) -> Result<HostConfig, Wrong> {
        let language = match self.text("LANGUAGE") {
            Some("python" | "python3.11") => Language::Python,
            Some("node" | "nodejs20") => Language::Node,
            Some(other) => {
                return Err(Wrong(format!(
                    "SLESS_LANGUAGE is {other:?}; expected python or node"
                )));
            }
            None => {
                return Err(Wrong(
                    "SLESS_LANGUAGE is missing; expected python or node".to_owned(),
                ));
            }
        };
        let code = PathBuf::from(self.text("CODE_DIR").unwrap_or("."));
        let code = code
            .canonicalize()
            .map_err(|error| Wrong(format!("SLESS_CODE_DIR is {}: {error}", code.display())))?;
        let mut config = HostConfig::new(language, code);
        let owned = |name| self.text(name).unwrap_or_default().to_owned();
        if let Some(entrypoint) = self.text("ENTRYPOINT") {
            config.entrypoint = entrypoint.to_owned();
        }
        config.interpreter = self.text("INTERPRETER").map(PathBuf::from);
        config.runtime_dir = self.text("RUNTIME_DIR").map(PathBuf::from);
        config.dependency_dirs = owned("DEPENDENCY_DIRS")
            .split(':')
            .filter(|folder| !folder.is_empty())
            .map(PathBuf::from)
            .collect();
        config.namespace = owned("NAMESPACE");
        config.name = owned("FUNCTION");
        config.uid = owned("UID");
        config.instance = owned("INSTANCE");
        config.env = self.environment.clone();
        if let Some(path) = self.environment.get("PATH") {
            config.path = path.clone();
        }
        config.concurrency = self.number("CONCURRENCY", config.concurrency)?;
        config.timeout = self.time("TIMEOUT", config.timeout)?;
        config.start_timeout = self.time("START_TIMEOUT", config.start_timeout)?;
        config.memory_limit = match self.number("MEMORY_LIMIT", 0)? {
            0 => None,
            bytes => Some(bytes),
        };
        let limits = &mut config.limits;
        limits.queue_length = self.number("QUEUE_LENGTH", limits.queue_length)?;
        limits.max_request_body_bytes =
            self.number("MAX_REQUEST_BODY_BYTES", limits.max_request_body_bytes)?;
        limits.max_log_line_bytes = self.number("MAX_LOG_LINE_BYTES", limits.max_log_line_bytes)?;
        limits.max_result_bytes = self.number("MAX_RESULT_BYTES", limits.max_result_bytes)?;
        Ok(config)
    }

    pub(crate) fn listen(&self) -> Result<SocketAddr, Wrong> {
        let Some(text) = self.text("LISTEN") else {
            return Ok(SocketAddr::from(([0, 0, 0, 0], self.number("PORT", 8080)?)));
        };
        text.parse()
            .map_err(|_| Wrong(format!("SLESS_LISTEN is {text:?}; expected ADDRESS:PORT")))
    }

    pub(crate) fn drain_timeout(&self) -> Result<Duration, Wrong> {
        self.time("DRAIN_TIMEOUT", Duration::from_secs(25))
    }

    pub(crate) fn max_connections(&self) -> Result<usize, Wrong> {
        self.number("MAX_CONNECTIONS", 1024)
    }

    pub(crate) fn threads(&self) -> Result<usize, Wrong> {
        match self.number("THREADS", 1)? {
            0 => Err(Wrong("SLESS_THREADS is 0; expected 1 or more".to_owned())),
            threads => Ok(threads),
        }
    }

    pub(crate) fn exit_when_failing(&self) -> Result<bool, Wrong> {
        match self.text("EXIT_WHEN_FAILING") {
            None | Some("no") => Ok(false),
            Some("yes") => Ok(true),
            Some(other) => Err(Wrong(format!(
                "SLESS_EXIT_WHEN_FAILING is {other:?}; expected yes or no"
            ))),
        }
    }

    pub(crate) fn logs_as_json(&self) -> Result<bool, Wrong> {
        match self.text("LOG_FORMAT") {
            None | Some("json") => Ok(true),
            Some("text") => Ok(false),
            Some(other) => Err(Wrong(format!(
                "SLESS_LOG_FORMAT is {other:?}; expected json or text"
            ))),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str], variables: &[(&str, &str)]) -> Result<Command, Wrong> {
        Command::parse(
            arguments.iter().map(OsString::from),
            variables
                .iter()
                .map(|(name, value)| (OsString::from(name), OsString::from(value))),
        )
    }

    #[test]
    fn a_flag_wins_over_the_environment() {
        let variables = [
            ("SLESS_LANGUAGE", "node"),
            ("SLESS_CONCURRENCY", "2"),
            ("PORT", "99"),
            ("COLOUR", "red"),
            ("SLESS_SECRET", "x"),
        ];
        let Command::Serve(settings) = parse(&["serve", "--concurrency", "3"], &variables).unwrap()
        else {
            panic!("expected serve");
        };
        let config = settings.host().unwrap();
        assert_eq!((config.language, config.concurrency), (Language::Node, 3));
        assert_eq!(settings.listen().unwrap().port(), 99);
        assert_eq!(config.env.get("COLOUR").unwrap(), "red");
        assert!(!config.env.contains_key("SLESS_SECRET"));
    }

    #[test]
    fn a_wrong_setting_is_named() {
        let text = |result: Result<Command, Wrong>| match result {
            Err(wrong) => wrong.to_string(),
            Ok(Command::Serve(settings)) => settings.host().unwrap_err().to_string(),
            Ok(_) => panic!("expected serve"),
        };
        assert!(text(parse(&["serve"], &[])).contains("SLESS_LANGUAGE is missing"));
        let variables = [("SLESS_LANGUAGE", "node"), ("SLESS_TIMEOUT", "soon")];
        assert!(text(parse(&["serve"], &variables)).contains("SLESS_TIMEOUT"));
        assert!(text(parse(&["serve", "--colour", "x"], &[])).contains("--colour"));
        assert!(text(parse(&[], &[])).contains("expected serve or once"));
    }

    #[test]
    fn help_lists_every_setting() {
        for name in NAMES.into_iter().filter(|name| *name != "PORT") {
            let flag = format!("--{}", name.to_lowercase().replace('_', "-"));
            assert!(HELP.contains(&flag), "{flag}");
        }
    }
}
