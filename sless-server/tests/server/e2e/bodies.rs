//! Large bodies through the whole system: what the server holds of them, and what a worker does.

use axum::body::Bytes;
use futures::{StreamExt, stream};
use sless_api::client::{Call, Content};

use super::machine::{Machine, function};
use crate::measure::{most_memory, report};

const MEGABYTE: usize = 1 << 20;

/// How large a body is, in megabytes.
const BODY: usize = 100;

/// How much more memory the server, and a worker that holds nothing, may take for a body.
const STREAMED: u64 = 24 << 20;

/// The same of Node, which frees what it has dropped only once there are some tens of megabytes of it.
const COLLECTED: u64 = 96 << 20;

/// What a worker holds of a body that its handler wants as a whole.
const WHOLE: u64 = (BODY as u64) << 20;

struct Handler {
    name: &'static str,
    runtime: &'static str,
    code: &'static str,
    /// The body, in megabytes: several times of what may be taken for it.
    body: usize,
    /// Whether its length is said before, and how much memory its worker may take then.
    takes: &'static [(bool, u64)],
}

const HANDLERS: [Handler; 6] = [
    Handler {
        name: "python-stream",
        runtime: "python3.11",
        code: "def handle(event):\n    yield from event\nhandle.stream_body = True\n",
        body: BODY,
        takes: &[(true, STREAMED)],
    },
    Handler {
        name: "async-stream",
        runtime: "python3.11",
        code: "async def handle(event):\n    async for piece in event:\n        yield piece\n\
               handle.stream_body = True\n",
        body: BODY,
        takes: &[(false, STREAMED)],
    },
    Handler {
        name: "node-stream",
        runtime: "nodejs20",
        code: "exports.handle = async function* (event) { yield* event; };\n\
               exports.handle.streamBody = true;\n",
        body: 3 * BODY,
        takes: &[(false, COLLECTED)],
    },
    Handler {
        name: "python-whole",
        runtime: "python3.11",
        code: "def handle(event):\n    return event\n",
        body: BODY,
        takes: &[(false, WHOLE + STREAMED)],
    },
    Handler {
        name: "async-whole",
        runtime: "python3.11",
        code: "async def handle(event):\n    return event\n",
        body: BODY,
        takes: &[(true, WHOLE + STREAMED)],
    },
    Handler {
        name: "node-whole",
        runtime: "nodejs20",
        code: "exports.handle = (event) => event;\n",
        body: BODY,
        // Pieces are put together at the end where nobody says how long it is.
        takes: &[(true, WHOLE + COLLECTED), (false, 2 * WHOLE + COLLECTED)],
    },
];

/// A megabyte that is unlike its neighbours.
fn piece(number: usize) -> Bytes {
    vec![u8::try_from(number % 251).unwrap(); MEGABYTE].into()
}

/// Sends a body, and reads the same one meanwhile.
async fn echo(machine: &Machine, handler: &Handler, says_length: bool) {
    let (name, megabytes) = (handler.name, handler.body);
    let pieces = (0..megabytes).map(|number| Ok(piece(number)));
    let mut body = Content::stream(stream::iter(pieces));
    if says_length {
        body = body.with_length((megabytes * MEGABYTE) as u64);
    }
    let call = Call::new("POST")
        .with_header("content-type", "image/x")
        .with_body(body);
    let answer = machine.client.call(&machine.namespace, name, call).await;
    let mut answer = answer.unwrap();
    assert_eq!(answer.status, 200, "{name}");
    let (mut size, mut expected) = (0, piece(0));
    while let Some(data) = answer.body.next().await {
        let mut data = data.unwrap();
        while !data.is_empty() {
            let left = MEGABYTE - size % MEGABYTE;
            let part = data.split_to(left.min(data.len()));
            assert!(part == expected[..part.len()], "{name} at {size}");
            size += part.len();
            if size % MEGABYTE == 0 {
                expected = piece(size / MEGABYTE);
            }
        }
    }
    assert_eq!(size, megabytes * MEGABYTE, "{name}");
}

/// The server holds nothing of it, whatever the handler wants, so that there is no bound but the one that is
/// set.
#[tokio::test]
async fn a_hundred_megabytes_go_in_and_out_and_nobody_holds_them_who_need_not() {
    let data = tempfile::tempdir().unwrap();
    let machine = Machine::start(data.path()).await;
    let server = machine.process.id();
    for handler in &HANDLERS {
        let (name, runtime) = (handler.name, handler.runtime);
        let file = match runtime {
            "nodejs20" => "handler.js",
            _ => "handler.py",
        };
        let function = function(name, runtime);
        machine.deploy(function, &[(file, handler.code)]).await;
        let workers = machine.processes(name);
        let most = || -> Vec<_> { workers.iter().map(|id| most_memory(*id)).collect() };
        for &(says_length, takes) in handler.takes {
            let (server_before, before) = (most_memory(server), most());
            echo(&machine, handler, says_length).await;
            let server_took = most_memory(server) - server_before;
            let took = most().into_iter().zip(before).map(|(now, then)| now - then);
            let took = took.max().unwrap();
            report(&format!(
                "{name}, length said: {says_length}: the server took {} KiB more, the worker {} KiB",
                server_took >> 10,
                took >> 10
            ));
            assert!(server_took < STREAMED, "{name}: {server_took} bytes");
            assert!(took < takes, "{name}: {took} bytes of {takes}");
        }
        assert_eq!(machine.processes(name), workers, "none was replaced");
    }
    machine.stop().await;
}
