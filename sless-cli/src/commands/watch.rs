//! `sless watch`.

use std::path::PathBuf;

use sless_api::FunctionPhase;
use sless_source::{Content, Folder, Watch};

use super::deploy::{Deploy, Settings};
use crate::{
    args::Globals,
    failure::{Exit, Result},
    interrupt::Interrupt,
    output::{Output, Paint, beside},
    session::Session,
};

const EXAMPLES: &str = "\
Examples:
  $ sless watch hello";

/// Deploy a folder now and whenever it changes, until Ctrl-C.
///
/// The URL is printed once. What is wrong with the folder, its build or the server is told, and the
/// next change is waited for; the version before serves on.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The folder.
    #[arg(default_value = ".", value_name = "FOLDER")]
    folder: PathBuf,
    #[command(flatten)]
    settings: Settings,
}

pub(crate) async fn run(
    args: &Args,
    globals: &Globals,
    output: &Output,
    interrupt: &mut Interrupt,
) -> Result<()> {
    let session = Session::open(globals, output)?;
    let folder = Folder::open(&args.folder)?;
    let mut watch = Watch::new(&folder.path);
    let told = watch.told();
    let mut url_shown = false;
    let mut last: Option<Content> = None;
    loop {
        // The first is told at once. Whatever changes after this is seen by the next look.
        let change = async {
            told.changed(None).await;
            Ok(())
        };
        interrupt.cut(change).await?;
        watch = covered(watch).await?;
        let reading = args.settings.read(args.folder.clone(), output);
        let content = match interrupt.cut(reading).await {
            Ok(content) => content,
            Err(failure) if failure.is_silent() => return Err(failure),
            Err(failure) => {
                output.fail(&failure);
                output.say("waiting for a change");
                continue;
            }
        };
        if last.as_ref() == Some(&content) {
            continue;
        }
        let deploy = Deploy {
            session: &session,
            output,
            content: &content,
            settings: &args.settings,
            wait: true,
        };
        match deploy.run(interrupt).await {
            Ok(function) => {
                if !url_shown {
                    output.line(&function.url)?;
                    url_shown = true;
                }
                if function.phase == FunctionPhase::Ready {
                    output.say_painted(Paint::Faint, "waiting for a change; Ctrl-C ends");
                }
                last = Some(content);
            }
            Err(failure) if failure.is_silent() => return Err(failure),
            // Without access no change will help.
            Err(failure) if matches!(failure.exit, Exit::Refused | Exit::Setup) => {
                return Err(failure);
            }
            Err(failure) => {
                output.fail(&failure);
                output.say("waiting for a change");
                last = None;
            }
        }
    }
}

async fn covered(mut watch: Watch) -> Result<Watch> {
    let covered = beside(move || {
        watch.cover();
        Ok(watch)
    });
    covered.await
}
