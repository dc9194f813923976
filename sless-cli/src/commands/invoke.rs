//! `sless invoke`.

use std::path::PathBuf;

use futures::StreamExt as _;
use sless_api::client::{Call, CallAnswer, Content};
use tokio_util::io::ReaderStream;

use super::shown;
use crate::{
    args::Globals,
    failure::{Exit, Failure, Result},
    output::{Output, Paint},
    session::{Known, Session},
};

const EXAMPLES: &str = "\
Examples:
  $ sless invoke hello --data '{\"name\": \"Ada\"}'
  $ sless invoke hello '/some/path?x=1' --method GET --include
  $ sless invoke hello --file event.json --header 'x-request-id: 42' --raw > answer.bin
  $ echo '{\"name\": \"Bob\"}' | sless invoke hello --file -
  $ sless invoke hello -o json";

/// Longest answer that is kept in memory, to be shown as indented JSON or with -o, in bytes.
const ANSWER_BYTES: usize = 16 << 20;

/// Call a function and print its answer as it arrives.
///
/// A JSON answer is indented on a terminal; --raw prints the bytes as they are. A status of 400 and
/// above ends with exit status 1, after the answer is printed. With -o json and -o yaml status,
/// headers and body are one value. The token is not sent: a function is its author's code.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The function.
    name: String,
    /// What follows its name in the URL: a path, a query, or both.
    #[arg(value_name = "PATH", value_parser = tail)]
    tail: Option<String>,
    /// The body, as text. JSON is sent as application/json.
    #[arg(long, short, value_name = "TEXT", conflicts_with = "file")]
    data: Option<String>,
    /// A file to send as the body, read while it is sent; `-` is standard input.
    #[arg(long, short, value_name = "FILE")]
    file: Option<PathBuf>,
    /// A header field; may be repeated.
    #[arg(long, short = 'H', value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<(String, String)>,
    /// The method; POST with a body and GET without one.
    #[arg(long, short = 'X', value_name = "METHOD")]
    method: Option<String>,
    /// Print the bytes of the answer as they are.
    #[arg(long)]
    raw: bool,
    /// Show status and header fields of the answer on standard error.
    #[arg(long, short)]
    include: bool,
}

