//! A call to try a function with, as a line to copy.

use std::{fmt::Write as _, path::Path};

use toml::{Table, Value};

/// Where a folder may hold examples of calls, as `examples/functions/README.md` describes.
const CASES: &str = "test/cases.toml";

/// The most bytes of a line; a longer example is not one to copy.
const LINE_BYTES: usize = 2_000;

/// A curl line that calls the function at this URL: the first example of the folder that is meant to
/// work and has a body, or else a greeting.
pub(super) fn curl(folder: &Path, url: &str) -> String {
    let cases = std::fs::read_to_string(folder.join(CASES)).ok();
    let line = cases.and_then(|text| from_cases(&text, folder, url));
    line.filter(|line| line.len() <= LINE_BYTES)
        .unwrap_or_else(|| {
            format!(
                r#"curl -s {} -H 'content-type: application/json' -d '{{"name":"you"}}'"#,
                quote(url)
            )
        })
}

fn from_cases(text: &str, folder: &Path, url: &str) -> Option<String> {
    let table: Table = text.parse().ok()?;
    let cases = table.get("case")?.as_array()?;
    let works = |case: &&Value| {
        let status = case
            .get("response")
            .and_then(|response| response.get("status"));
        let cut = case
            .get("response")
            .and_then(|response| response.get("cut"));
        status.and_then(Value::as_integer).unwrap_or(200) < 300
            && cut.and_then(Value::as_bool) != Some(true)
    };
    let body = |case: &&Value| {
        let request = case.get("request");
        ["json", "text", "file"]
            .iter()
            .any(|key| request.is_some_and(|r| r.get(*key).is_some()))
    };
    let mut working = cases.iter().filter(works);
    let first = working.clone().next()?;
    line(working.find(body).unwrap_or(first), folder, url)
}

fn line(case: &Value, folder: &Path, url: &str) -> Option<String> {
    let empty = Value::Table(Table::new());
    let request = case.get("request").unwrap_or(&empty);
    let text = |key: &str| request.get(key).and_then(Value::as_str);
    let mut url = format!("{url}{}", text("path").unwrap_or_default());
    if let Some(query) = text("query") {
        // Writing to a string cannot fail.
        let _ = write!(url, "?{query}");
    }
    let mut line = format!("curl -s {}", quote(&url));
    if let Some(method) = text("method") {
        let _ = write!(line, " -X {}", quote(method));
    }
    let headers = request.get("headers").and_then(Value::as_table);
    let has_type = headers.is_some_and(|headers| headers.contains_key("content-type"));
    for (name, value) in headers.into_iter().flatten() {
        let _ = write!(
            line,
            " -H {}",
            quote(&format!("{name}: {}", value.as_str()?))
        );
    }
    let mut body = |kind: Option<&str>, data: &str| {
        if let Some(kind) = kind.filter(|_| !has_type) {
            let _ = write!(line, " -H {}", quote(&format!("content-type: {kind}")));
        }
        let _ = write!(line, " --data-binary {}", quote(data));
    };
    if let Some(value) = request.get("json") {
        body(
            Some("application/json"),
            &serde_json::to_string(value).ok()?,
        );
    } else if let Some(value) = text("text") {
        // A leading @ would be the name of a file.
        if value.starts_with('@') {
            return None;
        }
        body(Some("text/plain; charset=utf-8"), value);
    } else if let Some(file) = text("file") {
        let file = folder.join("test").join(file);
        body(None, &format!("@{}", file.to_str()?));
    }
    let image = case
        .get("response")
        .and_then(|response| response.get("image"));
    if let Some(format) = image
        .and_then(|image| image.get("format"))
        .and_then(Value::as_str)
    {
        let _ = write!(line, " -o {}", quote(&format!("out.{format}")));
    }
    Some(line)
}

/// A word of a POSIX shell.
fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const URL: &str = "http://127.0.0.1:8080/fn/dev/a";

    fn of(cases: &str) -> String {
        from_cases(cases, Path::new("my folder"), URL).unwrap()
    }

    #[test]
    fn without_examples_it_is_a_greeting() {
        let folder = tempfile::tempdir().unwrap();
        let expected = r#"curl -s http://127.0.0.1:8080/fn/dev/a -H 'content-type: application/json' -d '{"name":"you"}'"#;
        assert_eq!(curl(folder.path(), URL), expected);
        std::fs::create_dir(folder.path().join("test")).unwrap();
        for odd in [
            "",
            "case = 1",
            "not toml",
            "[[case]]\nresponse.status = 500",
        ] {
            std::fs::write(folder.path().join(CASES), odd).unwrap();
            assert_eq!(curl(folder.path(), URL), expected, "{odd}");
        }
    }

    #[test]
    fn the_first_example_that_works_and_has_a_body_is_taken() {
        let cases = "[[case]]\n[[case]]\nrequest.json = { a = 0 }\nresponse.status = 400\n\
                     [[case]]\nrequest.json = { who = \"it's me\" }\n";
        let line = of(cases);
        assert!(
            line.ends_with(
                r#"-H 'content-type: application/json' --data-binary '{"who":"it'\''s me"}'"#
            ),
            "{line}"
        );
        assert_eq!(
            of("[[case]]\nrequest.path = '/x'\n"),
            format!("curl -s {URL}/x")
        );
    }

    #[test]
    fn files_fields_and_images_are_part_of_the_line() {
        let cases = "[[case]]\nrequest.query = 'width=64&x=1'\nrequest.headers = { content-type = 'image/png' }\n\
                     request.file = 'a.png'\nresponse.image = { format = 'png', width = 1, height = 1 }\n";
        assert_eq!(
            of(cases),
            format!(
                "curl -s '{URL}?width=64&x=1' -H 'content-type: image/png' \
                 --data-binary '@my folder/test/a.png' -o out.png"
            )
        );
    }
}
