//! A watch over the three kinds.

use std::time::Duration;

use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use kube::{
    api::{WatchEvent as KubeEvent, WatchParams},
    core::Request,
};
use serde::Deserialize;
use sless_core::{
    Error, ErrorKind, Kind, Name, Namespace, ObjectKey, Result, Version, WatchEvent, WatchStream,
};

use super::requests;
use crate::{client::Cluster, error::Fault};

/// Up to where each kind was read, in the order of [`Kind::ALL`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Position([String; 3]);

impl Position {
    /// The same moment for all kinds.
    pub(super) fn everywhere(resource_version: &str) -> Self {
        Self(std::array::from_fn(|_| resource_version.to_owned()))
    }

    pub(super) fn write(&self) -> Version {
        Version::new(self.0.join("."))
    }

    /// A position that no catalog of this kind gives is as good as one that is too old.
    pub(super) fn read(version: &Version) -> Result<Self, Fault> {
        let parts: Vec<_> = version.as_str().split('.').map(str::to_owned).collect();
        let known =
            |part: &String| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        match <[String; 3]>::try_from(parts) {
            Ok(parts) if parts.iter().all(known) => Ok(Self(parts)),
            _ => Err(expired(version)),
        }
    }
}

fn expired(position: impl std::fmt::Display) -> Fault {
    Error::new(
        ErrorKind::Expired,
        format!("the changes after position {position} are not kept any more: list again"),
    )
    .into()
}

/// All that a hint needs of an object.
#[derive(Clone, Deserialize)]
struct Hint {
    metadata: HintMeta,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HintMeta {
    name: String,
    namespace: String,
    resource_version: String,
}

type Events = BoxStream<'static, Result<KubeEvent<Hint>, kube::Error>>;

/// The watch of one kind: a connection that is made again whenever it ends.
struct One {
    cluster: Cluster,
    kind: Kind,
    from: String,
    events: Option<Events>,
    failures: u32,
    ended: bool,
}

/// What the watch of one kind tells.
enum News {
    Changed(ObjectKey, String),
    Bookmark(String),
}

pub(super) async fn start(cluster: Cluster, from: Position) -> Result<WatchStream, Fault> {
    let mut kinds = Vec::new();
    for (kind, from) in Kind::ALL.into_iter().zip(from.0.clone()) {
        let mut one = One {
            cluster: cluster.clone(),
            kind,
            from,
            events: None,
            failures: 0,
            ended: false,
        };
        kinds.push(async move {
            match one.connect().await {
                // An API server that has just started says that it is not ready yet.
                Err(fault) if fault.status().is_some() && passing(&fault) => {}
                connected => connected?,
            }
            Ok::<_, Fault>(one)
        });
    }
    // What is too old, forbidden or not to be reached is told at once.
    let kinds = futures::future::try_join_all(kinds).await?;
    let streams = kinds.into_iter().enumerate().map(|(at, one)| {
        stream::unfold(one, |mut one| async {
            let news = one.next().await?;
            Some((news, one))
        })
        .map(move |news| (at, news))
        .boxed()
    });
    let mut position = from;
    let told = stream::select_all(streams).map(move |(at, news)| {
        let (key, version) = match news {
            Ok(News::Changed(key, version)) => (Some(key), version),
            Ok(News::Bookmark(version)) => (None, version),
            Err(fault) => return Err(Error::from(fault).during("catalog.watch")),
        };
        position.0[at] = version;
        let position = position.write();
        Ok(match key {
            Some(key) => WatchEvent::Changed { key, position },
            None => WatchEvent::Bookmark(position),
        })
    });
    // The first error is the last item, whichever kind it is of.
    let ended = told.scan(false, |ended, item| {
        let go_on = !*ended;
        *ended = item.is_err();
        futures::future::ready(go_on.then_some(item))
    });
    Ok(ended.boxed())
}

impl One {
    async fn connect(&mut self) -> Result<(), Fault> {
        let config = &self.cluster.config().catalog;
        let parameters = WatchParams {
            timeout: Some(config.watch_seconds),
            bookmarks: true,
            ..WatchParams::default()
        };
        let all: Request = requests::of(self.kind, None);
        // Metadata is all that is needed, and a hundredth of what an object can be.
        let request = all
            .watch_metadata(&parameters, &self.from)
            .map_err(kube::Error::BuildRequest)?;
        let client = self.cluster.client();
        let opened = self
            .cluster
            .call(client.request_events::<Hint>(request))
            .await;
        match opened {
            Ok(events) => {
                self.events = Some(events.boxed());
                Ok(())
            }
            Err(fault) if fault.is_expired() => Err(expired(&self.from)),
            Err(fault) => Err(fault),
        }
    }

