//! A scripted server in the place of a model's.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use sless_core::{Result, Runtime, Validator, Verdict, source::SourceTree};
use sless_validator::{LlmConfig, LlmValidator};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// How long a test waits for what has to happen.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) line: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
    pub(crate) text: String,
}

impl Request {
    fn message(&self, at: usize, role: &str) -> &str {
        let message = &self.body["messages"][at];
        assert_eq!(message["role"], role);
        message["content"].as_str().unwrap()
    }

    pub(crate) fn system(&self) -> &str {
        self.message(0, "system")
    }

    pub(crate) fn user(&self) -> &str {
        self.message(1, "user")
    }

    /// The word that only the `system` message holds.
    pub(crate) fn canary(&self) -> &str {
        let (_, rest) = self.system().rsplit_once("\"canary\": \"").unwrap();
        rest.split_once('"').unwrap().0
    }

    /// The word in the lines around files.
    pub(crate) fn boundary(&self) -> &str {
        self.user().split(' ').nth(1).unwrap()
    }

    pub(crate) fn format(&self) -> &str {
        self.body["response_format"]["type"]
            .as_str()
            .unwrap_or("none")
    }
}

/// What a server does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Answers with a status, further lines of the head, and a body.
    Answer(u16, String, String),
    /// Writes these bytes and closes.
    Bytes(Vec<u8>),
    /// Writes these bytes, one in a while, and never ends.
    Drip(Vec<u8>),
    /// Says nothing until the client leaves.
    Silence,
    /// Answers after a while.
    After(Duration, Box<Act>),
}

impl Act {
    pub(crate) fn status(status: u16, body: &Value) -> Self {
        Self::Answer(status, String::new(), body.to_string())
    }

    /// A model that has said this.
    pub(crate) fn says(content: &str) -> Self {
        Self::ends(content, "stop")
    }

    pub(crate) fn ends(content: &str, finish: &str) -> Self {
        let message = json!({"role": "assistant", "content": content});
        let choice = json!({"index": 0, "finish_reason": finish, "message": message});
        Self::status(
            200,
            &json!({"object": "chat.completion", "choices": [choice]}),
        )
    }
}

type Script = dyn Fn(usize, &Request) -> Act + Send + Sync;

/// The server, and a validator that asks it.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    task: JoinHandle<()>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn receive(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.lines();
    let line = lines.next()?.to_owned();
    let headers: BTreeMap<_, _> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers.get("content-length")?.parse().ok()?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let text = String::from_utf8(body).unwrap();
    Some(Request {
        line,
        headers,
        body: serde_json::from_str(&text).unwrap(),
        text,
    })
}

async fn act(stream: &mut BufReader<TcpStream>, act: Act) -> std::io::Result<()> {
    match act {
        Act::Answer(status, lines, body) => {
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
                 connection: close\r\n{lines}\r\n"
            );
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(body.as_bytes()).await?;
        }
        Act::Bytes(bytes) => stream.write_all(&bytes).await?,
        Act::Drip(bytes) => {
            for byte in bytes.into_iter().chain(std::iter::repeat(b' ')) {
                stream.write_all(&[byte]).await?;
                stream.flush().await?;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        Act::Silence => {
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).await?;
        }
        Act::After(delay, then) => {
            tokio::time::sleep(delay).await;
            Box::pin(self::act(stream, *then)).await?;
        }
    }
    stream.flush().await?;
    stream.shutdown().await
}

impl Peer {
    /// A server that does what the script says to the request of this number, from 0.
    pub(crate) async fn start(
        script: impl Fn(usize, &Request) -> Act + Send + Sync + 'static,
    ) -> Self {
        let script: Arc<Script> = Arc::new(script);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (script, seen) = (script.clone(), seen.clone());
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    let Some(request) = receive(&mut stream).await else {
                        return;
                    };
                    let number = {
                        let mut seen: std::sync::MutexGuard<'_, Vec<Request>> =
                            seen.lock().unwrap();
                        seen.push(request.clone());
                        seen.len() - 1
                    };
                    // A client that has left is none of the script's business.
                    let _ = act(&mut stream, script(number, &request)).await;
                });
            }
        });
        Self {
            address,
            requests,
            task,
        }
    }

    /// One that always does the same.
    pub(crate) async fn always(act: Act) -> Self {
        Self::start(move |_, _| act.clone()).await
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn config(&self) -> LlmConfig {
        let mut config = LlmConfig::new(format!("http://{}", self.address)).with_timeout(DEADLINE);
        config.retry_delay = Duration::from_millis(1);
        config
    }

    pub(crate) fn validator(&self) -> LlmValidator {
        LlmValidator::new(self.config()).unwrap()
    }

    /// What it says of a harmless file.
    pub(crate) async fn verdict(&self) -> Result<Verdict> {
        verdict(&self.validator()).await
    }

    /// A validator that keeps this server.
    pub(crate) fn shared(self) -> Judge {
        Judge {
            validator: Arc::new(self.validator()),
            _peer: Arc::new(self),
        }
    }
}

pub(crate) async fn verdict(validator: &LlmValidator) -> Result<Verdict> {
    let source = SourceTree::from_files([("handler.py", "def handle(event): return 1\n")])?;
    validator.validate(&source, Runtime::Python311).await
}

/// A validator with the server that it asks.
#[derive(Clone, Debug)]
pub(crate) struct Judge {
    validator: Arc<LlmValidator>,
    _peer: Arc<Peer>,
}

#[async_trait::async_trait]
impl Validator for Judge {
    fn identity(&self) -> String {
        self.validator.identity()
    }

    async fn validate(&self, source: &SourceTree, runtime: Runtime) -> Result<Verdict> {
        self.validator.validate(source, runtime).await
    }
}

fn judgement(request: &Request) -> Act {
    let safe = !request.user().contains("pty.spawn");
    let reason = if safe { "" } else { "it starts a shell" };
    let answer = json!({"safe": safe, "reason": reason, "canary": request.canary()});
    Act::says(&answer.to_string())
}

/// A model that follows its instructions, and finds the payload of these tests.
pub(crate) async fn judge() -> Peer {
    Peer::start(|_, request| judgement(request)).await
}

/// The same, on a server that knows no response formats.
pub(crate) async fn plain_judge() -> Peer {
    Peer::start(|_, request| {
        if request.body.get("response_format").is_some() {
            let error = json!({"message": "response_format is not supported", "code": 400});
            return Act::status(400, &json!({ "error": error }));
        }
        judgement(request)
    })
    .await
}
