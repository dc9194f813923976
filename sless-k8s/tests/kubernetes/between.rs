//! An HTTP proxy between a client and the API server, which counts what passes, and loses or spoils some of
//! it when told to.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
    },
};

use bytes::{Bytes, BytesMut};
use futures::{StreamExt as _, stream};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{body::Frame, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use kube::{
    Client,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use sless_k8s::K8sConfig;
use tokio::{net::TcpListener, sync::watch};

type Fault = Box<dyn std::error::Error + Send + Sync>;
type Body = UnsyncBoxBody<Bytes, Fault>;

/// What passes, and what does not.
#[derive(Debug)]
pub(crate) struct Between {
    kubeconfig: PathBuf,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Of a hundred events of watches, so many are lost.
    lost_events: AtomicU32,
    /// Of a hundred writes, so many are answered with a conflict, and not passed on.
    conflicts: AtomicU32,
    /// Of a hundred writes that were done, so many are answered with an error all the same.
    broken_answers: AtomicU32,
    away: AtomicBool,
    cuts: watch::Sender<usize>,
    dropped: AtomicUsize,
    spoilt: AtomicUsize,
    /// Requests by method and path.
    seen: Mutex<BTreeMap<(Method, String), usize>>,
}

impl Between {
    /// Stands before the API server of this kubeconfig.
    pub(crate) async fn start(kubeconfig: &std::path::Path) -> Self {
        let read = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(read, &options)
            .await
            .expect("a usable kubeconfig");
        config.read_timeout = None;
        config.default_retry = false;
        let client = Client::try_from(config).expect("a client");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let state = Arc::new(State::default());
        let shared = state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (client, state) = (client.clone(), shared.clone());
                let service = service_fn(move |request| {
                    let (client, state) = (client.clone(), state.clone());
                    async move { Ok::<_, Infallible>(pass(client, state, request).await) }
                });
                tokio::spawn(async move {
                    // The end of a connection is its client's to notice.
                    let _ = http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        let through = std::env::temp_dir().join(format!(
            "sless-between-{}-{}.json",
            std::process::id(),
            address.port()
        ));
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "through",
            "contexts": [{"name": "through", "context": {"cluster": "through", "user": "nobody"}}],
            "clusters": [{"name": "through", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "nobody", "user": {}}],
        });
        std::fs::write(&through, text.to_string()).expect("writable");
        Self {
            kubeconfig: through,
            state,
        }
    }

    /// Settings that lead through here.
    pub(crate) fn through(&self, config: K8sConfig) -> K8sConfig {
        K8sConfig {
            kubeconfig: Some(self.kubeconfig.clone()),
            context: None,
            ..config
        }
    }

    pub(crate) fn kubeconfig(&self) -> &std::path::Path {
        &self.kubeconfig
    }

    pub(crate) fn lose_events(&self, percent: u32) {
        self.state.lost_events.store(percent, Ordering::Relaxed);
    }

    pub(crate) fn conflict(&self, percent: u32) {
        self.state.conflicts.store(percent, Ordering::Relaxed);
    }

    pub(crate) fn break_answers(&self, percent: u32) {
        self.state.broken_answers.store(percent, Ordering::Relaxed);
    }

    pub(crate) fn away(&self, away: bool) {
        self.state.away.store(away, Ordering::Relaxed);
        if away {
            self.cut();
        }
    }

    /// Ends all watches, and all logs that are followed.
    pub(crate) fn cut(&self) {
        self.state.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// How many events were lost, and how many writes were spoilt.
    pub(crate) fn damage(&self) -> (usize, usize) {
        let count = |number: &AtomicUsize| number.load(Ordering::Relaxed);
        (count(&self.state.dropped), count(&self.state.spoilt))
    }

    /// How many requests there were whose method and path are such.
    pub(crate) fn count(&self, wanted: impl Fn(&Method, &str) -> bool) -> usize {
        let seen = self.state.seen();
        let all = seen.iter();
        all.filter(|((method, path), _)| wanted(method, path))
            .map(|(_, count)| count)
            .sum()
    }

    /// The writes, by method and path.
    pub(crate) fn writes(&self) -> BTreeMap<(Method, String), usize> {
        let mut writes = self.state.seen().clone();
        writes.retain(|(method, _), _| *method != Method::GET);
        writes
    }

    /// Counts from zero.
    pub(crate) fn forget(&self) {
        self.state.seen().clear();
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.kubeconfig);
    }
}

impl State {
    fn seen(&self) -> std::sync::MutexGuard<'_, BTreeMap<(Method, String), usize>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn chance(percent: &AtomicU32) -> bool {
    fastrand::u32(0..100) < percent.load(Ordering::Relaxed)
}

async fn pass(client: Client, state: Arc<State>, request: Request<Incoming>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let method = parts.method.clone();
    let path = parts.uri.path().to_owned();
    let query = parts.uri.query().unwrap_or_default();
    let watches = query
        .split('&')
        .any(|part| matches!(part, "watch=true" | "watch=1" | "follow=true"));
    let changes = method != Method::GET && !query.contains("dryRun");
    if state.away.load(Ordering::Relaxed) {
        return failure(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable");
    }
    *state.seen().entry((method, path)).or_default() += 1;
    if changes && chance(&state.conflicts) {
        state.spoilt.fetch_add(1, Ordering::Relaxed);
        return failure(StatusCode::CONFLICT, "Conflict");
    }
    let Ok(body) = body.collect().await else {
        return failure(StatusCode::BAD_REQUEST, "BadRequest");
    };
    let mut passed = Request::new(kube::client::Body::from(body.to_bytes()));
    *passed.method_mut() = parts.method;
    *passed.uri_mut() = parts.uri;
    for name in [header::CONTENT_TYPE, header::ACCEPT] {
        if let Some(value) = parts.headers.get(&name) {
            passed.headers_mut().insert(name, value.clone());
        }
    }
    let Ok(response) = client.send(passed).await else {
        return failure(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable");
    };
    if changes && chance(&state.broken_answers) {
        state.spoilt.fetch_add(1, Ordering::Relaxed);
        return failure(StatusCode::GATEWAY_TIMEOUT, "Timeout");
    }
    let (mut parts, body) = response.into_parts();
    for name in [header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
        parts.headers.remove(name);
    }
    let body = if watches && parts.status.is_success() {
        events(state, body)
    } else {
        body.map_err(Fault::from).boxed_unsync()
    };
    Response::from_parts(parts, body)
}

fn failure(code: StatusCode, reason: &str) -> Response<Body> {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": "the proxy between says so", "reason": reason, "code": code.as_u16(),
    });
    let body = Full::new(Bytes::from(status.to_string())).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = code;
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// The events of a watch, one a line, without those that are lost.
fn events(state: Arc<State>, body: kube::client::Body) -> Body {
    let mut cuts = state.cuts.subscribe();
    cuts.mark_unchanged();
    let lines = stream::unfold(
        (body, BytesMut::new(), cuts, state),
        |(mut body, mut rest, mut cuts, state)| async move {
            loop {
                if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    let line = rest.split_to(end + 1).freeze();
                    if chance(&state.lost_events) {
                        state.dropped.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    let frame = Ok::<_, Fault>(Frame::data(line));
                    return Some((frame, (body, rest, cuts, state)));
                }
                let frame = tokio::select! {
                    frame = body.frame() => frame?,
                    _ = cuts.changed() => return None,
                };
                match frame {
                    Ok(frame) => rest.extend(frame.into_data().unwrap_or_default()),
                    Err(error) => return Some((Err(error.into()), (body, rest, cuts, state))),
                }
            }
        },
    );
    StreamBody::new(lines.boxed()).boxed_unsync()
}
