//! Running other programs: output shown as it comes and kept in a file, a limit on the time, and
//! nothing left behind.

use std::{
    ffi::{OsStr, OsString},
    fmt,
    fs::File,
    io::{self, IsTerminal as _, Read as _, Seek as _, Write as _},
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use process_wrap::std::{ChildWrapper, CommandWrap};

/// How often a running program is looked at for an interrupt and for its limit.
const TICK: Duration = Duration::from_millis(100);
/// How long a program may take to stop after it was asked to.
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// How long output may stay open after the program ended, before what holds it counts as left over.
const LEFT_OVER_LIMIT: Duration = Duration::from_secs(10);

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Ends what is running, as for Ctrl-C. A second call ends this program at once.
pub(crate) fn interrupt() {
    if INTERRUPTED.swap(true, Ordering::SeqCst) {
        std::process::exit(130);
    }
}

/// Whether somebody asked to stop.
pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// A program with its arguments, to be run by a [`Shell`].
#[derive(Clone, Debug)]
pub(crate) struct Command {
    program: OsString,
    args: Vec<OsString>,
    set: Vec<(String, OsString)>,
    unset: Vec<String>,
    limit: Option<Duration>,
}

impl Command {
    /// A program by path or name.
    pub(crate) fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: vec![],
            set: vec![],
            unset: vec![],
            limit: None,
        }
    }

    /// The cargo that runs this program, with a subcommand.
    pub(crate) fn cargo(subcommand: &str) -> Self {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        Self::new(cargo).arg(subcommand)
    }

    /// Adds an argument.
    pub(crate) fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    pub(crate) fn args<I: IntoIterator<Item = S>, S: Into<OsString>>(mut self, args: I) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable for the program.
    pub(crate) fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.set.push((name.to_owned(), value.into()));
        self
    }

    /// Hides a variable from the program.
    pub(crate) fn env_remove(mut self, name: &str) -> Self {
        self.unset.push(name.to_owned());
        self
    }

    /// Ends the program after this time, where the limit of the whole step is later.
    pub(crate) fn limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    fn to_std(&self) -> std::process::Command {
        let mut command = std::process::Command::new(&self.program);
        command.args(&self.args).stdin(Stdio::null());
        for name in &self.unset {
            command.env_remove(name);
        }
        for (name, value) in &self.set {
            command.env(name, value);
        }
        command
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.set {
            write!(f, "{name}={} ", quoted(value))?;
        }
        let program = std::path::Path::new(&self.program);
        write!(
            f,
            "{}",
            quoted(program.file_name().unwrap_or(&self.program))
        )?;
        for arg in &self.args {
            write!(f, " {}", quoted(arg))?;
        }
        Ok(())
    }
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Runs the programs of one step; their output goes to the terminal and to the step's log.
#[derive(Debug)]
pub(crate) struct Shell {
    log: File,
    on_stderr: bool,
    deadline: Instant,
    limit: Duration,
    variables: Vec<(String, String)>,
    heeds_interrupts: bool,
}

