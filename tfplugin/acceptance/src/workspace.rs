//! A folder with a configuration, and Terraform in it.

use std::{
    fs,
    io::Read as _,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// How long anything may take.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// What to do where there is no Terraform.
const MISSING: &str =
    "terraform 1.11 or later in the PATH: see https://developer.hashicorp.com/terraform/install";

/// How often to look.
const LOOK: Duration = Duration::from_millis(20);

/// A folder with a configuration, for one provider.
#[derive(Debug)]
pub struct Workspace {
    folder: tempfile::TempDir,
    name: String,
    source: String,
    settings: String,
    variables: Vec<(String, String)>,
}

/// What a run of Terraform said.
#[derive(Debug)]
pub struct Said {
    /// The exit status.
    pub code: i32,
    /// What it wrote, without frames and empty lines.
    pub text: String,
}

impl Said {
    /// It succeeded.
    #[track_caller]
    pub fn ok(&self) -> &Self {
        assert_eq!(self.code, 0, "{}", self.text);
        self
    }

    /// It failed, with one error.
    #[track_caller]
    pub fn failed(&self) -> &Self {
        assert_eq!(self.code, 1, "{}", self.text);
        assert_eq!(
            self.text
                .lines()
                .filter(|line| line.starts_with("Error: "))
                .count(),
            1,
            "one error: {}",
            self.text
        );
        self
    }

    /// Terraform aligns what it shows, and breaks lines: only words count.
    fn holds(&self, text: &str) -> bool {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        words(&self.text).contains(&words(text))
    }

    /// It said this.
    #[track_caller]
    pub fn says(&self, text: &str) -> &Self {
        assert!(self.holds(text), "{text:?} is not in:\n{}", self.text);
        self
    }

    /// It did not say this.
    #[track_caller]
    pub fn lacks(&self, text: &str) -> &Self {
        assert!(!self.holds(text), "{text:?} is in:\n{}", self.text);
        self
    }
}

impl Workspace {
    /// A folder for the provider of this name, which is this program.
    pub fn new(name: &str, binary: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let overrides = folder.path().join("provider");
        fs::create_dir(&overrides).unwrap();
        let program = overrides.join(format!("terraform-provider-{name}"));
        std::os::unix::fs::symlink(binary, program).unwrap();
        let source = format!("test/{name}");
        let rc = format!(
            "provider_installation {{\n dev_overrides {{\n {source:?} = {overrides:?}\n }}\n direct {{}}\n}}\n"
        );
        fs::write(folder.path().join("cli.tfrc"), rc).unwrap();
        Self {
            folder,
            name: name.to_owned(),
            source,
            settings: String::new(),
            variables: Vec::new(),
        }
    }

    /// What stands in the provider's block.
    pub fn settings(&mut self, settings: &str) {
        settings.clone_into(&mut self.settings);
    }

    /// Sets a variable of the environment.
    pub fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// Forgets all variables.
    pub fn unset(&mut self) {
        self.variables.clear();
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a configuration for the provider.
    pub fn config(&self, body: &str) {
        let Self {
            name,
            source,
            settings,
            ..
        } = self;
        let text = format!(
            "terraform {{\n required_providers {{\n {name} = {{ source = {source:?} }}\n }}\n}}\n\
             provider {name:?} {{\n{settings}\n}}\n{body}\n"
        );
        self.write("main.tf", &text);
    }

    /// Writes a file, with its folders.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("terraform");
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("TF_CLI_CONFIG_FILE", self.path("cli.tfrc"))
            .env("CHECKPOINT_DISABLE", "1")
            .env("TF_CLI_ARGS", "-no-color")
            .env("TF_IN_AUTOMATION", "1")
            .env_remove("TF_LOG")
            .envs(self.variables.iter().cloned())
            .stdin(Stdio::null());
        command
    }

    /// Runs Terraform to its end.
    pub fn run(&self, arguments: &[&str]) -> Said {
        said(self.command(arguments).output().expect(MISSING))
    }

    /// Applies the configuration.
    pub fn apply(&self) -> Said {
        self.run(&["apply", "-auto-approve"])
    }

    /// Says whether anything would change.
    pub fn plan(&self) -> Said {
        self.run(&["plan", "-detailed-exitcode"])
    }

    /// Starts Terraform in a process group of its own.
    pub fn start(&self, arguments: &[&str]) -> Running {
        let mut command = self.command(arguments);
        command
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Running(command.spawn().expect(MISSING))
    }

    /// The state as `terraform show -json` tells it.
    pub fn shown(&self) -> serde_json::Value {
        let said = self.command(&["show", "-json"]).output().expect(MISSING);
        serde_json::from_slice(&said.stdout).unwrap()
    }

    /// The first object in the state: its address, its `values`, whether it is tainted.
    pub fn state(&self) -> serde_json::Value {
        self.shown()["values"]["root_module"]["resources"][0].clone()
    }

    /// The values of the object with this address.
    pub fn values(&self, address: &str) -> serde_json::Value {
        let shown = self.shown();
        let resources = shown["values"]["root_module"]["resources"].as_array();
        let resources = resources.map(Vec::as_slice).unwrap_or_default();
        let found = resources
            .iter()
            .find(|resource| resource["address"] == address);
        found.unwrap_or_else(|| panic!("no {address} in {shown}"))["values"].clone()
    }

    /// Waits until something is so.
    #[track_caller]
    pub fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < DEADLINE, "{what} is not so");
            std::thread::sleep(LOOK);
        }
    }

    /// The addresses in the state.
    pub fn state_list(&self) -> String {
        self.run(&["state", "list"]).text
    }
}

