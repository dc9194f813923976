//! Which crate may depend on which, and what the core may never pull in.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use cargo_metadata::{DependencyKind, Package};

use super::Outcome;
use crate::{
    process::{Command, Shell},
    workspace::Workspace,
};

/// What a crate of this workspace may use of its siblings, tests and benchmarks aside.
enum May {
    /// These and no others.
    Use(&'static [&'static str]),
    /// Anything: it stands at the top and nothing may use it.
    UseAll,
}

/// The arrows of the architecture: server, then backends, then core. A new crate gets a line here.
const LAYERS: &[(&str, May)] = &[
    ("sless-core", May::Use(&[])),
    ("sless-api", May::Use(&[])),
    ("sless-runtime", May::Use(&["sless-core"])),
    ("sless-conformance", May::Use(&["sless-core"])),
    ("sless-object-store", May::Use(&["sless-core"])),
    (
        "sless-local",
        May::Use(&["sless-core", "sless-runtime", "sless-object-store"]),
    ),
    ("sless-s3", May::Use(&["sless-core"])),
    ("sless-k8s", May::Use(&["sless-core"])),
    ("sless-amqp", May::Use(&["sless-core"])),
    ("sless-postgres", May::Use(&["sless-core"])),
    ("sless-validator", May::Use(&["sless-core"])),
    ("sless-console", May::Use(&["sless-core"])),
    ("sless-source", May::Use(&["sless-core", "sless-api"])),
    (
        "sless-cli",
        May::Use(&["sless-core", "sless-api", "sless-source"]),
    ),
    // Reads manifests, and installs what the server is built into.
    ("sless-deploy", May::Use(&[])),
    // A library of its own, which knows nothing of sless.
    ("tfplugin", May::Use(&[])),
    ("tfplugin-acceptance", May::Use(&["tfplugin"])),
    // Core for the rules that names, schedules and sources follow: what a plan lets pass, the server
    // takes, and the digest of a folder is the one that the server answers.
    (
        "terraform-provider-sless",
        May::Use(&["sless-api", "sless-core", "sless-source", "tfplugin"]),
    ),
    ("sless-server", May::UseAll),
    ("sless-examples", May::UseAll),
    ("sless-benches", May::UseAll),
    ("sless-fuzz-targets", May::UseAll),
    ("xtask", May::UseAll),
];

/// Packages that open a socket or belong to a backend. `sless-core` pulls none of them, not even
/// through another package and not on any platform.
const FOREIGN_TO_CORE: &[&str] = &[
    // Sockets and what is built on them.
    "mio",
    "socket2",
    "hyper",
    "hyper-util",
    "reqwest",
    "ureq",
    "axum",
    "tower-http",
    "tonic",
    "h2",
    "rustls",
    "native-tls",
    "openssl",
    "openssl-sys",
    "ring",
    "aws-lc-rs",
    // Databases and stores.
    "rusqlite",
    "libsqlite3-sys",
    "sqlx",
    "sqlx-core",
    "tokio-postgres",
    "postgres",
    "redis",
    "object_store",
    "opendal",
    // Clusters and queues.
    "kube",
    "kube-client",
    "kube-core",
    "kube-runtime",
    "k8s-openapi",
    "lapin",
    "amq-protocol",
    "bollard",
];

/// The same, for families of packages.
const FOREIGN_FAMILIES: &[&str] = &["aws-", "google-cloud-", "azure_", "opentelemetry"];

pub(super) fn run(workspace: &Workspace, shell: &mut Shell) -> Result<Outcome> {
    let members = workspace.members();
    let mut problems = vec![];
    for package in &members {
        problems.extend(wrong_arrows(package));
    }
    for package in foreign(&core_dependencies(shell)?) {
        problems.push(format!(
            "sless-core pulls {package}, which belongs into a backend or opens sockets; \
             `cargo tree -p sless-core -e normal --target all -i {package}` shows the way"
        ));
    }
    for problem in &problems {
        shell.say(problem);
    }
    if !problems.is_empty() {
        bail!("{} dependencies point the wrong way", problems.len());
    }
    Ok(Outcome::Noted(format!("{} crates", members.len())))
}

fn wrong_arrows(package: &Package) -> Vec<String> {
    let used = package
        .dependencies
        .iter()
        .filter(|dependency| dependency.path.is_some())
        .filter(|dependency| dependency.kind != DependencyKind::Development)
        .map(|dependency| dependency.name.as_str());
    check_arrows(&package.name, used)
}

fn check_arrows<'a>(name: &str, used: impl Iterator<Item = &'a str>) -> Vec<String> {
    let Some((_, may)) = LAYERS.iter().find(|(known, _)| *known == name) else {
        return vec![format!(
            "{name} has no line in LAYERS ({}): say what it may use",
            file!()
        )];
    };
    let May::Use(allowed) = may else {
        return vec![];
    };
    used.filter(|used| !allowed.contains(used))
        .map(|used| format!("{name} depends on {used}; it may depend on {allowed:?} only"))
        .collect()
}

fn core_dependencies(shell: &mut Shell) -> Result<BTreeSet<String>> {
    let tree = Command::cargo("tree").args([
        "--package",
        "sless-core",
        "--edges",
        "normal",
        "--all-features",
        "--target",
        "all",
        "--prefix",
        "none",
        "--format",
        "{p}",
        "--no-dedupe",
    ]);
    let text = shell.output(&tree)?;
    let names: BTreeSet<_> = first_words(&text);
    if !names.contains("sless-core") {
        bail!("cargo tree did not name sless-core itself; its answer was not understood");
    }
    Ok(names)
}

fn first_words(tree: &str) -> BTreeSet<String> {
    tree.lines()
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

fn foreign(names: &BTreeSet<String>) -> Vec<&str> {
    let is_foreign = |name: &&str| {
        FOREIGN_TO_CORE.contains(name)
            || FOREIGN_FAMILIES
                .iter()
                .any(|family| name.starts_with(family))
    };
    names
        .iter()
        .map(String::as_str)
        .filter(is_foreign)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{check_arrows, first_words, foreign};

    #[test]
    fn a_backend_may_use_the_core_and_no_other_backend() {
        assert!(check_arrows("sless-s3", ["sless-core"].into_iter()).is_empty());
        let wrong = check_arrows("sless-s3", ["sless-core", "sless-local"].into_iter());
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].contains("sless-local"), "{wrong:?}");
        assert_eq!(
            check_arrows("sless-core", ["sless-local"].into_iter()).len(),
            1
        );
        assert!(check_arrows("sless-server", ["sless-local"].into_iter()).is_empty());
    }

    #[test]
    fn a_crate_without_a_layer_is_told_to_get_one() {
        assert!(check_arrows("sless-new", std::iter::empty())[0].contains("LAYERS"));
    }

    #[test]
    fn sockets_and_vendors_are_foreign_to_the_core() {
        let tree = "sless-core v0.1.0 (/x)\ntokio v1.54.0\nmio v1.0.0\naws-config v1.0.0 (*)\n";
        assert_eq!(foreign(&first_words(tree)), ["aws-config", "mio"]);
        assert!(foreign(&first_words("sless-core v0.1.0\nbytes v1.0.0\n")).is_empty());
    }
}
