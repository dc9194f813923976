//! The code of the functions.

use sless_api::CreateFunction;
use sless_core::source::{SourceTree, pack};

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

/// The zip of a version in Python that is known by a package, which has to be installed.
pub(crate) fn installing(version: u32) -> Vec<u8> {
    let zip = |files: Vec<(String, Vec<u8>)>| {
        let tree = SourceTree::from_files(files).unwrap();
        let zip = std::io::Cursor::new(Vec::new());
        pack::write_zip(&tree, zip).unwrap().into_inner()
    };
    let file = |path: &str, text: &str| (path.to_owned(), text.as_bytes().to_vec());
    // The smallest wheel (PEP 427): its record names the files without digests, which pip takes.
    let info = "brought-1.0.dist-info";
    let wheel = zip(vec![
        file("brought.py", &format!("VERSION = {version}\n")),
        file(
            &format!("{info}/METADATA"),
            "Metadata-Version: 2.1\nName: brought\nVersion: 1.0\n",
        ),
        file(
            &format!("{info}/WHEEL"),
            "Wheel-Version: 1.0\nGenerator: sless\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        ),
        file(
            &format!("{info}/RECORD"),
            &format!("brought.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n"),
        ),
    ]);
    let name = "brought-1.0-py3-none-any.whl";
    zip(vec![
        file("handler.py", PYTHON),
        file("lib/__init__.py", ""),
        file("lib/part.py", "from brought import VERSION\n"),
        file("requirements.txt", &format!("./{name}\n")),
        (name.to_owned(), wheel),
    ])
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
