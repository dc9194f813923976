//! The way people live with it.

use crate::server::Server;

fn configuration(enabled: bool, run: u32) -> String {
    format!(
        r#"
resource "sless_function" "hello" {{
  name       = "hello"
  runtime    = "python3.11"
  source_dir = "src"
  env        = {{ GREETING = "hi" }}
}}
resource "sless_trigger" "web" {{
  name     = "web"
  type     = "http"
  function = sless_function.hello.name
  enabled  = {enabled}
}}
resource "sless_trigger" "nightly" {{
  name      = "nightly"
  type      = "cron"
  function  = sless_function.hello.name
  schedule  = "0 3 * * *"
  time_zone = "Europe/Berlin"
}}
resource "sless_trigger" "queue" {{
  name     = "queue"
  type     = "event"
  function = sless_function.hello.name
  queue    = "jobs"
  delivery = {{ max_attempts = 3, min_backoff = "90s" }}
}}
resource "sless_job" "once" {{
  name       = "once"
  function   = sless_function.hello.name
  event_json = jsonencode({{ n = 7 }})
  run_id     = {run}
}}
data "sless_namespace" "mine" {{}}
data "sless_function" "hello" {{ name = sless_function.hello.name }}
data "sless_trigger" "nightly" {{ name = sless_trigger.nightly.name }}
data "sless_job" "once" {{ name = sless_job.once.name }}
output "seen" {{
  value = join(" ", [
    data.sless_namespace.mine.name, data.sless_function.hello.phase,
    data.sless_trigger.nightly.time_zone, data.sless_job.once.phase,
  ])
}}
"#
    )
}

#[test]
#[ignore = "needs terraform 1.11"]
fn apply_stop_start_run_change_destroy() {
    let server = Server::start();
    let tf = server.workspace();
    let handler = |version: u32| {
        let text = format!(
            "import os\ndef handle(event):\n    return [os.environ['GREETING'], {version}, event.get('n')]\n"
        );
        tf.write("src/handler.py", &text);
    };
    handler(1);
    tf.config(&configuration(true, 0));
    let namespace = server.namespace();
    tf.apply()
        .ok()
        .says("5 added")
        .says(&format!("{namespace} Ready Europe/Berlin Skipped"));
    tf.nothing_to_do();
    let hello = tf.values("sless_function.hello");
    assert_eq!(hello["phase"], "Ready");
    assert_eq!(hello["namespace"], namespace);
    assert!(
        hello["url"]
            .as_str()
            .unwrap()
            .ends_with(&format!("/fn/{namespace}/hello")),
        "{hello}"
    );
    assert!(
        hello["last_built_at"].is_string() && hello["image"].is_string(),
        "{hello}"
    );
    let nightly = tf.values("sless_trigger.nightly");
    assert!(
        nightly["next_fire"].is_string() && nightly["active"] == true,
        "{nightly}"
    );
    let queue = tf.values("sless_trigger.queue");
    assert_eq!(queue["delivery"]["min_backoff"], "90s", "as it was written");
    assert_eq!(queue["delivery"]["in_flight"], 1, "a default");
    assert_eq!(
        tf.values("sless_job.once")["result"],
        serde_json::Value::Null
    );
    assert_eq!(server.call("hello"), (200, "[\"hi\",1,null]".to_owned()));

    // Stopped and started in place.
    tf.config(&configuration(false, 0));
    tf.apply()
        .ok()
        .says("0 added, 1 changed, 0 destroyed")
        .says("~ enabled   = true -> false");
    tf.until("the function is off", || server.call("hello").0 == 503);
    tf.config(&configuration(true, 0));
    tf.apply().ok().says("0 added, 1 changed, 0 destroyed");
    tf.until("the function is on", || server.call("hello").0 == 200);

    // 0, 1, 2: each number above 0 is one run.
    for run in [1, 2] {
        tf.config(&configuration(true, run));
        tf.apply()
            .ok()
            .says("# forces replacement")
            .says("1 added, 0 changed, 1 destroyed");
        let once = tf.values("sless_job.once");
        assert_eq!(
            (&once["phase"], &once["result"]),
            (&"Succeeded".into(), &"[\"hi\",1,7]".into())
        );
        assert!(
            once["started_at"].is_string() && once["finished_at"].is_string(),
            "{once}"
        );
    }
    tf.nothing_to_do();

    handler(2);
    tf.apply()
        .ok()
        .says("~ digest")
        .says("0 added, 1 changed, 0 destroyed")
        .lacks("~ url");
    assert_eq!(server.call("hello"), (200, "[\"hi\",2,null]".to_owned()));
    let there = server.client();
    let function = server
        .runtime
        .block_on(there.function(&namespace, "hello"))
        .unwrap();
    assert_eq!(
        tf.values("sless_function.hello")["digest"],
        function.code_sha256.unwrap()
    );

    tf.run(&["destroy", "-auto-approve"])
        .ok()
        .says("5 destroyed");
    assert_eq!(
        server.count(),
        [0, 0, 0],
        "and the namespace is there, since it could be listed"
    );
}
