//! A job: one run of a function with a given event, which is carried out exactly once for each
//! `run_id`, in a process of its own, and whose result is kept.
//!
//! `cargo run -p sless-examples --example job`

use std::{error::Error, time::Duration};

use futures::StreamExt as _;
use sless_core::{
    Catalog as _, CatalogExt as _, Deploy, FunctionJob, FunctionSpec, JobPhase, JobSpec, Metadata,
    Name, Namespace, Runtime, Sless, WatchOptions,
};
use sless_local::{Local, LocalConfig, ToolsConfig};

const CODE: &str = "
def handle(event):
    return {'sum': sum(event['numbers'])}
";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let mut config = LocalConfig::new(folder.path());
    config.tools = ToolsConfig::default().with_environment(std::env::vars());
    let local = Local::open(config).await?;
    let sless = Sless::new(local.backends())?;
    let (namespace, function) = (Namespace::new("demo")?, Name::new("sum")?);
    let spec = FunctionSpec::new(Runtime::Python311);
    let files = [("handler.py", CODE)];
    let deploy = Deploy::files(namespace.clone(), function.clone(), spec, files)?;
    sless.deploy(deploy).await?;

    // Creating the object is all: the engine sees it and runs it.
    let name = Name::new("first-numbers")?;
    let mut spec = JobSpec::new(function);
    spec.event_json = Some(r#"{"numbers": [1, 2, 3]}"#.to_owned());
    let job = FunctionJob::new(Metadata::new(namespace.clone(), name.clone()), spec);
    local.catalog().add(job).await?;
    let job = ended(&local, &namespace, &name, 1).await?;
    assert_eq!(job.status.phase, JobPhase::Succeeded);
    assert_eq!(job.status.result.as_deref(), Some(r#"{"sum":6}"#));

    // A higher run id runs it again; the same one, or a lower one, would do nothing.
    let again = |job: &mut FunctionJob| {
        job.spec.run_id = 2;
        job.spec.event_json = Some(r#"{"numbers": []}"#.to_owned());
        Ok(())
    };
    local.catalog().modify(&namespace, &name, again).await?;
    let job = ended(&local, &namespace, &name, 2).await?;
    assert_eq!(job.status.result.as_deref(), Some(r#"{"sum":0}"#));

    // What the handler raises is the end of that run, with a phase and a message that say so.
    let fail = |job: &mut FunctionJob| {
        job.spec.run_id = 3;
        job.spec.event_json = Some("{}".to_owned());
        Ok(())
    };
    local.catalog().modify(&namespace, &name, fail).await?;
    let job = ended(&local, &namespace, &name, 3).await?;
    assert_eq!(job.status.phase, JobPhase::Failed);
    assert!(job.status.message.contains("KeyError"), "{:?}", job.status);

    sless.shutdown().await;
    local.shutdown().await;
    Ok(())
}

/// Waits for the end of a run: looks, and looks again whenever the catalog hints at a change.
async fn ended(
    local: &Local,
    namespace: &Namespace,
    name: &Name,
    run_id: i64,
) -> Result<FunctionJob, Box<dyn Error>> {
    let wait = async {
        let mut changes = local.catalog().watch(&WatchOptions::default()).await?;
        loop {
            let job: FunctionJob = local.catalog().read(namespace, name).await?;
            if job.status.phase.is_terminal() && job.status.run_id == run_id {
                return Ok::<_, sless_core::Error>(job);
            }
            changes.next().await.transpose()?;
        }
    };
    Ok(tokio::time::timeout(Duration::from_secs(30), wait).await??)
}
