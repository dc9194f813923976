//! Streams of server-sent events: what becomes of functions, as it happens.
//!
//! A stream begins with all that it is about, and then sends what may have changed: like everything in
//! the engine it tells a state and no history, so a browser that was away needs nothing else.

use std::{
    collections::{BTreeSet, HashMap},
    convert::Infallible,
    time::Duration,
};

use axum::response::{
    IntoResponse, Response, Sse,
    sse::{Event, KeepAlive},
};
use futures::{Stream, StreamExt as _, stream};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use sless_core::{
    CatalogExt, ErrorKind, Kind, Name, ObjectKey, Trigger, WatchEvent, WatchOptions, WatchStream,
};

use crate::{
    Console,
    data::{self, Item},
    error::Failure,
    extract::{Query, Reading},
    pages,
};

/// How long hints are gathered before what they speak of is read.
const GATHER: Duration = Duration::from_millis(50);
/// How often a comment keeps what is between from closing a quiet stream.
const QUIET: Duration = Duration::from_secs(15);
/// How long a browser waits before it connects again.
const RETRY: Duration = Duration::from_secs(1);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FollowQuery {
    /// The function that is watched; all where absent.
    only: Option<String>,
    /// Which of all are told at the beginning, as the list has it.
    find: String,
    cursor: Option<String>,
}

/// What is told of one function.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Told {
    Is {
        name: String,
        phase: &'static str,
        word: &'static str,
        state: String,
        /// Changes whenever something about the function or its triggers does.
        version: String,
        /// Changes with the code: another build, and another log of it.
        code: String,
    },
    Gone {
        name: String,
        gone: bool,
    },
}

/// Follows the functions of a namespace.
pub(crate) async fn follow(
    reading: Reading,
    Query(query): Query<FollowQuery>,
) -> Result<Response, Failure> {
    let only = query.only.map(Name::new).transpose()?;
    let console = reading.console.clone();
    let catalog = &console.sless().backends().catalog;
    // Before the first look, so that nothing falls in between.
    let watch = catalog.watch(&WatchOptions::default()).await?;
    let mut follower = Follower {
        reading,
        only,
        watch,
        triggers: HashMap::new(),
    };
    let first = follower.all(query.find.trim(), query.cursor).await?;
    let rest = stream::unfold(follower, |mut follower| async {
        let event = follower.next().await?;
        Some((event, follower))
    });
    stream(&console, stream::iter([first]).chain(rest))
}

struct Follower {
    reading: Reading,
    only: Option<Name>,
    watch: WatchStream,
    /// Which function a trigger belongs to, since one that is gone does not say.
    triggers: HashMap<Name, Name>,
}

impl Follower {
    /// Everything that the page shows, as it is now.
    async fn all(&mut self, find: &str, cursor: Option<String>) -> Result<Event, Failure> {
        let sless = self.reading.console.sless();
        let namespace = &self.reading.namespace;
        let items = match &self.only {
            Some(name) => vec![data::item(sless, namespace, name).await?],
            None => {
                let limit = self.reading.console.config().page_functions;
                let items = data::items(sless, namespace, limit, cursor, find);
                items.await?.items
            }
        };
        for trigger in items.iter().flat_map(|item| &item.triggers) {
            let function = trigger.spec.function_ref.clone();
            self.triggers
                .insert(trigger.metadata.name.clone(), function);
        }
        let told: Vec<_> = items.iter().map(|item| self.told(item)).collect();
        Ok(event("all", &told))
    }

    /// What may have changed since; `None` where the watch has ended.
    async fn next(&mut self) -> Option<Event> {
        loop {
            let mut keys = BTreeSet::new();
            self.take(&mut keys, None).await?;
            // One change of a function is often followed by more.
            let until = tokio::time::Instant::now() + GATHER;
            while let Some(true) = self.take(&mut keys, Some(until)).await {}
            let names = self.functions(keys).await?;
            let mut told = Vec::with_capacity(names.len());
            for name in names {
                let sless = self.reading.console.sless();
                match data::item(sless, &self.reading.namespace, &name).await {
                    Ok(item) => told.push(self.told(&item)),
                    Err(error) if error.is_not_found() => told.push(Told::Gone {
                        name: name.to_string(),
                        gone: true,
                    }),
                    Err(_) => return None,
                }
            }
            if !told.is_empty() {
                return Some(event("some", &told));
            }
        }
    }

