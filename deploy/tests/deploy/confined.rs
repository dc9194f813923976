//! What the API server lets sless do, asked as somebody with its rights.

use sless_core::Uid;

use crate::tool::{apply, kubectl, kubectl_with};

/// The user of `testing/kubernetes/rights`, who has the rights of all roles.
const SLESS: &str = "--as=sless";

/// Tries it without an effect, and answers why it is refused.
fn refused(arguments: &[&str]) -> Option<String> {
    let output = kubectl_with(&[arguments, &[SLESS, "--dry-run=server"]].concat(), "");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (!output.status.success()).then_some(said)
}

/// Namespaces that are removed with the test.
struct Namespaces(Vec<String>);

impl Namespaces {
    fn add(&mut self, name: String, metadata: &str) -> String {
        apply(&format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}, {metadata}}}\n"
        ));
        self.0.push(name.clone());
        name
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.0 {
            let _ = kubectl_with(&["delete", "namespace", "--wait=false", name], "");
        }
    }
}

#[test]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
fn sless_writes_in_the_namespaces_of_functions_only() {
    let uid = Uid::random();
    let mark = &uid.as_str()[..8];
    let mut made = Namespaces(Vec::new());
    let of_functions = made.add(format!("sless-fn-dep-{mark}"), "labels: {}");
    let of_a_user = made.add(
        format!("dep-user-{mark}"),
        "labels: {app.kubernetes.io/managed-by: sless}",
    );
    let of_others = made.add(format!("dep-others-{mark}"), "labels: {}");
    let make = |namespace: &str| refused(&["-n", namespace, "create", "configmap", "x"]);
    assert_eq!(make(&of_functions), None);
    assert_eq!(make(&of_a_user), None);
    let why = make(&of_others).expect("refused");
    assert!(
        why.contains("sless may change nothing in namespace"),
        "{why}"
    );
    let run =
        |namespace: &str| refused(&["-n", namespace, "create", "deployment", "x", "--image=x"]);
    assert_eq!(run(&of_functions), None);
    let why = run("kube-system").expect("refused");
    assert!(
        why.contains("sless may change nothing in namespace"),
        "{why}"
    );
}

#[test]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
fn namespaces_are_made_and_left_alone() {
    let uid = Uid::random();
    let mark = &uid.as_str()[..8];
    let mut made = Namespaces(Vec::new());
    let without = refused(&["create", "namespace", "dep-new"]).expect("refused");
    assert!(
        without.contains("sless makes namespaces with its label"),
        "{without}"
    );
    let new = made.add(
        format!("dep-new-{mark}"),
        r#"labels: {app.kubernetes.io/managed-by: sless}, annotations: {sless.io/furnished: "false"}"#,
    );
    let done = made.add(
        format!("dep-done-{mark}"),
        r#"labels: {app.kubernetes.io/managed-by: sless}, annotations: {sless.io/furnished: "true"}"#,
    );
    let furnish =
        |name: &str, what: &str| refused(&["annotate", "--overwrite", "namespace", name, what]);
    assert_eq!(furnish(&new, "sless.io/furnished=true"), None);
    assert!(furnish(&done, "sless.io/furnished=again").is_some());
    assert!(furnish("default", "sless.io/furnished=true").is_some());
    let relabel = [
        "label",
        "namespace",
        &new,
        "pod-security.kubernetes.io/enforce=privileged",
    ];
    let why = refused(&relabel).expect("refused");
    assert!(why.contains("changes no others"), "{why}");
    for name in [&new, &done] {
        let why = refused(&["delete", "namespace", name]).expect("refused");
        assert!(
            why.contains("cannot delete resource \"namespaces\""),
            "{why}"
        );
    }
    // By whichever of its accounts.
    for account in ["api", "operator", "dispatcher"] {
        let account = format!("--as=system:serviceaccount:sless-system:sless-{account}");
        for what in [
            ["delete", "namespaces"],
            ["get", "secrets"],
            ["create", "pods/exec"],
        ] {
            let asked = [&["auth", "can-i"][..], &what, &[&account, "-A"]].concat();
            let answer = kubectl_with(&asked, "");
            assert_eq!(
                String::from_utf8_lossy(&answer.stdout).trim(),
                "no",
                "{account} {what:?}"
            );
        }
    }
    assert!(kubectl(&["get", "namespace", &new, "-o", "name"]).contains(&new));
}
