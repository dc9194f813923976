//! `sless deploy`: one folder, from what is in it to a function that answers.

mod build;
mod change;
mod triggers;
mod undo;
mod upload;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use jiff::Timestamp;
use sless_api::{Env, Function, FunctionPhase, WireDuration};
use sless_core::source::SourceLimits;
use sless_source::{Content, Folder, Overrides};

use self::{change::Change, triggers::TriggerPlan, undo::Undo};
use super::shown;
use crate::{
    args::Globals,
    failure::{Exit, Failure, Result},
    interrupt::Interrupt,
    output::{Output, Paint, beside},
    session::Session,
};

const EXAMPLES: &str = "\
Examples:
  $ sless deploy hello
  $ sless deploy hello --name hello-staging --env GREETING=hi --memory 256Mi
  $ sless deploy hello --dry-run
  $ sless deploy hello -o json

Keys of sless.toml win over what is on the server, and flags over both. What is in neither is set to
its default, except for `env` and `replicas`, which stay as they are on the server. Without a
sless.toml only flags change anything but the code.";

/// Upload a folder, build it and wait until it answers. The URL is the last line of the output.
///
/// Function and triggers are what the folder's sless.toml says; without one, the folder's name and
/// its handler.py or handler.js say enough. Files that .gitignore and .slessignore name stay behind,
/// and so do names that begin with a dot, node_modules and __pycache__. Code that is there already
/// is not uploaded again. Cut off before the server has the code, everything is as it was before.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The folder.
    #[arg(default_value = ".", value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    #[command(flatten)]
    pub(crate) settings: Settings,
    /// Return when the server has the code; do not wait for its build.
    #[arg(long)]
    no_wait: bool,
    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// What both `deploy` and `watch` take.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Settings {
    /// The function's name.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The language: python3.11 or nodejs20.
    #[arg(long, value_name = "RUNTIME")]
    runtime: Option<String>,
    /// What is called, as module.function.
    #[arg(long, value_name = "ENTRYPOINT")]
    entrypoint: Option<String>,
    /// An environment variable, beside those that there are; may be repeated.
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// The memory of one copy, such as 256Mi.
    #[arg(long, value_name = "QUANTITY")]
    memory: Option<String>,
    /// The processor share of one copy, such as 500m.
    #[arg(long, value_name = "QUANTITY")]
    cpu: Option<String>,
    /// How many calls one copy takes at once.
    #[arg(long, value_name = "CALLS")]
    concurrency: Option<u32>,
    /// How many copies run; 0 is off.
    #[arg(long, value_name = "COPIES")]
    replicas: Option<u32>,
    /// The most copies that calls under way may lead to.
    #[arg(long, value_name = "COPIES")]
    max_replicas: Option<u32>,
    /// How long without a call until it goes to sleep, in seconds; 0 is never.
    #[arg(long, value_name = "SECONDS")]
    idle_seconds: Option<u32>,
    /// How long one call may take, in seconds.
    #[arg(long, value_name = "SECONDS")]
    timeout_seconds: Option<u32>,
    /// Remove triggers of the function that sless.toml does not have.
    #[arg(long)]
    prune: bool,
    /// Upload also what is there already.
    #[arg(long)]
    force: bool,
    /// How long the build may take.
    #[arg(long, default_value = "10m", value_name = "DURATION")]
    wait_timeout: WireDuration,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

impl Settings {
    /// Reads the folder under these settings.
    pub(crate) async fn read(&self, folder: PathBuf, output: &Output) -> Result<Content> {
        let overrides = Overrides {
            name: self.name.clone(),
            runtime: self.runtime.clone(),
            entrypoint: self.entrypoint.clone(),
            // Added later, to what is on the server.
            env: Env::default(),
            replicas: self.replicas,
            max_replicas: self.max_replicas,
            timeout_seconds: self.timeout_seconds,
            memory: self.memory.clone(),
            cpu: self.cpu.clone(),
            concurrency: self.concurrency,
            idle_seconds: self.idle_seconds,
        };
        let spinner = output.spinner(&format!("reading {}", folder.display()));
        let read = beside(move || {
            let folder = Folder::open(&folder)?;
            Ok(folder.read(&SourceLimits::default(), &overrides)?)
        });
        let content = read.await;
        spinner.finish_and_clear();
        content
    }
}

/// What a deploy is made of once the folder is read.
#[derive(Debug)]
pub(crate) struct Deploy<'a> {
    pub(crate) session: &'a Session,
    pub(crate) output: &'a Output,
    pub(crate) content: &'a Content,
    pub(crate) settings: &'a Settings,
    pub(crate) wait: bool,
}

/// What is to change, found out before anything does.
#[derive(Debug)]
struct Plan {
    change: Change,
    triggers: TriggerPlan,
    upload: bool,
}

pub(crate) async fn run(
    args: &Args,
    globals: &Globals,
    output: &Output,
    interrupt: &mut Interrupt,
) -> Result<()> {
    let session = Session::open(globals, output)?;
    let reading = args.settings.read(args.folder.clone(), output);
    let content = interrupt.cut(reading).await?;
    let deploy = Deploy {
        session: &session,
        output,
        content: &content,
        settings: &args.settings,
        wait: !args.no_wait,
    };
    if args.dry_run {
        return interrupt.cut(deploy.show_plan()).await;
    }
    let function = deploy.run(interrupt).await?;
    if output.is_for_people() {
        output.line(&function.url)
    } else {
        output.value(&function)
    }
}

