//! `sless trigger`.

mod create;
mod dead_letters;

use jiff::Timestamp;
use sless_api::{Field, PatchTrigger, Trigger, TriggerType};

use super::shown::{self, NOTHING};
use crate::{
    args::Globals,
    failure::{Exit, Failure, Result},
    interrupt::Interrupt,
    output::Output,
    session::{Session, all},
};

/// What drives functions: their URL, the clock, a queue.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Create(create::Create),
    /// Show all triggers.
    #[command(
        after_help = "Examples:\n  $ sless trigger list\n  $ sless trigger list --function hello -o json"
    )]
    List {
        /// Only those of this function.
        #[arg(long, value_name = "NAME")]
        function: Option<String>,
    },
    /// Show one trigger, with its counts.
    #[command(after_help = "Examples:\n  $ sless trigger get nightly")]
    Get {
        /// The trigger.
        name: String,
    },
    /// Let a trigger act again.
    #[command(after_help = "Examples:\n  $ sless trigger enable nightly")]
    Enable {
        /// The trigger.
        name: String,
    },
    /// Stop what a trigger drives, without removing it.
    ///
    /// A trigger of type http switches its function off, one of type cron fires no more, one of type
    /// event leaves its queue alone.
    #[command(after_help = "Examples:\n  $ sless trigger disable nightly")]
    Disable {
        /// The trigger.
        name: String,
    },
    /// Show when a trigger of type cron fires next.
    #[command(after_help = "Examples:\n  $ sless trigger next nightly")]
    Next {
        /// The trigger.
        name: String,
    },
    /// Remove a trigger; prints the receipt.
    #[command(after_help = "Examples:\n  $ sless trigger delete nightly --yes")]
    Delete {
        /// The trigger.
        name: String,
        /// Do not ask.
        #[arg(long, short)]
        yes: bool,
    },
    /// Messages that were given up after their last attempt.
    #[command(subcommand)]
    DeadLetters(dead_letters::Command),
}

pub(crate) async fn run(
    command: Command,
    globals: &Globals,
    output: &Output,
    interrupt: &mut Interrupt,
) -> Result<()> {
    let session = Session::open(globals, output)?;
    match command {
        Command::Create(args) => {
            interrupt
                .whole(output, create::run(&args, &session, output))
                .await
        }
        Command::List { function } => interrupt.cut(list(function, &session, output)).await,
        Command::Get { name } => interrupt.cut(get(&name, &session, output)).await,
        Command::Enable { name } => {
            interrupt
                .whole(output, switch(&name, true, &session, output))
                .await
        }
        Command::Disable { name } => {
            interrupt
                .whole(output, switch(&name, false, &session, output))
                .await
        }
        Command::Next { name } => interrupt.cut(next(&name, &session, output)).await,
        Command::Delete { name, yes } => {
            let question = format!("remove the trigger {name} from {}?", session.namespace);
            interrupt.cut(output.confirm(yes, &question)).await?;
            interrupt
                .whole(output, delete(&name, &session, output))
                .await
        }
        Command::DeadLetters(command) => {
            dead_letters::run(command, &session, output, interrupt).await
        }
    }
}

async fn read(name: &str, Session { client, namespace }: &Session) -> Result<Trigger> {
    let trigger = client.trigger(namespace, name).await;
    trigger.map_err(missing)
}

/// The hint of every command that names a trigger.
pub(super) fn missing(error: impl Into<Failure>) -> Failure {
    error
        .into()
        .or_hint("`sless trigger list` shows the triggers that there are")
}

async fn list(function: Option<String>, session: &Session, output: &Output) -> Result<()> {
    let Session { client, namespace } = session;
    let mut triggers = all(async |query| client.triggers(namespace, &query).await).await?;
    if let Some(function) = function {
        triggers.retain(|trigger| trigger.function_ref == function);
    }
    if !output.is_for_people() {
        return output.value(&triggers);
    }
    if triggers.is_empty() {
        output.say("there are no triggers: `sless trigger create` makes one");
        return Ok(());
    }
    let now = Timestamp::now();
    let rows = triggers.iter().map(|trigger| {
        let next = trigger.next_fires.first();
        vec![
            trigger.name.clone(),
            shown::trigger_type(trigger.kind).to_owned(),
            trigger.function_ref.clone(),
            shown::trigger_state(output, trigger),
            next.map_or_else(|| NOTHING.to_owned(), |at| shown::ago(*at, now)),
            trigger.delivered.to_string(),
            trigger.failed.to_string(),
            trigger.dead_lettered.to_string(),
            shown::waits_for(trigger),
        ]
    });
    let head = [
        "NAME",
        "TYPE",
        "FUNCTION",
        "STATE",
        "NEXT",
        "DONE",
        "FAILED",
        "DEAD",
        "WAITS FOR",
    ];
    output.table(&head, rows.collect())
}