    /// Takes one hint; `None` at the end of the watch, `Some(false)` at the end of the time.
    async fn take(
        &mut self,
        keys: &mut BTreeSet<ObjectKey>,
        until: Option<tokio::time::Instant>,
    ) -> Option<bool> {
        let hint = match until {
            None => self.watch.next().await,
            Some(until) => match tokio::time::timeout_at(until, self.watch.next()).await {
                Ok(hint) => hint,
                Err(_) => return Some(false),
            },
        };
        match hint? {
            Ok(WatchEvent::Changed { key, .. }) if key.namespace == self.reading.namespace => {
                keys.insert(key);
            }
            Ok(_) => {}
            // Hints were lost: the browser connects again, and begins with everything.
            Err(error) => {
                if error.kind() != ErrorKind::Expired {
                    tracing::debug!(error = %error.chain(), "a watch broke off");
                }
                return None;
            }
        }
        Some(true)
    }

    /// The functions that these hints speak of.
    async fn functions(&mut self, keys: BTreeSet<ObjectKey>) -> Option<BTreeSet<Name>> {
        let mut names = BTreeSet::new();
        let catalog = &self.reading.console.sless().backends().catalog;
        for ObjectKey {
            kind,
            name,
            namespace,
        } in keys
        {
            match kind {
                Kind::Function => {
                    names.insert(name);
                }
                Kind::Trigger => {
                    let known = self.triggers.remove(&name);
                    names.extend(known);
                    let trigger: Option<Trigger> = catalog.find(&namespace, &name).await.ok()?;
                    if let Some(trigger) = trigger {
                        names.insert(trigger.spec.function_ref.clone());
                        self.triggers.insert(name, trigger.spec.function_ref);
                    }
                }
                Kind::FunctionJob => {}
            }
        }
        if let Some(only) = &self.only {
            names.retain(|name| name == only);
        }
        Some(names)
    }

    fn told(&self, item: &Item) -> Told {
        let texts = self.reading.texts();
        let (phase, word) = pages::functions::phase(texts, item);
        let mut version = item.function.metadata.version.as_str().to_owned();
        for trigger in &item.triggers {
            version.push('/');
            version.push_str(trigger.metadata.version.as_str());
        }
        Told::Is {
            name: item.name().to_string(),
            phase,
            word,
            state: pages::functions::state(texts, item).into_string(),
            version,
            code: item
                .function
                .spec
                .code_sha256
                .map_or_else(String::new, |code| code.hex()),
        }
    }
}

fn event(name: &str, told: &[Told]) -> Event {
    // Writing text to memory cannot fail.
    let data = serde_json::to_string(told).unwrap_or_default();
    Event::default().event(name).data(data)
}

/// A stream of events as an answer: one of [`streams`](crate::ConsoleConfig::streams), for at most
/// [`stream_time`](crate::ConsoleConfig::stream_time), until the console is closed.
pub(crate) fn stream(
    console: &Console,
    events: impl Stream<Item = Event> + Send + 'static,
) -> Result<Response, Failure> {
    let Ok(place) = console.streams().clone().try_acquire_owned() else {
        let limit = console.config().streams;
        let message = format!("limit streams of {limit} reached");
        return Err(Failure::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "limit_streams",
            message,
        ));
    };
    let closed = console.closed().clone();
    let time = console.config().stream_time;
    let end = async move {
        let _ = tokio::time::timeout(time, closed.cancelled()).await;
    };
    let first = stream::iter([Event::default().retry(RETRY).comment("")]);
    let events = first
        .chain(events)
        .take_until(Box::pin(end))
        .map(move |event| {
            let _held = &place;
            Ok::<_, Infallible>(event)
        });
    let alive = KeepAlive::new().interval(QUIET);
    Ok(Sse::new(events).keep_alive(alive).into_response())
}
