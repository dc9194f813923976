//! Source with its comments, strings, numbers and keywords marked.
//!
//! One pass over the text, without patterns that could be made slow: whatever somebody uploads is
//! shown in a time that grows with its length only. Nothing is lost or added, so what cannot be
//! understood is merely shown plain.

use maud::{Markup, html};

/// What a piece of source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Plain,
    Comment,
    Text,
    Number,
    Keyword,
}

impl Class {
    const fn name(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Comment => "hc",
            Self::Text => "hs",
            Self::Number => "hn",
            Self::Keyword => "hk",
        }
    }
}

/// What of a language is known.
#[derive(Debug)]
struct Syntax {
    /// What begins a comment that goes to the end of the line.
    line: &'static [&'static str],
    /// Begin and end of other comments.
    block: &'static [(&'static str, &'static str)],
    /// Quotes of texts that may hold line breaks, longest first.
    long_quotes: &'static [&'static str],
    /// Quotes of texts that end with the line.
    quotes: &'static [&'static str],
    keywords: &'static str,
    any_case: bool,
}

const PLAIN: Syntax = Syntax {
    line: &[],
    block: &[],
    long_quotes: &[],
    quotes: &[],
    keywords: "",
    any_case: false,
};

const PYTHON: Syntax = Syntax {
    line: &["#"],
    long_quotes: &["\"\"\"", "'''"],
    quotes: &["\"", "'"],
    keywords: "False None True and as assert async await break case class continue def del elif else \
               except finally for from global if import in is lambda match nonlocal not or pass raise \
               return self try while with yield",
    ..PLAIN
};

const SCRIPT: Syntax = Syntax {
    line: &["//"],
    block: &[("/*", "*/")],
    long_quotes: &["`"],
    quotes: &["\"", "'"],
    keywords: "abstract any as async await boolean break case catch class const continue debugger \
               declare default delete do else enum export extends false finally for from function get \
               if implements import in instanceof interface let namespace new null number of private \
               protected public readonly return set static string super switch this throw true try \
               type typeof undefined unknown var void while with yield",
    ..PLAIN
};

const GO: Syntax = Syntax {
    keywords: "any bool break byte case chan const continue default defer else error fallthrough false \
               for func go goto if import int interface map nil package range return rune select \
               string struct switch true type uint var",
    ..SCRIPT
};

const SHELL: Syntax = Syntax {
    line: &["#"],
    quotes: &["\"", "'"],
    keywords: "case do done elif else esac exit export fi for function if in local return set then \
               until while ADD ARG CMD COPY ENTRYPOINT ENV FROM RUN USER WORKDIR",
    ..PLAIN
};

const DATA: Syntax = Syntax {
    line: &["#"],
    quotes: &["\"", "'"],
    keywords: "true false null yes no on off",
    ..PLAIN
};

const JSON: Syntax = Syntax {
    quotes: &["\""],
    keywords: "true false null",
    ..PLAIN
};

const SQL: Syntax = Syntax {
    line: &["--"],
    block: &[("/*", "*/")],
    quotes: &["'", "\""],
    keywords: "add all alter and as asc begin between by case check column commit constraint create \
               cross default delete desc distinct drop else end exists foreign from full group having \
               if in index inner insert into is join key left like limit not null on or order outer \
               primary references returning right rollback select set table then union unique update \
               using values view when where with",
    any_case: true,
    ..PLAIN
};

const STYLE: Syntax = Syntax {
    block: &[("/*", "*/"), ("<!--", "-->")],
    quotes: &["\"", "'"],
    ..PLAIN
};

fn syntax(path: &str) -> &'static Syntax {
    let name = path.rsplit('/').next().unwrap_or_default();
    if name == "Dockerfile" || name.starts_with('.') {
        return &SHELL;
    }
    match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "py" | "pyi" => &PYTHON,
        "js" | "mjs" | "cjs" | "jsx" | "ts" | "mts" | "cts" | "tsx" => &SCRIPT,
        "go" | "rs" | "java" | "c" | "h" => &GO,
        "json" => &JSON,
        "yaml" | "yml" | "toml" | "ini" | "cfg" => &DATA,
        "sh" | "bash" | "env" => &SHELL,
        "sql" => &SQL,
        "css" | "html" | "xml" | "svg" => &STYLE,
        _ => &PLAIN,
    }
}

/// The source of a file, as it is shown.
pub(crate) fn source(path: &str, text: &str) -> Markup {
    let pieces = pieces(text, syntax(path));
    html! {
        @for (class, text) in pieces {
            @if class == Class::Plain { (text) } @else { span class=(class.name()) { (text) } }
        }
    }
}

/// The pieces of a text, in order, neighbours of one class joined.
fn pieces<'a>(text: &'a str, syntax: &Syntax) -> Vec<(Class, &'a str)> {
    let mut pieces: Vec<(Class, &str)> = Vec::new();
    let mut plain_from = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let spaced = text[..at].ends_with(char::is_whitespace) || at == 0;
        let (class, length) = piece(rest, spaced, syntax);
        if class != Class::Plain {
            if plain_from < at {
                pieces.push((Class::Plain, &text[plain_from..at]));
            }
            pieces.push((class, &rest[..length]));
            plain_from = at + length;
        }
        at += length;
    }
    if plain_from < text.len() {
        pieces.push((Class::Plain, &text[plain_from..]));
    }
    pieces
}

