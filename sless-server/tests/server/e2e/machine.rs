//! A server on a data folder, spoken to as its users do.

use std::{collections::BTreeMap, net::SocketAddr, path::Path, time::Instant};

use futures::StreamExt;
use rustix::process::Signal;
use sless_api::{
    CreateFunction, Function, FunctionPhase, Invocation, InvocationsQuery, LogQuery,
    client::{Call, Client, ClientConfig, Content},
};
use sless_core::{
    Namespace,
    source::{SourceTree, pack},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::process::{DEADLINE, LOOK, Process, command, marked_processes};

/// A running server, and a user of it.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    /// Speaks for the user.
    pub(crate) client: Client,
    /// The user's namespace.
    pub(crate) namespace: String,
}

impl Machine {
    /// Starts a server as `sless-server` alone does, on a port of its own.
    pub(crate) async fn start(data: &Path) -> Self {
        Self::start_with(data, &[]).await
    }

    /// The same, with these settings.
    pub(crate) async fn start_with(data: &Path, settings: &[(&str, &str)]) -> Self {
        let mut serve = command(Some(data), ["serve"]);
        serve
            .env("SLESS_LISTEN", "127.0.0.1:0")
            .env("SLESS_DRAIN_TIMEOUT", "3s")
            .envs(settings.iter().copied());
        let process = Process::start(serve);
        let minted = command(Some(data), ["token", "--sub", "alice"])
            .output()
            .unwrap();
        assert!(minted.status.success());
        let token = String::from_utf8(minted.stdout).unwrap();
        let namespace = Namespace::of_subject("alice").to_string();
        Self::of(process, token.trim(), namespace).await
    }

    /// A server that was started, and a user of it whose token opens this namespace.
    pub(crate) async fn of(mut process: Process, token: &str, namespace: String) -> Self {
        let address = process.serving().await;
        let mut config = ClientConfig::new(format!("http://{address}")).with_token(token);
        config.max_retries = 0;
        let client = Client::new(config).unwrap();
        client.ensure_namespace(&namespace).await.unwrap();
        Self {
            process,
            address,
            client,
            namespace,
        }
    }

    /// Ends the server as an operator does.
    pub(crate) async fn stop(mut self) {
        self.process.signal(Signal::TERM);
        let status = self.process.ended(DEADLINE).await;
        assert!(status.success(), "{status}: {}", self.process.err.text());
    }

    /// Creates a function and uploads this zip.
    pub(crate) async fn upload(&self, function: &CreateFunction, zip: Vec<u8>) {
        self.client
            .create_function(&self.namespace, function)
            .await
            .unwrap();
        let zip = Content::bytes(zip);
        self.client
            .upload(&self.namespace, &function.name, zip)
            .await
            .unwrap();
    }

    /// Creates a function of these files and waits until it is ready.
    pub(crate) async fn deploy(&self, function: CreateFunction, files: &[(&str, &str)]) {
        self.upload(&function, zip(files)).await;
        let settled = self.settled(&function.name).await;
        assert_eq!(settled.phase, FunctionPhase::Ready, "{settled:?}");
    }

    /// A function once nothing is under way for it any more.
    pub(crate) async fn settled(&self, name: &str) -> Function {
        let began = Instant::now();
        loop {
            let function = self.client.function(&self.namespace, name).await.unwrap();
            if !matches!(
                function.phase,
                FunctionPhase::Pending | FunctionPhase::Building
            ) {
                return function;
            }
            assert!(began.elapsed() < DEADLINE, "{function:?}");
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Calls a function, and answers status and body.
    pub(crate) async fn call(&self, name: &str, call: Call) -> (u16, Vec<u8>) {
        let mut answer = self.client.call(&self.namespace, name, call).await.unwrap();
        let mut body = Vec::new();
        while let Some(piece) = answer.body.next().await {
            body.extend_from_slice(&piece.unwrap());
        }
        (answer.status, body)
    }

    /// Waits until a function's log holds this text, and answers the log.
    pub(crate) async fn logged(&self, name: &str, text: &str) -> String {
        let began = Instant::now();
        loop {
            let query = LogQuery::default();
            let lines = self
                .client
                .logs(&self.namespace, name, &query)
                .await
                .unwrap();
            let lines: Vec<_> = lines.map(|line| line.unwrap().text).collect().await;
            let log = lines.join("\n");
            if log.contains(text) {
                return log;
            }
            assert!(began.elapsed() < DEADLINE, "{text:?} is not in {log}");
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The processes of a function: its workers, and what they were forked from.
    pub(crate) fn processes(&self, name: &str) -> Vec<u32> {
        let server = self.process.id();
        let parents: BTreeMap<_, _> = marked_processes()
            .into_iter()
            .map(|(id, parent, _)| (id, parent))
            .collect();
        let below = |id: &&u32| {
            let mut at = **id;
            while let Some(parent) = parents.get(&at) {
                at = *parent;
            }
            at == server
        };
        let wanted = format!("SLESS_FUNCTION={name}");
        let of_function = parents.keys().filter(below).copied().filter(|id| {
            let environment = std::fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            environment
                .split(|byte| *byte == 0)
                .any(|line| line == wanted.as_bytes())
        });
        of_function.collect()
    }

    /// What is recorded of the calls of a function, all of it.
    pub(crate) async fn records(&self, name: &str) -> Vec<Invocation> {
        let (mut records, mut query) = (Vec::new(), InvocationsQuery::default());
        loop {
            let page = self.client.invocations(&self.namespace, name, &query).await;
            let page = page.unwrap();
            records.extend(page.items);
            query.cursor = page.next;
            if query.cursor.is_none() {
                return records;
            }
        }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends these bytes and reads until the server closes.
    pub(crate) async fn exchange(&self, request: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request.as_ref()).await.unwrap();
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        tokio::time::timeout(DEADLINE, read)
            .await
            .expect("the server closes")
            .unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }
}

/// A function with the defaults for all but the runtime.
pub(crate) fn function(name: &str, runtime: &str) -> CreateFunction {
    CreateFunction {
        name: name.to_owned(),
        runtime: runtime.to_owned(),
        ..Default::default()
    }
}

pub(crate) fn python(name: &str) -> CreateFunction {
    function(name, "python3.11")
}

pub(crate) fn node(name: &str) -> CreateFunction {
    function(name, "nodejs20")
}

pub(crate) fn zip(files: &[(&str, &str)]) -> Vec<u8> {
    let files = files
        .iter()
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
    let tree = SourceTree::from_files(files).unwrap();
    pack::write_zip(&tree, std::io::Cursor::new(Vec::new()))
        .unwrap()
        .into_inner()
}

/// A call with this JSON.
pub(crate) fn json(text: &str) -> Call {
    Call::new("POST")
        .with_header("content-type", "application/json")
        .with_body(Content::bytes(text.as_bytes().to_vec()))
}
