//! Watches: each reads the table of changes at its own pace, woken by commits.

use std::collections::VecDeque;

use futures::{StreamExt as _, stream};
use sless_core::{Error, ErrorKind, Result, WatchEvent, WatchOptions, WatchStream};
use tokio::sync::watch as latest;

use super::rows;
use crate::{database::Database, error::Fault};

/// How many changes are read at once. A watch holds no more than these.
const CHUNK: i64 = 256;

struct Watch {
    database: Database,
    last: latest::Receiver<Option<i64>>,
    /// Every change up to here was read.
    position: i64,
    /// What was read and not yet given out.
    ready: VecDeque<WatchEvent>,
    /// Whether all that was there at the start has been told.
    caught_up: bool,
    /// Set once an error was given out.
    ended: bool,
}

pub(super) async fn start(
    database: Database,
    last: latest::Receiver<Option<i64>>,
    options: &WatchOptions,
) -> Result<WatchStream, Fault> {
    let position = match &options.from {
        // A position that no catalog of this kind gives is as good as one that is too old.
        Some(from) => from.as_str().parse().map_err(|_| expired(from.as_str()))?,
        None => last.borrow().ok_or_else(shut_down)?,
    };
    let mut watch = Watch {
        database,
        last,
        position,
        ready: VecDeque::new(),
        caught_up: false,
        ended: false,
    };
    if options.from.is_some() {
        watch.read().await?;
    }
    Ok(stream::unfold(watch, |mut watch| async {
        if watch.ended {
            return None;
        }
        let next = watch.next().await.transpose()?;
        watch.ended = next.is_err();
        Some((
            next.map_err(|fault| Error::from(fault).during("catalog.watch")),
            watch,
        ))
    })
    .boxed())
}

impl Watch {
    /// The next event; `None` once the catalog is shut down.
    async fn next(&mut self) -> Result<Option<WatchEvent>, Fault> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            let position = self.position;
            let Some(last) = *self.last.borrow() else {
                return Ok(None);
            };
            if last > position {
                self.read().await?;
            } else if !self.caught_up {
                self.caught_up = true;
                return Ok(Some(WatchEvent::Bookmark(rows::version(position))));
            } else {
                let news = |last: &Option<i64>| last.is_none_or(|last| last > position);
                if self.last.wait_for(news).await.is_err() {
                    return Ok(None);
                }
            }
        }
    }

    /// Reads the next changes, if there are any.
    async fn read(&mut self) -> Result<(), Fault> {
        let position = self.position;
        let read = move |connection: &rusqlite::Connection| {
            rows::changes_after(connection, position, CHUNK)
        };
        let changes = self.database.read(read).await?;
        for (key, position) in changes.ok_or_else(|| expired(position))? {
            let event = WatchEvent::Changed {
                key,
                position: rows::version(position),
            };
            self.ready.push_back(event);
            self.position = position;
        }
        Ok(())
    }
}

fn shut_down() -> Fault {
    Error::unavailable("the catalog was shut down")
        .with_reason("closed")
        .into()
}

fn expired(position: impl std::fmt::Display) -> Fault {
    Error::new(
        ErrorKind::Expired,
        format!("the changes after position {position} are not kept any more: list again"),
    )
    .into()
}
