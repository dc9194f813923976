//! Handlers that are refused at the start, with a word, a sentence and the trace.

use std::time::Duration;

use http::Request;
use sless_runtime::{Body, Reason};

use super::support::*;

#[tokio::test]
async fn a_wrong_handler_fails_the_start() {
    let cases = [
        (Python, "def handle(", Reason::HandlerImport, "SyntaxError"),
        (
            Python,
            "import nothing_of_this_name",
            Reason::HandlerImport,
            "nothing_of_this_name",
        ),
        (
            Python,
            "raise ValueError('at import')",
            Reason::HandlerImport,
            "at import",
        ),
        (
            Python,
            "raise SystemExit(2)",
            Reason::HandlerImport,
            "SystemExit",
        ),
        (
            Python,
            "def other(event): pass",
            Reason::HandlerMissing,
            "no function handle",
        ),
        (Python, "handle = 5", Reason::HandlerMissing, "int"),
        (Python, "def handle(): pass", Reason::HandlerSignature, "0"),
        (
            Python,
            "def handle(a, b, c): pass",
            Reason::HandlerSignature,
            "3",
        ),
        (
            Python,
            "def handle(a, *, k): pass",
            Reason::HandlerSignature,
            "2",
        ),
        (
            Python,
            "class H:\n    def __call__(self): pass\nhandle = H()",
            Reason::HandlerSignature,
            "expected (event)",
        ),
        (Python, "import os; os._exit(4)", Reason::Crash, "status 4"),
        (Python, "raise MemoryError()", Reason::OutOfMemory, "memory"),
        (
            Node,
            "exports.handle = (",
            Reason::HandlerImport,
            "SyntaxError",
        ),
        (
            Node,
            "require('nothing-of-this-name');",
            Reason::HandlerImport,
            "nothing-of-this-name",
        ),
        (
            Node,
            "throw new TypeError('at import');",
            Reason::HandlerImport,
            "at import",
        ),
        (
            Node,
            "exports.other = (event) => 1;",
            Reason::HandlerMissing,
            "no function handle",
        ),
        (
            Node,
            "exports.handle = 5;",
            Reason::HandlerMissing,
            "number",
        ),
        (
            Node,
            "exports.handle = (a, b, c) => 1;",
            Reason::HandlerSignature,
            "3",
        ),
        (Node, "process.exit(4);", Reason::Crash, "status 4"),
    ];
    for (language, code, reason, part) in cases {
        let function = Function::new(language, code);
        let Err(error) = function.try_start().await else {
            panic!("it started: {code}");
        };
        assert_eq!(error.reason, reason, "{code}: {error}");
        assert!(error.message.contains(part), "{code}: {error}");
        if reason == Reason::HandlerImport {
            assert!(
                error.log_tail.contains("handler."),
                "{code}: {}",
                error.log_tail
            );
            assert!(
                !error.log_tail.contains("sless_worker"),
                "{code}: {}",
                error.log_tail
            );
        }
    }
}

#[tokio::test]
async fn a_missing_module_fails_the_start() {
    for (language, entrypoint) in [
        (Python, "nope.handle"),
        (Node, "nope.handle"),
        (Python, "a.b.c"),
        (Node, "a.b.c"),
    ] {
        let function =
            Function::new(language, "").with(|config| config.entrypoint = entrypoint.into());
        let error = function.try_start().await.unwrap_err();
        assert_eq!(error.reason, Reason::HandlerImport, "{error}");
        assert!(error.message.contains(entrypoint), "{error}");
    }
}