impl Shell {
    /// A shell whose programs together may take `limit`.
    pub(crate) fn new(log: PathBuf, limit: Duration) -> Result<Self> {
        if let Some(folder) = log.parent() {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let log = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        Ok(Self {
            log,
            on_stderr: false,
            deadline: Instant::now() + limit,
            limit,
            variables: vec![],
            heeds_interrupts: true,
        })
    }

    /// Sets variables for every program.
    pub(crate) fn with_variables(mut self, variables: &[(String, String)]) -> Self {
        self.variables.extend_from_slice(variables);
        self
    }

    /// Lets programs run to their end, also while the rest is being stopped.
    pub(crate) fn ignoring_interrupts(mut self) -> Self {
        self.heeds_interrupts = false;
        self
    }

    /// Keeps the standard output free for an answer.
    pub(crate) fn on_stderr(mut self) -> Self {
        self.on_stderr = true;
        self
    }

    /// Writes a line to the terminal and the log.
    pub(crate) fn say(&mut self, line: impl fmt::Display) {
        self.tee(format!("{line}\n").as_bytes());
    }

    /// Runs a program; fails unless it exits with 0 within its limit and leaves nothing running.
    pub(crate) fn run(&mut self, command: &Command) -> Result<()> {
        self.run_into(command, None)
    }

    /// The same, and answers with what the program wrote to its standard output.
    pub(crate) fn run_for_answer(&mut self, command: &Command) -> Result<String> {
        let mut answer = tempfile::tempfile().context("cannot make a file for the output")?;
        self.run_into(command, Some(answer.try_clone()?))?;
        let mut text = String::new();
        answer.rewind()?;
        answer
            .read_to_string(&mut text)
            .with_context(|| format!("`{command}` answered with something that is not UTF-8"))?;
        Ok(text)
    }

    fn run_into(&mut self, command: &Command, output: Option<File>) -> Result<()> {
        self.say(format_args!("$ {command}"));
        let (reader, writer) = io::pipe().context("cannot open a pipe")?;
        let mut child = {
            let mut std = command.to_std();
            std.envs(self.variables.iter().cloned());
            if io::stdout().is_terminal() && std::env::var_os("CARGO_TERM_COLOR").is_none() {
                std.env("CARGO_TERM_COLOR", "always");
            }
            match output {
                Some(file) => std.stdout(file),
                None => std.stdout(writer.try_clone()?),
            };
            std.stderr(writer);
            // Its own group, so that all that it starts can be ended with it.
            let mut wrapped = CommandWrap::from(std);
            #[cfg(unix)]
            wrapped.wrap(process_wrap::std::ProcessGroup::leader());
            #[cfg(windows)]
            wrapped.wrap(process_wrap::std::JobObject);
            wrapped
                .spawn()
                .with_context(|| format!("cannot start `{command}`"))?
        };
        let chunks = pump(reader);
        let result = self.follow(command, child.as_mut(), &chunks);
        if result.is_err() {
            stop(child.as_mut());
            // What the program said while it was stopping.
            while let Ok(chunk) = chunks.recv_timeout(TICK) {
                self.tee(&chunk);
            }
        }
        let status = result?;
        if !status.success() {
            bail!("`{command}` failed ({status})");
        }
        Ok(())
    }

    /// Runs a program and answers with what it wrote to its standard output.
    pub(crate) fn output(&mut self, command: &Command) -> Result<String> {
        self.say(format_args!("$ {command}"));
        let output = command
            .to_std()
            .output()
            .with_context(|| format!("cannot start `{command}`"))?;
        if !output.status.success() {
            self.tee(&output.stdout);
            self.tee(&output.stderr);
            bail!("`{command}` failed ({})", output.status);
        }
        String::from_utf8(output.stdout)
            .with_context(|| format!("`{command}` answered with something that is not UTF-8"))
    }

    fn follow(
        &mut self,
        command: &Command,
        child: &mut dyn ChildWrapper,
        chunks: &mpsc::Receiver<Vec<u8>>,
    ) -> Result<ExitStatus> {
        let (deadline, limit) = match command.limit {
            Some(limit) if Instant::now() + limit < self.deadline => {
                (Instant::now() + limit, limit)
            }
            _ => (self.deadline, self.limit),
        };
        let mut closed = false;
        let mut ended: Option<(Instant, ExitStatus)> = None;
        loop {
            match chunks.recv_timeout(TICK) {
                Ok(chunk) => self.tee(&chunk),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    if closed {
                        // It closed its output and goes on; there is nothing else to wake us.
                        std::thread::sleep(TICK);
                    }
                    closed = true;
                }
            }
            if ended.is_none() {
                ended = child.try_wait()?.map(|status| (Instant::now(), status));
            }
            match ended {
                Some((_, status)) if closed => return Ok(status),
                Some((since, _)) if since.elapsed() > LEFT_OVER_LIMIT => {
                    bail!("`{command}` ended and left a process behind that holds its output open");
                }
                _ => {}
            }
            if self.heeds_interrupts && interrupted() {
                bail!("interrupted");
            }
            if Instant::now() > deadline {
                bail!(
                    "`{command}` was stopped: it reached its limit of {} s",
                    limit.as_secs()
                );
            }
        }
    }

    fn tee(&mut self, bytes: &[u8]) {
        // A closed terminal must not fail the step, nor keep the log from being written.
        let _ = if self.on_stderr {
            io::stderr().write_all(bytes)
        } else {
            let mut out = io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        };
        let _ = self.log.write_all(bytes);
    }
}

