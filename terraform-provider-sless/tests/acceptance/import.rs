//! Taking over what is there, after which a plan is empty.

use crate::server::{Server, function};

#[test]
#[ignore = "needs terraform 1.11"]
fn all_kinds_are_imported_and_nothing_is_to_do() {
    let server = Server::start();
    let tf = server.workspace();
    tf.code("src", "1");
    let more = "env = { A = \"1\" }\nenv_sensitive = { B = \"2\" }\nenv_wo = { C = \"3\" }\nenv_wo_version = 4\n\
                code_hash = \"x\"\nbuild_timeout_sec = 300\nreplicas = 2\nmax_replicas = 1\n\
                idle_seconds = 0\ntimeouts = { create = \"5m\" }";
    let plain = function("plain", "env = {}\ntimeouts = { delete = \"5m\" }");
    let body = function("f", more)
        + &plain
        + "resource \"sless_trigger\" \"web\" {\n name = \"web\"\n type = \"http\"\n function = \"f\"\n \
           depends_on = [sless_function.f]\n}\n\
           resource \"sless_trigger\" \"queue\" {\n name = \"queue\"\n type = \"event\"\n function = \"f\"\n \
           queue = \"q\"\n depends_on = [sless_function.f]\n timeouts = { update = \"1m\" }\n}\n\
           resource \"sless_job\" \"j\" {\n name = \"j\"\n function = \"f\"\n run_id = 1\n \
           wait_timeout_sec = 60\n depends_on = [sless_function.f]\n}\n";
    tf.config(&body);
    tf.apply().ok();

    let imports = [
        (
            "sless_function.f",
            "f?env_sensitive=B&env_wo=C&env_wo_version=4",
        ),
        ("sless_function.plain", "plain"),
        ("sless_trigger.web", "web"),
        ("sless_trigger.queue", "queue"),
        ("sless_job.j", "j"),
    ];
    let forget = || {
        let mut arguments = vec!["state", "rm"];
        arguments.extend(imports.iter().map(|(address, _)| *address));
        tf.run(&arguments).ok();
    };
    forget();
    for (address, id) in imports {
        tf.run(&["import", address, id]).ok();
    }
    tf.nothing_to_do();

    forget();
    let namespace = server.namespace();
    let blocks = imports.map(|(address, id)| {
        format!("import {{\n to = {address}\n id = \"{namespace}/{id}\"\n}}\n")
    });
    tf.config(&(body.clone() + &blocks.concat()));
    tf.apply()
        .ok()
        .says("5 imported, 0 added, 0 changed, 0 destroyed");
    tf.nothing_to_do();

    // A new version sends the secrets again, also right after an import.
    tf.config(&body.replace("env_wo_version = 4", "env_wo_version = 5"));
    tf.plan().says("~ env_wo_version = 4 -> 5");

    // What an import could not know is taken from the configuration at the next change.
    tf.config(&body.replace("replicas = 2", "replicas = 1"));
    tf.apply().ok().says("0 added, 1 changed, 0 destroyed");
    let values = tf.values("sless_function.f");
    assert_eq!(
        (&values["source_dir"], &values["env_sensitive"]["B"]),
        (&"src".into(), &"2".into())
    );
    assert_eq!(values["env"], serde_json::json!({"A": "1"}));
    assert_eq!(
        (&values["max_replicas"], &values["idle_seconds"]),
        (&1.into(), &0.into())
    );
    tf.nothing_to_do();

    for (id, problem) in [
        ("nope", "There is no function `nope`"),
        ("other/f", "not `other`"),
        ("Big", "cannot be imported"),
        ("f?x=1", "Expected NAME"),
    ] {
        tf.run(&["state", "rm", "sless_function.f"]);
        tf.run(&["import", "sless_function.f", id])
            .failed()
            .says(problem);
    }
}
