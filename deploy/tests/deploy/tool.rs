//! The programs with which people install: kubectl and helm.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use sless_deploy::Objects;

/// A variable that the test command sets.
pub(crate) fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run testing/kubernetes/up"))
}

/// This folder of the repository, or what is in it.
pub(crate) fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// What kubectl makes of a kustomization.
pub(crate) fn kustomize(path: &Path) -> Objects {
    let text = kubectl(&["kustomize", &path.display().to_string()]);
    Objects::read(&text).expect("kubectl renders objects")
}

/// What helm makes of the chart under this name, with these further arguments.
pub(crate) fn template(name: &str, arguments: &[&str]) -> Objects {
    let chart = folder("helm/sless").display().to_string();
    // The namespaces are those of kustomize/cluster.
    let namespaces = [
        "--namespace",
        "sless-system",
        "--set",
        "builds.createNamespace=false",
    ];
    let all = [&["template", name, &chart][..], &namespaces, arguments].concat();
    Objects::read(&helm(&all)).expect("helm renders objects")
}

/// Runs kubectl, which has to succeed, and answers what it printed.
pub(crate) fn kubectl(arguments: &[&str]) -> String {
    succeeded("kubectl", arguments, &kubectl_with(arguments, ""))
}

/// The same, on the test cluster, with an input.
pub(crate) fn apply(manifest: &str) -> String {
    let arguments = ["apply", "-f", "-"];
    succeeded("kubectl", &arguments, &kubectl_with(&arguments, manifest))
}

/// Runs kubectl on the test cluster.
pub(crate) fn kubectl_with(arguments: &[&str], input: &str) -> Output {
    run(Path::new(&variable("SLESS_TEST_KUBECTL")), arguments, input)
}

/// Runs helm, which has to succeed, and answers what it printed.
pub(crate) fn helm(arguments: &[&str]) -> String {
    succeeded("helm", arguments, &helm_with(arguments))
}

/// Runs helm on the test cluster.
pub(crate) fn helm_with(arguments: &[&str]) -> Output {
    run(Path::new(&variable("SLESS_TEST_HELM")), arguments, "")
}

fn succeeded(program: &str, arguments: &[&str], output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a program to its end.
pub(crate) fn run(program: &Path, arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(program);
    command.args(arguments);
    // Rendering needs no cluster.
    if let Ok(file) = std::env::var("SLESS_TEST_KUBECONFIG") {
        command.env("KUBECONFIG", file);
    }
    let child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let mut stdin = child.stdin.take().expect("a pipe");
    // It may end before it has read all.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().expect("it ends")
}
