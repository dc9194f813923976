//! What `dev` shows: sentences of its own, and the functions' lines behind their names.

use std::{
    io::{self, IsTerminal, Write},
    sync::Mutex,
};

use sless_core::{LogLine, LogSource, Name};

/// The colours of the names, in the order in which they are given out: those that are read well on
/// a light and on a dark ground.
const COLOURS: [&str; 6] = ["36", "33", "35", "32", "34", "31"];

/// Writes lines, each whole.
pub(super) struct Printer {
    out: Mutex<Box<dyn Write + Send>>,
    colours: bool,
    width: usize,
}

impl std::fmt::Debug for Printer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Printer")
            .field("colours", &self.colours)
            .finish_non_exhaustive()
    }
}

/// A function's name in front of its lines.
#[derive(Clone, Debug)]
pub(super) struct Label {
    name: String,
    colour: &'static str,
}

impl Label {
    /// The label of the function at this place of the command line.
    pub(super) fn new(name: &Name, place: usize) -> Self {
        Self {
            name: name.to_string(),
            colour: COLOURS[place % COLOURS.len()],
        }
    }
}

impl Printer {
    /// On standard output; in colours where that is a terminal that wants them.
    pub(super) fn on_stdout(width: usize) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        let colours = io::stdout().is_terminal() && !plain;
        Self::new(Box::new(io::stdout()), colours, width)
    }

    fn new(out: Box<dyn Write + Send>, colours: bool, width: usize) -> Self {
        Self {
            out: Mutex::new(out),
            colours,
            width,
        }
    }

    /// A sentence of `dev` itself.
    pub(super) fn say(&self, text: &str) {
        let text = text.trim_end();
        self.write(&if self.colours {
            format!("\x1b[1m{text}\x1b[0m\n")
        } else {
            format!("{text}\n")
        });
    }

    /// Text as it is, to be copied.
    pub(super) fn plain(&self, text: &str) {
        self.write(&format!("{}\n", text.trim_end()));
    }

    /// What went wrong with a function: every line behind its name.
    pub(super) fn trouble(&self, label: &Label, text: &str) {
        let mut lines = String::new();
        for line in text.trim_end().lines() {
            lines.push_str(&self.labelled(label, line, Some("31")));
        }
        self.write(&lines);
    }

    /// A line of a function's log.
    pub(super) fn log(&self, label: &Label, line: &LogLine) {
        let mut text = line.text.replace('\r', "");
        if line.truncated {
            text.push_str(" …[cut]");
        }
        let tint = match line.source {
            LogSource::Build | LogSource::System => Some("2"),
            LogSource::Stdout | LogSource::Stderr => None,
        };
        self.write(&self.labelled(label, &text, tint));
    }

    fn labelled(&self, label: &Label, text: &str, tint: Option<&str>) -> String {
        let (name, width) = (&label.name, self.width);
        if !self.colours {
            return format!("{name:width$} | {text}\n");
        }
        let colour = label.colour;
        let (begin, end) = tint.map_or((String::new(), ""), |tint| {
            (format!("\x1b[{tint}m"), "\x1b[0m")
        });
        format!("\x1b[{colour}m{name:width$} |\x1b[0m {begin}{text}{end}\n")
    }

    fn write(&self, text: &str) {
        let mut out = self
            .out
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        // A reader that left wants to hear no more.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn printed(colours: bool, print: impl FnOnce(&Printer, &Label)) -> String {
        let sink = Sink::default();
        let printer = Printer::new(Box::new(sink.clone()), colours, 6);
        print(&printer, &Label::new(&Name::new("abc").unwrap(), 7));
        String::from_utf8(sink.0.lock().unwrap().clone()).unwrap()
    }

    fn line(text: &str, source: LogSource, truncated: bool) -> LogLine {
        let at = jiff::Timestamp::UNIX_EPOCH;
        LogLine {
            at,
            source,
            request_id: None,
            text: text.to_owned(),
            truncated,
        }
    }

    #[test]
    fn a_line_stands_behind_its_function_and_plain_where_nobody_sees_colours() {
        let print = |printer: &Printer, label: &Label| {
            printer.log(label, &line("hi\r", LogSource::Stdout, true));
            printer.trouble(label, "one\ntwo\n");
            printer.say("so");
        };
        let plain = printed(false, print);
        assert_eq!(
            plain,
            "abc    | hi …[cut]\nabc    | one\nabc    | two\nso\n"
        );
        let coloured = printed(true, print);
        assert!(
            coloured.starts_with("\x1b[33mabc    |\x1b[0m hi"),
            "{coloured:?}"
        );
    }
}
