//! The rights of the roles: this table and nothing else.
//!
//! That they are enough is shown by the suites of sless-k8s, which run under them, and by the installations.

use std::collections::{BTreeMap, BTreeSet};

use sless_deploy::{Objects, Right, rights_of};

use crate::tool::{folder, kustomize, template};

/// Which verbs on what, and what for. A right that is added to a role is added here, with its reason.
const TABLE: &[(&str, &str, &str, &str)] = &[
    (
        "api",
        "functions.sless.io triggers.sless.io functionjobs.sless.io",
        "get list watch create patch delete",
        "the REST API",
    ),
    (
        "api",
        "functions/status.sless.io",
        "patch",
        "what the review of an upload said",
    ),
    ("api", "namespaces", "get create patch", "ensure"),
    ("api", "resourcequotas", "create", "ensure"),
    (
        "api",
        "networkpolicies.networking.k8s.io",
        "list watch create patch",
        "ensure",
    ),
    ("api", "deployments.apps", "get list watch patch", "waking"),
    (
        "api",
        "pods services jobs.batch ingresses.networking.k8s.io",
        "list watch",
        "calls, statuses",
    ),
    ("api", "pods/log", "get", "logs"),
    (
        "operator",
        "functions.sless.io triggers.sless.io functionjobs.sless.io",
        "get list watch patch",
        "finalizers",
    ),
    (
        "operator",
        "functions/status.sless.io triggers/status.sless.io functionjobs/status.sless.io",
        "patch",
        "statuses",
    ),
    (
        "operator",
        "namespaces",
        "get create patch",
        "the place of workloads",
    ),
    (
        "operator",
        "resourcequotas",
        "create",
        "the place of workloads",
    ),
    (
        "operator",
        "networkpolicies.networking.k8s.io",
        "list watch create patch",
        "policies",
    ),
    (
        "operator",
        "deployments.apps",
        "get list watch create patch delete",
        "functions",
    ),
    (
        "operator",
        "services ingresses.networking.k8s.io",
        "list watch create patch delete",
        "functions",
    ),
    (
        "operator",
        "jobs.batch",
        "get list watch create patch delete",
        "runs of jobs",
    ),
    (
        "operator",
        "configmaps",
        "list create delete",
        "long events of jobs",
    ),
    ("operator", "pods", "list watch", "statuses"),
    ("operator", "pods/log", "get", "results of jobs"),
    ("operator", "events", "list", "why no pod was made"),
    (
        "dispatcher",
        "functions.sless.io functionjobs.sless.io",
        "get list watch",
        "routes",
    ),
    (
        "dispatcher",
        "triggers.sless.io",
        "get list watch patch",
        "finalizers",
    ),
    (
        "dispatcher",
        "triggers/status.sless.io",
        "patch",
        "statuses",
    ),
    (
        "dispatcher",
        "deployments.apps",
        "get list watch patch",
        "waking",
    ),
    (
        "dispatcher",
        "pods services jobs.batch ingresses.networking.k8s.io \
        networkpolicies.networking.k8s.io",
        "list watch",
        "calls, statuses",
    ),
    (
        "builds",
        "secrets",
        "list create delete",
        "credentials of Jobs, in the namespace of builds",
    ),
    (
        "leases",
        "leases.coordination.k8s.io",
        "create",
        "who leads",
    ),
    (
        "leases",
        "leases.coordination.k8s.io/sless-operator \
        leases.coordination.k8s.io/sless-dispatcher",
        "get update",
        "who leads",
    ),
];

fn expected() -> BTreeMap<String, BTreeSet<String>> {
    let mut roles: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (role, resources, verbs, what_for) in TABLE {
        assert!(!what_for.is_empty());
        let rights = roles.entry(format!("sless-{role}")).or_default();
        for resource in resources.split_whitespace() {
            rights.extend(verbs.split(' ').map(|verb| format!("{verb} {resource}")));
        }
    }
    roles
}

fn roles(objects: &Objects) -> BTreeMap<String, BTreeSet<Right>> {
    let all = objects
        .of_kind("ClusterRole")
        .chain(objects.of_kind("Role"));
    let named = all.map(|role| {
        let name = role["metadata"]["name"].as_str().expect("a name");
        (name.to_owned(), rights_of(role))
    });
    named.collect()
}