impl Deploy<'_> {
    /// Makes the server's function what the folder is.
    pub(crate) async fn run(&self, interrupt: &mut Interrupt) -> Result<Function> {
        let Self {
            output, session, ..
        } = *self;
        let began = std::time::Instant::now();
        let since = Timestamp::now();
        output.say(&self.summary());
        let prepare = async {
            session.ensure().await?;
            self.plan().await
        };
        let plan = interrupt.cut(prepare).await?;
        let mut undo = Undo::default();
        let prepared = self.prepare(&plan, &mut undo, interrupt).await;
        if let Err(failure) = prepared {
            let digest = self.digest();
            return Err(undo.run(session, output, &digest, failure).await);
        }
        // The server has the code: what belongs to it is brought to its end.
        let goes_on = |failure: &Failure| {
            if failure.is_silent() {
                output.say(&format!(
                    "the build goes on: `sless get {}` tells",
                    self.name()
                ));
            }
        };
        let triggers = self.apply_triggers(&plan.triggers);
        interrupt
            .whole(output, triggers)
            .await
            .inspect_err(goes_on)?;
        if !self.wait {
            let function = session
                .client
                .function(&session.namespace, self.name())
                .await?;
            output.say("not waiting for the build");
            return Ok(function);
        }
        let limit = self.settings.wait_timeout.0;
        let waited = interrupt.cut(self.settled(since, limit)).await;
        self.judge(waited.inspect_err(goes_on)?, began.elapsed())
    }

    fn name(&self) -> &str {
        self.content.name.as_str()
    }

    fn digest(&self) -> String {
        self.content.tree.digest().hex()
    }

    fn summary(&self) -> String {
        let tree = &self.content.tree;
        let (files, bytes) = (tree.files().len(), shown::bytes(tree.total_bytes()));
        let some = if files == 1 { "file" } else { "files" };
        format!(
            "{}: {files} {some}, {bytes}, {}",
            self.name(),
            self.content.spec.runtime
        )
    }

    async fn plan(&self) -> Result<Plan> {
        let Session { client, namespace } = self.session;
        let there = match client.function(namespace, self.name()).await {
            Ok(function) => Some(function),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error.into()),
        };
        let has_code = |function: &Function| {
            function.code_sha256.as_deref() == Some(&self.digest())
                && function.phase != FunctionPhase::Failed
        };
        let upload = self.settings.force || !there.as_ref().is_some_and(has_code);
        let env: BTreeMap<_, _> = self.settings.env.iter().cloned().collect();
        Ok(Plan {
            triggers: self.plan_triggers().await?,
            change: Change::new(self.content, &env, there),
            upload,
        })
    }

    /// Makes or changes the function and uploads its code. What it did is in `undo`.
    async fn prepare(&self, plan: &Plan, undo: &mut Undo, interrupt: &mut Interrupt) -> Result<()> {
        let Self {
            output, session, ..
        } = *self;
        let changed = plan.change.apply(session, undo);
        if let Some(said) = interrupt.whole(output, changed).await? {
            output.say(&said);
        }
        if plan.upload {
            interrupt.cut(self.upload()).await?;
        } else {
            output.say("the code is on the server already");
        }
        Ok(())
    }

    async fn show_plan(&self) -> Result<()> {
        let output = self.output;
        let plan = self.plan().await?;
        if !output.is_for_people() {
            let files = self.content.tree.files().iter();
            let files: Vec<_> = files.map(|file| file.path.as_str()).collect();
            return output.value(&serde_json::json!({
                "name": self.name(),
                "code_sha256": self.digest(),
                "files": files,
                "upload": plan.upload,
                "changes": plan.change.lines(),
                "triggers": plan.triggers.lines(),
            }));
        }
        output.line(&self.summary())?;
        for file in self.content.tree.files() {
            let executable = if file.executable { " (executable)" } else { "" };
            output.line(&format!(
                "  {} {}{executable}",
                file.path,
                shown::bytes(file.size)
            ))?;
        }
        let code = if plan.upload {
            "upload the code"
        } else {
            "the code is there already"
        };
        let lines = plan.change.lines().into_iter().chain(plan.triggers.lines());
        for line in lines.chain([code.to_owned()]) {
            output.line(&line)?;
        }
        Ok(())
    }

    /// Whether what came of the deploy is what was wanted.
    fn judge(&self, function: Function, took: Duration) -> Result<Function> {
        let name = self.name();
        if function.code_sha256.as_deref() != Some(&self.digest()) {
            let text = format!("{name} has been deployed again meanwhile, with other code");
            return Err(Failure::new(Exit::Conflict, text).hint(format!("sless get {name}")));
        }
        match function.phase {
            FunctionPhase::Failed => {
                let reason = function.reason.as_deref().unwrap_or("failed");
                let message = function.message.as_deref().unwrap_or_default();
                let first = message.lines().next().unwrap_or_default();
                let text = format!("{name} cannot run: {reason}: {}", shown::safe(first));
                Err(Failure::new(Exit::Failed, text).hint(format!(
                    "correct it and deploy again; `sless logs {name} --build` shows the whole log"
                )))
            }
            FunctionPhase::Stopped => {
                self.output.say(&format!(
                    "{name} is off: it has no replicas, or its trigger is \
                                          disabled"
                ));
                Ok(function)
            }
            phase => {
                let text = format!("{name} is {phase:?} ({:.1} s)", took.as_secs_f64());
                self.output.say_painted(Paint::Good, &text);
                Ok(function)
            }
        }
    }
}