fn tail(text: &str) -> Result<String, String> {
    match text.chars().next() {
        Some('/' | '?') => Ok(text.to_owned()),
        _ => Ok(format!("/{text}")),
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("expected `name: value`")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

pub(crate) async fn run(args: Args, globals: &Globals, output: &Output) -> Result<()> {
    let known = Known::of(globals)?;
    let session = Session {
        namespace: known.namespace()?,
        client: known.client(globals)?,
    };
    let name = args.name.clone();
    let (raw, include) = (args.raw, args.include);
    let call = call(args).await?;
    let answer = session.client.call(&session.namespace, &name, call).await?;
    let status = answer.status;
    if include {
        output.say_painted(Paint::Strong, &format!("status: {status}"));
        for (name, value) in &answer.headers {
            output.say(&format!("{name}: {}", shown::safe(value)));
        }
    }
    if output.is_for_people() {
        print(answer, output, raw).await?;
    } else {
        print_value(answer, output).await?;
    }
    if status < 400 {
        return Ok(());
    }
    let failure = Failure::new(
        Exit::Failed,
        format!("{name} answered with status {status}"),
    );
    Err(match status {
        404 => failure.hint("`sless list` shows the functions that there are"),
        429 | 503 => failure.hint(format!(
            "`sless get {name}` shows whether it is off or busy"
        )),
        _ => failure.hint(format!("`sless logs {name} --tail 20` shows what it wrote")),
    })
}

async fn call(args: Args) -> Result<Call> {
    let is = |wanted: &str| {
        args.header
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case(wanted))
    };
    let mut kind = None;
    let body = match (args.data, args.file) {
        (Some(text), _) => {
            let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            kind = Some(if is_json {
                "application/json"
            } else {
                "text/plain; charset=utf-8"
            });
            Some(Content::bytes(text))
        }
        (None, Some(path)) if path.as_os_str() == "-" => {
            Some(Content::stream(ReaderStream::new(stdin()?)))
        }
        (None, Some(path)) => {
            kind = path
                .extension()
                .filter(|ending| *ending == "json")
                .map(|_| "application/json");
            Some(Content::file(path).await?)
        }
        (None, None) => None,
    };
    let method = args.method.unwrap_or_else(|| {
        let method = if body.is_some() { "POST" } else { "GET" };
        method.to_owned()
    });
    let mut call = Call::new(method).with_tail(args.tail.unwrap_or_default());
    if let Some(kind) = kind.filter(|_| !is("content-type")) {
        call = call.with_header("content-type", kind);
    }
    for (name, value) in args.header {
        call = call.with_header(name, value);
    }
    Ok(match body {
        Some(body) => call.with_body(body),
        None => call,
    })
}

/// Standard input as a file, so that what blocks is read beside everything else.
fn stdin() -> Result<tokio::fs::File> {
    #[cfg(unix)]
    let own = std::os::fd::AsFd::as_fd(&std::io::stdin()).try_clone_to_owned();
    #[cfg(windows)]
    let own = std::os::windows::io::AsHandle::as_handle(&std::io::stdin()).try_clone_to_owned();
    let file = own.map(|own| tokio::fs::File::from_std(own.into()));
    file.map_err(|error| Failure::usage(format!("standard input cannot be read: {error}")))
}

fn is_json(answer: &CallAnswer) -> bool {
    answer.headers.iter().any(|(name, value)| {
        name.eq_ignore_ascii_case("content-type") && value.starts_with("application/json")
    })
}

async fn print(mut answer: CallAnswer, output: &Output, raw: bool) -> Result<()> {
    use std::io::IsTerminal as _;
    let terminal = std::io::stdout().is_terminal();
    if !raw && terminal && is_json(&answer) {
        let body = whole(answer).await?;
        return match serde_json::from_slice::<serde_json::Value>(&body) {
            Ok(value) => output.line(&format!("{value:#}")),
            Err(_) => output.bytes(&body),
        };
    }
    let mut last = None;
    while let Some(piece) = answer.body.next().await {
        let piece = piece?;
        last = piece.last().copied().or(last);
        output.bytes(&piece)?;
    }
    if !raw && terminal && last.is_some_and(|last| last != b'\n') {
        output.line("")?;
    }
    Ok(())
}

async fn whole(mut answer: CallAnswer) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(piece) = answer.body.next().await {
        body.extend_from_slice(&piece?);
        if body.len() > ANSWER_BYTES {
            let text = format!("limit answer_bytes of {ANSWER_BYTES} exceeded");
            return Err(
                Failure::new(Exit::Failed, text).hint("--raw prints an answer of any length")
            );
        }
    }
    Ok(body)
}

async fn print_value(answer: CallAnswer, output: &Output) -> Result<()> {
    let (status, headers) = (answer.status, answer.headers.clone());
    let is_json = is_json(&answer);
    let body = whole(answer).await?;
    let text = || serde_json::Value::from(String::from_utf8_lossy(&body).into_owned());
    let value = match is_json {
        true => serde_json::from_slice(&body).unwrap_or_else(|_| text()),
        false => text(),
    };
    output.value(&serde_json::json!({"status": status, "headers": headers, "body": value}))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_header_is_taken_apart_at_its_first_colon() {
        assert_eq!(
            header("a: b:c ").unwrap(),
            ("a".to_owned(), "b:c".to_owned())
        );
        assert!(header("a").is_err());
    }

    #[test]
    fn a_path_may_begin_with_or_without_a_slash() {
        assert_eq!(tail("a").unwrap(), "/a");
        assert_eq!(tail("/a%2Fb//c?q=1").unwrap(), "/a%2Fb//c?q=1");
        assert_eq!(tail("?x").unwrap(), "?x");
    }
}
