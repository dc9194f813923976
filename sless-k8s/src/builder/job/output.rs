//! What the tools write: cut into lines, and freed of what is only for a terminal.

use futures::{AsyncBufRead, AsyncBufReadExt as _, Stream, stream};
use sless_core::Error;

/// The longest line that is kept, in bytes. What is longer is cut.
const LINE_BYTES: usize = 16 << 10;

/// A line for people.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) text: String,
    /// The step that begins with it, where one does that is worth telling.
    pub(super) step: Option<&'static str>,
}

/// The lines of a stream. However long one is, no more than its beginning is held.
pub(super) fn lines<R>(reader: R) -> impl Stream<Item = Result<String, Error>> + Send + 'static
where
    R: AsyncBufRead + Send + 'static,
{
    stream::try_unfold(Box::pin(reader), async |mut reader| {
        let mut line = Vec::new();
        loop {
            let buffer = reader.fill_buf().await.map_err(broken)?;
            if buffer.is_empty() {
                break;
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let piece = &buffer[..end.unwrap_or(buffer.len())];
            let room = LINE_BYTES.saturating_sub(line.len());
            line.extend_from_slice(&piece[..piece.len().min(room)]);
            let used = end.map_or(buffer.len(), |end| end + 1);
            reader.as_mut().consume(used);
            if end.is_some() {
                let text = String::from_utf8_lossy(&line).into_owned();
                return Ok(Some((text, reader)));
            }
        }
        let text = String::from_utf8_lossy(&line).into_owned();
        Ok((!line.is_empty()).then_some((text, reader)))
    })
}

fn broken(source: std::io::Error) -> Error {
    Error::new(sless_core::ErrorKind::Interrupted, "a log broke off").with_source(source)
}

/// A line of BuildKit (`--progress=plain`) or kaniko; `None` where it says nothing.
pub(super) fn read(line: &str) -> Option<Line> {
    let clean = plain(line);
    let rest = clean.strip_prefix('#').and_then(|rest| {
        let (number, rest) = rest.split_once(' ')?;
        number
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then_some(rest)
    });
    let Some(rest) = rest else {
        let text = without_time(&clean);
        let told = text.trim();
        let ruler = told.bytes().all(|byte| byte == b'-');
        return (!ruler).then(|| Line {
            step: step(text),
            text: text.to_owned(),
        });
    };
    let text = without_time(rest);
    let noise = ["sha256:", "extracting sha256:", "resolve ", "transferring "];
    if text.trim().is_empty() || text == "..." || noise.iter().any(|noise| text.starts_with(noise))
    {
        return None;
    }
    Some(Line {
        step: step(text),
        text: text.to_owned(),
    })
}

/// Without colours and other control characters.
fn plain(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(next) = chars.next() {
        match next {
            '\u{1b}' => {
                // A sequence ends with a letter (ECMA-48, section 5.4).
                if chars.as_str().starts_with('[') {
                    chars.by_ref().find(char::is_ascii_alphabetic);
                }
            }
            '\t' => text.push(next),
            next if next.is_control() => {}
            next => text.push(next),
        }
    }
    text
}

/// BuildKit writes the seconds since a step began in front of what it wrote.
fn without_time(text: &str) -> &str {
    let Some((time, rest)) = text.split_once(' ') else {
        return text;
    };
    let is_time = time.split_once('.').is_some_and(|(whole, part)| {
        let digits =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits(whole) && digits(part)
    });
    if is_time { rest } else { text }
}

fn step(text: &str) -> Option<&'static str> {
    if text.contains("RUN ") {
        let known = ["pip install", "npm ci", "npm install"];
        return known.into_iter().find(|step| text.contains(step));
    }
    let pushing = ["exporting to image", "Pushing image to "];
    pushing
        .iter()
        .any(|mark| text.contains(mark))
        .then_some("pushing the image")
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt as _;

    use super::*;

    #[test]
    fn lines_are_freed_of_what_is_for_terminals() {
        let run = "[5/6] RUN --mount=type=secret,id=A,env=A pip install --target /opt/x";
        for (line, text, step) in [
            ("#9 0.512 Collecting six", Some("Collecting six"), None),
            (&*format!("#9 {run}"), Some(run), Some("pip install")),
            (
                "#9 12.10 \u{1b}[31mERROR: no\u{1b}[0m",
                Some("ERROR: no"),
                None,
            ),
            ("#9 DONE 1.2s", Some("DONE 1.2s"), None),
            ("#9 sha256:ab 1MB / 2MB 0.1s", None, None),
            ("#9 extracting sha256:ab", None, None),
            ("------", None, None),
            ("0.41 ERROR: no", Some("ERROR: no"), None),
            (
                "#11 exporting to image",
                Some("exporting to image"),
                Some("pushing the image"),
            ),
            (
                "INFO[0003] RUN npm ci --omit=dev",
                Some("INFO[0003] RUN npm ci --omit=dev"),
                Some("npm ci"),
            ),
            (
                "error: failed to solve: x",
                Some("error: failed to solve: x"),
                None,
            ),
        ] {
            let expected = text.map(|text| Line {
                text: text.to_owned(),
                step,
            });
            assert_eq!(read(line), expected, "{line:?}");
        }
    }

    #[tokio::test]
    async fn a_line_without_an_end_is_cut() {
        let mut bytes = vec![b'x'; 5 << 20];
        bytes.extend_from_slice(b"\nshort\nlast");
        let all: Vec<String> = lines(futures::io::Cursor::new(bytes))
            .try_collect()
            .await
            .expect("lines");
        assert_eq!(all[0].len(), LINE_BYTES);
        assert_eq!(all[1..], ["short", "last"]);
    }
}
