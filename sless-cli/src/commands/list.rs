//! `sless list`.

use jiff::Timestamp;

use super::shown::{self, NOTHING};
use crate::{
    args::Globals,
    failure::Result,
    output::Output,
    session::{Session, all},
};

const EXAMPLES: &str = "\
Examples:
  $ sless list
  $ sless list -o json
  $ sless list --output yaml --namespace sless-2bd806c97f0e00af";

/// Show all functions of the namespace.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, visible_alias = "ls")]
pub(crate) struct Args {}

pub(crate) async fn run(Args {}: &Args, globals: &Globals, output: &Output) -> Result<()> {
    let Session { client, namespace } = Session::open(globals, output)?;
    let functions = all(async |query| client.functions(&namespace, &query).await).await?;
    if !output.is_for_people() {
        return output.value(&functions);
    }
    if functions.is_empty() {
        output.say(&format!(
            "{namespace} has no functions: `sless deploy FOLDER` makes one"
        ));
        return Ok(());
    }
    let now = Timestamp::now();
    let rows = functions.iter().map(|function| {
        let wanted = function.replicas.unwrap_or(1);
        let built = function.last_built_at;
        vec![
            function.name.clone(),
            function.runtime.clone(),
            shown::phase(output, function),
            format!("{}/{wanted}", function.ready_replicas),
            built.map_or_else(|| NOTHING.to_owned(), |at| shown::ago(at, now)),
            function.url.clone(),
        ]
    });
    let head = ["NAME", "RUNTIME", "PHASE", "READY", "BUILT", "URL"];
    output.table(&head, rows.collect())
}
