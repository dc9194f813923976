//! Which paths a source may hold, alone and beside each other.

use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization as _;

use super::SourceLimits;
use crate::{Error, ErrorKind, Result};

/// Where a list of files comes from: it decides the words of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// An uploaded zip.
    Zip,
    /// A stored build context, which we wrote: what is wrong with it is damage.
    Context,
    /// A folder, or a list that an embedder made.
    Files,
}

impl Origin {
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Zip => ("zip", "zip entry"),
            Self::Context => ("context", "context entry"),
            Self::Files => ("source", "source file"),
        }
    }

    const fn kind(self) -> ErrorKind {
        match self {
            Self::Zip | Self::Files => ErrorKind::Invalid,
            Self::Context => ErrorKind::Corrupt,
        }
    }

    /// A refusal of one entry: its name, escaped and cut, and the rule that it breaks.
    pub(super) fn refuse(self, name: &[u8], word: &str, rule: impl std::fmt::Display) -> Error {
        let (prefix, noun) = self.words();
        let message = format!("{noun} \"{}\": {rule}", shown(name));
        Error::new(self.kind(), message).with_reason(format!("{prefix}_{word}"))
    }

    /// A refusal of the whole.
    pub(super) fn refuse_all(self, word: &str, rule: impl std::fmt::Display) -> Error {
        let (prefix, _) = self.words();
        let message = format!("{prefix}: {rule}");
        Error::new(self.kind(), message).with_reason(format!("{prefix}_{word}"))
    }

    /// A limit, reached by one entry: the limit's error with the entry's name in front.
    pub(super) fn limit(self, name: &[u8], limit: Error) -> Error {
        let (_, noun) = self.words();
        let message = format!("{noun} \"{}\": {}", shown(name), limit.message());
        Error::new(limit.kind(), message).with_reason(limit.reason().to_owned())
    }
}

/// A name as it is safe to print: no raw control characters, at most 120 characters.
pub(super) fn shown(name: &[u8]) -> String {
    const MOST: usize = 120;
    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        text.extend(chunk.valid().chars().flat_map(char::escape_debug));
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
        if text.len() > MOST * 4 {
            break;
        }
    }
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// A path that holds every rule that a path can break alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CleanPath {
    /// Relative, `/` between segments, none at the end.
    pub(super) path: String,
    /// Whether it was written with a separator at its end.
    pub(super) directory: bool,
}

/// Files at the root that belong to the build context or change what a build copies.
const RESERVED_ROOT: &[&str] = &["dockerfile", ".dockerignore", "dockerfile.dockerignore"];

/// Names that Windows keeps for devices, with any extension.
const DEVICES: &[&str] = &["con", "prn", "aux", "nul", "conin$", "conout$"];

/// Characters that Windows refuses in names, and `;`, after which Info-ZIP reads a version number.
const RESERVED_CHARACTERS: &[char] = &['<', '>', ':', '"', '|', '?', '*', ';'];

pub(super) fn clean(origin: Origin, raw: &str, limits: &SourceLimits) -> Result<CleanPath> {
    let refuse = |word: &str, rule: &str| Err(origin.refuse(raw.as_bytes(), word, rule));
    if raw.len() > limits.path_bytes {
        let limit = Error::limit("source_path_bytes", limits.path_bytes, "bytes");
        return Err(origin.limit(raw.as_bytes(), limit));
    }
    let path = raw.replace('\\', "/");
    let (path, directory) = match path.strip_suffix('/') {
        Some(path) => (path, true),
        None => (path.as_str(), false),
    };
    if path.is_empty() && !directory {
        return refuse("empty_name", "its name is empty");
    }
    let drive = path.as_bytes().get(1) == Some(&b':')
        && path.as_bytes().first().is_some_and(u8::is_ascii_alphabetic);
    if path.is_empty() || path.starts_with('/') || drive {
        return refuse(
            "absolute_path",
            "a path is relative, without a drive letter",
        );
    }
    for segment in path.split('/') {
        if segment.len() > SourceLimits::SEGMENT_BYTES {
            let limit = Error::limit("source_segment_bytes", SourceLimits::SEGMENT_BYTES, "bytes");
            return Err(origin.limit(raw.as_bytes(), limit));
        }
        if let Err((word, rule)) = check_segment(segment) {
            return refuse(word, rule);
        }
    }
    if path.split('/').count() > limits.path_depth {
        let limit = Error::limit("source_path_depth", limits.path_depth, "segments");
        return Err(origin.limit(raw.as_bytes(), limit));
    }
    if RESERVED_ROOT.contains(&path.to_ascii_lowercase().as_str()) {
        return refuse(
            "reserved_name",
            "`Dockerfile` and `.dockerignore` at the root belong to the build; leave the file out",
        );
    }
    Ok(CleanPath {
        path: path.to_owned(),
        directory,
    })
}

