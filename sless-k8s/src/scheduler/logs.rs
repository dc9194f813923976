//! What functions and jobs wrote: the logs of their pods, merged.
//!
//! A log lives as long as its pod. What is to outlive it is for whatever collects logs in the cluster.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures::{AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::LogParams};
use serde::Deserialize;
use serde_json::Value;
use sless_core::{
    Change, ChangeStream, Error, JobRun, LogLine, LogOptions, LogSource, LogStream, LogTarget,
    Namespace, Result, resource::ObjectKey,
};

use super::{Inner, cache::PodView};
use crate::{
    error::{BACKEND, Fault},
    pod_log::following,
};

/// How many lines of a log may hold a run's result: the container runtime cuts a line into pieces of
/// 16 KiB, and counts each.
const RESULT_LINES: i64 = 64;

/// One line as the runtime writes it.
#[derive(Deserialize)]
struct Record {
    time_ms: i64,
    stream: String,
    request_id: Option<String>,
    text: String,
    #[serde(default)]
    truncated: bool,
}

/// How often a log that is followed is opened again before its reader is told, without a line meanwhile.
const REOPENINGS: u32 = 8;

/// How long to wait before it is opened again the first time; twice as long each further time. By then it
/// is known of a container that ended, or was started again, that it did.
const REOPEN: Duration = Duration::from_secs(2);
const REOPEN_AT_MOST: Duration = Duration::from_secs(15);

/// A line, and when the node wrote it down.
type Stamped = (Timestamp, LogLine);

/// A line, and the uid of the pod that wrote it.
type FromPod = (Arc<str>, Stamped);

/// One run of one container: what a log belongs to.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Source {
    pod: String,
    uid: Arc<str>,
    restarts: i32,
}

impl Inner {
    pub(super) async fn logs(
        self: Arc<Self>,
        of: &LogTarget,
        options: &LogOptions,
    ) -> Result<LogStream> {
        let changes = self.cache.changes.subscribe();
        let (namespace, key) = match of {
            LogTarget::Function(id) => (id.namespace.clone(), id.key()),
            LogTarget::Job(id) => (id.namespace.clone(), id.key()),
        };
        let Some(sources) = self.sources(of) else {
            return Err(Error::not_found("there is no log of it")
                .at(BACKEND)
                .on(key));
        };
        let (mut lines, mut ends) = (Vec::new(), Vec::new());
        for source in sources {
            let read = self.read_source(&namespace, &source).await?;
            let last = read.last().map(|(stamp, _)| *stamp);
            lines.extend(read.into_iter().map(|(_, line)| line));
            ends.push((source, last));
        }
        lines.sort_by_key(|line| line.at);
        if let Some(since) = options.since {
            lines.retain(|line| line.at >= since);
        }
        if let Some(tail) = options.tail {
            lines.drain(..lines.len().saturating_sub(tail));
        }
        let past = stream::iter(lines.into_iter().map(Ok));
        if !options.follow {
            return Ok(past.boxed());
        }
        let mut follower = Follower {
            of: of.clone(),
            namespace,
            key,
            changes,
            known: HashSet::new(),
            last: HashMap::new(),
            streams: stream::SelectAll::new(),
            inner: self,
        };
        for (source, last) in ends {
            if let Some(last) = last {
                follower.last.insert(source.uid.clone(), last);
            }
            follower.follow(source);
        }
        let later = stream::unfold(follower, async |mut follower| {
            let next = follower.next().await?;
            Some((next, follower))
        });
        Ok(past.chain(later).boxed())
    }

    /// What a log is made of now; `None` where there is no such thing any more.
    fn sources(&self, of: &LogTarget) -> Option<Vec<Source>> {
        self.sources_that(of, |pod| {
            pod.running_since.is_some() || pod.ended.is_some() || pod.restarts > 0
        })
    }

    fn is_running(&self, of: &LogTarget, source: &Source) -> bool {
        self.sources_that(of, |pod| pod.ended.is_none())
            .is_some_and(|running| running.contains(source))
    }

    fn sources_that(&self, of: &LogTarget, are: impl Fn(&PodView) -> bool) -> Option<Vec<Source>> {
        let source = |pod: &PodView| {
            are(pod).then(|| Source {
                pod: pod.name.clone(),
                uid: pod.uid.as_str().into(),
                restarts: pod.restarts,
            })
        };
        match of {
            LogTarget::Function(id) => {
                let view = self.cache.function(&id.uid)?.view();
                view.deployment.as_ref()?;
                Some(view.pods.iter().filter_map(|pod| source(pod)).collect())
            }
            LogTarget::Job(id) => {
                let entry = self.cache.job(&id.uid)?;
                if entry.runs().is_empty() {
                    return None;
                }
                let found = entry.pods().values().filter_map(source).collect();
                Some(found)
            }
        }
    }