fn said(output: Output) -> Said {
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    // The frame around an error breaks lines where they are searched.
    let lines = text
        .lines()
        .map(|line| line.trim_start_matches(['│', '╷', '╵']).trim());
    let text = lines
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join("\n");
    Said {
        code: output.status.code().unwrap_or(-1),
        text,
    }
}

/// A Terraform that runs. It is ended with the test.
#[derive(Debug)]
pub struct Running(Child);

impl Running {
    fn pid(&self) -> Pid {
        Pid::from_raw(self.0.id().try_into().unwrap()).unwrap()
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// What a Ctrl-C does: a signal for everybody at the terminal.
    pub fn interrupt(&self) {
        kill_process_group(self.pid(), Signal::INT).unwrap();
    }

    /// Kills it outright.
    pub fn kill(&mut self) {
        kill_process(self.pid(), Signal::KILL).unwrap();
        self.0.wait().unwrap();
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Said {
        let began = Instant::now();
        while self.0.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < DEADLINE, "terraform does not end");
            std::thread::sleep(LOOK);
        }
        let (mut out, mut err) = (Vec::new(), Vec::new());
        self.0.stdout.take().unwrap().read_to_end(&mut out).unwrap();
        self.0.stderr.take().unwrap().read_to_end(&mut err).unwrap();
        said(Output {
            status: self.0.wait().unwrap(),
            stdout: out,
            stderr: err,
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.0.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _ = kill_process_group(self.pid(), Signal::KILL);
            let _ = self.0.wait();
        }
    }
}

/// Providers whose parent this process is, or was.
pub fn providers_of(parent: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(id) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        // pid (name) state parent …
        let Some((head, tail)) = stat.rsplit_once(')') else {
            continue;
        };
        let fields: Vec<_> = tail.split_whitespace().collect();
        let is_provider = head.ends_with("terraform-provi");
        if is_provider && fields[0] != "Z" && fields[1].parse() == Ok(parent) {
            found.push(id);
        }
    }
    found
}

/// Whether a process runs.
pub fn is_running(id: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, tail)| !tail.trim_start().starts_with('Z'))
}