/// Everything that installs something.
fn installations() -> Vec<(&'static str, Objects)> {
    vec![
        ("rbac", kustomize(&folder("kustomize/rbac"))),
        ("base", kustomize(&folder("kustomize/base"))),
        ("one", kustomize(&folder("kustomize/one"))),
        ("example", kustomize(&folder("kustomize/example"))),
        ("the chart", template("sless", &[])),
        (
            "the chart in one",
            template("sless", &["--set", "one=true"]),
        ),
    ]
}

#[test]
#[ignore = "needs kubectl and helm: testing/kubernetes/up"]
fn roles_may_do_what_the_table_says_and_no_more() {
    let expected = expected();
    for (what, objects) in installations() {
        let found: BTreeMap<_, BTreeSet<_>> = roles(&objects)
            .into_iter()
            .map(|(name, rights)| (name, rights.iter().map(Right::to_string).collect()))
            .collect();
        let names =
            |of: &BTreeMap<String, BTreeSet<String>>| -> Vec<_> { of.keys().cloned().collect() };
        assert_eq!(names(&found), names(&expected), "{what}");
        for (role, rights) in &found {
            let wanted = &expected[role];
            let beyond: Vec<_> = rights.difference(wanted).collect();
            let missing: Vec<_> = wanted.difference(rights).collect();
            assert!(
                beyond.is_empty(),
                "{what}: {role} may do more than the table says: {beyond:?}"
            );
            assert!(missing.is_empty(), "{what}: {role} may not do {missing:?}");
        }
    }
}

/// Whatever the table says.
#[test]
#[ignore = "needs kubectl and helm: testing/kubernetes/up"]
fn nobody_deletes_namespaces_reads_secrets_or_gives_rights() {
    let mut seen = 0;
    for (what, objects) in installations() {
        for (role, rights) in roles(&objects) {
            for right in rights {
                seen += 1;
                let told = format!("{what}: {role} may {right}");
                let Right {
                    group,
                    resource,
                    verb,
                    ..
                } = &right;
                for part in [group, resource, verb] {
                    assert!(!part.contains('*'), "{told}");
                }
                assert_ne!(resource, "?", "{told}");
                assert_ne!(verb, "deletecollection", "{told}");
                assert!(!(resource == "namespaces" && verb == "delete"), "{told}");
                assert!(
                    !matches!(verb.as_str(), "impersonate" | "bind" | "escalate"),
                    "{told}"
                );
                // In one namespace, by a RoleBinding, and never one that is named.
                let of_builds = role == "sless-builds" && verb != "get";
                assert!(resource != "secrets" || of_builds, "{told}");
                let forbidden = [
                    "serviceaccounts",
                    "serviceaccounts/token",
                    "nodes",
                    "persistentvolumes",
                    "pods/exec",
                    "pods/attach",
                    "pods/portforward",
                    "pods/ephemeralcontainers",
                    "namespaces/finalize",
                    "customresourcedefinitions",
                ];
                assert!(!forbidden.contains(&resource.as_str()), "{told}");
                assert!(
                    !group.contains("rbac") && !group.contains("admission"),
                    "{told}"
                );
                assert!(
                    !(resource == "pods" && verb != "list" && verb != "watch"),
                    "{told}"
                );
            }
        }
    }
    assert!(seen > 100, "there are roles");
}

#[test]
#[ignore = "needs kubectl and helm: testing/kubernetes/up"]
fn each_account_has_the_role_of_its_name() {
    for (what, objects) in installations() {
        let one = what.contains("one");
        for binding in objects.of_kind("ClusterRoleBinding") {
            let role = binding["roleRef"]["name"].as_str().expect("a name");
            assert_ne!(role, "sless-builds", "{what}");
            let subjects = binding["subjects"].as_array().expect("subjects");
            assert_eq!(subjects.len(), 1, "{what}: {binding:#}");
            let account = if one { "sless-api" } else { role };
            assert_eq!(subjects[0]["kind"], "ServiceAccount", "{what}");
            assert_eq!(subjects[0]["name"], account, "{what}");
            assert_eq!(subjects[0]["namespace"], "sless-system", "{what}");
            assert!(objects.find("ServiceAccount", account).is_some(), "{what}");
        }
        for account in objects.of_kind("ServiceAccount") {
            assert_eq!(account["automountServiceAccountToken"], false, "{what}");
        }
    }
}
