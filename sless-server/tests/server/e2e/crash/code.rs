//! The code of the functions. Each version says its number in two files, so that a mix is seen.

use super::super::machine::zip;

/// Answers its version; or takes a job, an event, a run by the clock, and notes it in its own folder; or
/// fills its log.
const HANDLER: &str = r#"import os, time
import part
VERSION = {number}
NOTES = os.path.join(os.environ['HOME'], 'notes')

def note(line):
    # One write of a short line is whole, whatever happens to the process.
    notes = os.open(NOTES, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(notes, (line + '\n').encode())
    os.close(notes)

def handle(event):
    if 'job' in event:
        note(f"begun {event['job']}")
        time.sleep(0.03)
        note(f"ended {event['job']}")
        return {'job': event['job']}
    if 'message' in event:
        note(f"message {event['message']}")
        return 'taken'
    if event.get('type') == 'cron':
        note(f"cron {event['scheduled_at']} {event['cause']}")
        return 'ran'
    if 'flood' in event:
        for _ in range(event['flood']):
            print('x' * 12000)
    return [VERSION, part.VERSION]
"#;

/// A version of the function `steady`. Some are so large that an upload takes its time, and more than
/// one part of the storage.
pub(super) fn steady(number: u32) -> Vec<u8> {
    let handler = HANDLER.replace("{number}", &number.to_string());
    let part = format!("VERSION = {number}\n");
    let mut random = fastrand::Rng::with_seed(number.into());
    let ballast: String = match number % 4 {
        1 => (0..2_000_000).map(|_| random.alphanumeric()).collect(),
        _ => String::new(),
    };
    zip(&[
        ("handler.py", &handler),
        ("part.py", &part),
        ("ballast.txt", &ballast),
    ])
}

/// A version of the function `installed`, whose second file is a package that is installed.
pub(super) fn installed(number: u32) -> Vec<u8> {
    let handler = format!(
        "const part = require('part');\nexports.handle = () => [{number}, part.VERSION];\n"
    );
    let part = format!("exports.VERSION = {number};\n");
    zip(&[
        ("handler.js", &handler),
        (
            "package.json",
            r#"{"dependencies": {"part": "file:./part"}}"#,
        ),
        (
            "part/package.json",
            r#"{"name": "part", "version": "1.0.0", "main": "index.js"}"#,
        ),
        ("part/index.js", &part),
    ])
}

/// A function that comes and goes.
pub(super) fn passing() -> Vec<u8> {
    zip(&[("handler.py", "def handle(event):\n    return 'here'\n")])
}
