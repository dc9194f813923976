//! Following a Job to its end: its pod by a watch, its log as it is written.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use futures::{Stream, StreamExt as _, TryStreamExt as _, stream, stream::BoxStream};
use jiff::Timestamp;
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Event, Pod},
};
use kube::{
    Api, ResourceExt as _,
    api::ListParams,
    runtime::{WatchStreamExt as _, watcher},
};
use sless_core::{Error, Failure, reason};

use super::{JobMaker, output, plan::BUILD, start::Begun};
use crate::{
    builder::builds::{Broken, Progress},
    pod_log::following,
    scheduler::failure::{self, Ended, Trouble},
};

/// The last lines that are kept to find out of them why a build failed.
const TAIL_LINES: usize = 400;
/// How often what no watch tells is looked at, while there is no pod.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// How many of those pass between two looks at the Job once there is one.
const LOOKS: u32 = 20;

/// How a Job ended, with the end of its log.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// `None` where it ended well and its pod is gone.
    pub(super) ended: Option<Ended>,
    pub(super) lines: VecDeque<String>,
}

/// A line of a pod's log, and when the node wrote it down.
type Stamped = (Timestamp, String);

/// What is known of a Job's pod.
struct Following<'a> {
    maker: &'a JobMaker,
    job: &'a Begun,
    progress: &'a Progress,
    pod: Option<Pod>,
    log: Option<BoxStream<'static, Result<Stamped, Error>>>,
    /// The stamp of the last line.
    last: Option<Timestamp>,
    lines: VecDeque<String>,
    /// Since when the image cannot be pulled.
    no_image: Option<Instant>,
}

impl JobMaker {
    /// Waits until the Job's pod has ended.
    pub(super) async fn follow(&self, job: &Begun, progress: &Progress) -> Result<Run, Broken> {
        let following = Following {
            maker: self,
            job,
            progress,
            pod: None,
            log: None,
            last: None,
            lines: VecDeque::new(),
            no_image: None,
        };
        following.reach_end().await
    }
}

