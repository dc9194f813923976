//! A proxy in front of the service, with a script.

use std::{
    convert::Infallible,
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt as _, stream, stream::BoxStream};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::{
    Method, Request, Response,
    body::{Frame, Incoming},
    client, server,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use sless_s3::{S3Config, S3Storage};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use crate::service;

/// What the proxy does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Passes it on, and the answer back.
    Pass,
    /// Answers by itself: a status, fields, a body.
    Answer(u16, Vec<(&'static str, &'static str)>, String),
    /// Never answers, and passes nothing on.
    Hang,
    /// Passes it on, and closes the connection when the answer is there.
    LoseAnswer,
    /// Passes it on when the gate opens.
    Wait(tokio::sync::watch::Receiver<bool>),
    /// Changes a byte of its body, then passes it on.
    SpoilRequest,
    /// Changes a byte of the answer's body.
    SpoilAnswer,
    /// Closes the connection after so many bytes of the answer's body.
    CutAnswer(usize),
    /// Stops in the middle after so many bytes of the answer's body, and keeps the connection.
    StallAnswer(usize),
    /// Gives this in the place of the answer's ETag, or no ETag.
    ETag(Option<&'static str>),
}

/// An error as S3 tells it.
pub(crate) fn refusal(status: u16, code: &str) -> Act {
    Act::Answer(
        status,
        vec![("content-type", "application/xml"), ("retry-after", "3")],
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code>\
             <Message>as scripted</Message><RequestId>1</RequestId></Error>"
        ),
    )
}

/// A request, as the script sees it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    /// How many with this method, path and sort of query came before.
    pub(crate) before: usize,
}

impl Asked {
    pub(crate) fn is_put(&self) -> bool {
        self.method == Method::PUT && self.query.starts_with("x-id=PutObject")
    }

    pub(crate) fn is_get(&self) -> bool {
        self.method == Method::GET && self.query.starts_with("x-id=GetObject")
    }

    pub(crate) fn is_part(&self) -> bool {
        self.method == Method::PUT && self.query.contains("partNumber=")
    }

    pub(crate) fn is_create(&self) -> bool {
        self.method == Method::POST && self.query.starts_with("uploads")
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.method == Method::POST && self.query.contains("uploadId=")
    }

    pub(crate) fn is_abort(&self) -> bool {
        self.method == Method::DELETE && self.query.contains("uploadId=")
    }
}

type Script = dyn Fn(&Asked) -> Act + Send + Sync;
type Log = Arc<Mutex<Vec<Asked>>>;

pub(crate) struct Proxy {
    address: String,
    log: Log,
    task: JoinHandle<()>,
}

impl Proxy {
    /// In front of the service.
    pub(crate) async fn start(script: impl Fn(&Asked) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let upstream = service::given("SLESS_TEST_S3_ENDPOINT");
        let upstream = upstream.strip_prefix("http://").expect("http").to_owned();
        let (log, script): (Log, Arc<Script>) = (Log::default(), Arc::new(script));
        let kept = log.clone();
        let task = tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let (upstream, log, script) = (upstream.clone(), kept.clone(), script.clone());
                tokio::spawn(async move {
                    let answer = service_fn(move |request| {
                        answer(request, upstream.clone(), log.clone(), script.clone())
                    });
                    // It ends in an error where the script says so.
                    let _ = server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(connection), answer)
                        .await;
                });
            }
        });
        Self { address, log, task }
    }

    pub(crate) fn config(&self) -> S3Config {
        service::config().with_endpoint(&self.address)
    }

    pub(crate) async fn storage(&self) -> S3Storage {
        S3Storage::connect(self.config()).await.expect("connects")
    }

    /// How many such requests came.
    pub(crate) fn count(&self, is_such: impl Fn(&Asked) -> bool) -> usize {
        let log = self.log.lock().expect("the log");
        log.iter().filter(|asked| is_such(asked)).count()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Body = StreamBody<BoxStream<'static, io::Result<Frame<Bytes>>>>;

fn body(chunks: impl futures::Stream<Item = io::Result<Bytes>> + Send + 'static) -> Body {
    StreamBody::new(chunks.map(|chunk| chunk.map(Frame::data)).boxed())
}

async fn answer(
    request: Request<Incoming>,
    upstream: String,
    log: Log,
    script: Arc<Script>,
) -> io::Result<Response<Body>> {
    let act = {
        let mut log = log.lock().expect("the log");
        let sort = |query: &str| {
            query
                .split(['=', '&'])
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        let (path, query) = (
            request.uri().path().to_owned(),
            request.uri().query().unwrap_or_default().to_owned(),
        );
        let before = log.iter().filter(|asked| {
            asked.method == *request.method()
                && asked.path == path
                && sort(&asked.query) == sort(&query)
        });
        let asked = Asked {
            method: request.method().clone(),
            before: before.count(),
            path,
            query,
        };
        log.push(asked.clone());
        script(&asked)
    };
    match &act {
        Act::Hang => return std::future::pending().await,
        Act::Answer(status, fields, text) => {
            let mut answer = Response::builder().status(*status);
            for (name, value) in fields {
                answer = answer.header(*name, *value);
            }
            let text = Bytes::from(text.clone());
            let answer = answer.header("content-length", text.len());
            let answer = answer.body(body(stream::iter([Ok(text)])));
            return answer.map_err(io::Error::other);
        }
        Act::Wait(gate) => {
            let opened = gate.clone().wait_for(|open| *open).await.map(drop);
            opened.map_err(io::Error::other)?;
        }
        _ => {}
    }
    let (mut parts, sent) = request.into_parts();
    let mut sent = sent.collect().await.map_err(io::Error::other)?.to_bytes();
    if let Act::SpoilRequest = act {
        sent = spoiled(&sent);
    }
    let path = parts.uri.path_and_query().expect("a path").to_string();
    parts.uri = path.parse().expect("a path");
    let connection = TcpStream::connect(&upstream).await?;
    let (mut sender, connection) = client::conn::http1::handshake(TokioIo::new(connection))
        .await
        .map_err(io::Error::other)?;
    tokio::spawn(connection);
    let sent = Full::new(sent).map_err(|never: Infallible| match never {});
    let answer = sender.send_request(Request::from_parts(parts, sent)).await;
    let (mut parts, found) = answer.map_err(io::Error::other)?.into_parts();
    let found = found.collect().await.map_err(io::Error::other)?.to_bytes();
    let found = match act {
        Act::LoseAnswer => return Err(io::Error::other("the answer is lost")),
        Act::SpoilAnswer => body(stream::iter([Ok(spoiled(&found))])),
        Act::CutAnswer(after) => {
            // A little later, so that what came before it is on its way.
            let rest = stream::once(async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                Err(io::Error::other("cut"))
            });
            body(stream::iter([Ok(found.slice(..after))]).chain(rest))
        }
        Act::StallAnswer(after) => {
            body(stream::iter([Ok(found.slice(..after))]).chain(stream::pending()))
        }
        Act::ETag(tag) => {
            parts.headers.remove("etag");
            if let Some(tag) = tag {
                let tag = tag.parse().expect("a field");
                parts.headers.insert("etag", tag);
            }
            body(stream::iter([Ok(found)]))
        }
        _ => body(stream::iter([Ok(found)])),
    };
    Ok(Response::from_parts(parts, found))
}

fn spoiled(bytes: &[u8]) -> Bytes {
    let mut bytes = bytes.to_vec();
    if let Some(byte) = bytes.last_mut() {
        *byte ^= 1;
    }
    bytes.into()
}
