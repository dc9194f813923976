//! `sless delete`.

use super::shown;
use crate::{
    args::Globals,
    failure::{Exit, Failure, Result},
    interrupt::Interrupt,
    output::Output,
    session::Session,
};

const EXAMPLES: &str = "\
Examples:
  $ sless delete hello --yes
  $ sless delete hello old-hello --yes --ignore-missing -o json";

/// Remove functions, and everything that was made for them.
///
/// Prints the receipt: what was removed, where, and what is still there. Triggers and jobs of a
/// function stay, and say that it is missing.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, visible_alias = "rm")]
pub(crate) struct Args {
    /// The functions.
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
    /// What is not there is no error.
    #[arg(long)]
    ignore_missing: bool,
}

pub(crate) async fn run(
    args: &Args,
    globals: &Globals,
    output: &Output,
    interrupt: &mut Interrupt,
) -> Result<()> {
    let session = Session::open(globals, output)?;
    let Session { client, namespace } = &session;
    let names = args.names.join(", ");
    interrupt
        .cut(output.confirm(args.yes, &format!("remove {names} from {namespace}?")))
        .await?;
    let mut receipts = Vec::new();
    let mut ended = Ok(());
    for name in &args.names {
        let delete = async { Ok(client.delete_function(namespace, name).await) };
        // Each deletion is one request, whose answer is waited for.
        match interrupt.whole(output, delete).await {
            Ok(Ok(receipt)) => {
                if output.is_for_people() {
                    output.say(&format!("{name} is removed"));
                    shown::receipt(output, &receipt)?;
                }
                receipts.push(receipt);
            }
            Ok(Err(error)) if error.is_not_found() && args.ignore_missing => {
                output.say(&format!("{name} is not there"));
            }
            Ok(Err(error)) => {
                ended = Err(session.tell_missing(Failure::from(error), "list"));
                break;
            }
            Err(cut) => {
                ended = Err(cut);
                break;
            }
        }
    }
    if !output.is_for_people() {
        output.value(&receipts)?;
    }
    ended?;
    if receipts.iter().any(|receipt| !receipt.complete) {
        return Err(
            Failure::new(Exit::Failed, "something is left of what was to be removed")
                .hint("the server goes on by itself, except for what needs an operator"),
        );
    }
    Ok(())
}