/// Reads output on a thread of its own, so that waiting for it can be given up.
fn pump(mut reader: io::PipeReader) -> mpsc::Receiver<Vec<u8>> {
    // A bound, so that a program that writes faster than the terminal takes is slowed down.
    let (sender, receiver) = mpsc::sync_channel(64);
    std::thread::spawn(move || {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return,
                Ok(length) => {
                    if sender.send(buffer[..length].to_vec()).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    });
    receiver
}

/// Asks the program and all that it started to end, and ends them where they do not.
fn stop(child: &mut dyn ChildWrapper) {
    #[cfg(unix)]
    {
        const SIGTERM: i32 = 15;
        // An error means that nothing of the group is left.
        if child.signal(SIGTERM).is_ok() {
            let asked = Instant::now();
            while asked.elapsed() < STOP_LIMIT && matches!(child.try_wait(), Ok(None)) {
                std::thread::sleep(TICK);
            }
        }
    }
    let _ = child.start_kill();
    let _ = child.try_wait();
}

#[cfg(all(test, unix))]
mod tests {
    use std::{
        path::Path,
        time::{Duration, Instant},
    };

    use super::{Command, LEFT_OVER_LIMIT, Shell};

    const LONG: Duration = Duration::from_secs(60);

    fn shell(folder: &Path, limit: Duration) -> Shell {
        Shell::new(folder.join("logs/step.log"), limit).expect("a log in a fresh folder")
    }

    fn log(folder: &Path) -> String {
        std::fs::read_to_string(folder.join("logs/step.log")).expect("the log")
    }

    fn sh(script: &str) -> Command {
        Command::new("sh").arg("-c").arg(script)
    }

    #[test]
    fn output_of_both_kinds_is_kept_in_order() {
        let folder = tempfile::tempdir().expect("a folder");
        shell(folder.path(), LONG)
            .run(&sh("echo one; echo two >&2; echo three").env("X", "a b"))
            .expect("success");
        assert_eq!(
            log(folder.path()),
            "$ X='a b' sh -c 'echo one; echo two >&2; echo three'\none\ntwo\nthree\n"
        );
    }

    #[test]
    fn a_failure_names_the_command_and_the_status() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = shell(folder.path(), LONG)
            .run(&sh("exit 7"))
            .expect_err("a failure");
        assert_eq!(
            error.to_string(),
            "`sh -c 'exit 7'` failed (exit status: 7)"
        );
    }

    #[test]
    fn a_missing_program_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = shell(folder.path(), LONG)
            .run(&Command::new("no-such-program-here"))
            .expect_err("a failure");
        assert_eq!(error.to_string(), "cannot start `no-such-program-here`");
    }

    #[test]
    fn a_limit_ends_the_program_and_what_it_started() {
        let folder = tempfile::tempdir().expect("a folder");
        let began = Instant::now();
        let script = "sleep 50 & echo $! > \"$OUT\"; trap '' TERM; echo before; wait; sleep 50";
        let out = folder.path().join("pid");
        let error = shell(folder.path(), LONG)
            .run(
                &sh(script)
                    .env("OUT", &out)
                    .limit(Duration::from_millis(300)),
            )
            .expect_err("a failure");
        assert!(
            error.to_string().ends_with("it reached its limit of 0 s"),
            "{error}"
        );
        assert!(
            began.elapsed() < Duration::from_secs(40),
            "took {:?}",
            began.elapsed()
        );
        assert!(log(folder.path()).contains("before\n"));
        let pid = std::fs::read_to_string(out).expect("the pid of the inner program");
        let deadline = Instant::now() + Duration::from_secs(10);
        while Path::new("/proc").join(pid.trim()).join("cwd").exists() {
            assert!(Instant::now() < deadline, "process {pid} still runs");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn what_is_left_running_is_a_failure() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = shell(folder.path(), LONG)
            .run(&sh("sleep 50 & echo done"))
            .expect_err("a failure");
        assert!(
            error.to_string().contains("left a process behind"),
            "{error}"
        );
        assert!(LEFT_OVER_LIMIT < LONG);
    }
}
