//! `sless-runtime once`.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use sless_runtime::{CallContext, JobOutcome, run_once};

use super::logs::LineWriter;
use super::settings::Settings;
use super::termination;

/// Events in files and on standard input are read up to this size.
const MAX_EVENT_BYTES: u64 = 16 * 1024 * 1024;

/// Runs the handler once; gives the exit code.
pub(crate) async fn once(settings: &Settings) -> Result<u8, Box<dyn std::error::Error>> {
    let config = settings.host()?;
    let event = event(settings)?;
    let context = CallContext::new(settings.text("REQUEST_ID").unwrap_or("job"));
    let (sink, writing) = LineWriter::start(io::stderr(), settings.logs_as_json()?)?;
    let sink = Arc::new(sink);
    let outcome = run_once(config, event.into(), context, sink.clone()).await;
    sink.close();
    // A panic there has been reported by its own thread.
    let _ = writing.join();
    let shown = shown(&outcome);
    let mut text = serde_json::to_vec(&shown)?;
    text.push(b'\n');
    match settings.text("RESULT_FILE") {
        Some(path) => std::fs::write(path, text)?,
        None => io::stdout().lock().write_all(&text)?,
    }
    termination::write(settings, &shown)?;
    Ok(outcome.exit_code())
}

fn event(settings: &Settings) -> io::Result<Vec<u8>> {
    let mut event = Vec::new();
    match settings.text("EVENT_FILE") {
        Some("-") => io::stdin()
            .lock()
            .take(MAX_EVENT_BYTES + 1)
            .read_to_end(&mut event)?,
        Some(path) => {
            let file = std::fs::File::open(Path::new(path))?;
            file.take(MAX_EVENT_BYTES + 1).read_to_end(&mut event)?
        }
        None => return Ok(settings.text("EVENT").unwrap_or("{}").as_bytes().to_vec()),
    };
    if event.len() as u64 > MAX_EVENT_BYTES {
        let text =
            format!("the event exceeds the limit MAX_EVENT_BYTES of {MAX_EVENT_BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(event)
}

/// The outcome in JSON form.
fn shown(outcome: &JobOutcome) -> Value {
    match outcome {
        JobOutcome::Succeeded {
            result,
            content_type,
        } => {
            let is_json = content_type
                .as_deref()
                .is_some_and(|kind| kind.starts_with("application/json"));
            let parsed = is_json
                .then(|| serde_json::from_slice(result).ok())
                .flatten();
            // A result that is no JSON is given as text.
            let result = parsed.unwrap_or_else(|| Value::from(String::from_utf8_lossy(result)));
            json!({"outcome": "succeeded", "result": result, "content_type": content_type})
        }
        JobOutcome::Failed { error, log_tail } => {
            json!({"outcome": "failed", "error": error, "log_tail": log_tail})
        }
        JobOutcome::TimedOut { after, log_tail } => {
            json!({"outcome": "timed_out", "after": after.as_secs_f64(), "log_tail": log_tail})
        }
        JobOutcome::Died { message, log_tail } => {
            json!({"outcome": "died", "message": message, "log_tail": log_tail})
        }
        JobOutcome::NotStarted(error) => termination::not_started(error),
        _ => json!({"outcome": "unknown"}),
    }
}
