//! Which work this process leads, where several share the same backends.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::Engine;

/// Work that one process at a time leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Post {
    /// Functions, jobs, and triggers of type http and cron.
    Operator,
    /// The statuses and the end of triggers of type event. Their messages are shared by all
    /// dispatchers.
    Dispatcher,
}

impl Post {
    const fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Dispatcher => "dispatcher",
        }
    }
}

/// The posts that this process holds.
#[derive(Debug, Default)]
pub(super) struct Leadership {
    operator: AtomicBool,
    dispatcher: AtomicBool,
}

impl Leadership {
    const fn of(&self, post: Post) -> &AtomicBool {
        match post {
            Post::Operator => &self.operator,
            Post::Dispatcher => &self.dispatcher,
        }
    }
}

/// A lease is renewed, and asked for, so many times within its length.
const RENEWALS: u32 = 4;

impl Engine {
    /// Whether this process leads this work now. Without a lease among the backends, a process leads
    /// whatever its roles say.
    pub(super) fn leads(&self, post: Post) -> bool {
        self.takes_on(post)
            && (self.backends.lease.is_none() || self.leadership.of(post).load(Ordering::Acquire))
    }

    /// Whether the roles of this process hold this work at all.
    pub(super) const fn takes_on(&self, post: Post) -> bool {
        match post {
            Post::Operator => self.options.roles.operator,
            Post::Dispatcher => self.options.roles.dispatcher,
        }
    }

    /// Takes a post whenever nobody holds it, and holds it as long as its lease can be renewed.
    ///
    /// A lease that cannot be renewed is given up one renewal before it ends for others, so that
    /// what has begun is over, or refused by the catalog as out of date, when somebody else begins.
    pub(super) async fn keep_post(self: &Arc<Self>, post: Post) {
        let Some(lease) = self.backends.lease.clone() else {
            return;
        };
        let clock = &self.backends.clock;
        let (ttl, holder) = (self.options.lease_ttl, &self.options.instance);
        let pause = ttl / RENEWALS;
        let mut held_until = Duration::ZERO;
        loop {
            let asked_at = clock.elapsed();
            let asked = lease.acquire(post.name(), holder, ttl);
            let granted = match crate::clock::timeout(&**clock, pause, asked).await {
                Ok(Ok(Some(_))) => true,
                Ok(Ok(None)) => {
                    held_until = Duration::ZERO;
                    false
                }
                Ok(Err(error)) | Err(error) => {
                    tracing::warn!(post = post.name(), error = %error.chain(), "the lease cannot be asked for");
                    false
                }
            };
            if granted {
                held_until = asked_at + ttl.saturating_sub(pause);
            }
            self.hold(post, clock.elapsed() < held_until).await;
            clock.sleep(pause).await;
            if clock.elapsed() >= held_until {
                self.hold(post, false).await;
            }
        }
    }

    async fn hold(self: &Arc<Self>, post: Post, holds: bool) {
        if self.leadership.of(post).swap(holds, Ordering::AcqRel) == holds {
            return;
        }
        tracing::info!(post = post.name(), holds, "leadership has changed");
        if post == Post::Operator {
            // Another process may have fired in between: the stored ledger is read anew.
            self.timetable.clear();
        }
        if holds && let Err(error) = self.look_at_everything().await {
            tracing::warn!(error = %error.chain(), "not all was looked at; the resync covers");
        }
    }

    /// Gives every post back, after all work has ended.
    pub(super) async fn leave_posts(&self) {
        let Some(lease) = &self.backends.lease else {
            return;
        };
        for post in [Post::Operator, Post::Dispatcher] {
            if !self.leadership.of(post).swap(false, Ordering::AcqRel) {
                continue;
            }
            let clock = &*self.backends.clock;
            let left = lease.release(post.name(), &self.options.instance);
            let left = crate::clock::timeout(clock, self.options.lease_ttl / RENEWALS, left).await;
            if let Err(error) | Ok(Err(error)) = left {
                tracing::warn!(post = post.name(), error = %error.chain(), "the lease was not given back");
            }
        }
    }
}