async fn get(name: &str, session: &Session, output: &Output) -> Result<()> {
    let trigger = read(name, session).await?;
    show(&trigger, output)
}

pub(super) fn show(trigger: &Trigger, output: &Output) -> Result<()> {
    if !output.is_for_people() {
        return output.value(trigger);
    }
    let is_cron = trigger.kind == TriggerType::Cron;
    output.facts(&[
        ("name", Some(trigger.name.clone())),
        ("namespace", Some(trigger.namespace.clone())),
        ("type", Some(shown::trigger_type(trigger.kind).to_owned())),
        ("function", Some(trigger.function_ref.clone())),
        ("state", Some(shown::trigger_state(output, trigger))),
        ("reason", trigger.reason.clone()),
        ("message", trigger.message.as_deref().map(shown::safe)),
        ("waits for", Some(shown::waits_for(trigger))),
        (
            "next",
            trigger.next_fires.first().map(|at| shown::time(*at)),
        ),
        ("last", trigger.last_fire_at.map(shown::time)),
        ("done", Some(trigger.delivered.to_string())),
        ("failed", Some(trigger.failed.to_string())),
        ("skipped", is_cron.then(|| trigger.skipped.to_string())),
        ("missed", is_cron.then(|| trigger.missed.to_string())),
        (
            "dead letters",
            (!is_cron).then(|| trigger.dead_lettered.to_string()),
        ),
        ("created", Some(shown::time(trigger.created_at))),
    ])
}

async fn switch(name: &str, enabled: bool, session: &Session, output: &Output) -> Result<()> {
    let patch = PatchTrigger {
        enabled: Field::Value(enabled),
        ..PatchTrigger::default()
    };
    let Session { client, namespace } = session;
    let trigger = client
        .patch_trigger(namespace, name, &patch)
        .await
        .map_err(missing)?;
    if !output.is_for_people() {
        return output.value(&trigger);
    }
    let word = if enabled { "enabled" } else { "disabled" };
    output.line(&format!("{name} is {word}"))
}

async fn next(name: &str, session: &Session, output: &Output) -> Result<()> {
    let trigger = read(name, session).await?;
    if trigger.kind != TriggerType::Cron {
        let kind = shown::trigger_type(trigger.kind);
        let text = format!("trigger {name} is of type {kind}: only the clock says when it fires");
        return Err(Failure::usage(text));
    }
    if !output.is_for_people() {
        return output.value(&trigger.next_fires);
    }
    if !trigger.enabled {
        output.say(&format!("{name} is disabled: it does not fire"));
    }
    let now = Timestamp::now();
    let zone = trigger.time_zone.as_deref().unwrap_or("UTC");
    for at in &trigger.next_fires {
        let local = at
            .in_tz(zone)
            .map_or_else(|_| at.to_string(), |local| local.to_string());
        output.line(&format!("{local}  {}", shown::ago(*at, now)))?;
    }
    Ok(())
}

async fn delete(name: &str, session: &Session, output: &Output) -> Result<()> {
    let Session { client, namespace } = session;
    let receipt = client
        .delete_trigger(namespace, name)
        .await
        .map_err(missing)?;
    if !output.is_for_people() {
        output.value(&receipt)?;
    } else {
        output.say(&format!("{name} is removed"));
        shown::receipt(output, &receipt)?;
    }
    if receipt.complete {
        return Ok(());
    }
    Err(
        Failure::new(Exit::Failed, "something is left of what was to be removed")
            .hint("the server goes on by itself, except for what needs an operator"),
    )
}
