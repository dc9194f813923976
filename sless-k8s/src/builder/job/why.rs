//! Why an install failed: which line of `requirements.txt`, or which package of npm.

use sless_core::source::{Dependencies, SourceTree};

/// The longest explanation, in characters.
const CHARS: usize = 500;

/// A sentence, out of what was asked for (the text of the manifest) and what the installer wrote.
pub(super) fn of(dependencies: &Dependencies, asked: &str, lines: &[&str]) -> String {
    let text = match dependencies {
        Dependencies::Python { .. } => {
            format!("pip install failed: {}", of_pip(asked, lines))
        }
        Dependencies::Node { lock, .. } => {
            let command = if lock.is_some() { "ci" } else { "install" };
            format!("npm {command} failed: {}", of_npm(lines))
        }
        _ => format!("a command failed: {}", last(lines)),
    };
    text.chars().take(CHARS).collect()
}

fn last<'a>(lines: &[&'a str]) -> &'a str {
    let all = lines.iter().rev().map(|line| line.trim());
    all.into_iter()
        .find(|line| !line.is_empty())
        .unwrap_or("it wrote nothing")
}

// -- pip ---------------------------------------------------------------------------------------------------

fn of_pip(requirements: &str, lines: &[&str]) -> String {
    let errors: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.trim().strip_prefix("ERROR: "))
        .filter(|line| !line.starts_with("process \"") && !line.starts_with("failed to solve"))
        .collect();
    // The one that names most comes last; the one before says which versions there are.
    let telling = [
        "No matching distribution found",
        "Invalid requirement",
        "Cannot install",
        "Hash mismatch",
        "THESE PACKAGES DO NOT MATCH THE HASHES",
        "Failed to build",
        "Could not build wheels",
        "Failed building wheel",
        "Package ",
        "Could not install packages",
    ];
    let found = telling
        .iter()
        .find_map(|mark| errors.iter().find(|line| line.starts_with(mark)))
        .or(errors.first());
    let Some(error) = found.copied() else {
        return last(lines).to_owned();
    };
    let all = errors.join("\n");
    let unreached = lines.iter().any(|line| {
        line.contains("Failed to establish a new connection")
            || line.contains("Temporary failure in name resolution")
            || line.contains("Connection timed out")
    });
    let hint = if unreached && error.starts_with("No matching") {
        " (the package index cannot be reached)"
    } else {
        ""
    };
    match line_named(&all).or_else(|| line_meant(requirements, &all)) {
        Some(number) => {
            let line = requirements.lines().nth(number - 1).unwrap_or_default();
            let line = line.trim();
            format!("requirements.txt line {number} ({line}): {error}{hint}")
        }
        None => format!("{error}{hint}"),
    }
}

/// The line that pip names itself: `(line 3)`, or `line 3 of …`.
fn line_named(error: &str) -> Option<usize> {
    let behind = |mark: &str| {
        let rest = &error[error.find(mark)? + mark.len()..];
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok().filter(|number| *number > 0)
    };
    behind("requirements.txt (line ").or_else(|| behind("(from line "))
}

/// The line with the requirement that an error speaks of.
fn line_meant(requirements: &str, error: &str) -> Option<usize> {
    let words: Vec<String> = error
        .split(|c: char| c.is_whitespace() || "(),;:'\"".contains(c))
        .map(name_of)
        .collect();
    let meant = |line: &str| {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', '-']) {
            return false;
        }
        let requirement = line.split([' ', ';', '#']).next().unwrap_or_default();
        let file = requirement.rsplit('/').next().unwrap_or_default();
        let path = requirement.contains('/');
        let name = name_of(requirement);
        (path && error.contains(file) && !file.is_empty())
            || (!path && !name.is_empty() && words.contains(&name))
    };
    let mut lines = requirements.lines().enumerate();
    lines.find(|(_, line)| meant(line)).map(|(at, _)| at + 1)
}

/// The normalized name that a requirement begins with (PEP 503).
fn name_of(requirement: &str) -> String {
    let name: String = requirement
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c))
        .collect();
    name.to_ascii_lowercase().replace(['_', '.'], "-")
}

