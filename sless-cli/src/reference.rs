//! The reference `docs/cli.md`, made from the definitions of the commands.

use std::fmt::Write as _;

use clap::{Arg, Command};

use crate::Exit;

/// The whole text, as it stands in `docs/cli.md`.
pub fn reference() -> String {
    let mut root = crate::command();
    root.build();
    let mut text = String::from(HEAD);
    contents(&mut text, &root, 0);
    text.push_str(COMMON);
    options(&mut text, &root, true);
    text.push_str(ENVIRONMENT);
    text.push_str("\n## Exit statuses\n\n| status | means |\n|---|---|\n| 0 | it is done |\n");
    for (exit, means) in Exit::ALL {
        let _ = writeln!(text, "| {} | {means} |", *exit as u8);
    }
    text.push_str(FILES);
    commands(&mut text, &root);
    text
}

const HEAD: &str = "\
# `sless`: the command line

This is made from the command's own help: `UPDATE_REFERENCE=1 cargo test -p sless-cli reference`.

Standard output carries data and nothing else; talk, bars and errors go to standard error. Colours
and bars appear on a terminal only. An error says what to do next. `-o json` and `-o yaml` print what
a command knows as one value, whose fields are those of the REST API.

";

const COMMON: &str = "\n## Options of every command\n\n";

const ENVIRONMENT: &str = "
A flag wins over its environment variable, and both win over the context. A token of a context is
only ever sent to the server of that context. `NO_COLOR`, where it is set, takes the colours away.
";

const FILES: &str = "
## Files

`sless/contexts.toml` below `XDG_CONFIG_HOME` (`~/.config` where that is not set) holds the servers
that were signed in to, each with its address, its token and, where it is not the token's own, its
namespace. It has mode 0600, is replaced as a whole, and `sless login` and `sless context` are what
changes it.

`sless.toml`, `.slessignore` and `.gitignore` in a function's folder are described in
[manifest.md](manifest.md).

## Interrupting

Ctrl-C, or SIGTERM, leaves nothing half-made. A deploy that is cut off before the server has the code
takes back what it did to the function; once the server has it, the build goes on without the
command. Files of a folder and contexts are replaced as a whole. What is a single request is waited
for; a second Ctrl-C does not wait.
";

fn contents(text: &mut String, command: &Command, depth: usize) {
    for sub in command.get_subcommands() {
        let path = path(sub);
        let anchor = path.replace(' ', "-");
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        let name = if sub.has_subcommands() {
            format!("`{path}`")
        } else {
            format!("[`{path}`](#{anchor})")
        };
        let _ = writeln!(text, "{:1$}- {name}: {about}", "", depth * 2);
        contents(text, sub, depth + 1);
    }
}

fn commands(text: &mut String, command: &Command) {
    for sub in command.get_subcommands() {
        if sub.has_subcommands() {
            commands(text, sub);
            continue;
        }
        let path = path(sub);
        let _ = writeln!(text, "\n## {path}\n");
        let about = sub.get_long_about().or(sub.get_about());
        let _ = writeln!(
            text,
            "{}\n",
            about.map(ToString::to_string).unwrap_or_default()
        );
        let usage = sub.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ");
        let _ = writeln!(text, "```text\n{usage}\n```\n");
        options(text, sub, false);
        if let Some(after) = sub.get_after_help() {
            after_help(text, &after.to_string());
        }
    }
}

fn after_help(text: &mut String, after: &str) {
    let mut lines = after
        .lines()
        .skip_while(|line| *line != "Examples:")
        .skip(1)
        .peekable();
    text.push_str("\n```sh\n");
    while let Some(line) = lines.next_if(|line| line.starts_with("  $ ")) {
        let _ = writeln!(text, "{}", &line[4..]);
    }
    text.push_str("```\n");
    let rest: Vec<_> = lines.collect();
    let rest = rest.join("\n");
    if !rest.trim().is_empty() {
        let _ = writeln!(text, "\n{}", rest.trim());
    }
}

/// A table of the options: those of every command, or those of this one.
fn options(text: &mut String, command: &Command, global: bool) {
    let is_shown = |arg: &&Arg| arg.is_global_set() == global && arg.get_id() != "help";
    let arguments: Vec<_> = command.get_arguments().filter(is_shown).collect();
    let arguments: Vec<_> = arguments
        .into_iter()
        .filter(|arg| arg.get_id() != "version")
        .collect();
    if arguments.is_empty() {
        return;
    }
    text.push_str("| option | meaning |\n|---|---|\n");
    for arg in arguments {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(
            text,
            "| {} | {}{} |",
            form(arg),
            cell(&help),
            cell(&additions(arg))
        );
    }
}

fn form(arg: &Arg) -> String {
    let value = || {
        let names = arg.get_value_names().unwrap_or_default();
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        names.join(" ")
    };
    let takes_value = arg.get_action().takes_values();
    let mut forms = Vec::new();
    if let Some(long) = arg.get_long() {
        let value = if takes_value {
            format!(" {}", value())
        } else {
            String::new()
        };
        forms.push(format!("`--{long}{value}`"));
    }
    if let Some(short) = arg.get_short() {
        forms.push(format!("`-{short}`"));
    }
    if arg.is_positional() {
        forms.push(format!("`{}`", value()));
    }
    forms.join(", ")
}

fn additions(arg: &Arg) -> String {
    let mut text = String::new();
    let values: Vec<_> = arg.get_possible_values();
    if arg.get_action().takes_values() && !values.is_empty() {
        let names: Vec<_> = values
            .iter()
            .map(|value| format!("`{}`", value.get_name()))
            .collect();
        let _ = write!(text, " One of {}.", names.join(", "));
    }
    let defaults: Vec<_> = arg
        .get_default_values()
        .iter()
        .map(|text| text.to_string_lossy())
        .collect();
    if arg.get_action().takes_values() && !defaults.is_empty() {
        let _ = write!(text, " `{}` where it is left out.", defaults.join(" "));
    }
    if let Some(variable) = arg.get_env() {
        let _ = write!(
            text,
            " In the environment: `{}`.",
            variable.to_string_lossy()
        );
    }
    text
}

/// Text as it may stand in a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// The words of a command, from `sless` on.
fn path(command: &Command) -> String {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    name.to_owned()
}
