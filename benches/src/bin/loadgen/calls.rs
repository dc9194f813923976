//! Calls of a function that is awake: how many, how fast, and what they cost.

use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use sless_benches::{
    deploy,
    load::{self, Load, Target},
    processes,
    report::{Spread, Table},
    server::Server,
};
use sless_core::Runtime;

use crate::Arguments;

const BODIES: [(&str, usize); 3] = [("2 B", 2), ("1 KiB", 1024), ("100 KiB", 100 * 1024)];
const CONNECTIONS: [usize; 2] = [1, 16];

/// One line of the table.
#[derive(Debug)]
struct Case {
    language: &'static str,
    body: &'static str,
    connections: usize,
    target: Target,
    per_second: Spread,
    p50: Spread,
    p99: Spread,
    p99_at_half: Spread,
    cpu_server: Spread,
    cpu_workers: Spread,
}

pub(crate) async fn measure(server: &Server, arguments: &Arguments) -> Result<Table> {
    let mut cases = Vec::new();
    for (language, runtime) in [("Python", Runtime::Python311), ("Node", Runtime::NodeJs20)] {
        let name = format!("echo-{}", language.to_lowercase());
        deploy::create(server, &name, runtime, None).await?;
        deploy::until_first_answer(server, &name, deploy::zip(runtime, "echo")?).await?;
        for (body, bytes) in BODIES {
            for connections in CONNECTIONS {
                let body_bytes = Bytes::from(vec![b'x'; bytes]);
                let (address, path) = (server.address, server.path(&name));
                cases.push(Case {
                    language,
                    body,
                    connections,
                    target: Target {
                        address,
                        path,
                        body: body_bytes,
                    },
                    per_second: Spread::default(),
                    p50: Spread::default(),
                    p99: Spread::default(),
                    p99_at_half: Spread::default(),
                    cpu_server: Spread::default(),
                    cpu_workers: Spread::default(),
                });
            }
        }
    }
    // All cases in turn, and that several times: what else the machine does then hits all alike.
    for _ in 0..arguments.rounds() {
        for case in &mut cases {
            case.measure(server, arguments).await?;
        }
    }
    let mut table = Table::new([
        "language",
        "body",
        "connections",
        "requests/s",
        "p50 µs",
        "p99 µs",
        "p99 µs at half the rate",
        "CPU µs of the server",
        "CPU µs of the worker",
    ]);
    for case in cases {
        table.row([
            case.language,
            case.body,
            &case.connections.to_string(),
            &case.per_second.show(0),
            &case.p50.show(0),
            &case.p99.show(0),
            &case.p99_at_half.show(0),
            &case.cpu_server.show(0),
            &case.cpu_workers.show(0),
        ]);
    }
    Ok(table)
}

impl Case {
    async fn measure(&mut self, server: &Server, arguments: &Arguments) -> Result<()> {
        let load = Load {
            connections: self.connections,
            duration: arguments.duration(),
            requests: arguments.requests(),
            rate: None,
        };
        let warm_up = Load {
            duration: load.duration / 10,
            requests: load.requests / 5,
            ..load
        };
        load::run(&self.target, warm_up).await?;
        let before = processes::cpu(server.pid())?;
        let measured = load::run(&self.target, load).await?;
        let cpu = processes::cpu(server.pid())?.since(before);
        let each = |time: Duration| time.as_secs_f64() * 1e6 / measured.requests as f64;
        self.per_second.add(measured.per_second());
        self.p50.add(measured.quantile(0.5));
        self.p99.add(measured.quantile(0.99));
        self.cpu_server.add(each(cpu.server));
        self.cpu_workers.add(each(cpu.workers));
        // Begun at fixed times, so that one slow answer does not hide those that wait behind it.
        let half = Load {
            rate: Some(measured.per_second() / 2.0),
            ..load
        };
        self.p99_at_half
            .add(load::run(&self.target, half).await?.quantile(0.99));
        Ok(())
    }
}
