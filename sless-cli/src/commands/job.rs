//! `sless job`.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::Timestamp;
use sless_api::{CreateJob, Field, Job, JobPhase, PatchJob, WireDuration};

use super::{
    logs::Which,
    shown::{self, NOTHING},
};
use crate::{
    args::Globals,
    failure::{Exit, Failure, Result},
    interrupt::Interrupt,
    output::{Output, beside},
    session::{Session, all},
};

/// How often a job is looked at while it is waited for: soon at first.
const LOOKS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Functions that are run once, beside requests.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Run(Run),
    /// Wait until a job has ended. A failed one ends with exit status 1.
    #[command(after_help = "Examples:\n  $ sless job wait report --timeout 1m")]
    Wait {
        /// The job.
        name: String,
        /// How long to wait at most.
        #[arg(long, default_value = "1h", value_name = "DURATION")]
        timeout: WireDuration,
    },
    /// Print what a job's function returned, as JSON.
    #[command(after_help = "Examples:\n  $ sless job result report")]
    Result {
        /// The job.
        name: String,
    },
    /// Show all jobs.
    #[command(after_help = "Examples:\n  $ sless job list")]
    List,
    /// Show what a job wrote.
    #[command(after_help = "Examples:\n  $ sless job logs report --tail 20")]
    Logs {
        /// The job.
        name: String,
        #[command(flatten)]
        which: Which,
    },
    /// Remove a job, and its run where there is one; prints the receipt.
    #[command(after_help = "Examples:\n  $ sless job delete report --yes")]
    Delete {
        /// The job.
        name: String,
        /// Do not ask.
        #[arg(long, short)]
        yes: bool,
    },
}

const RUN_EXAMPLES: &str = "\
Examples:
  $ sless job run hello --data '{\"name\": \"Ada\"}' --wait
  $ sless job run hello --name report --file event.json";

/// Run a function once, beside requests. Prints the job's name, or with --wait its result.
///
/// A name that is taken by a job of the same function runs that job again.
#[derive(Debug, clap::Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct Run {
    /// The function.
    function: String,
    /// What to call the job; the function's name and some letters where it is left out.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The event, as JSON; {} where it is left out.
    #[arg(long, short, value_name = "JSON", conflicts_with = "file")]
    data: Option<String>,
    /// A file with the event; `-` is standard input.
    #[arg(long, short, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Wait until it has ended, and print its result.
    #[arg(long, short)]
    wait: bool,
    /// How long to wait at most.
    #[arg(long, default_value = "1h", requires = "wait", value_name = "DURATION")]
    timeout: WireDuration,
}

pub(crate) async fn run(
    command: Command,
    globals: &Globals,
    output: &Output,
    interrupt: &mut Interrupt,
) -> Result<()> {
    let session = Session::open(globals, output)?;
    match command {
        Command::Run(args) => start(&args, &session, output, interrupt).await,
        Command::Wait { name, timeout } => {
            let job = interrupt
                .cut(ended(&name, timeout.0, &session, output))
                .await?;
            if output.is_for_people() {
                output.line(&shown::job_phase(output, &job))?;
            } else {
                output.value(&job)?;
            }
            judge(&job)
        }
        Command::Result { name } => {
            let job = interrupt.cut(read(&name, &session)).await?;
            print_result(&job, output)
        }
        Command::List => interrupt.cut(list(&session, output)).await,
        Command::Logs { name, which } => {
            let logs = async {
                let Session { client, namespace } = &session;
                let lines = client.job_logs(namespace, &name, &which.query()).await;
                which.print(lines.map_err(missing)?, output).await
            };
            interrupt.cut(logs).await
        }
        Command::Delete { name, yes } => {
            interrupt
                .cut(output.confirm(
                    yes,
                    &format!("remove the job {name} from {}?", session.namespace),
                ))
                .await?;
            interrupt
                .whole(output, delete(&name, &session, output))
                .await
        }
    }
}

fn missing(error: impl Into<Failure>) -> Failure {
    error
        .into()
        .or_hint("`sless job list` shows the jobs that there are")
}

async fn read(name: &str, Session { client, namespace }: &Session) -> Result<Job> {
    client.job(namespace, name).await.map_err(missing)
}

async fn start(
    args: &Run,
    session: &Session,
    output: &Output,
    interrupt: &mut Interrupt,
) -> Result<()> {
    let event = interrupt.cut(args.event()).await?;
    // A job either is there or is not: one request makes it.
    let made = interrupt.whole(output, args.make(event, session));
    let job = made.await?;
    if !args.wait {
        if output.is_for_people() {
            output.say(&format!(
                "`sless job wait {0}` and `sless job result {0}` go on",
                job.name
            ));
            return output.line(&job.name);
        }
        return output.value(&job);
    }
    let waited = interrupt
        .cut(ended(&job.name, args.timeout.0, session, output))
        .await;
    let job = waited.inspect_err(|failure| {
        if failure.is_silent() {
            output.say(&format!("the job goes on: `sless job wait {}`", job.name));
        }
    })?;
    if !output.is_for_people() {
        output.value(&job)?;
        return judge(&job);
    }
    print_result(&job, output)
}

impl Run {
    async fn event(&self) -> Result<Option<String>> {
        let text = match (&self.data, &self.file) {
            (Some(text), _) => text.clone(),
            (None, Some(path)) => {
                let path = path.clone();
                beside(move || read_event(&path)).await?
            }
            (None, None) => return Ok(None),
        };
        serde_json::from_str::<serde::de::IgnoredAny>(&text).map_err(|error| {
            Failure::usage(format!("the event is not JSON: {error}"))
                .hint("text is JSON within quotes: --data '\"text\"'")
        })?;
        Ok(Some(text))
    }

