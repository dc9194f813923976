//! `sless context`.

use jiff::Timestamp;
use serde::Serialize;

use super::shown::{self, NOTHING};
use crate::{
    contexts::{Context, Store},
    failure::Result,
    output::{Output, Paint},
    token::Claims,
};

/// The servers that were signed in to.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Show all contexts. No token is ever shown.
    #[command(after_help = "Examples:\n  $ sless context list\n  $ sless context list -o json")]
    List,
    /// Make a context the current one.
    #[command(after_help = "Examples:\n  $ sless context use staging")]
    Use {
        /// Its name.
        name: String,
    },
    /// Forget a context and its token.
    #[command(after_help = "Examples:\n  $ sless context remove staging")]
    Remove {
        /// Its name.
        name: String,
    },
}

/// A context as it is shown.
#[derive(Debug, Serialize)]
struct View {
    name: String,
    current: bool,
    endpoint: String,
    namespace: Option<String>,
    subject: Option<String>,
    expires_at: Option<Timestamp>,
}

impl View {
    fn new(name: &str, context: &Context, current: bool) -> Self {
        let claims = Claims::read(&context.token).ok();
        let own = claims.as_ref().map(Claims::namespace);
        Self {
            name: name.to_owned(),
            current,
            endpoint: context.endpoint.clone(),
            namespace: context.namespace.clone().or(own),
            expires_at: claims.as_ref().and_then(|claims| claims.expires),
            subject: claims.map(|claims| claims.subject),
        }
    }
}

pub(crate) fn run(command: Command, output: &Output) -> Result<()> {
    let store = Store::of_user()?;
    match command {
        Command::List => list(&store, output),
        Command::Use { name } => {
            store.change(|contexts| {
                contexts.named(&name)?;
                contexts.current = Some(name.clone());
                Ok(())
            })?;
            output.say(&format!("{name} is the current context"));
            Ok(())
        }
        Command::Remove { name } => {
            store.change(|contexts| {
                contexts.named(&name)?;
                contexts.all.remove(&name);
                if contexts.current.as_ref() == Some(&name) {
                    contexts.current = None;
                }
                Ok(())
            })?;
            output.say(&format!("{name} is forgotten, and its token with it"));
            Ok(())
        }
    }
}

fn list(store: &Store, output: &Output) -> Result<()> {
    let contexts = store.read()?;
    let current = contexts.current().map(|(name, _)| name);
    let views = contexts.all.iter();
    let views = views.map(|(name, context)| View::new(name, context, current == Some(name)));
    let views: Vec<_> = views.collect();
    if !output.is_for_people() {
        return output.value(&views);
    }
    if views.is_empty() {
        output.say("there is no context yet: `sless login` makes one");
        return Ok(());
    }
    let now = Timestamp::now();
    let rows = views.into_iter().map(|view| {
        let expires = view.expires_at.map_or_else(
            || NOTHING.to_owned(),
            |at| {
                let paint = if at <= now { Paint::Bad } else { Paint::Plain };
                output.paint(paint, &shown::ago(at, now)).into_owned()
            },
        );
        let mark = if view.current { "*" } else { "" };
        let text = |value: Option<String>| value.unwrap_or_else(|| NOTHING.to_owned());
        vec![
            mark.to_owned(),
            view.name,
            view.endpoint,
            text(view.namespace),
            shown::safe(&text(view.subject)),
            expires,
        ]
    });
    let head = ["", "NAME", "SERVER", "NAMESPACE", "SUBJECT", "EXPIRES"];
    output.table(&head, rows.collect())
}