    /// The lines that a container wrote so far, and those of the one before it.
    async fn read_source(&self, namespace: &Namespace, source: &Source) -> Result<Vec<Stamped>> {
        let mut lines = Vec::new();
        let whole = LogParams {
            limit_bytes: Some(self.config.log_bytes),
            timestamps: true,
            ..LogParams::default()
        };
        if source.restarts > 0 {
            let before = LogParams {
                previous: true,
                ..whole.clone()
            };
            lines.extend(self.read_log(namespace, &source.pod, &before).await?);
        }
        lines.extend(self.read_log(namespace, &source.pod, &whole).await?);
        Ok(lines)
    }

    async fn read_log(
        &self,
        namespace: &Namespace,
        pod: &str,
        params: &LogParams,
    ) -> Result<Vec<Stamped>, Fault> {
        let api: Api<Pod> = self.api(namespace);
        match self.cluster.call(api.logs(pod, params)).await {
            Ok(text) => Ok(text.lines().filter_map(stamped).collect()),
            // The pod is gone, or its container has no log yet.
            Err(fault) if has_no_log(&fault) => Ok(Vec::new()),
            Err(fault) => Err(fault),
        }
    }

    /// What the runtime said at the end of a run, where that was too long for the pod's status.
    pub(super) async fn said_in_log(
        &self,
        run: &JobRun,
        pod: &PodView,
    ) -> Result<Option<Value>, Fault> {
        let api: Api<Pod> = self.api(&run.job.namespace);
        let params = LogParams {
            tail_lines: Some(RESULT_LINES),
            ..LogParams::default()
        };
        let text = match self.cluster.call(api.logs(&pod.name, &params)).await {
            Ok(text) => text,
            Err(fault) if fault.is_not_found() => return Ok(None),
            Err(fault) => return Err(fault),
        };
        Ok(text.lines().rev().find_map(outcome))
    }
}

/// Follows the containers of one log, new ones too, until there is no such log any more.
struct Follower {
    inner: Arc<Inner>,
    of: LogTarget,
    namespace: Namespace,
    key: ObjectKey,
    changes: ChangeStream,
    known: HashSet<Source>,
    /// Of each pod, when the last line was written that was given.
    last: HashMap<Arc<str>, Timestamp>,
    streams: stream::SelectAll<stream::BoxStream<'static, Result<FromPod>>>,
}

impl Follower {
    async fn next(&mut self) -> Option<Result<LogLine>> {
        loop {
            let sources = self.inner.sources(&self.of);
            let gone = sources.is_none();
            for source in sources.into_iter().flatten() {
                if !self.known.contains(&source) {
                    self.follow(source);
                }
            }
            if gone && self.streams.is_empty() {
                return None;
            }
            tokio::select! {
                biased;
                line = self.streams.next(), if !self.streams.is_empty() => match line {
                    Some(Ok((pod, (stamp, line)))) => {
                        self.last.insert(pod, stamp);
                        return Some(Ok(line));
                    }
                    Some(Err(error)) => return Some(Err(error)),
                    None => continue,
                },
                change = self.changes.next() => match change {
                    None => return None,
                    Some(Change::Object(key)) if key != self.key => {}
                    Some(_) => {}
                },
                () = self.inner.stop.cancelled() => return None,
            }
        }
    }

    /// Adds the lines of a container that were written after those that were read.
    fn follow(&mut self, source: Source) {
        self.known.insert(source.clone());
        let followed = Followed {
            inner: self.inner.clone(),
            of: self.of.clone(),
            api: self.inner.api(&self.namespace),
            last: self.last.get(&source.uid).copied(),
            source,
            lines: None,
            broken: 0,
        };
        let lines = stream::unfold(followed, async |mut followed| {
            let next = followed.next().await?;
            Some((next, followed))
        });
        self.streams.push(lines.boxed());
    }
}

/// Follows one container. A log that breaks off, or that ends while its container runs (an API server or a
/// node agent was restarted, or could not follow any more files), is opened again behind the last line.
struct Followed {
    inner: Arc<Inner>,
    of: LogTarget,
    api: Api<Pod>,
    source: Source,
    last: Option<Timestamp>,
    lines: Option<stream::BoxStream<'static, Result<Stamped>>>,
    /// How often it broke off since a line came.
    broken: u32,
}

