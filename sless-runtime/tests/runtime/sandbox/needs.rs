//! What functions of other people do works inside.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use super::*;

/// Answers what it is told, on a port of its own.
fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut told = [0; 2];
            if stream.read_exact(&mut told).is_ok() {
                let _ = stream.write_all(&told);
            }
        }
    });
    port
}

/// `apart` are what needs a root folder of its own.
async fn needs(language: Language, code: &str, apart: &[&str]) {
    let _shared = MACHINE.read().await;
    let apart = if has_namespaces() { &[] } else { apart };
    let world = World::new();
    let sandbox = Sandbox::Confined(Confinement::default());
    let function = world.function(language, code, sandbox);
    let host = function.start().await;
    let answer = call(&host, json_event(&json!({ "port": echo() })))
        .await
        .unwrap();
    let failed = answer.json();
    let mut names: Vec<_> = failed.as_object().unwrap().keys().collect();
    names.sort();
    assert_eq!(names, apart, "{failed}");
    host.drain(Duration::from_secs(10)).await;
}

#[tokio::test]
async fn what_functions_of_python_need_works_inside() {
    needs(
        Python,
        include_str!("needs.py"),
        &["processes", "slash_tmp"],
    )
    .await;
}

#[tokio::test]
async fn what_functions_of_node_need_works_inside() {
    needs(Node, include_str!("needs.js"), &[]).await;
}
