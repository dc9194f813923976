//! A server that is killed at any moment of upload, build, deploy or job, and started again on the
//! same data folder: the old version or the new one serves, never a mix; a job ends exactly once;
//! nothing is left running, and no folder is left over.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use futures::StreamExt;
use sless_api::{
    CreateJob, Field, FunctionPhase, Job, JobPhase, PatchFunction,
    client::{Call, Content},
};

use super::{
    machine::{Machine, python, zip},
    process::{DEADLINE, LOOK, marked_processes, marks_below},
};

const ROUNDS: u32 = 30;

/// How long after the beginning of an upload the server is killed, at most: what the slowest step
/// takes, and some more.
const KILL_WITHIN: Duration = Duration::from_millis(1_500);

/// The files of a version. Each says which version it is, so that a mix is seen; some are so large
/// that an upload takes its time, some ask for an installation.
fn version(number: u32) -> Vec<u8> {
    let handler = format!(
        "import json, os, part\nVERSION = {number}\n\
         def handle(event):\n    \
             note = event.get('note')\n    \
             if note:\n        \
                 with open(note, 'a') as notes:\n            notes.write('begun\\n')\n        \
                 with open(note, 'a') as notes:\n            notes.write('ended\\n')\n    \
             return [VERSION, part.VERSION, int(os.environ['VERSION_SET_BEFORE'])]\n"
    );
    let part = format!("VERSION = {number}\n");
    let mut random = fastrand::Rng::with_seed(number.into());
    let ballast: String = match number % 3 {
        0 => (0..2_000_000).map(|_| random.alphanumeric()).collect(),
        _ => String::new(),
    };
    let mut files = vec![
        ("handler.py", &*handler),
        ("part.py", &*part),
        ("ballast.txt", &*ballast),
    ];
    if number % 4 == 1 {
        files.push(("requirements.txt", "six==1.16.0\n"));
    }
    zip(&files)
}

/// What is known of the versions of the function.
#[derive(Debug, Default)]
struct Known {
    /// What the moments of the kills follow from.
    seed: u64,
    /// The version that was serving when the round began.
    served: u32,
    /// The newest version that the server took.
    taken: u32,
    /// One after it, of which nobody knows.
    maybe: Option<u32>,
    /// Jobs, and how each ended, once that is known.
    jobs: BTreeMap<u32, Option<Job>>,
}

#[tokio::test]
async fn whenever_it_is_killed_nothing_is_half_done_or_left_over() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let notes = folder.path().join("notes");
    fs::create_dir(&notes).unwrap();

    let machine = Machine::start(&data).await;
    let mut function = python("f");
    function.env = Some([("VERSION_SET_BEFORE", "0")].into_iter().collect());
    machine.upload(&function, version(0)).await;
    assert_eq!(machine.settled("f").await.phase, FunctionPhase::Ready);
    let mut known = Known {
        seed: fastrand::u64(..),
        ..Known::default()
    };
    let mut random = fastrand::Rng::with_seed(known.seed);
    let mut machine = Some(machine);
    for number in 1..=ROUNDS {
        let mut running = machine.take().unwrap();
        let after = Duration::from_secs_f64(KILL_WITHIN.as_secs_f64() * random.f64().powi(2));
        known.maybe = Some(number);
        known.jobs.insert(number, None);
        {
            let at_work = work(&running, number, &notes);
            tokio::select! {
                acknowledged = at_work => {
                    if acknowledged {
                        (known.taken, known.maybe) = (number, None);
                    }
                }
                () = tokio::time::sleep(after) => {}
            }
        }
        running.process.kill();
        drop(running);
        let started = Machine::start(&data).await;
        check(&started, &mut known, &notes, number).await;
        machine = Some(started);
    }

    // One version more, undisturbed: whatever was left over goes with it.
    let machine = machine.unwrap();
    upload(&machine, ROUNDS + 1).await;
    assert_eq!(machine.settled("f").await.phase, FunctionPhase::Ready);
    let (status, body) = machine.call("f", Call::new("GET")).await;
    let last = ROUNDS + 1;
    assert_eq!(
        (status, String::from_utf8(body).unwrap()),
        (200, format!("[{last},{last},0]"))
    );
    nothing_is_left_over(&data).await;
    for (number, job) in &known.jobs {
        let Some(job) = job else { continue };
        let now = machine
            .client
            .job(&machine.namespace, &format!("job-{number}"))
            .await
            .unwrap();
        assert_eq!(now.phase, job.phase, "a job that has ended stays as it is");
        assert_eq!(now.finished_at, job.finished_at);
    }
    machine.stop().await;
}

async fn upload(machine: &Machine, number: u32) -> bool {
    let zip = Content::bytes(version(number));
    machine
        .client
        .upload(&machine.namespace, "f", zip)
        .await
        .is_ok()
}

