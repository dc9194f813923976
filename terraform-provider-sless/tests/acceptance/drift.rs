//! What somebody else did.

use sless_api::{Field, PatchFunction, client::Content};
use sless_core::source::{SourceTree, pack};

use crate::server::Server;

#[test]
#[ignore = "needs terraform 1.11"]
fn what_was_changed_outside_shows_and_is_put_right() {
    let server = Server::start();
    let tf = server.workspace();
    tf.code("src", "1");
    tf.function("env = { A = \"1\" }");
    tf.apply().ok();
    let (client, namespace) = (server.client(), server.namespace());

    // Settings.
    let patch = PatchFunction {
        timeout_seconds: Field::Value(7),
        idle_seconds: Field::Value(9),
        env: Field::Value([("A", "1"), ("B", "2")].into_iter().collect()),
        ..PatchFunction::default()
    };
    server
        .runtime
        .block_on(client.patch_function(&namespace, "f", &patch))
        .unwrap();
    tf.plan()
        .says("~ timeout")
        .says("7 -> 60")
        .says("- idle_seconds")
        .says("9 -> null")
        .says(r#"- "B" = "2" -> null"#);

    // Code.
    let tree =
        SourceTree::from_files([("handler.py", "def handle(event):\n    return 'theirs'\n")])
            .unwrap();
    let zip = pack::write_zip(&tree, std::io::Cursor::new(Vec::new()))
        .unwrap()
        .into_inner();
    server
        .runtime
        .block_on(client.upload(&namespace, "f", Content::bytes(zip)))
        .unwrap();
    tf.until("their code answers", || {
        server.call("f") == (200, "theirs".to_owned())
    });
    tf.plan().says("~ digest");
    tf.apply().ok().says("0 added, 1 changed, 0 destroyed");
    assert_eq!(server.call("f"), (200, "1".to_owned()));
    tf.nothing_to_do();

    // A function that runs no more is brought up again.
    let broken = SourceTree::from_files([("handler.py", "raise SystemError('no')\n")]).unwrap();
    let zip = pack::write_zip(&broken, std::io::Cursor::new(Vec::new()))
        .unwrap()
        .into_inner();
    server
        .runtime
        .block_on(client.upload(&namespace, "f", Content::bytes(zip)))
        .unwrap();
    tf.until("it has failed", || {
        let function = server
            .runtime
            .block_on(client.function(&namespace, "f"))
            .unwrap();
        function.phase == sless_api::FunctionPhase::Failed
    });
    tf.apply().ok().says("~ phase").says("1 changed");
    assert_eq!(server.call("f").0, 200);

    // And one that is gone is made.
    server
        .runtime
        .block_on(client.delete_function(&namespace, "f"))
        .unwrap();
    tf.plan().says("1 to add, 0 to change, 0 to destroy");
    tf.apply().ok();
}