#[tokio::test]
async fn one_and_two_parameters_are_right() {
    let cases = [
        (Python, "def handle(event): return 1"),
        (Python, "def handle(event, context): return 1"),
        (Python, "def handle(event, context=None): return 1"),
        (
            Python,
            "def handle(event, context, more=3): return 1 if context.path == '/' and more == 3 else 0",
        ),
        (Python, "def handle(*args): return len(args) - 1"),
        (Python, "async def handle(event): return 1"),
        (
            Python,
            "async def handle(event, context): return 1 if context.path else 0",
        ),
        (
            Python,
            "class H:\n    def __call__(self, event): return 1\nhandle = H()",
        ),
        (
            Python,
            "class H:\n    async def __call__(self, event): return 1\nhandle = H()",
        ),
        (
            Python,
            "class H:\n    def m(self, event, context): return 1\nhandle = H().m",
        ),
        (
            Python,
            "import functools\ndef f(x, event): return x\nhandle = functools.partial(f, 1)",
        ),
        (Python, "async def handle(event):\n    yield '1'"),
        // JavaScript calls a function with more arguments than it names.
        (Node, "exports.handle = () => 1;"),
        (Node, "exports.handle = (event) => 1;"),
        (Node, "exports.handle = event => 1;"),
        (
            Node,
            "exports.handle = (event, context) => (context.path === '/' ? 1 : 0);",
        ),
        (Node, "exports.handle = (event = {}, context) => 1;"),
        (Node, "exports.handle = (...all) => all.length - 1;"),
        (
            Node,
            "exports.handle = function () { return arguments.length - 1; };",
        ),
        (Node, "exports.handle = async (event) => 1;"),
        (Node, "exports.handle = ((event) => 1).bind(null);"),
        (Node, "exports.handle = function* (event) { yield '1'; };"),
        (
            Node,
            "exports.handle = async function* ({ a }) { yield '1'; };",
        ),
    ];
    for (language, code) in cases {
        let host = Function::new(language, code).start().await;
        let answer = call(&host, Request::new(Body::empty())).await.unwrap();
        assert_eq!((answer.status(), answer.text()), (200, "1"), "{code}");
    }
}

#[tokio::test]
async fn an_import_that_takes_too_long_is_ended() {
    for (language, code) in [
        (
            Python,
            "print('slow', flush=True)\nimport time\ntime.sleep(600)",
        ),
        (Node, "console.log('slow'); for (;;) {}"),
    ] {
        let instance = format!("slow-{language:?}-{}", std::process::id());
        let function = Function::new(language, code).with(|config| {
            config.start_timeout = Duration::from_millis(700);
            config.instance = instance.clone();
        });
        let error = function.try_start().await.unwrap_err();
        assert_eq!(error.reason, Reason::StartTimeout);
        assert!(error.log_tail.contains("slow"), "{error:?}");
        assert_eq!(processes_of(&instance), [0u32; 0]);
    }
}

#[tokio::test]
async fn an_interpreter_that_is_not_there_is_named() {
    let function =
        Function::new(Python, "").with(|config| config.interpreter = Some("/no/python".into()));
    let error = function.try_start().await.unwrap_err();
    assert_eq!(error.reason, Reason::InterpreterMissing);
    assert!(error.message.contains("/no/python"), "{error}");
}

#[tokio::test]
async fn a_wrong_configuration_names_the_field() {
    let wrong = async |change: fn(&mut sless_runtime::HostConfig)| {
        let error = Function::new(Python, "")
            .with(change)
            .try_start()
            .await
            .unwrap_err();
        assert_eq!(error.reason, Reason::Config);
        error.message
    };
    assert!(
        wrong(|config| config.concurrency = 0)
            .await
            .contains("concurrency")
    );
    assert!(
        wrong(|config| config.entrypoint = "handle".into())
            .await
            .contains("entrypoint")
    );
    assert!(
        wrong(|config| config.code_dir = "/no/code".into())
            .await
            .contains("code_dir")
    );
    let bad = wrong(|config| drop(config.env.insert("A=B".into(), String::new()))).await;
    assert!(bad.contains("A=B"), "{bad}");
}

#[tokio::test]
async fn dropping_the_start_ends_the_worker() {
    let instance = format!("dropped-{}", std::process::id());
    let function = Function::new(Python, "import time\nprint('here')\ntime.sleep(600)")
        .with(|config| config.instance = instance.clone());
    tokio::select! {
        _ = function.try_start() => panic!("it cannot start"),
        _ = function.logs.wait_for("here") => {}
    }
    until("the worker's end", || {
        processes_of(&instance).is_empty().then_some(())
    })
    .await;
}
