//! `invoke`: what goes in, what comes out, and when.

use std::{fs, io::Write as _, net::TcpListener, time::Instant};

use serde_json::json;

use crate::support::{Running, World, run, until};

fn deploy(world: &World, handler: &str) {
    world.write(&[("f/handler.py", handler)]);
    world.ok(&["deploy", "f"]);
}

#[test]
fn every_byte_goes_in_and_comes_out_as_it_is() {
    let world = World::new();
    deploy(
        &world,
        "def handle(event, context):\n    \
             return {'statusCode': 200, 'headers': {'content-type': 'application/octet-stream'}, \
                     'body': context.body}\n",
    );
    let bytes: Vec<u8> = (0..=255).collect();
    fs::write(world.work().join("bytes"), &bytes).unwrap();
    let mut command = world.command(&["invoke", "f", "--file", "bytes", "--raw"]);
    assert_eq!(command.output().unwrap().stdout, bytes);
    let done = run(
        world.command(&["invoke", "f", "--file", "-", "--raw"]),
        Some(b"piped"),
    );
    assert_eq!((done.status, done.out.as_str()), (0, "piped"), "{done:#?}");
}

#[test]
fn method_path_and_header_arrive() {
    let world = World::new();
    deploy(
        &world,
        "def handle(event, context):\n    \
             request = context\n    \
             return [request.method, request.path, request.query, request.headers.get('x-a'), \
                     request.headers.get('authorization'), event]\n",
    );
    let answer = world.json(&[
        "invoke",
        "f",
        "/a%2Fb?q=1&q=2",
        "--method",
        "PUT",
        "-H",
        "X-A: b:c",
        "--data",
        "text",
    ]);
    let body = answer["body"].as_array().unwrap();
    assert_eq!(answer["status"], 200);
    assert_eq!(body[0], "PUT");
    assert_eq!(body[3], "b:c");
    assert_eq!(body[4], json!(null), "the token stays here");
    assert_eq!(body[5], "text");
    let done = world.run(&["invoke", "f", "--include"]);
    assert!(
        done.err.contains("status: 200") && done.err.contains("content-type: "),
        "{done:#?}"
    );
    assert!(done.out.starts_with('['), "{done:#?}");
}

#[test]
fn an_answer_is_printed_while_it_comes() {
    let world = World::new();
    deploy(
        &world,
        "import socket\ndef handle(event):\n    \
             yield 'first\\n'\n    \
             socket.create_connection(('127.0.0.1', event['port'])).recv(1)\n    \
             yield 'second\\n'\n",
    );
    let gate = TcpListener::bind("127.0.0.1:0").unwrap();
    let data = json!({ "port": gate.local_addr().unwrap().port() }).to_string();
    let began = Instant::now();
    let call = Running::start(world.command(&["invoke", "f", "--data", &data]));
    until(
        "the first piece",
        || call.out() == "first\n",
        || format!("{} {}", call.out(), call.err()),
    );
    gate.accept().unwrap().0.write_all(b".").unwrap();
    let done = call.ended();
    assert_eq!(
        (done.status, done.out.as_str()),
        (0, "first\nsecond\n"),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn an_answer_that_says_error_is_printed_and_is_a_failure() {
    let world = World::new();
    deploy(
        &world,
        "def handle(event): raise ValueError('no ' + event['what'])\n",
    );
    let done = world.fails(
        &["invoke", "f", "--data", r#"{"what":"tea"}"#],
        1,
        "status 500",
    );
    assert!(
        done.out.contains("ValueError") && done.out.contains("no tea"),
        "{done:#?}"
    );
    assert!(done.err.contains("sless logs f --tail 20"), "{done:#?}");
    world.fails(&["invoke", "nobody"], 1, "status 404");
    world.fails(
        &["invoke", "f", "--file", "nowhere"],
        2,
        "cannot read nowhere",
    );
    world.fails(&["invoke", "f", "--method", "A B"], 2, "method");
}