impl Followed {
    async fn next(&mut self) -> Option<Result<FromPod>> {
        while self.broken <= REOPENINGS {
            let why = match &mut self.lines {
                None => match self.open().await {
                    Ok(lines) => {
                        self.lines = Some(lines);
                        continue;
                    }
                    Err(fault) if has_no_log(&fault) => return None,
                    Err(fault) => Some(Error::from(fault)),
                },
                Some(lines) => match lines.next().await {
                    Some(Ok((stamp, line))) => {
                        (self.last, self.broken) = (Some(stamp), 0);
                        return Some(Ok((self.source.uid.clone(), (stamp, line))));
                    }
                    Some(Err(error)) => Some(error),
                    None => None,
                },
            };
            self.lines = None;
            tracing::debug!(pod = %self.source.pod, ?why, "a log that is followed broke off");
            let wait = REOPEN.saturating_mul(1 << self.broken).min(REOPEN_AT_MOST);
            self.broken += 1;
            if let (Some(error), true) = (why, self.broken > REOPENINGS) {
                return Some(Err(error));
            }
            if self.inner.is_running(&self.of, &self.source) {
                tokio::time::sleep(wait).await;
            }
            if !self.inner.is_running(&self.of, &self.source) {
                return None;
            }
        }
        None
    }

    /// The lines behind the last one.
    async fn open(&mut self) -> Result<stream::BoxStream<'static, Result<Stamped>>, Fault> {
        let last = self.last;
        let params = following(last);
        let opened = self.api.log_stream(&self.source.pod, &params).await?;
        let lines = opened.lines().map_err(|source| {
            Error::new(sless_core::ErrorKind::Interrupted, "the log broke off")
                .at(BACKEND)
                .with_source(source)
        });
        let newer = move |line: String| {
            let line = stamped(&line).filter(|(stamp, _)| last.is_none_or(|last| *stamp > last));
            std::future::ready(Ok(line))
        };
        Ok(lines.try_filter_map(newer).boxed())
    }
}

/// Whether the pod is gone, or its container has no log yet.
fn has_no_log(fault: &Fault) -> bool {
    fault
        .status()
        .is_some_and(|status| matches!(status.code, 400 | 404))
}

/// Reads a line with its stamp in front. What the runtime says for others to read is no line of the log.
fn stamped(line: &str) -> Option<Stamped> {
    let (stamp, text) = line.split_once(' ').unwrap_or((line, ""));
    let stamp: Timestamp = stamp.parse().ok()?;
    if let Ok(record) = serde_json::from_str::<Record>(text) {
        let source = match record.stream.as_str() {
            "stdout" => LogSource::Stdout,
            "stderr" => LogSource::Stderr,
            _ => LogSource::System,
        };
        let line = LogLine {
            at: Timestamp::from_millisecond(record.time_ms).unwrap_or(stamp),
            source,
            request_id: record.request_id,
            text: record.text,
            truncated: record.truncated,
        };
        return Some((stamp, line));
    }
    if outcome(text).is_some() {
        return None;
    }
    let line = LogLine {
        at: stamp,
        source: LogSource::System,
        request_id: None,
        text: text.to_owned(),
        truncated: false,
    };
    Some((stamp, line))
}

/// What the runtime says of the end of a run, where this line is that.
fn outcome(line: &str) -> Option<Value> {
    let line = line.trim_end();
    if !line.starts_with('{') || !line.contains("\"outcome\"") {
        return None;
    }
    serde_json::from_str::<Value>(line)
        .ok()
        .filter(|said| said["outcome"].is_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let stamp = "2026-01-02T03:04:05.000000006Z";
        let written =
            format!(r#"{stamp} {{"time_ms":1,"stream":"stderr","request_id":"r","text":"a b"}}"#);
        let (at, line) = stamped(&written).expect("a line");
        assert_eq!(at.to_string(), stamp);
        assert_eq!(
            (line.source, &*line.text, line.at.as_millisecond()),
            (LogSource::Stderr, "a b", 1)
        );
        assert_eq!(line.request_id.as_deref(), Some("r"));

        let (_, line) = stamped(&format!("{stamp} sless-runtime: it fails")).expect("a line");
        assert_eq!(
            (line.source, &*line.text),
            (LogSource::System, "sless-runtime: it fails")
        );
        assert!(stamped(&format!(r#"{stamp} {{"outcome":"succeeded","result":1}}"#)).is_none());
        assert!(stamped("no stamp").is_none());
    }
}
