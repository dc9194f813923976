//! What is shown: data on standard output, talk on standard error.

use std::{
    borrow::Cow,
    io::{self, BufRead as _, IsTerminal, Write},
};

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use tabled::{
    builder::Builder,
    settings::{Padding, Style as Borders, object::Columns},
};

use crate::failure::{Exit, Failure, Result};

/// The form of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables and sentences, for people.
    #[default]
    Table,
    /// JSON, for scripts.
    Json,
    /// YAML, for scripts and people.
    Yaml,
}

/// When colours are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colours {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How something is painted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    Good,
    Bad,
    Busy,
    Faint,
    Strong,
    Plain,
}

impl Paint {
    const fn style(self) -> Style {
        match self {
            Self::Good => AnsiColor::Green.on_default(),
            Self::Bad => AnsiColor::Red.on_default(),
            Self::Busy => AnsiColor::Yellow.on_default(),
            Self::Faint => Style::new().dimmed(),
            Self::Strong => Style::new().bold(),
            Self::Plain => Style::new(),
        }
    }
}

/// Both streams, and what each can show.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub(crate) format: Format,
    pub(crate) quiet: bool,
    colours_out: bool,
    colours_err: bool,
    bars: bool,
}

impl Output {
    pub(crate) fn new(format: Format, colours: Colours, quiet: bool) -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let plain = is_set("NO_COLOR") || dumb;
        let wanted = |terminal: bool| match colours {
            Colours::Auto => terminal && !plain,
            Colours::Always => true,
            Colours::Never => false,
        };
        let err = io::stderr().is_terminal();
        Self {
            format,
            quiet,
            colours_out: wanted(io::stdout().is_terminal()),
            colours_err: wanted(err),
            bars: err && !dumb && !quiet,
        }
    }

    pub(crate) fn is_for_people(&self) -> bool {
        self.format == Format::Table
    }

    /// Whether somebody sits in front of it who can be asked.
    pub(crate) fn can_ask(&self) -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Text for standard output, painted where that shows.
    pub(crate) fn paint<'a>(&self, paint: Paint, text: &'a str) -> Cow<'a, str> {
        painted(self.colours_out, paint, text)
    }

    /// A sentence of talk.
    pub(crate) fn say(&self, text: &str) {
        self.say_painted(Paint::Plain, text);
    }

    pub(crate) fn say_painted(&self, paint: Paint, text: &str) {
        if !self.quiet {
            complain(&painted(self.colours_err, paint, text));
        }
    }

    /// What deserves a look, also for those who want no talk.
    pub(crate) fn warn(&self, text: &str) {
        complain(&format!(
            "{} {text}",
            painted(self.colours_err, Paint::Busy, "warning:")
        ));
    }

    /// Why the command ends, and what to do next.
    pub(crate) fn fail(&self, failure: &Failure) {
        if failure.is_silent() {
            return;
        }
        complain(&format!(
            "{} {failure}",
            painted(self.colours_err, Paint::Bad, "error:")
        ));
        if let Some(hint) = failure.next() {
            complain(&format!(
                "{} {hint}",
                painted(self.colours_err, Paint::Faint, "next:")
            ));
        }
    }

    /// A line of data.
    pub(crate) fn line(&self, text: &str) -> Result<()> {
        let mut out = io::stdout().lock();
        Ok(writeln!(out, "{text}").and_then(|()| out.flush())?)
    }

    /// Bytes of data.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<()> {
        let mut out = io::stdout().lock();
        Ok(out.write_all(bytes).and_then(|()| out.flush())?)
    }

    /// A value in the form that scripts asked for.
    pub(crate) fn value<T: Serialize>(&self, value: &T) -> Result<()> {
        let unwritable = |error: &dyn std::fmt::Display| {
            Failure::new(
                Exit::Failed,
                format!("the answer cannot be written: {error}"),
            )
        };
        let text = match self.format {
            Format::Yaml => serde_saphyr::to_string(value).map_err(|error| unwritable(&error))?,
            _ => serde_json::to_string_pretty(value).map_err(|error| unwritable(&error))?,
        };
        self.line(text.trim_end())
    }

    /// Rows under a head, in columns that are as wide as what is in them.
    pub(crate) fn table(&self, head: &[&str], rows: Vec<Vec<String>>) -> Result<()> {
        let mut builder = Builder::with_capacity(rows.len() + 1, head.len());
        builder.push_record(head.iter().map(|name| self.paint(Paint::Strong, name)));
        for row in rows {
            builder.push_record(row);
        }
        self.line(&laid_out(builder))
    }

    /// Names and values, one to a line; values of nothing are left out.
    pub(crate) fn facts(&self, facts: &[(&str, Option<String>)]) -> Result<()> {
        let mut builder = Builder::new();
        for (name, value) in facts {
            if let Some(value) = value {
                let name = self.paint(Paint::Strong, name).into_owned();
                builder.push_record([name, value.clone()]);
            }
        }
        self.line(&laid_out(builder))
    }

    /// A bar for so many bytes. It is not seen where standard error is no terminal.
    pub(crate) fn bar(&self, bytes: u64, what: &str) -> ProgressBar {
        let bar = ProgressBar::with_draw_target(Some(bytes), self.target());
        let template =
            "{msg} [{bar:30}] {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.with_message(what.to_owned())
    }

    /// Something that turns while something lasts.
    pub(crate) fn spinner(&self, what: &str) -> ProgressBar {
        let bar = ProgressBar::with_draw_target(None, self.target());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(std::time::Duration::from_millis(100));
        bar.with_message(what.to_owned())
    }

    fn target(&self) -> ProgressDrawTarget {
        if self.bars {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        }
    }

    /// Asks before something is lost; where nobody can be asked, `--yes` has to say so.
    pub(crate) async fn confirm(&self, yes: bool, question: &str) -> Result<()> {
        if yes {
            return Ok(());
        }
        if !self.can_ask() {
            return Err(Failure::usage("nobody can be asked here whether to go on")
                .hint("say --yes where it is meant"));
        }
        let question = question.to_owned();
        // Beside everything else, so that Ctrl-C is seen meanwhile.
        if beside(move || Ok(ask(&question))).await? {
            return Ok(());
        }
        Err(Failure::new(Exit::Failed, "nothing was changed"))
    }
}

