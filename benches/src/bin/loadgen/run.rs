//! The measurement, from the first server to the last table.
#![allow(clippy::print_stdout, reason = "tables are what it is for")]

use std::{path::Path, time::Duration};

use anyhow::{Result, bail};
use sless_benches::{
    cores::Cores,
    deploy, processes, report,
    report::{Spread, Table},
    server::{Server, Setup},
};
use sless_core::Runtime;

use crate::{Arguments, Part, calls, many};

/// Longer than any machine that CI runs on needs for a restart with a hundred functions.
const RESTART_AT_MOST: Duration = Duration::from_secs(20);

/// With fewer functions, their memory is lost in what differs between two starts.
const TELLING: usize = 1000;

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let program = match &arguments.server {
        Some(program) => program.clone(),
        None => std::env::current_exe()?,
    };
    let folder = tempfile::tempdir()?;
    let cores = Cores::split();
    // One thread, on the core of the load. It looks for answers often, since it also spins.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .event_interval(8)
        .build()?;
    println!("{}\n", report::machine(&cores.describe()));
    let busy = report::busy();
    if busy > 0.3 {
        println!(
            "Others are at work here (load {busy:.1}): the figures say little but for their least.\n"
        );
    }
    runtime.block_on(measure(arguments, folder.path(), &program, &cores))?;
    println!("load after: {:.1}", report::busy());
    Ok(())
}

async fn measure(
    arguments: &Arguments,
    folder: &Path,
    program: &Path,
    cores: &Cores,
) -> Result<()> {
    let empty = Setup::new(program, &folder.join("empty"))?;
    let server = Server::start(&empty, cores).await?;
    let namespace = server.namespace.as_str();
    server.client.ensure_namespace(namespace).await?;
    if arguments.measures(Part::Deploy) {
        println!("{}", deploys(&server, arguments).await?.show());
    }
    if arguments.measures(Part::Calls) {
        println!("{}", calls::measure(&server, arguments).await?.show());
    }
    server.stop().await?;
    if arguments.measures(Part::Many) {
        let fresh = Setup::new(program, &folder.join("fresh"))?;
        let kept = arguments
            .folder
            .clone()
            .unwrap_or_else(|| folder.join("many"));
        let many = Setup::new(program, &kept)?;
        println!(
            "{}",
            many_functions(arguments, &fresh, &many, cores)
                .await?
                .show()
        );
    }
    Ok(())
}

/// From the first byte of an upload to the last of the first 200.
async fn deploys(server: &Server, arguments: &Arguments) -> Result<Table> {
    let mut table = Table::new(["", "ms"]);
    for (language, runtime) in [("Python", Runtime::Python311), ("Node", Runtime::NodeJs20)] {
        let mut spread = Spread::default();
        for round in 0..arguments.rounds() {
            let name = format!("first-{}-{round}", language.to_lowercase());
            deploy::create(server, &name, runtime, None).await?;
            // Named in the source, so that each is another one, that nobody has built before.
            let zip = deploy::zip(runtime, &name)?;
            let took = deploy::until_first_answer(server, &name, zip).await?;
            spread.add(took.as_secs_f64() * 1e3);
        }
        table.row([&format!("upload to first 200, {language}"), &spread.show(0)]);
    }
    Ok(table)
}

/// What many functions cost. `fresh` stays empty; `many` is filled where it is empty.
async fn many_functions(
    arguments: &Arguments,
    fresh: &Setup,
    many: &Setup,
    cores: &Cores,
) -> Result<Table> {
    let functions = arguments.functions();
    let started = arguments.started();
    let mut table = Table::new([&format!("{functions} functions"), ""]);
    let server = Server::start(many, cores).await?;
    if server.has(&many::name(functions - 1)).await? {
        table.row([
            "made through the API, per second",
            "used again".to_owned().as_str(),
        ]);
    } else {
        server
            .client
            .ensure_namespace(server.namespace.as_str())
            .await?;
        let took = many::make(&server, functions, started).await?;
        let rate = functions as f64 / took.as_secs_f64();
        table.row(["made through the API, per second", &format!("{rate:.0}")]);
    }
    many::check(&server, functions, started).await?;
    server.stop().await?;

    let (mut ready, mut answered, mut each) = Default::default();
    let mut last: Option<Server> = None;
    for round in 0..arguments.rounds() {
        // After an orderly end and after a crash in turn.
        if let Some(server) = last.take() {
            if round % 2 == 1 {
                server.kill().await?
            } else {
                server.stop().await?
            }
        }
        let empty = Server::start(fresh, cores).await?;
        many::settle(&empty).await?;
        let without = processes::memory(empty.pid())?;
        empty.stop().await?;
        let restarted = many::restart(many, cores, &many::name(round % started)).await?;
        let with = processes::memory(restarted.server.pid())?;
        Spread::add(&mut ready, restarted.ready.as_secs_f64() * 1e3);
        Spread::add(&mut answered, restarted.answered.as_secs_f64() * 1e3);
        Spread::add(
            &mut each,
            with.saturating_sub(without) as f64 / functions as f64,
        );
        if arguments.smoke && restarted.answered > RESTART_AT_MOST {
            bail!(
                "a restart took {:?}, more than {RESTART_AT_MOST:?}",
                restarted.answered
            );
        }
        last = Some(restarted.server);
    }
    table.row(["restart until ready, ms", &ready.show(0)]);
    table.row([
        "restart until a function that slept answers, ms",
        &answered.show(0),
    ]);
    if functions >= TELLING {
        table.row(["memory of each in the server, bytes", &each.show(0)]);
    }

    let Some(server) = last else {
        bail!("no round")
    };
    let rest = many::rest(&server, &many.data, arguments.rest()).await?;
    if !rest.changes.is_empty() {
        bail!("files were written at rest:\n{}", rest.changes.join("\n"));
    }
    let seconds = arguments.rest().as_secs();
    table.row([&format!("files changed in {seconds} s at rest"), "0"]);
    table.row(["bytes written in that time", &rest.written.to_string()]);
    table.row([
        "processor in that time, % of a core",
        &format!("{:.2}", rest.cpu * 100.0),
    ]);
    many::check(&server, functions, started).await?;
    server.stop().await?;
    Ok(table)
}
