//! Style and scripts: in the binary, under names that change with their content.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use sha2::{Digest as _, Sha256};

const FILES: &[(&str, &str, &str)] = &[
    ("style.css", CSS, include_str!("../assets/style.css")),
    ("app.js", JS, include_str!("../assets/app.js")),
    ("html.js", JS, include_str!("../assets/html.js")),
    ("forms.js", JS, include_str!("../assets/forms.js")),
    ("panels.js", JS, include_str!("../assets/panels.js")),
    ("live.js", JS, include_str!("../assets/live.js")),
    ("log.js", JS, include_str!("../assets/log.js")),
    ("drop.js", JS, include_str!("../assets/drop.js")),
    ("zip.js", JS, include_str!("../assets/zip.js")),
    ("icon.svg", SVG, include_str!("../assets/icon.svg")),
];
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// The files. Scripts import each other by name, so all are in one folder that is named after the
/// content of all: a changed file is a new folder, and what is in a folder never changes.
#[derive(Debug)]
pub(crate) struct Assets {
    folder: String,
}

impl Assets {
    pub(crate) fn new() -> Self {
        let mut hash = Sha256::new();
        for (name, _, content) in FILES {
            hash.update(name);
            hash.update([0]);
            hash.update(content);
            hash.update([0]);
        }
        let hash: String = hash.finalize()[..8]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Self { folder: hash }
    }

    /// Where a file is.
    pub(crate) fn path(&self, name: &str) -> String {
        format!("/funcs/_assets/{}/{name}", self.folder)
    }

    /// The answer for a file of a folder.
    pub(crate) fn answer(&self, folder: &str, name: &str) -> (StatusCode, HeaderMap, Bytes) {
        let mut headers = HeaderMap::new();
        let file = FILES.iter().find(|(known, ..)| *known == name);
        let Some((_, kind, content)) = file.filter(|_| folder == self.folder) else {
            return (StatusCode::NOT_FOUND, headers, Bytes::new());
        };
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(
            header::CACHE_CONTROL,
            HeaderValue::from_static("public, max-age=31536000, immutable"),
        );
        (
            StatusCode::OK,
            headers,
            Bytes::from_static(content.as_bytes()),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a page fetches from elsewhere would tell others of it, and fail where there is no network.
    #[test]
    fn no_file_knows_another_host_or_runs_text() {
        for (name, _, content) in FILES {
            let content = content.replace("http://www.w3.org/2000/svg", "");
            for word in [
                "http://",
                "https://",
                "//cdn",
                "eval(",
                "new Function",
                "document.write",
            ] {
                assert!(!content.contains(word), "{name} holds {word}");
            }
        }
    }

    #[test]
    fn every_script_that_is_imported_is_there() {
        for (name, _, content) in FILES {
            for import in content.lines().filter(|line| line.starts_with("import ")) {
                let file = import
                    .split("\"./")
                    .nth(1)
                    .and_then(|rest| rest.split('"').next());
                let file = file.unwrap_or_else(|| panic!("{name}: {import}"));
                assert!(
                    FILES.iter().any(|(known, ..)| *known == file),
                    "{name}: {file}"
                );
            }
        }
    }
}