// -- npm ---------------------------------------------------------------------------------------------------

fn of_npm(lines: &[&str]) -> String {
    let said: Vec<&str> = lines
        .iter()
        .filter_map(|line| {
            let line = line.trim();
            let rest = line
                .strip_prefix("npm error")
                .or_else(|| line.strip_prefix("npm ERR!"))?;
            Some(rest.trim())
        })
        .filter(|line| !line.is_empty())
        .collect();
    let code = said.iter().find_map(|line| line.strip_prefix("code "));
    let behind = |mark: &str| {
        said.iter()
            .find_map(|line| line.split_once(mark).map(|(_, rest)| rest.trim()))
    };
    let quoted = |text: &str| text.split('\'').nth(1).map(str::to_owned);
    let named = match code {
        Some("E404") => {
            let named = said
                .iter()
                .find(|line| line.starts_with("404") && line.contains(" '"));
            named
                .and_then(|line| quoted(line))
                .map(|name| (name, "it is not in the registry (E404)".to_owned()))
        }
        Some("ETARGET") => behind("No matching version found for").map(|name| {
            let name = name.split_whitespace().next().unwrap_or(name);
            let name = name.trim_end_matches('.').to_owned();
            (name, "there is no such version (ETARGET)".to_owned())
        }),
        Some("EUSAGE") => behind("Missing:").map(|rest| {
            let name = rest.split_whitespace().next().unwrap_or(rest).to_owned();
            let why = "package.json names it and package-lock.json does not (EUSAGE)";
            (name, why.to_owned())
        }),
        Some("EINTEGRITY") => behind("EINTEGRITY").map(|rest| {
            (
                rest.to_owned(),
                "it is not what package-lock.json names".to_owned(),
            )
        }),
        Some("ERESOLVE") => behind("While resolving:").map(|name| {
            (
                name.to_owned(),
                "its peers cannot be had (ERESOLVE)".to_owned(),
            )
        }),
        _ => behind("path ").and_then(|path| {
            let (_, name) = path.rsplit_once("node_modules/")?;
            let commands = said.iter().filter_map(|line| line.strip_prefix("command "));
            let mut ran = commands.filter(|ran| *ran != "failed");
            let ran = ran.next().unwrap_or("its install script");
            Some((name.to_owned(), format!("{ran} failed")))
        }),
    };
    match named {
        Some((name, why)) => format!("package {name}: {why}"),
        None => {
            let log = |line: &&&str| {
                line.starts_with("code ")
                    || line.starts_with("A complete log")
                    || **line == "Log files were not written"
            };
            let telling: Vec<&str> = said
                .iter()
                .filter(|line| !log(line))
                .take(2)
                .copied()
                .collect();
            match (code, telling.is_empty()) {
                (_, true) => last(lines).to_owned(),
                (Some(code), _) => format!("{} ({code})", telling.join(" ")),
                (None, _) => telling.join(" "),
            }
        }
    }
}

/// Which package of `package.json` is to come from a place of the source where nothing is. npm would make a
/// link to nowhere of it, and call that a success.
pub(super) fn not_in_source(package: &str, tree: &SourceTree) -> Option<String> {
    let package: serde_json::Value = serde_json::from_str(package).ok()?;
    let all = package["dependencies"].as_object()?;
    let (name, place) = all
        .iter()
        .filter_map(|(name, version)| Some((name, version.as_str()?.strip_prefix("file:")?)))
        .find(|(_, place)| {
            let place = place.trim_start_matches("./").trim_matches('/');
            let below = format!("{place}/");
            let there = |path: &str| place.is_empty() || path == place || path.starts_with(&below);
            !tree.files().iter().any(|file| there(&file.path))
        })?;
    Some(format!(
        "npm install failed: package {name} (file:{place}): it is not in the source"
    ))
}

#[cfg(test)]
mod tests {
    use sless_core::Digest;

    use super::*;

    const PIP: Dependencies = Dependencies::Python {
        requirements: Digest::from_bytes([0; 32]),
    };
    const NPM: Dependencies = Dependencies::Node {
        package: Digest::from_bytes([0; 32]),
        lock: None,
    };