    /// The next news; `None` after an error was told.
    async fn next(&mut self) -> Option<Result<News, Fault>> {
        if self.ended {
            return None;
        }
        loop {
            let step = match self.events.take() {
                Some(events) => self.read(events).await,
                None => self.connect().await.map(|()| None),
            };
            match step {
                Ok(Some(news)) => {
                    self.failures = 0;
                    return Some(Ok(news));
                }
                Ok(None) => {}
                Err(fault) if passing(&fault) => self.pause(&fault).await,
                Err(fault) => {
                    self.ended = true;
                    return Some(Err(fault));
                }
            }
        }
    }

    /// Reads one event. `None` means that the connection ended in order, or told nothing of interest.
    async fn read(&mut self, mut events: Events) -> Result<Option<News>, Fault> {
        let idle = Duration::from_secs(self.cluster.config().catalog.watch_idle_seconds.into());
        let Ok(event) = tokio::time::timeout(idle, events.next()).await else {
            // Bookmarks come every minute: this connection is dead, and nobody said so.
            return Ok(None);
        };
        let Some(event) = event else {
            return Ok(None);
        };
        let news = match event? {
            KubeEvent::Added(hint) | KubeEvent::Modified(hint) | KubeEvent::Deleted(hint) => {
                let HintMeta {
                    name,
                    namespace,
                    resource_version,
                } = hint.metadata;
                self.from.clone_from(&resource_version);
                let prefix = self.cluster.config().catalog.namespace_prefix.as_str();
                match (Namespace::new(namespace), Name::new(name)) {
                    (Ok(namespace), Ok(name)) if namespace.as_str().starts_with(prefix) => {
                        let key = ObjectKey::new(self.kind, namespace, name);
                        News::Changed(key, resource_version)
                    }
                    // No path of sless makes such a name, and none reads it; or it is elsewhere.
                    _ => News::Bookmark(resource_version),
                }
            }
            KubeEvent::Bookmark(bookmark) => {
                let version = bookmark.metadata.resource_version;
                self.from.clone_from(&version);
                News::Bookmark(version)
            }
            KubeEvent::Error(status) => {
                if status.code == 410 {
                    return Err(expired(&self.from));
                }
                return Err(Fault::Kube(kube::Error::Api(status)));
            }
        };
        self.events = Some(events);
        Ok(Some(news))
    }

    async fn pause(&mut self, fault: &Fault) {
        let longest = Duration::from_millis(self.cluster.config().catalog.watch_backoff_ms);
        let pause = (longest / 16).saturating_mul(1 << self.failures.min(4));
        if self.failures == 0 {
            tracing::debug!(kind = %self.kind, %fault, "a watch is taken up again");
        } else {
            tracing::warn!(kind = %self.kind, %fault, failures = self.failures, "a watch is taken up again");
        }
        self.failures = self.failures.saturating_add(1);
        tokio::time::sleep(pause.min(longest)).await;
    }
}

/// Whether the watch goes on from where it was: nothing is lost as long as the position is known.
fn passing(fault: &Fault) -> bool {
    match fault {
        Fault::Kube(kube::Error::Api(status)) => status.code == 429 || status.code >= 500,
        Fault::Kube(
            kube::Error::HyperError(_)
            | kube::Error::Service(_)
            | kube::Error::ReadEvents(_)
            | kube::Error::SerdeError(_),
        )
        | Fault::Timeout { .. } => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read_back() {
        let mut position = Position::everywhere("12");
        position.0[1] = "9".to_owned();
        assert_eq!(position.write().as_str(), "12.9.12");
        assert_eq!(Position::read(&position.write()).expect("known"), position);
        for other in ["", "12", "1.2", "1.2.3.4", "1..3", "a.b.c"] {
            let refused = Position::read(&Version::new(other)).expect_err(other);
            assert_eq!(Error::from(refused).kind(), ErrorKind::Expired);
        }
    }
}
