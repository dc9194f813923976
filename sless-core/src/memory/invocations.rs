//! [`MemoryInvocationLog`].

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{BACKEND, lock};
use crate::{
    Error, Invocation, InvocationLog, InvocationPage, InvocationQuery, Result, Retention,
    resource::Uid,
};

/// The limits of a [`MemoryInvocationLog`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MemoryInvocationLogConfig {
    /// The most records. The oldest go where newer ones come; a batch of more is refused.
    pub invocation_records: usize,
}

impl Default for MemoryInvocationLogConfig {
    /// A hundred thousand records.
    fn default() -> Self {
        Self {
            invocation_records: 100_000,
        }
    }
}

/// An [`InvocationLog`] in memory: the newest records.
#[derive(Debug, Default)]
pub struct MemoryInvocationLog {
    config: MemoryInvocationLogConfig,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By time, and by order of arrival within it.
    records: BTreeMap<Place, Invocation>,
    ids: BTreeSet<Uid>,
    arrived: u64,
}

type Place = (Timestamp, u64);

impl State {
    fn drop_oldest(&mut self) -> bool {
        let Some((_, record)) = self.records.pop_first() else {
            return false;
        };
        self.ids.remove(&record.id);
        true
    }
}

impl MemoryInvocationLog {
    /// An empty log with the default limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty log.
    pub fn with_config(config: MemoryInvocationLogConfig) -> Self {
        Self {
            config,
            state: Mutex::default(),
        }
    }
}

#[async_trait]
impl InvocationLog for MemoryInvocationLog {
    async fn append(&self, records: Vec<Invocation>) -> Result<()> {
        let most = self.config.invocation_records;
        if records.len() > most {
            return Err(Error::limit("invocation_records", most, "records")
                .during("invocation_log.append")
                .at(BACKEND));
        }
        let mut state = lock(&self.state);
        for record in records {
            if state.ids.insert(record.id.clone()) {
                state.arrived += 1;
                let place = (record.started_at, state.arrived);
                state.records.insert(place, record);
            }
        }
        while state.records.len() > most {
            state.drop_oldest();
        }
        Ok(())
    }

    async fn query(&self, query: &InvocationQuery) -> Result<InvocationPage> {
        let limit = query.limit.clamp(1, InvocationQuery::LIMIT_MAX);
        let before = match &query.cursor {
            Some(cursor) => read_cursor(cursor)?,
            None => (Timestamp::MAX, u64::MAX),
        };
        let state = lock(&self.state);
        let mut found = state
            .records
            .range(..before)
            .rev()
            .filter(|(_, record)| query.matches(record));
        let page: Vec<_> = found.by_ref().take(limit).collect();
        let last = page.last().filter(|_| found.next().is_some());
        Ok(InvocationPage {
            next: last.map(|((at, arrived), _)| format!("{}.{arrived}", at.as_nanosecond())),
            items: page.into_iter().map(|(_, record)| record.clone()).collect(),
        })
    }

    async fn retain(&self, rule: &Retention, now: Timestamp) -> Result<u64> {
        // An age beyond what a time can say keeps all.
        let oldest = SignedDuration::try_from(rule.max_age)
            .ok()
            .and_then(|age| now.checked_sub(age).ok())
            .unwrap_or(Timestamp::MIN);
        let mut state = lock(&self.state);
        let mut dropped = 0;
        while let Some(((at, _), _)) = state.records.first_key_value()
            && (*at < oldest || state.records.len() as u64 > rule.max_records)
            && state.drop_oldest()
        {
            dropped += 1;
        }
        Ok(dropped)
    }
}

fn read_cursor(cursor: &str) -> Result<Place> {
    let parse = |text: &str| {
        let (at, arrived) = text.split_once('.')?;
        Some((
            Timestamp::from_nanosecond(at.parse().ok()?).ok()?,
            arrived.parse().ok()?,
        ))
    };
    parse(cursor).ok_or_else(|| {
        Error::invalid("the cursor is not one that a query gave")
            .with_reason("cursor_invalid")
            .during("invocation_log.query")
            .at(BACKEND)
    })
}