    async fn make(&self, event: Option<String>, session: &Session) -> Result<Job> {
        let Session { client, namespace } = session;
        let function = &self.function;
        // A job of a function that is not there would wait for it.
        client
            .function(namespace, function)
            .await
            .map_err(|error| session.tell_missing(Failure::from(error), "list"))?;
        let name = self.name.clone().unwrap_or_else(|| fresh_name(function));
        let request = CreateJob {
            name: name.clone(),
            function_ref: function.clone(),
            event_json: event.clone(),
            run_id: Some(1),
        };
        match client.create_job(namespace, &request).await {
            Ok(job) => return Ok(job),
            Err(error) if error.is_conflict() && self.name.is_some() => {}
            Err(error) => return Err(error.into()),
        }
        let there = client.job(namespace, &name).await?;
        if there.function_ref != *function {
            let text = format!(
                "the job {name} belongs to the function {}",
                there.function_ref
            );
            return Err(Failure::new(Exit::Conflict, text).hint("give this one another name"));
        }
        let patch = PatchJob {
            event_json: event.map_or(Field::Null, Field::Value),
            run_id: Some(there.run_id.saturating_add(1)),
        };
        Ok(client.patch_job(namespace, &name, &patch).await?)
    }
}

fn read_event(path: &Path) -> Result<String> {
    let text = if path.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    text.map_err(|error| Failure::usage(format!("{} cannot be read: {error}", path.display())))
}

/// The function's name with some letters behind it, short enough for a name.
fn fresh_name(function: &str) -> String {
    let letters: String = (0..6)
        .map(|_| fastrand::alphanumeric().to_ascii_lowercase())
        .collect();
    let function: String = function.chars().take(56).collect();
    format!("{function}-{letters}")
}

async fn ended(name: &str, limit: Duration, session: &Session, output: &Output) -> Result<Job> {
    let spinner = output.spinner(&format!("waiting for {name}"));
    let looking = async {
        let (mut pause, longest) = LOOKS;
        loop {
            let job = read(name, session).await?;
            if !matches!(job.phase, JobPhase::Pending | JobPhase::Running) {
                return Ok(job);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 3 / 2).min(longest);
        }
    };
    let ended = tokio::time::timeout(limit, looking).await;
    spinner.finish_and_clear();
    ended.unwrap_or_else(|_| {
        let text = format!("limit timeout of {limit:?} exceeded: the job {name} has not ended");
        Err(Failure::new(Exit::Failed, text).hint(format!("it goes on: `sless job wait {name}`")))
    })
}

fn judge(job: &Job) -> Result<()> {
    let name = &job.name;
    match job.phase {
        JobPhase::Failed => {
            let reason = job.reason.as_deref().unwrap_or("failed");
            let message = job.message.as_deref().unwrap_or_default();
            let text = format!("the job {name} failed: {reason}: {}", shown::safe(message));
            Err(Failure::new(Exit::Failed, text).hint(format!("sless job logs {name}")))
        }
        JobPhase::Skipped => Err(Failure::new(
            Exit::Failed,
            format!("the job {name} has run id 0, so that nothing runs"),
        )),
        _ => Ok(()),
    }
}

fn print_result(job: &Job, output: &Output) -> Result<()> {
    judge(job)?;
    let name = &job.name;
    if job.phase != JobPhase::Succeeded {
        let text = format!("the job {name} has not ended: it is {:?}", job.phase);
        return Err(Failure::new(Exit::Failed, text).hint(format!("sless job wait {name}")));
    }
    let result = job.result.as_deref().unwrap_or("null");
    match serde_json::from_str::<serde_json::Value>(result) {
        Ok(value) if !output.is_for_people() => output.value(&value),
        Ok(value) => output.line(&format!("{value:#}")),
        // It was cut at a limit of the server.
        Err(_) => output.line(&shown::safe(result)),
    }
}

async fn list(session: &Session, output: &Output) -> Result<()> {
    let Session { client, namespace } = session;
    let jobs = all(async |query| client.jobs(namespace, &query).await).await?;
    if !output.is_for_people() {
        return output.value(&jobs);
    }
    if jobs.is_empty() {
        output.say("there are no jobs: `sless job run FUNCTION` makes one");
        return Ok(());
    }
    let now = Timestamp::now();
    let time =
        |at: Option<Timestamp>| at.map_or_else(|| NOTHING.to_owned(), |at| shown::ago(at, now));
    let rows = jobs.iter().map(|job| {
        vec![
            job.name.clone(),
            job.function_ref.clone(),
            shown::job_phase(output, job),
            job.run_id.to_string(),
            time(job.started_at),
            time(job.finished_at),
            job.reason.clone().unwrap_or_default(),
        ]
    });
    let head = [
        "NAME", "FUNCTION", "PHASE", "RUN", "STARTED", "ENDED", "REASON",
    ];
    output.table(&head, rows.collect())
}

async fn delete(name: &str, session: &Session, output: &Output) -> Result<()> {
    let Session { client, namespace } = session;
    let receipt = client.delete_job(namespace, name).await.map_err(missing)?;
    if !output.is_for_people() {
        return output.value(&receipt);
    }
    output.say(&format!("{name} is removed"));
    shown::receipt(output, &receipt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_name_is_a_name_however_long_the_function_is() {
        for function in ["a", &"a".repeat(63)] {
            let name = fresh_name(function);
            assert!(sless_core::Name::new(name.clone()).is_ok(), "{name}");
        }
    }
}
