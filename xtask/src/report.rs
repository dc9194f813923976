//! Which steps run, how long each took, and what came of it.

use std::{
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

use crate::{
    process::{self, Shell},
    services::{self, Running},
    steps::{Outcome, STEPS, Step},
    workspace::Workspace,
};

/// How many lines of a failed step's output are shown again at the end of a run that went on.
const SHOWN_LINES: usize = 40;

/// Prints the steps with what each is about.
pub(crate) fn list() {
    let width = STEPS.iter().map(|step| step.name.len()).max().unwrap_or(0);
    for step in STEPS {
        println!("{:width$}  {}", step.name, step.about);
    }
}

/// The steps of one run.
#[derive(Debug)]
pub(crate) struct Plan {
    steps: Vec<&'static Step>,
    keep_going: bool,
}

struct Line {
    name: &'static str,
    word: &'static str,
    took: Duration,
    note: String,
}

impl Plan {
    /// Picks steps by name; an unknown name is an error that lists the known ones.
    pub(crate) fn new(only: &[String], skip: &[String], keep_going: bool) -> Result<Self> {
        for name in only.iter().chain(skip) {
            if !STEPS.iter().any(|step| step.name == name) {
                let known: Vec<_> = STEPS.iter().map(|step| step.name).collect();
                bail!(
                    "there is no step named {name:?}; there are {}",
                    known.join(", ")
                );
            }
        }
        let chosen = |step: &&Step| {
            let named = |names: &[String]| names.iter().any(|name| name == step.name);
            if only.is_empty() {
                !named(skip)
            } else {
                named(only)
            }
        };
        Ok(Self {
            steps: STEPS.iter().filter(chosen).collect(),
            keep_going,
        })
    }

    /// Runs the steps in order and prints the summary.
    pub(crate) fn run(&self, workspace: &Workspace) -> ExitCode {
        let began = Instant::now();
        let mut lines = vec![];
        let mut failed = vec![];
        let mut services = None;
        for step in &self.steps {
            let stopped = (!failed.is_empty() && !self.keep_going) || process::interrupted();
            if stopped {
                lines.push(Line::not_run(step));
                continue;
            }
            println!("\n==> {}: {}", step.name, step.about);
            let started = Instant::now();
            let log = workspace.log(step.name);
            let result = services_for(step, workspace, &mut services).and_then(|variables| {
                let mut shell = Shell::new(log.clone(), step.limit)?.with_variables(variables);
                (step.run)(workspace, &mut shell)
            });
            if let Err(error) = &result {
                println!("==> {} failed: {error:#}", step.name);
                failed.push((step.name, log));
            }
            lines.push(Line::new(step, started.elapsed(), result));
        }
        drop(services);
        if self.keep_going {
            for (name, log) in &failed {
                show_end(name, log);
            }
        }
        print!("\n{}", table(&lines, began.elapsed()));
        if failed.is_empty() && !process::interrupted() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

/// What the services say that this step needs; they are started with the first step that asks.
fn services_for<'a>(
    step: &Step,
    workspace: &Workspace,
    services: &'a mut Option<Running>,
) -> Result<&'a [(String, String)]> {
    if !step.services {
        return Ok(&[]);
    }
    if services.is_none() {
        *services = Some(services::start_all(workspace)?);
    }
    Ok(services.as_ref().map_or(&[], Running::variables))
}

impl Line {
    fn new(step: &Step, took: Duration, result: Result<Outcome>) -> Self {
        let (word, note) = match result {
            Ok(Outcome::Passed) => ("ok", String::new()),
            Ok(Outcome::Noted(note)) => ("ok", note),
            Err(error) => ("FAILED", format!("{error:#}")),
        };
        // One line each; the whole message stands above.
        let note = note.lines().next().unwrap_or_default().to_owned();
        Self {
            name: step.name,
            word,
            took,
            note,
        }
    }

    fn not_run(step: &Step) -> Self {
        Self {
            name: step.name,
            word: "not run",
            took: Duration::ZERO,
            note: String::new(),
        }
    }
}

fn show_end(name: &str, log: &Path) {
    println!(
        "\n==> the end of the output of {name} (whole: {}):",
        log.display()
    );
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    for line in &lines[lines.len().saturating_sub(SHOWN_LINES)..] {
        println!("{line}");
    }
}

fn table(lines: &[Line], whole: Duration) -> String {
    let width = lines
        .iter()
        .map(|line| line.name.len())
        .max()
        .unwrap_or(0)
        .max("step".len());
    let mut text = format!("{:width$}  {:7}  {:>8}\n", "step", "result", "seconds");
    for line in lines {
        let Line {
            name,
            word,
            took,
            note,
        } = line;
        let row = format!(
            "{name:width$}  {word:7}  {:>8.1}  {note}",
            took.as_secs_f64()
        );
        text.push_str(row.trim_end());
        text.push('\n');
    }
    let bad = lines.iter().filter(|line| line.word != "ok").count();
    let end = match bad {
        0 => "all steps passed".to_owned(),
        bad => format!("{bad} of {} steps failed or were not run", lines.len()),
    };
    text.push_str(&format!(
        "{:width$}  {:7}  {:>8.1}  {end}\n",
        "all",
        "",
        whole.as_secs_f64()
    ));
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Line, Plan, table};
    use crate::steps::STEPS;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn names(plan: &Plan) -> Vec<&'static str> {
        plan.steps.iter().map(|step| step.name).collect()
    }

    #[test]
    fn a_plan_holds_every_step_unless_told_otherwise() {
        let all = Plan::new(&[], &[], false).expect("a plan");
        assert_eq!(
            names(&all),
            STEPS.iter().map(|step| step.name).collect::<Vec<_>>()
        );
        let only = Plan::new(&words(&["clippy", "fmt"]), &[], false).expect("a plan");
        assert_eq!(names(&only), ["fmt", "clippy"], "in the order of the list");
        let skip = Plan::new(&[], &words(&["tests"]), false).expect("a plan");
        assert_eq!(skip.steps.len(), STEPS.len() - 1);
    }

    #[test]
    fn an_unknown_step_is_refused_with_the_known_ones() {
        let error = Plan::new(&words(&["clipy"]), &[], false)
            .expect_err("an error")
            .to_string();
        assert!(
            error.contains("\"clipy\"") && error.contains("clippy"),
            "{error}"
        );
    }

    #[test]
    fn names_of_steps_are_unique() {
        let mut names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STEPS.len());
    }

    #[test]
    fn the_table_says_what_failed() {
        let line = |name, word, note: &str| Line {
            name,
            word,
            took: Duration::from_millis(1250),
            note: note.to_owned(),
        };
        let lines = [line("fmt", "ok", ""), line("clippy", "FAILED", "it failed")];
        assert_eq!(
            table(&lines, Duration::from_secs(3)),
            "step    result    seconds\n\
             fmt     ok            1.2\n\
             clippy  FAILED        1.2  it failed\n\
             all                   3.0  1 of 2 steps failed or were not run\n"
        );
    }
}
