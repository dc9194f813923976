//! `sless init`.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use clap::ValueEnum;
use serde::Serialize;
use sless_core::Name;
use sless_source::Folder;

use crate::{
    failure::{Exit, Failure, Result},
    output::{Output, Paint},
};

const EXAMPLES: &str = "\
Examples:
  $ sless init hello
  $ sless init greeter --runtime nodejs20 --name greeter-js";

/// Make a folder with a function to begin with, and its test.
///
/// Nothing that is there is written over: where one of the files exists, none is made.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The folder.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// The language.
    #[arg(long, value_enum, default_value_t, value_name = "RUNTIME")]
    runtime: Template,
    /// The function's name; the folder's where it is left out.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Template {
    /// Python 3.11
    #[default]
    #[value(name = "python3.11", alias = "python")]
    Python,
    /// Node.js 20
    #[value(name = "nodejs20", alias = "node")]
    Node,
}

/// What every template has.
const IGNORE: &str = include_str!("init/slessignore");

impl Template {
    const fn runtime(self) -> &'static str {
        match self {
            Self::Python => "python3.11",
            Self::Node => "nodejs20",
        }
    }

    /// Names and contents; `NAME` in a content is the function's name.
    const fn files(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Python => &[
                ("handler.py", include_str!("init/python/handler.py")),
                (
                    "test_handler.py",
                    include_str!("init/python/test_handler.py"),
                ),
                (
                    "requirements.txt",
                    include_str!("init/python/requirements.txt"),
                ),
                (".slessignore", IGNORE),
            ],
            Self::Node => &[
                ("handler.js", include_str!("init/node/handler.js")),
                ("handler.test.js", include_str!("init/node/handler.test.js")),
                ("package.json", include_str!("init/node/package.json")),
                (".slessignore", IGNORE),
            ],
        }
    }

    const fn test(self) -> &'static str {
        match self {
            Self::Python => "python3 -m unittest",
            Self::Node => "npm test",
        }
    }
}

/// What was made, for scripts.
#[derive(Debug, Serialize)]
struct Made<'a> {
    folder: &'a Path,
    name: &'a str,
    files: &'a [PathBuf],
}

pub(crate) fn run(args: &Args, output: &Output) -> Result<()> {
    let folder = &args.folder;
    let name = function_name(args)?;
    let manifest = format!(
        "name = \"{name}\"\nruntime = \"{}\"\ntimeout_seconds = 30\n\n[env]\nGREETING = \"Hello\"\n",
        args.runtime.runtime()
    );
    let mut files = vec![("sless.toml", manifest)];
    let rest = args.runtime.files().iter();
    files.extend(rest.map(|(path, text)| (*path, text.replace("NAME", &name))));
    if let Some((there, _)) = files.iter().find(|(path, _)| folder.join(path).exists()) {
        let text = format!("{} is there already", folder.join(there).display());
        return Err(Failure::new(Exit::Conflict, text).hint("choose another folder"));
    }
    let made = write(folder, &files)?;
    if !output.is_for_people() {
        return output.value(&Made {
            folder,
            name: &name,
            files: &made,
        });
    }
    for path in &made {
        output.line(&path.display().to_string())?;
    }
    output.say_painted(Paint::Good, &format!("the function {name} is begun"));
    let (shown, test) = (folder.display(), args.runtime.test());
    output.say(&format!(
        "test it:   (cd {shown} && {test})\ndeploy it: sless deploy {shown}"
    ));
    Ok(())
}

fn function_name(args: &Args) -> Result<String> {
    if let Some(name) = &args.name {
        let checked = Name::new(name.clone());
        return Ok(checked
            .map_err(|error| Failure::usage(error.message()))?
            .to_string());
    }
    // The folder may not be there yet, and `.` has a name only once it is looked up.
    let path = fs::canonicalize(&args.folder).unwrap_or_else(|_| args.folder.clone());
    let label = path
        .file_name()
        .and_then(|name| Folder::label(&name.to_string_lossy()));
    label.ok_or_else(|| {
        Failure::usage("no function can be named after the folder").hint("name it with --name")
    })
}

/// Writes all files, or none.
fn write(folder: &Path, files: &[(&str, String)]) -> Result<Vec<PathBuf>> {
    let had_folder = folder.exists();
    let mut made = Vec::new();
    let written = fs::create_dir_all(folder).and_then(|()| {
        files.iter().try_for_each(|(path, text)| {
            let path = folder.join(path);
            let mut file = fs::File::create_new(&path)?;
            made.push(path);
            file.write_all(text.as_bytes())
        })
    });
    written.map_err(|error: io::Error| {
        for path in &made {
            let _ = fs::remove_file(path);
        }
        if !had_folder {
            let _ = fs::remove_dir(folder);
        }
        Failure::usage(format!("{} cannot be written: {error}", folder.display()))
    })?;
    Ok(made)
}
