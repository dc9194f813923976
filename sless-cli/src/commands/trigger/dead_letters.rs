//! `sless trigger dead-letters`.

use jiff::Timestamp;
use sless_api::{DeadLetter, Redrive};

use super::{super::shown, missing};
use crate::{
    failure::{Exit, Failure, Result},
    interrupt::Interrupt,
    output::Output,
    session::{Session, all},
};

/// Messages that were given up after their last attempt.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Show all of them, the bodies cut short.
    #[command(
        after_help = "Examples:\n  $ sless trigger dead-letters list uploads\n  $ sless trigger dead-letters list uploads -o json"
    )]
    List {
        /// The trigger.
        trigger: String,
    },
    /// Show one of them whole.
    #[command(after_help = "Examples:\n  $ sless trigger dead-letters show uploads \"$ID\"")]
    Show {
        /// The trigger.
        trigger: String,
        /// The id, as `list` shows it.
        id: String,
    },
    /// Put them back into their queue.
    #[command(
        after_help = "Examples:\n  $ sless trigger dead-letters redrive uploads \"$ID\"\n  $ sless trigger dead-letters redrive uploads --all"
    )]
    Redrive {
        /// The trigger.
        trigger: String,
        /// Which ones, by id.
        #[arg(
            required_unless_present = "all",
            conflicts_with = "all",
            value_name = "ID"
        )]
        ids: Vec<String>,
        /// All of them.
        #[arg(long)]
        all: bool,
    },
    /// Remove all of them for good.
    #[command(after_help = "Examples:\n  $ sless trigger dead-letters purge uploads --yes")]
    Purge {
        /// The trigger.
        trigger: String,
        /// Do not ask.
        #[arg(long, short)]
        yes: bool,
    },
}

pub(super) async fn run(
    command: Command,
    session: &Session,
    output: &Output,
    interrupt: &mut Interrupt,
) -> Result<()> {
    match command {
        Command::List { trigger } => interrupt.cut(list(&trigger, session, output)).await,
        Command::Show { trigger, id } => interrupt.cut(show(&trigger, &id, session, output)).await,
        Command::Redrive { trigger, ids, all } => {
            let which = Redrive {
                ids: (!all).then_some(ids),
            };
            interrupt
                .whole(output, redrive(&trigger, &which, session, output))
                .await
        }
        Command::Purge { trigger, yes } => {
            interrupt
                .cut(output.confirm(
                    yes,
                    &format!("remove all dead letters of {trigger} for good?"),
                ))
                .await?;
            interrupt
                .whole(output, purge(&trigger, session, output))
                .await
        }
    }
}

async fn read(trigger: &str, session: &Session) -> Result<Vec<DeadLetter>> {
    let Session { client, namespace } = session;
    let letters = all(async |query| client.dead_letters(namespace, trigger, &query).await).await;
    letters.map_err(missing)
}

async fn list(trigger: &str, session: &Session, output: &Output) -> Result<()> {
    /// How much of a body is shown, in characters.
    const SHOWN: usize = 40;
    let letters = read(trigger, session).await?;
    if !output.is_for_people() {
        return output.value(&letters);
    }
    if letters.is_empty() {
        output.say(&format!("{trigger} has no dead letters"));
        return Ok(());
    }
    let now = Timestamp::now();
    let rows = letters.iter().map(|letter| {
        let body = letter
            .body
            .as_deref()
            .map_or("(bytes)".to_owned(), shown::safe);
        let body = body.replace('\n', " ");
        let cut = body.chars().nth(SHOWN).is_some();
        let mut body: String = body.chars().take(SHOWN).collect();
        if cut {
            body.push('…');
        }
        vec![
            letter.id.clone(),
            shown::ago(letter.dead_at, now),
            letter.attempts.to_string(),
            shown::safe(&letter.reason),
            body,
        ]
    });
    output.table(
        &["ID", "DEAD", "ATTEMPTS", "REASON", "BODY"],
        rows.collect(),
    )
}

async fn show(trigger: &str, id: &str, session: &Session, output: &Output) -> Result<()> {
    let letters = read(trigger, session).await?;
    let letter = letters
        .into_iter()
        .find(|letter| letter.id == id)
        .ok_or_else(|| {
            Failure::new(Exit::NotFound, format!("{trigger} has no dead letter {id}")).hint(
                format!("`sless trigger dead-letters list {trigger}` shows those that there are"),
            )
        })?;
    if !output.is_for_people() {
        return output.value(&letter);
    }
    let mut facts = vec![
        ("id", Some(letter.id)),
        ("queue", Some(letter.queue)),
        ("reason", Some(shown::safe(&letter.reason))),
        ("attempts", Some(letter.attempts.to_string())),
        ("dead", Some(shown::time(letter.dead_at))),
        (
            "message id",
            Some(letter.message_id).filter(|id| !id.is_empty()),
        ),
        ("content type", letter.content_type),
    ];
    for (name, value) in &letter.headers {
        facts.push(("header", Some(shown::safe(&format!("{name}: {value}")))));
    }
    facts.push(("body in base64", letter.body_base64));
    output.facts(&facts)?;
    if let Some(body) = letter.body {
        output.line(&format!("\n{}", shown::safe(&body)))?;
    }
    Ok(())
}

async fn redrive(trigger: &str, which: &Redrive, session: &Session, output: &Output) -> Result<()> {
    let Session { client, namespace } = session;
    let redriven = client
        .redrive(namespace, trigger, which)
        .await
        .map_err(missing)?;
    if !output.is_for_people() {
        return output.value(&redriven);
    }
    output.line(&format!("{} went back to the queue", redriven.redriven))
}

async fn purge(trigger: &str, session: &Session, output: &Output) -> Result<()> {
    let Session { client, namespace } = session;
    let purged = client
        .purge_dead_letters(namespace, trigger)
        .await
        .map_err(missing)?;
    if !output.is_for_people() {
        return output.value(&purged);
    }
    output.line(&format!("{} removed", purged.purged))
}
