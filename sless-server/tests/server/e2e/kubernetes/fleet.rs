//! Processes apart, several copies of each role.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Instant,
};

use rustix::process::Signal;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::super::{
    place::Place,
    process::{DEADLINE, LOOK, Process},
};

/// Copies of each role.
pub(super) struct Fleet<'a> {
    place: &'a Place,
    copies: Vec<Copy>,
    apis: Apis,
}

struct Copy {
    role: &'static str,
    process: Process,
    address: SocketAddr,
}

/// Where the API answers, or did a moment ago: what a load balancer knows.
#[derive(Clone, Debug, Default)]
pub(super) struct Apis(Arc<Mutex<Vec<SocketAddr>>>);

impl Apis {
    fn add(&self, address: SocketAddr) {
        self.0.lock().unwrap().push(address);
    }

    fn remove(&self, address: SocketAddr) {
        self.0.lock().unwrap().retain(|known| *known != address);
    }

    pub(super) fn all(&self) -> Vec<SocketAddr> {
        self.0.lock().unwrap().clone()
    }

    /// A connection to one that takes it; which one is asked first changes with `turn`.
    pub(super) async fn connect(&self, turn: usize) -> TcpStream {
        let began = Instant::now();
        loop {
            let known = self.all();
            for at in 0..known.len() {
                let address = known[(turn + at) % known.len()];
                if let Ok(stream) = TcpStream::connect(address).await {
                    return stream;
                }
            }
            assert!(began.elapsed() < DEADLINE, "no copy takes a connection");
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Sends one request on a connection of its own, and answers all that comes back.
pub(super) async fn ask(mut stream: TcpStream, request: &str) -> std::io::Result<String> {
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

impl<'a> Fleet<'a> {
    /// Starts these, and waits until all of them are ready.
    pub(super) async fn start(place: &'a Place, roles: &[&'static str]) -> Self {
        let mut fleet = Self {
            place,
            copies: Vec::new(),
            apis: Apis::default(),
        };
        for role in roles {
            let copy = fleet.launch(role).await;
            fleet.copies.push(copy);
        }
        fleet
    }

    pub(super) fn apis(&self) -> Apis {
        self.apis.clone()
    }

    async fn launch(&self, role: &'static str) -> Copy {
        let mut process = self.place.process(role, &[]);
        let address = process.serving().await;
        let began = Instant::now();
        let request = "GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        loop {
            let stream = TcpStream::connect(address).await.unwrap();
            let answer = ask(stream, request).await.unwrap();
            if answer.starts_with("HTTP/1.1 200 ") {
                assert!(answer.contains(r#""kubernetes":"ok""#), "{answer}");
                break;
            }
            assert!(
                began.elapsed() < DEADLINE,
                "{role}: {answer}\n{}",
                process.err.text()
            );
            tokio::time::sleep(LOOK).await;
        }
        if role == "api" {
            self.apis.add(address);
        }
        Copy {
            role,
            process,
            address,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.copies.len()
    }

    /// Ends a copy as Kubernetes does, and starts another in its place.
    pub(super) async fn restart(&mut self, at: usize) {
        let copy = &mut self.copies[at];
        copy.process.signal(Signal::TERM);
        let status = copy.process.ended(DEADLINE).await;
        assert!(
            status.success(),
            "{}: {status}\n{}",
            copy.role,
            copy.process.err.text()
        );
        let (role, address) = (copy.role, copy.address);
        self.apis.remove(address);
        self.copies[at] = self.launch(role).await;
    }

    /// Kills a copy as a power cut does, and starts another in its place.
    pub(super) async fn kill(&mut self, at: usize) {
        let copy = &mut self.copies[at];
        copy.process.kill();
        let (role, address) = (copy.role, copy.address);
        self.apis.remove(address);
        self.copies[at] = self.launch(role).await;
    }

    /// What the processes have logged above the level of information.
    pub(super) fn troubles(&self) -> String {
        let all = self.copies.iter().flat_map(|copy| {
            let lines = copy.process.err.all().into_iter();
            lines.map(|line| format!("{}: {line}", copy.role))
        });
        let loud = all.filter(|line| !line.contains(r#""level":"INFO""#));
        loud.collect::<Vec<_>>().join("\n")
    }

    pub(super) async fn stop(self) {
        for mut copy in self.copies {
            copy.process.signal(Signal::TERM);
            let status = copy.process.ended(DEADLINE).await;
            assert!(
                status.success(),
                "{}: {status}\n{}",
                copy.role,
                copy.process.err.text()
            );
        }
    }
}
