//! What must hold after each kill.

use std::{collections::BTreeMap, path::Path, time::Instant};

use sless_api::{FunctionPhase, Job, JobPhase, ListQuery, client::Call};

use super::{
    super::{
        machine::Machine,
        process::{DEADLINE, LOOK, marked_processes, marks_below},
    },
    ledger::{Known, Ledger, Notes, Versions},
};

/// Looks at a server that was started after a kill.
pub(super) async fn check(machine: &Machine, data: &Path, ledger: &mut Ledger) {
    for (name, versions) in [
        ("steady", &mut ledger.steady),
        ("installed", &mut ledger.installed),
    ] {
        serves(machine, name, versions).await;
    }
    for (number, known) in std::mem::take(&mut ledger.jobs) {
        let ended = job(machine, data, number, &known).await;
        if known.accepted {
            ledger.counts.jobs += 1;
            ledger.counts.interrupted +=
                u64::from(ended.is_some_and(|job| job.phase == JobPhase::Failed));
        }
    }
    messages_came(machine, data, ledger).await;
    clock_fired(machine, data).await;
    let all = ListQuery::default();
    let functions = machine.client.functions(&machine.namespace, &all);
    for function in functions.await.unwrap().items {
        if function.name.starts_with("passing-") {
            // It may be going already.
            let deleted = machine
                .client
                .delete_function(&machine.namespace, &function.name);
            if let Err(error) = deleted.await {
                assert!(error.is_not_found(), "{}: {error}", function.name);
            }
        }
    }
    no_process_is_orphaned(machine).await;
}

/// At once: what served before serves again, or what was under way. Soon: what was taken.
async fn serves(machine: &Machine, name: &str, versions: &mut Versions) {
    let first = version(machine, name).await;
    assert!(
        versions.may_serve(first),
        "{name}: {first} at once, {versions:?}"
    );
    let function = machine.settled(name).await;
    assert_eq!(function.phase, FunctionPhase::Ready, "{function:?}");
    let settled = version(machine, name).await;
    let known = *versions;
    assert!(
        versions.settle(settled),
        "{name}: {settled} in the end, {known:?}"
    );
}

/// The version that answers, of which both files must be the same.
pub(super) async fn version(machine: &Machine, name: &str) -> u32 {
    let (status, body) = machine.call(name, Call::new("GET")).await;
    let text = String::from_utf8(body).unwrap();
    assert_eq!(
        status,
        200,
        "{name}: {text}\n{}",
        machine.process.err.text()
    );
    let [one, other]: [u32; 2] = serde_json::from_str(&text).unwrap();
    assert_eq!(one, other, "{name}: a mix of versions");
    one
}

/// A job has ended exactly once, and stays as it ended until it is deleted, which is asked for here.
async fn job(machine: &Machine, data: &Path, number: u64, known: &Known) -> Option<Job> {
    let (client, namespace, name) = (&machine.client, &machine.namespace, format!("job-{number}"));
    let count = |of: &BTreeMap<u64, u32>| of.get(&number).copied().unwrap_or(0);
    let began = Instant::now();
    let job = loop {
        match client.job(namespace, &name).await {
            Ok(job) if matches!(job.phase, JobPhase::Succeeded | JobPhase::Failed) => break job,
            Ok(job) => assert!(began.elapsed() < DEADLINE, "{job:?}"),
            Err(error) => {
                assert!(error.is_not_found(), "{name}: {error}");
                assert!(
                    known.deleting || !known.accepted,
                    "{name} was accepted and is gone"
                );
                let ran = count(&Notes::read(data).begun);
                assert!(known.deleting || ran == 0, "{name} ran and was never there");
                return None;
            }
        }
        tokio::time::sleep(LOOK).await;
    };
    if let Some(before) = &known.ended {
        assert_eq!(&job, before, "a job that has ended stays as it is");
    }
    let notes = Notes::read(data);
    let (begun, ended) = (count(&notes.begun), count(&notes.ended));
    assert!(begun <= 1, "{name} ran more than once: {job:?}");
    if job.phase == JobPhase::Succeeded {
        assert_eq!((begun, ended), (1, 1), "{job:?}");
        assert_eq!(
            job.result.as_deref(),
            Some(&*format!("{{\"job\":{number}}}")),
            "{job:?}"
        );
    } else {
        assert_eq!(job.reason.as_deref(), Some("interrupted"), "{job:?}");
    }
    client.delete_job(namespace, &name).await.unwrap();
    Some(job)
}

/// Every message that was accepted is delivered, and none is given up.
async fn messages_came(machine: &Machine, data: &Path, ledger: &mut Ledger) {
    let began = Instant::now();
    loop {
        let notes = Notes::read(data);
        let mut lost = ledger
            .messages
            .iter()
            .filter(|number| !notes.messages.contains_key(number));
        let Some(number) = lost.next() else { break };
        assert!(
            began.elapsed() < DEADLINE,
            "{number} was accepted and never delivered"
        );
        tokio::time::sleep(LOOK).await;
    }
    let trigger = machine
        .client
        .trigger(&machine.namespace, "queue")
        .await
        .unwrap();
    assert_eq!(trigger.dead_lettered, 0, "{trigger:?}");
}

/// Every due time that was claimed is run, and more than once only where a run was cut off.
async fn clock_fired(machine: &Machine, data: &Path) {
    let trigger = machine
        .client
        .trigger(&machine.namespace, "clock")
        .await
        .unwrap();
    let began = Instant::now();
    let notes = loop {
        let notes = Notes::read(data);
        match trigger.last_fire_at {
            Some(at) if !notes.cron.contains_key(&at.to_string()) => {
                assert!(
                    began.elapsed() < DEADLINE,
                    "{at} was claimed and never run: {trigger:?}"
                );
            }
            _ => break notes,
        }
        tokio::time::sleep(LOOK).await;
    };
    for (at, causes) in &notes.cron {
        let first = causes
            .iter()
            .filter(|cause| *cause != "interrupted")
            .count();
        assert!(first <= 1, "{at} was run as {causes:?}");
    }
}

/// Everything that was started for the data folder belongs to the server that runs now.
async fn no_process_is_orphaned(machine: &Machine) {
    let server = machine.process.id();
    let marks = marks_below(server);
    assert_eq!(marks.len(), 1, "workers run: {marks:?}");
    let began = Instant::now();
    loop {
        let all = marked_processes();
        let parents: BTreeMap<u32, u32> =
            all.iter().map(|(id, parent, _)| (*id, *parent)).collect();
        let orphans: Vec<_> = all
            .iter()
            .filter(|(_, _, mark)| marks.contains(mark))
            .filter(|(id, ..)| {
                let mut at = *id;
                while let Some(parent) = parents.get(&at) {
                    at = *parent;
                }
                at != server
            })
            .collect();
        if orphans.is_empty() {
            return;
        }
        assert!(began.elapsed() < DEADLINE, "orphans: {orphans:?}");
        tokio::time::sleep(LOOK).await;
    }
}