/// Asks somebody at the terminal. Anything but yes is no.
fn ask(question: &str) -> bool {
    let mut err = io::stderr().lock();
    let asked = write!(err, "{question} [y/N] ").and_then(|()| err.flush());
    drop(err);
    let mut answer = String::new();
    let read = asked.and_then(|()| io::stdin().lock().read_line(&mut answer));
    read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

/// Does what blocks beside everything else.
pub(crate) async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Failure::new(Exit::Failed, error.to_string())))
}

fn painted(colours: bool, paint: Paint, text: &str) -> Cow<'_, str> {
    if !colours || paint == Paint::Plain {
        return Cow::Borrowed(text);
    }
    let style = paint.style();
    Cow::Owned(format!("{style}{text}{style:#}"))
}

/// Writes a line to standard error. Where that is gone, there is nobody to tell.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

fn laid_out(builder: Builder) -> String {
    let mut table = builder.build();
    table.with(Borders::empty()).with(Padding::new(0, 2, 0, 0));
    table.modify(Columns::last(), Padding::zero());
    let text = table.to_string();
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_seen_of_them() {
        let mut builder = Builder::new();
        builder.push_record(["NAME", "PHASE", "URL"]);
        builder.push_record(["a", &painted(true, Paint::Good, "Ready"), "x"]);
        builder.push_record(["long-name", "Failed", "longer"]);
        let text = laid_out(builder);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "NAME       PHASE   URL");
        assert_eq!(lines[1], "a          \u{1b}[32mReady\u{1b}[0m   x");
        assert_eq!(lines[2], "long-name  Failed  longer");
    }

    #[test]
    fn without_colours_nothing_is_added() {
        assert_eq!(painted(false, Paint::Bad, "no"), "no");
        assert_eq!(painted(true, Paint::Plain, "no"), "no");
    }
}