/// The class and the length of the piece at the beginning of a text that is not empty.
fn piece(rest: &str, spaced: bool, syntax: &Syntax) -> (Class, usize) {
    for (begin, end) in syntax.block {
        if let Some(inner) = rest.strip_prefix(begin) {
            let length = inner
                .find(end)
                .map_or(inner.len(), |found| found + end.len());
            return (Class::Comment, begin.len() + length);
        }
    }
    for begin in syntax.line {
        // `a#b` is one word in a shell and in YAML.
        if rest.starts_with(begin) && (spaced || *begin != "#") {
            return (Class::Comment, rest.find('\n').unwrap_or(rest.len()));
        }
    }
    for quote in syntax.long_quotes {
        if rest.starts_with(quote) {
            return (Class::Text, quoted(rest, quote, true));
        }
    }
    for quote in syntax.quotes {
        if rest.starts_with(quote) {
            return (Class::Text, quoted(rest, quote, false));
        }
    }
    let word = rest
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(rest.len());
    if word == 0 {
        return (Class::Plain, rest.chars().next().map_or(1, char::len_utf8));
    }
    let text = &rest[..word];
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return (Class::Number, word);
    }
    let mut keywords = syntax.keywords.split_ascii_whitespace();
    let is_keyword = if syntax.any_case {
        keywords.any(|keyword| keyword.eq_ignore_ascii_case(text))
    } else {
        keywords.any(|keyword| keyword == text)
    };
    let class = if is_keyword {
        Class::Keyword
    } else {
        Class::Plain
    };
    (class, word)
}

/// The length of a text in quotes, the quotes included. A backslash takes the next character along.
fn quoted(rest: &str, quote: &str, long: bool) -> usize {
    let mut characters = rest[quote.len()..].char_indices();
    while let Some((at, character)) = characters.next() {
        let at = quote.len() + at;
        match character {
            '\\' => {
                characters.next();
            }
            '\n' if !long => return at,
            _ if rest[at..].starts_with(quote) => return at + quote.len(),
            _ => {}
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn classes<'a>(path: &str, text: &'a str) -> Vec<(Class, &'a str)> {
        let mut pieces = pieces(text, syntax(path));
        pieces.retain(|(class, _)| *class != Class::Plain);
        pieces
    }

    #[test]
    fn what_stands_out_is_marked() {
        use Class::{Comment, Keyword, Number, Text};
        assert_eq!(
            classes(
                "a/handler.py",
                "def f(): # x\n  return \"\"\"a\n\"b\"\"\" + 'c\\'d' + 12"
            ),
            [
                (Keyword, "def"),
                (Comment, "# x"),
                (Keyword, "return"),
                (Text, "\"\"\"a\n\"b\"\"\""),
                (Text, "'c\\'d'"),
                (Number, "12"),
            ]
        );
        assert_eq!(
            classes("x.js", "/* a\nb */ const a = `x\n`; // z\n'open\nlet"),
            [
                (Comment, "/* a\nb */"),
                (Keyword, "const"),
                (Text, "`x\n`"),
                (Comment, "// z"),
                (Text, "'open"),
                (Keyword, "let"),
            ]
        );
        assert_eq!(
            classes("q.sql", "SELECT 1"),
            [(Keyword, "SELECT"), (Number, "1")]
        );
        assert_eq!(classes("a.txt", "def 'x' 1x"), [(Number, "1x")]);
        assert_eq!(classes("a.sh", "a#b #c"), [(Comment, "#c")]);
    }

    #[test]
    fn markup_in_source_is_shown_and_not_obeyed() {
        let shown = source("x.py", "'</span><script>alert(1)</script>' & \"x\"").into_string();
        assert!(!shown.contains("<script"), "{shown}");
        assert!(shown.contains("&lt;script&gt;alert"), "{shown}");
    }

    #[test]
    fn a_long_line_takes_no_longer_than_many_short_ones() {
        for part in ["\"", "'\\", "/*", "a#", "`x", "\"\"\"", "((", "é"] {
            let text = part.repeat(200_000 / part.len());
            let begun = std::time::Instant::now();
            for path in ["a.py", "a.js", "a.sql", "a.yaml", "a.css"] {
                pieces(&text, syntax(path));
            }
            assert!(begun.elapsed().as_secs() < 5, "{part}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost(text in r#"([a-z0-9"'`#/*\\\-<!> \n]|é|def|\PC){0,200}"#) {
            for path in ["a.py", "a.js", "a.go", "a.sh", "a.yaml", "a.json", "a.sql", "a.css", "a"] {
                let pieces = pieces(&text, syntax(path));
                let joined: String = pieces.iter().map(|(_, text)| *text).collect();
                prop_assert_eq!(&joined, &text);
                prop_assert!(pieces.iter().all(|(_, text)| !text.is_empty()));
            }
        }
    }
}