fn check_segment(segment: &str) -> Result<(), (&'static str, &'static str)> {
    match segment {
        "" => return Err(("empty_segment", "a path has no empty segment")),
        "." | ".." => return Err(("path_traversal", "a path has no segment `.` or `..`")),
        _ => {}
    }
    if segment.contains(char::is_control) {
        return Err(("control_character", "a path has no control character"));
    }
    if segment.contains(is_hidden) {
        let rule = "a path has no invisible or direction-changing character";
        return Err(("hidden_character", rule));
    }
    if segment.contains(RESERVED_CHARACTERS) {
        let rule = "a path has none of < > : \" | ? * ;";
        return Err(("reserved_character", rule));
    }
    if segment.ends_with(['.', ' ']) {
        return Err(("reserved_name", "no segment ends with a dot or a space"));
    }
    let stem = segment.split('.').next().unwrap_or(segment).trim_end();
    let stem = stem.to_ascii_lowercase();
    let numbered = |prefix: &str| {
        let number = stem.strip_prefix(prefix).map(|rest| {
            let mut chars = rest.chars();
            matches!(
                (chars.next(), chars.next()),
                (Some('0'..='9' | '¹' | '²' | '³'), None)
            )
        });
        number == Some(true)
    };
    if DEVICES.contains(&stem.as_str()) || numbered("com") || numbered("lpt") {
        return Err(("reserved_name", "Windows keeps this name for a device"));
    }
    Ok(())
}

/// Characters that make a path look like another one: they would fool who reviews it.
fn is_hidden(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// The paths seen so far, as a tree of folded segments: its memory is linear in their length.
///
/// Two spellings that some file system holds to be one name (by case or by Unicode normalisation)
/// are refused, so that a source unpacks to the same files everywhere.
#[derive(Debug, Default)]
pub(super) struct PathSet {
    nodes: HashMap<(u32, Box<str>), Node>,
    next: u32,
}

#[derive(Debug)]
struct Node {
    id: u32,
    /// As it was written, where that is not the folded form.
    spelled: Option<Box<str>>,
    kind: NodeKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeKind {
    File,
    /// Named by its own entry.
    Directory,
    /// Known from a path below it.
    Parent,
}

impl PathSet {
    pub(super) fn insert(&mut self, origin: Origin, clean: &CleanPath) -> Result<()> {
        let path = clean.path.as_str();
        let refuse = |word: &str, rule: &str| Err(origin.refuse(path.as_bytes(), word, rule));
        let last = path.split('/').count() - 1;
        let mut parent = 0;
        for (at, segment) in path.split('/').enumerate() {
            let kind = match (at == last, clean.directory) {
                (false, _) => NodeKind::Parent,
                (true, true) => NodeKind::Directory,
                (true, false) => NodeKind::File,
            };
            let folded = folded(segment);
            let spelled = (*folded != *segment).then(|| Box::from(segment));
            let key = (parent, folded);
            let Some(node) = self.nodes.get_mut(&key) else {
                self.next += 1;
                parent = self.next;
                let node = Node {
                    id: self.next,
                    spelled,
                    kind,
                };
                self.nodes.insert(key, node);
                continue;
            };
            if node.spelled != spelled {
                let first = node.spelled.as_deref().unwrap_or(&key.1);
                return Err(origin.refuse(
                    path.as_bytes(),
                    "name_clash",
                    format_args!(
                        "`{}` and `{}` are one name on some file systems",
                        shown(first.as_bytes()),
                        shown(segment.as_bytes())
                    ),
                ));
            }
            match (node.kind, kind) {
                (NodeKind::File, NodeKind::File) | (NodeKind::Directory, NodeKind::Directory) => {
                    return refuse("duplicate_entry", "this path is there twice");
                }
                (NodeKind::File, _) | (_, NodeKind::File) => {
                    return refuse("file_directory_clash", "a path is a file and a directory");
                }
                (NodeKind::Parent, NodeKind::Directory) => node.kind = NodeKind::Directory,
                (NodeKind::Directory | NodeKind::Parent, NodeKind::Parent) => {}
            }
            parent = node.id;
        }
        Ok(())
    }
}

fn folded(segment: &str) -> Box<str> {
    if segment.is_ascii() {
        return segment.to_ascii_lowercase().into();
    }
    let lower: String = segment.nfc().flat_map(char::to_lowercase).collect();
    lower.nfc().collect::<String>().into()
}