    /// What pip 23.0 and npm 10 and 11 write.
    #[test]
    fn the_line_or_package_is_named() {
        let requirements =
            "# one\nsix>=1\nNo_Where==9.9 ; python_version > '3'\n./lib/x-1.0-py3-none-any.whl\n";
        for (dependencies, log, expected) in [
            (
                PIP,
                "ERROR: Could not find a version that satisfies the requirement no-where==9.9 (from versions: none)\n\
                 ERROR: No matching distribution found for no-where==9.9",
                "pip install failed: requirements.txt line 3 (No_Where==9.9 ; python_version > '3'): \
                 No matching distribution found for no-where==9.9",
            ),
            (
                PIP,
                "ERROR: Invalid requirement: 'foo bar' (from line 2 of requirements.txt)",
                "pip install failed: requirements.txt line 2 (six>=1): \
                 Invalid requirement: 'foo bar' (from line 2 of requirements.txt)",
            ),
            (
                PIP,
                "WARNING: Requirement './lib/x-1.0-py3-none-any.whl' looks like a filename, but the file does not exist\n\
                 ERROR: Could not install packages due to an OSError: [Errno 2] No such file or directory: \
                 '/app/lib/x-1.0-py3-none-any.whl'",
                "pip install failed: requirements.txt line 4 (./lib/x-1.0-py3-none-any.whl): \
                 Could not install packages due to an OSError: [Errno 2] No such file or directory: \
                 '/app/lib/x-1.0-py3-none-any.whl'",
            ),
            (
                PIP,
                "WARNING: Retrying: Failed to establish a new connection: [Errno 111] Connection refused\n\
                 ERROR: No matching distribution found for six>=1",
                "pip install failed: requirements.txt line 2 (six>=1): No matching distribution found for six>=1 \
                 (the package index cannot be reached)",
            ),
            (PIP, "Killed", "pip install failed: Killed"),
            (
                NPM,
                "npm error code E404\nnpm error 404 Not Found - GET http://r/nowhere\nnpm error 404\n\
                 npm error 404  The requested resource 'nowhere@2.x' could not be found or you do not have permission",
                "npm install failed: package nowhere@2.x: it is not in the registry (E404)",
            ),
            (
                NPM,
                "npm ERR! code E404\nnpm ERR! 404  '@a/nowhere@2.x' is not in this registry.",
                "npm install failed: package @a/nowhere@2.x: it is not in the registry (E404)",
            ),
            (
                NPM,
                "npm error code ETARGET\nnpm error notarget No matching version found for six@^9.1.0.",
                "npm install failed: package six@^9.1.0: there is no such version (ETARGET)",
            ),
            (
                NPM,
                "npm error code 1\nnpm error path /app/node_modules/@a/b\nnpm error command failed\n\
                 npm error command sh -c node-gyp rebuild",
                "npm install failed: package @a/b: sh -c node-gyp rebuild failed",
            ),
            (
                NPM,
                "npm error code ENOTFOUND\nnpm error errno ENOTFOUND\nnpm error network request to http://r/x failed",
                "npm install failed: errno ENOTFOUND network request to http://r/x failed (ENOTFOUND)",
            ),
        ] {
            let lines: Vec<&str> = log.lines().collect();
            assert_eq!(of(&dependencies, requirements, &lines), expected);
        }
    }

    #[test]
    fn a_package_from_nowhere_is_found() {
        let tree = SourceTree::from_files([("lib/package.json", "{}"), ("x.tgz", "")]);
        let tree = tree.expect("a source");
        for (place, there) in [
            ("file:./lib", true),
            ("file:lib/", true),
            ("file:x.tgz", true),
            ("file:./li", false),
            ("file:../lib", false),
            ("^1.0", true),
        ] {
            let package = format!(r#"{{"dependencies":{{"a":"{place}"}}}}"#);
            let found = not_in_source(&package, &tree);
            assert_eq!(found.is_none(), there, "{place}: {found:?}");
        }
    }
}
