//! The provider's own configuration, and what is wrong with it.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
};

use crate::server::Server;

const LOOK: &str =
    "data \"sless_namespace\" \"n\" {}\noutput \"n\" { value = data.sless_namespace.n.name }";

/// A platform underneath that always answers this.
fn platform(status: u16) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { break };
            let mut request = [0; 8192];
            let read = stream.read(&mut request).unwrap_or_default();
            let is_asked = String::from_utf8_lossy(&request[..read])
                .to_lowercase()
                .contains("authorization: bearer ");
            let status = if is_asked { status } else { 401 };
            let _ = write!(
                stream,
                "HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
        }
    });
    format!("http://{address}/whoami")
}

#[test]
#[ignore = "needs terraform 1.11"]
fn attributes_win_over_the_environment_and_errors_name_them() {
    let server = Server::start();
    let mut tf = server.workspace();
    tf.config(LOOK);
    tf.apply()
        .ok()
        .says(&format!("n = \"{}\"", server.namespace()));

    let bob = server.token("bob", "1h");
    tf.settings(&format!("token = {bob:?}"));
    tf.config(LOOK);
    let namespace = sless_core::Namespace::of_subject("bob");
    tf.apply()
        .ok()
        .says(&format!("n = \"{namespace}\""))
        .lacks(&bob);

    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    for (settings, errors) in [
        (
            "token = \"hunter2\"".to_owned(),
            ["The token cannot be used", "three parts"],
        ),
        (
            format!("token = \"{bob}x\""),
            ["The server does not take the token", "status 401"],
        ),
        (
            "endpoint = \"ftp://x\"".to_owned(),
            ["`endpoint` cannot be used", "expected http"],
        ),
        (
            format!("endpoint = \"http://{closed}\""),
            ["The server cannot be reached", "cannot connect"],
        ),
        (
            format!("nubes_endpoint = {:?}", platform(401)),
            ["underneath does not take", "status 401"],
        ),
        (
            format!("nubes_endpoint = {:?}", platform(403)),
            ["underneath does not take", "status 403"],
        ),
        (
            format!("nubes_endpoint = \"http://{closed}\""),
            ["underneath does not take", "cannot be asked"],
        ),
    ] {
        let attribute = settings.split(' ').next().unwrap().to_owned();
        tf.settings(&settings);
        tf.config(LOOK);
        let said = tf.plan();
        said.failed()
            .says(errors[0])
            .says(errors[1])
            .lacks("hunter2\\");
        said.says("in provider \"sless\":").says(&attribute);
    }
    for status in [200, 302, 404, 500] {
        tf.settings(&format!("nubes_endpoint = {:?}", platform(status)));
        tf.config(LOOK);
        assert_ne!(tf.plan().code, 1, "{status}");
    }

    tf.settings("");
    tf.unset();
    tf.config(LOOK);
    let said = tf.plan();
    assert_eq!(said.code, 1);
    said.says("Missing `endpoint`")
        .says("SLESS_ENDPOINT")
        .says("Missing `token`")
        .says("SLESS_API_TOKEN");
}

#[test]
#[ignore = "needs terraform 1.11"]
fn an_endpoint_that_comes_later_is_waited_for() {
    let server = Server::start();
    let mut tf = server.workspace();
    let (endpoint, token) = (server.endpoint(), server.token("alice", "1h"));
    tf.unset();
    tf.settings("endpoint = terraform_data.e.output\ntoken = terraform_data.t.output");
    tf.code("src", "1");
    let later = format!(
        "resource \"terraform_data\" \"e\" {{ input = {endpoint:?} }}\n\
         resource \"terraform_data\" \"t\" {{ input = {token:?} }}\n"
    );
    tf.config(&(later + &crate::server::function("f", "")));
    assert_eq!(tf.plan().code, 2, "a plan needs no server");
    tf.apply().ok().says("3 added");
    assert_eq!(server.call("f"), (200, "1".to_owned()));
    // What exists stays as it is known, where the server is not known again.
    let replaced = tf.run(&["plan", "-detailed-exitcode", "-replace=terraform_data.e"]);
    assert_eq!(replaced.code, 2, "{}", replaced.text);
    replaced
        .lacks("Error")
        .says("1 to add, 0 to change, 1 to destroy");
}
