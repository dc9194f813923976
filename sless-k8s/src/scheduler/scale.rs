//! Copies by calls under way, within the bounds that a function gives.
//!
//! As with sleep, it is the pods that are asked: each counts the calls of everybody who calls it, through
//! whichever proxy, so that no proxy has to tell another one what it is at. Whoever finds a difference
//! writes the number, held to the version that was looked at.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use futures::future::join_all;
use sless_core::{Result, Uid};

use super::{
    Inner,
    cache::{DeploymentView, FunctionEntry},
};

/// The highest of the numbers that were asked for in the last while.
#[derive(Debug)]
struct Recent {
    since: Instant,
    /// Falling numbers, each with the time that it was asked for last.
    highest: VecDeque<(Instant, u32)>,
}

impl Recent {
    const fn new(now: Instant) -> Self {
        Self {
            since: now,
            highest: VecDeque::new(),
        }
    }

    /// Takes note of a number, and answers the highest within `window`.
    fn put(&mut self, now: Instant, wanted: u32, window: Duration) -> u32 {
        let highest = &mut self.highest;
        while highest.back().is_some_and(|(_, before)| *before <= wanted) {
            highest.pop_back();
        }
        highest.push_back((now, wanted));
        while highest
            .front()
            .is_some_and(|(at, _)| now.duration_since(*at) > window)
        {
            highest.pop_front();
        }
        highest.front().map_or(wanted, |(_, wanted)| *wanted)
    }

    /// Whether it was looked long enough to say that fewer are enough.
    fn is_long(&self, now: Instant, window: Duration) -> bool {
        now.duration_since(self.since) >= window
    }
}

/// How many copies take so many calls at once.
fn copies(calls: usize, deployment: &DeploymentView) -> u32 {
    let each = usize::try_from(deployment.concurrency.max(1)).unwrap_or(1);
    let wanted = u32::try_from(calls.div_ceil(each)).unwrap_or(u32::MAX);
    wanted.clamp(deployment.replicas, deployment.max_replicas)
}

impl Inner {
    /// Calls under way and waiting in the pods of a function; `None` where no pod says.
    async fn calls(&self, entry: &FunctionEntry, deployment: &DeploymentView) -> Option<usize> {
        let view = entry.view();
        let asked = view.ready().map(|pod| async {
            let said = self.activity(pod).await;
            // One that does not answer is taken for full: it is no reason to have fewer.
            let full = usize::try_from(deployment.concurrency).unwrap_or(1);
            said.map_or(full, |said| said.calls())
        });
        let all = join_all(asked).await;
        (!all.is_empty()).then(|| all.into_iter().sum())
    }

    async fn fit(
        &self,
        entry: &Arc<FunctionEntry>,
        deployment: &DeploymentView,
        recent: &mut Recent,
    ) -> Result<()> {
        let Some(calls) = self.calls(entry, deployment).await else {
            return Ok(());
        };
        let (now, window) = (
            Instant::now(),
            Duration::from_millis(self.config.scale_down_ms),
        );
        let highest = recent.put(now, copies(calls, deployment), window);
        let there = deployment.spec_replicas;
        let more = highest > there;
        let fewer = highest < there && recent.is_long(now, window);
        if more || fewer {
            let function = &entry.function;
            tracing::debug!(%function, calls, there, wanted = highest, "the number of copies changes");
            self.scale(entry, deployment, highest, deployment.proven)
                .await?;
        }
        Ok(())
    }
}

/// Keeps the numbers of copies right, until the scheduler is gone.
pub(super) async fn keep_scale(inner: Weak<Inner>, every: Duration) {
    let mut recents: HashMap<Uid, Recent> = HashMap::new();
    loop {
        tokio::time::sleep(every).await;
        let Some(inner) = inner.upgrade() else { return };
        let scaling: Vec<_> = inner
            .cache
            .functions()
            .into_iter()
            .filter_map(|entry| {
                let deployment = entry.view().deployment.clone()?;
                let ours = deployment.scales()
                    && !deployment.asleep()
                    && !inner.leaves_to_keda(&deployment);
                ours.then_some((entry, deployment))
            })
            .collect();
        let mut kept = HashMap::with_capacity(scaling.len());
        for (entry, _) in &scaling {
            let uid = &entry.function.uid;
            let recent = recents.remove(uid);
            let recent = recent.unwrap_or_else(|| Recent::new(Instant::now()));
            kept.insert(uid.clone(), recent);
        }
        recents = kept;
        for (entry, deployment) in &scaling {
            let Some(recent) = recents.get_mut(&entry.function.uid) else {
                continue;
            };
            if let Err(error) = inner.fit(entry, deployment, recent).await {
                tracing::warn!(function = %entry.function, error = %error.chain(), "the number of copies was not changed");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_number_of_a_while_counts() {
        let (start, window) = (Instant::now(), Duration::from_secs(10));
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut recent = Recent::new(start);
        for (seconds, wanted, highest) in [
            (0, 2, 2),
            (1, 5, 5),
            (2, 1, 5),
            (3, 3, 5),
            (11, 1, 5),
            (12, 1, 3),
            (14, 1, 1),
            (15, 9, 9),
        ] {
            assert_eq!(
                recent.put(at(seconds), wanted, window),
                highest,
                "{seconds}"
            );
        }
        assert!(recent.highest.len() <= 2, "{recent:?}");
        assert!(!recent.is_long(at(9), window) && recent.is_long(at(10), window));
    }
}