impl Following<'_> {
    async fn reach_end(mut self) -> Result<Run, Broken> {
        let api: Api<Pod> = self.maker.api();
        let selected = watcher::Config::default().labels(&format!("{BUILD}={}", self.job.build));
        let mut pods = watcher(api, selected).default_backoff().boxed();
        let mut looks = tokio::time::interval(LOOK_AGAIN);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (begun, mut look) = (Instant::now(), 0);
        loop {
            tokio::select! {
                biased;
                event = pods.next() => match event {
                    Some(Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod))) => {
                        if self.is_own(&pod) {
                            self.pod = Some(pod);
                        }
                    }
                    Some(Ok(watcher::Event::Delete(pod))) if self.is_own(&pod) => {
                        self.pod = Some(pod);
                        if self.ended().is_none() {
                            return self.without_pod().await;
                        }
                    }
                    Some(Ok(_)) => {}
                    Some(Err(error)) => {
                        tracing::debug!(job = %self.job.name, %error, "a watch of a build broke off");
                    }
                    None => return Err(interrupted("the watch of its pod ended")),
                },
                line = next(&mut self.log) => self.take(line),
                _ = looks.tick() => {
                    look += 1;
                    let waited = begun.elapsed().as_millis() as u64;
                    let late = waited >= self.maker.config().pod_patience_ms;
                    if (self.pod.is_none() && late) || look % LOOKS == 0 {
                        self.look_at_job().await?;
                        if self.pod.is_none() && let Some(run) = self.over_without_pod().await? {
                            return Ok(run);
                        }
                    }
                }
            }
            if let Some(ended) = self.ended() {
                self.rest_of_log().await;
                return Ok(Run {
                    ended: Some(ended),
                    lines: self.lines,
                });
            }
            self.judge()?;
        }
    }

    fn is_own(&self, pod: &Pod) -> bool {
        let owners = pod.metadata.owner_references.iter().flatten();
        owners.into_iter().any(|owner| owner.uid == self.job.uid)
    }

    fn ended(&self) -> Option<Ended> {
        failure::ended(self.pod.as_ref()?)
    }

    /// Whether the pod is in trouble that ends the build.
    fn judge(&mut self) -> Result<(), Broken> {
        let Some(pod) = &self.pod else { return Ok(()) };
        let status = pod.status.as_ref();
        if status.and_then(|status| status.phase.as_deref()) == Some("Failed") {
            let said = status.and_then(|status| status.message.clone());
            let word = status.and_then(|status| status.reason.clone());
            let message = format!(
                "the build's pod failed ({}): {}",
                word.unwrap_or_else(|| "no reason".to_owned()),
                said.unwrap_or_else(|| "Kubernetes does not say why".to_owned())
            );
            return Err(interrupted(message));
        }
        let container = failure::container(pod).and_then(|container| container.state.as_ref());
        if container.is_some_and(|state| state.running.is_some()) {
            if self.log.is_none() {
                self.progress.at("building");
                self.open_log();
            }
            return Ok(());
        }
        match failure::of_pod(pod) {
            None => self.progress.at("starting a build"),
            Some(Trouble { failure, lasting }) if failure.reason == reason::IMAGE_PULL => {
                let since = self.no_image.get_or_insert_with(Instant::now);
                let patience = self.maker.config().image_patience_ms;
                if lasting && since.elapsed() >= Duration::from_millis(patience) {
                    return Err(Broken::Later(failure));
                }
            }
            Some(Trouble { failure, lasting }) if lasting || failure.reason == "evicted" => {
                return Err(Broken::Later(failure));
            }
            Some(Trouble { failure, .. }) => {
                self.progress.at(&format!("waits: {}", failure.message));
            }
        }
        Ok(())
    }

    /// Makes sure that the Job is there, and asks why it has no pod where it has none.
    async fn look_at_job(&mut self) -> Result<(), Broken> {
        let api: Api<Job> = self.maker.api();
        let found = self.maker.cluster.call(api.get_opt(&self.job.name)).await;
        let job = found.map_err(Error::from)?;
        let own = job.filter(|job| job.metadata.uid.as_deref() == Some(&*self.job.uid));
        let Some(_) = own.filter(|job| job.metadata.deletion_timestamp.is_none()) else {
            return Err(interrupted("the build's Job was removed"));
        };
        if self.pod.is_some() {
            return Ok(());
        }
        let events: Api<Event> = self.maker.api();
        let of_job = ListParams::default()
            .fields(&format!(
                "involvedObject.uid={},reason=FailedCreate",
                self.job.uid
            ))
            .limit(10);
        let events = self.maker.cluster.call(events.list(&of_job)).await;
        let events = events.map_err(Error::from)?;
        let newest = events
            .items
            .into_iter()
            .max_by_key(|event| event.last_timestamp.as_ref().and_then(failure::timestamp));
        match newest {
            Some(event) => {
                let message = event.message.unwrap_or_default();
                Err(Broken::Later(failure::of_refusal(&message)))
            }
            None => Ok(()),
        }
    }

    /// A Job that is over, and whose pod nobody has seen.
    async fn over_without_pod(&mut self) -> Result<Option<Run>, Broken> {
        let api: Api<Job> = self.maker.api();
        let found = self.maker.cluster.call(api.get_opt(&self.job.name)).await;
        let Some(job) = found.map_err(Error::from)? else {
            return Err(interrupted("the build's Job was removed"));
        };
        let conditions = job.status.and_then(|status| status.conditions);
        for condition in conditions.into_iter().flatten() {
            if condition.status != "True" {
                continue;
            }
            match (&*condition.type_, condition.reason.as_deref()) {
                ("Complete", _) => return Ok(Some(Run::default())),
                ("Failed" | "FailureTarget", Some("DeadlineExceeded")) => {
                    let message = condition.message.unwrap_or_default();
                    let failure = Failure::new(reason::BUILD_TIMEOUT, message);
                    return Err(Broken::Failed(failure));
                }
                ("Failed", _) => return Err(interrupted("the build's pod was deleted")),
                _ => {}
            }
        }
        Ok(None)
    }

    /// The pod went before it ended.
    async fn without_pod(mut self) -> Result<Run, Broken> {
        match self.over_without_pod().await? {
            Some(run) => Ok(run),
            None => Err(interrupted("the build's pod was deleted")),
        }
    }

    fn open_log(&mut self) {
        let Some(pod) = &self.pod else { return };
        let (api, name, last) = (self.maker.api(), pod.name_any(), self.last);
        let lines = async move {
            let opened = Api::<Pod>::log_stream(&api, &name, &following(last)).await;
            opened.map(output::lines).map_err(|error| {
                Error::unavailable("the log of a build cannot be read").with_source(error)
            })
        };
        let lines = stream::once(lines).try_flatten();
        let new = lines.try_filter_map(move |line| {
            let line = stamped(&line).filter(|(at, _)| last.is_none_or(|last| *at > last));
            std::future::ready(Ok(line))
        });
        self.log = Some(new.boxed());
    }

    fn take(&mut self, line: Option<Result<Stamped, Error>>) {
        match line {
            Some(Ok((at, text))) => {
                self.last = Some(at);
                let Some(line) = output::read(&text) else {
                    return;
                };
                if let Some(step) = line.step {
                    self.progress.at(step);
                }
                if self.lines.len() == TAIL_LINES {
                    self.lines.pop_front();
                }
                self.lines.push_back(line.text.clone());
                self.progress.line(line.text);
            }
            // Opened again by whoever looks at the pod next, if it still runs.
            Some(Err(error)) => {
                tracing::debug!(job = %self.job.name, error = %error.chain(), "a build's log broke off");
                self.log = None;
            }
            None => self.log = Some(stream::pending().boxed()),
        }
    }

    /// Reads what the pod wrote before it ended.
    async fn rest_of_log(&mut self) {
        // What was followed may have ended with an error, or not have begun.
        self.open_log();
        let patience = Duration::from_millis(self.maker.config().log_patience_ms);
        let until = tokio::time::Instant::now() + patience;
        while let Some(log) = &mut self.log {
            match tokio::time::timeout_at(until, log.next()).await {
                Ok(None) => return,
                Ok(line) => self.take(line),
                Err(_) => {
                    self.progress
                        .line("limit log_patience_ms reached: the end of the log was not read");
                    return;
                }
            }
        }
    }
}

/// The next line; never, where there is no log.
async fn next<S: Stream + Unpin>(log: &mut Option<S>) -> Option<S::Item> {
    match log {
        Some(log) => log.next().await,
        None => std::future::pending().await,
    }
}

fn interrupted(message: impl Into<String>) -> Broken {
    Broken::Later(Failure::new(reason::INTERRUPTED, message))
}

fn stamped(line: &str) -> Option<Stamped> {
    let (stamp, text) = line.split_once(' ').unwrap_or((line, ""));
    Some((stamp.parse().ok()?, text.to_owned()))
}
