//! The measurement, from what is installed to the last table.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tables are what it is for"
)]

use std::{fmt::Write as _, path::Path, time::Instant};

use anyhow::{Context as _, Result, bail};
use sless_benches::{
    cores::Cores,
    deploy,
    report::{self, Spread},
    server::{Server, Setup},
};
use sless_core::Runtime;

use crate::{
    Arguments, Part,
    contestants::{Field, NODE, PYTHON},
    goals::Goals,
    install::Cache,
    measure::{self, Entry},
    tables,
};

/// How long an upload may take to its first answer, in ms.
const UPLOAD_MS: f64 = 100.0;

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let begun = Instant::now();
    let busy = report::busy();
    let home = std::env::home_dir().unwrap_or_default();
    let folder = arguments.cache.clone();
    let folder = folder.unwrap_or_else(|| home.join(".cache/sless/peers"));
    let offline = arguments.offline || arguments.smoke;
    let cache = Cache::open(folder, offline, !arguments.no_build)?;
    let place = tempfile::tempdir()?;
    let cores = Cores::split();
    // One thread, on the core of the load. It looks for answers often, since it also spins.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .event_interval(8)
        .build()?;
    let measured = measure(arguments, &cache, place.path(), &cores);
    let tables = runtime.block_on(measured)?;
    let text = format!(
        "{}\n\n{}, {} rounds of {:?} a case; {:.0} s in all; load before: {busy:.1}, after, \
         with its own: {:.1}\n\n{tables}",
        report::hardware(),
        report::machine(&cores.describe()),
        arguments.rounds(),
        arguments.duration(),
        begun.elapsed().as_secs_f64(),
        report::busy(),
    );
    match &arguments.out {
        Some(file) => std::fs::write(file, text).with_context(|| file.display().to_string())?,
        None => println!("{text}"),
    }
    Ok(())
}

async fn measure(
    arguments: &Arguments,
    cache: &Cache,
    place: &Path,
    cores: &Cores,
) -> Result<String> {
    let mut text = String::new();
    let mut goals = Goals::new();
    for (part, field, title) in [
        (Part::Proxy, Field::Proxy, "Proxies"),
        (Part::Python, Field::Python, "Python"),
        (Part::Node, Field::Node, "Node"),
    ] {
        if !arguments.measures(part) {
            continue;
        }
        eprintln!("{title} …");
        let folder = place.join(title);
        std::fs::create_dir_all(&folder)?;
        let entries = measure::field(field, arguments, cache, &folder, cores).await?;
        let (starts, calls) = (tables::starts(&entries), tables::calls(&entries));
        let _ = write!(text, "## {title}\n\n{}\n{}\n", starts.show(), calls.show());
        match field {
            Field::Proxy => goals.proxies(&entries),
            Field::Python | Field::Node => goals.runtimes(&entries),
        }
        if arguments.smoke {
            all_of_ours_answered(&entries)?;
        }
    }
    if arguments.measures(Part::Deploy) {
        eprintln!("Deploy …");
        for (runtime, seen) in uploads(arguments, cache, place, cores).await? {
            let goal = format!("{}: upload to first 200, ms", runtime.as_str());
            goals.at_most(&goal, UPLOAD_MS, &seen, 0);
        }
    }
    let _ = write!(text, "## Goals\n\n{}", goals.show());
    Ok(text)
}

/// What a short run is for.
fn all_of_ours_answered(entries: &[Entry]) -> Result<()> {
    for entry in entries.iter().filter(|entry| entry.is_ours()) {
        let runs = [PYTHON, NODE].contains(&entry.name) || !entry.starts_by_command();
        match &entry.failed {
            // A server that was built without the backend of clusters.
            Some(why) if !runs => eprintln!("{}: {why}", entry.name),
            Some(why) => bail!("{}: {why}", entry.name),
            None => {}
        }
    }
    Ok(())
}

/// From the first byte of an upload to the last of the first 200, with nothing to install.
async fn uploads(
    arguments: &Arguments,
    cache: &Cache,
    place: &Path,
    cores: &Cores,
) -> Result<Vec<(Runtime, Spread)>> {
    let program = cache.server.clone().map_err(anyhow::Error::msg)?;
    let server = Server::start(&Setup::new(&program, &place.join("deploy"))?, cores).await?;
    server
        .client
        .ensure_namespace(server.namespace.as_str())
        .await?;
    let mut seen = Vec::new();
    for runtime in [Runtime::Python311, Runtime::NodeJs20] {
        let mut spread = Spread::default();
        for round in 0..arguments.rounds() {
            let word = runtime.as_str().replace('.', "-");
            let name = format!("first-{word}-{round}");
            deploy::create(&server, &name, runtime, None).await?;
            // Named in the source, so that each is another one, that nobody has built before.
            let zip = deploy::zip(runtime, &name)?;
            let took = deploy::until_first_answer(&server, &name, zip).await?;
            spread.add(took.as_secs_f64() * 1e3);
        }
        seen.push((runtime, spread));
    }
    server.stop().await?;
    Ok(seen)
}
