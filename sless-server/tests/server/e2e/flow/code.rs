//! The code of the functions.

use sless_api::CreateFunction;

use super::super::machine::{node, python, zip};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Python,
    Node,
}

/// Answers with what it was asked, its version and its environment; fails on demand.
const PYTHON: &str = "import os
from lib.part import VERSION

def handle(event, context):
    event = event if isinstance(event, dict) else {}
    print('got', event.get('n'), event.get('type'), context.headers.get('x-sless-message-id'))
    if event.get('fail'):
        raise ValueError('no good')
    return {'n': event.get('n', 0) + 1, 'word': os.environ['WORD'], 'version': VERSION}
";

const NODE: &str = "const { VERSION } = require('./lib/part.js');

exports.handle = async (event, context) => {
  const { n, type, fail } = event ?? {};
  console.log('got', n, type, context.headers['x-sless-message-id']);
  if (fail) throw new TypeError('no good');
  return { n: (n ?? 0) + 1, word: process.env.WORD, version: VERSION };
};
";

const UNSAFE_PYTHON: &str = "import pty\n\ndef handle(event):\n    pty.spawn('/bin/sh')\n";

const UNSAFE_NODE: &str = "const POOL = 'stratum+tcp://pool.minexmr.com:4444';\n\
    exports.handle = () => POOL;\n";

impl Language {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Python => "python-one",
            Self::Node => "node-one",
        }
    }

    pub(crate) fn function(self) -> CreateFunction {
        let mut function = match self {
            Self::Python => python(self.name()),
            Self::Node => node(self.name()),
        };
        function.env = Some([("WORD", "hi")].into_iter().collect());
        function.concurrency = Some(4);
        function.memory = Some("128Mi".to_owned());
        function
    }

    pub(super) fn files(self, version: u32) -> Vec<(&'static str, String)> {
        match self {
            Self::Python => vec![
                ("handler.py", PYTHON.to_owned()),
                ("lib/__init__.py", String::new()),
                ("lib/part.py", format!("VERSION = {version}\n")),
            ],
            Self::Node => vec![
                ("handler.js", NODE.to_owned()),
                ("lib/part.js", format!("exports.VERSION = {version};\n")),
            ],
        }
    }

    pub(super) fn unsafe_zip(self) -> Vec<u8> {
        match self {
            Self::Python => zip(&[("handler.py", UNSAFE_PYTHON)]),
            Self::Node => zip(&[("handler.js", UNSAFE_NODE)]),
        }
    }
}

/// The zip of a version.
pub(crate) fn version(language: Language, version: u32) -> Vec<u8> {
    let files = language.files(version);
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| (*path, text.as_str()))
        .collect();
    zip(&files)
}
