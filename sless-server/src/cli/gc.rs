//! `gc`: what is kept for nobody.

use std::error::Error;

use sless_core::{Held, Orphans};

use super::Gc;
use crate::{backends, settings::Settings};

/// Looks for what no object of the catalog explains, and answers the lines to print.
///
/// # Errors
/// That it was asked to remove, which it does not do; what the backends say.
pub async fn gc(settings: &Settings, arguments: &Gc) -> Result<Vec<String>, Box<dyn Error>> {
    if !arguments.dry_run {
        let message =
            "gc removes nothing yet: expected --dry-run, which lists what is kept for nobody";
        return Err(message.into());
    }
    let mut settings = settings.clone();
    // This process looks: it reconciles nothing, puts nothing to sleep, and holds no post.
    settings.roles.clear();
    let opened = backends::open(&settings).await?;
    let found = opened.backends.orphans(&opened.namespace_prefix).await;
    opened.shutdown(settings.drain_timeout).await;
    Ok(lines(&found?))
}

fn lines(found: &Orphans) -> Vec<String> {
    let mut lines: Vec<String> = found.items.iter().map(line).collect();
    lines.extend(
        found
            .unlisted
            .iter()
            .map(|what| format!("# not looked at: {what}")),
    );
    let (count, more) = (found.items.len(), if found.more { " and more" } else { "" });
    lines.push(format!("# kept for nobody: {count}{more}"));
    lines
}

fn line(held: &Held) -> String {
    let Held {
        kind,
        name,
        backend,
        owner,
        uid,
        since,
        ..
    } = held;
    let mut line = format!("{kind} {name} ({backend})");
    if let Some(owner) = owner {
        line.push_str(&format!(", of {owner}"));
    }
    if let Some(uid) = uid {
        line.push_str(&format!(", uid {uid}"));
    }
    if let Some(since) = since {
        line.push_str(&format!(", since {since:.0}"));
    }
    line
}
