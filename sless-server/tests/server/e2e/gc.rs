//! What a stopped server says that it keeps for nobody.

use std::{fs, path::Path};

use sless_api::{CreateJob, JobPhase};

use super::{
    machine::{Machine, json, python},
    process::{DEADLINE, LOOK, command},
};

/// Status, standard output, standard error.
fn gc(data: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let arguments = ["gc"].iter().chain(arguments);
    let output = command(Some(data), arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[tokio::test]
async fn what_is_kept_for_nobody_is_listed_and_what_is_wanted_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let machine = Machine::start(data).await;
    let source = "def handle(event):\n    print('called')\n    return 1\n";
    machine
        .deploy(python("hello"), &[("handler.py", source)])
        .await;
    assert_eq!(machine.call("hello", json("{}")).await.0, 200);
    let job = CreateJob {
        name: "once".to_owned(),
        function_ref: "hello".to_owned(),
        run_id: Some(1),
        ..CreateJob::default()
    };
    let (client, namespace) = (&machine.client, machine.namespace.clone());
    client.create_job(&namespace, &job).await.unwrap();
    let began = std::time::Instant::now();
    while client.job(&namespace, "once").await.unwrap().phase != JobPhase::Succeeded {
        assert!(began.elapsed() < DEADLINE, "the job does not end");
        tokio::time::sleep(LOOK).await;
    }
    let (status, _, said) = gc(data, &["--dry-run"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("is in use"), "{said}");
    machine.stop().await;

    let (status, _, said) = gc(data, &[]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("expected --dry-run"), "{said}");
    let (status, listed, said) = gc(data, &["--dry-run"]);
    assert_eq!(
        (status, &*listed),
        (Some(0), "# kept for nobody: 0\n"),
        "{said}"
    );

    let source = format!("functions/{namespace}/ghost");
    // Files of objects end in `=`.
    fs::create_dir_all(data.join("storage").join(&source)).unwrap();
    fs::write(data.join("storage").join(&source).join("1.zip="), "x").unwrap();
    let (status, listed, said) = gc(data, &["--dry-run"]);
    assert_eq!(status, Some(0), "{said}");
    let begin =
        format!("stored_source {source}/1.zip (storage), of Function {namespace}/ghost, since ");
    assert!(
        listed.starts_with(&begin) && listed.ends_with("\n# kept for nobody: 1\n"),
        "{listed}"
    );
    // Looking changes nothing.
    assert_eq!(gc(data, &["--dry-run"]).1, listed);
}