/// Uploads a version and runs a job, and goes on until it is cut off; answers whether the version
/// was taken.
async fn work(machine: &Machine, number: u32, notes: &Path) -> bool {
    let note = notes.join(number.to_string());
    let job = CreateJob {
        name: format!("job-{number}"),
        function_ref: "f".to_owned(),
        event_json: Some(serde_json::json!({ "note": note }).to_string()),
        run_id: Some(1),
    };
    let created = machine.client.create_job(&machine.namespace, &job);
    let (taken, _) = futures::join!(upload(machine, number), created);
    // A write of the settings in the midst of it.
    let patch = PatchFunction {
        env: Field::Value([("VERSION_SET_BEFORE", "0")].into_iter().collect()),
        ..PatchFunction::default()
    };
    let _ = machine
        .client
        .patch_function(&machine.namespace, "f", &patch)
        .await;
    // The kill may come while it is being built and rolled out.
    tokio::time::sleep(KILL_WITHIN / 2).await;
    taken
}

async fn check(machine: &Machine, known: &mut Known, notes: &Path, round: u32) {
    // At once: what served before serves again, or what was under way.
    let first = called(machine).await;
    let function = machine.settled("f").await;
    assert_eq!(
        function.phase,
        FunctionPhase::Ready,
        "round {round}: {function:?}"
    );
    let settled = called(machine).await;
    let right = [Some(known.served), Some(known.taken), known.maybe].contains(&Some(first));
    assert!(right, "round {round}: {first} at once, {known:?}");
    if let Some(maybe) = known.maybe.take() {
        assert!(
            settled == known.taken || settled == maybe,
            "round {round}: {settled}, {known:?}"
        );
        known.taken = settled;
    }
    assert_eq!(
        settled, known.taken,
        "round {round}: what was taken is what serves"
    );
    known.served = settled;

    let number = round;
    let began = Instant::now();
    let job = loop {
        match machine
            .client
            .job(&machine.namespace, &format!("job-{number}"))
            .await
        {
            Ok(job) if matches!(job.phase, JobPhase::Succeeded | JobPhase::Failed) => {
                break Some(job);
            }
            Ok(job) => assert!(began.elapsed() < DEADLINE, "round {round}: {job:?}"),
            // It was not created before the end.
            Err(_) => break None,
        }
        tokio::time::sleep(LOOK).await;
    };
    let note = fs::read_to_string(notes.join(number.to_string())).unwrap_or_default();
    let count = |word: &str| note.lines().filter(|line| *line == word).count();
    assert!(
        count("begun") <= 1,
        "round {round}: it ran more than once: {job:?}"
    );
    match &job {
        Some(job) if job.phase == JobPhase::Succeeded => {
            assert_eq!(
                (count("begun"), count("ended")),
                (1, 1),
                "round {round}: {job:?}"
            );
        }
        Some(job) => assert!(job.reason.is_some(), "round {round}: {job:?}"),
        None => assert_eq!(
            count("begun"),
            0,
            "round {round}: it ran and was never there"
        ),
    }
    known.jobs.insert(number, job);
    no_process_is_orphaned(machine).await;
}

/// The version that answers, of which all parts must be the same.
async fn called(machine: &Machine) -> u32 {
    let mut answer = machine
        .client
        .call(&machine.namespace, "f", Call::new("GET"))
        .await
        .unwrap();
    let mut body = Vec::new();
    while let Some(piece) = answer.body.next().await {
        body.extend_from_slice(&piece.unwrap());
    }
    let text = String::from_utf8(body).unwrap();
    assert_eq!(answer.status, 200, "{text}");
    let parts: [u32; 3] = serde_json::from_str(&text).unwrap();
    assert_eq!(parts[0], parts[1], "a mix of versions");
    parts[0]
}

/// Everything that was started for the data folder belongs to the server that runs now.
async fn no_process_is_orphaned(machine: &Machine) {
    let server = machine.process.id();
    let marks = marks_below(server);
    assert_eq!(marks.len(), 1, "a worker runs: {marks:?}");
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

/// What is on the disk is what one function with its last versions needs.
async fn nothing_is_left_over(data: &Path) {
    let entries = |folder: &str| -> Vec<String> {
        let entries = fs::read_dir(data.join(folder))
            .into_iter()
            .flatten()
            .flatten();
        entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect()
    };
    let files = |folder: &str| {
        let mut pending = vec![data.join(folder)];
        let mut files = Vec::new();
        while let Some(folder) = pending.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_folder { &mut pending } else { &mut files }.push(entry.path());
            }
        }
        files
    };
    let began = Instant::now();
    loop {
        let (artifacts, work, stored) = (entries("artifacts"), entries("work"), files("storage"));
        let of = |kind: &str| {
            let in_kind = |path: &&std::path::PathBuf| path.to_string_lossy().contains(kind);
            stored.iter().filter(in_kind).count()
        };
        // The version that runs; three sources are kept, each with its context.
        let tidy =
            artifacts.len() == 1 && work.is_empty() && of("contexts") <= 3 && of("functions") <= 3;
        if tidy && stored.len() <= 6 {
            return;
        }
        assert!(
            began.elapsed() < DEADLINE,
            "left over: artifacts {artifacts:?}, work {work:?}, stored {stored:#?}"
        );
        tokio::time::sleep(LOOK).await;
    }
}
