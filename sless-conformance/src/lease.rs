//! The suite of [`Lease`]; its contract is `docs/contracts/lease.md`.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use sless_core::{Grant, Lease, Result};

use crate::{Harness, Outcome, Violation, suite::suite, unique};

/// What the suite has to know of a lease.
#[async_trait]
pub trait LeaseHarness: Harness {
    /// The lease, as one process sees it.
    ///
    /// # Errors
    /// Whatever keeps it from being there; the clause then fails with it.
    async fn lease(&self) -> Result<Arc<dyn Lease>>;

    /// The same lease, as another process sees it: another connection, another client. The same
    /// handle where one process is all there is.
    ///
    /// # Errors
    /// Whatever keeps it from being there.
    async fn another(&self) -> Result<Arc<dyn Lease>>;
}

/// One run of one clause: a name of its own, and two processes.
pub(crate) struct Case<'a> {
    harness: &'a dyn LeaseHarness,
    name: String,
    one: Arc<dyn Lease>,
    other: Arc<dyn Lease>,
}

/// A time that no clause reaches.
const LONG: Duration = Duration::from_secs(600);

/// A time that clauses wait for, in whole seconds, as some backends count.
const SHORT: Duration = Duration::from_secs(2);

impl<'a> Case<'a> {
    async fn open(harness: &'a dyn LeaseHarness) -> Result<Self, Violation> {
        Ok(Self {
            harness,
            name: format!("conformance-{}", unique::tag()),
            one: harness.lease().await?,
            other: harness.another().await?,
        })
    }

    async fn close(&self) -> Outcome {
        for holder in ["one", "other", "third"] {
            self.one.release(&self.name, holder).await?;
        }
        Ok(self.harness.clean_up().await?)
    }

    /// The first process takes or renews it.
    async fn take(&self, ttl: Duration) -> Result<Grant, Violation> {
        let grant = self.one.acquire(&self.name, "one", ttl).await?;
        grant.ok_or_else(|| Violation::new("the holder was refused"))
    }

    /// The second process tries.
    async fn try_other(&self, ttl: Duration) -> Result<Option<Grant>, Violation> {
        Ok(self.other.acquire(&self.name, "other", ttl).await?)
    }
}

suite! {
    ($)
    /// Makes a test of each clause of [`Lease`](sless_core::Lease)'s contract.
    ///
    /// Takes an expression that makes a [`LeaseHarness`](crate::lease::LeaseHarness); it may
    /// `await`. Attributes in front go to every test.
    lease, "lease", LeaseHarness, Case<'_>;
    1 clauses_of::whoever_comes_first_holds_the_lease,
    2 clauses_of::one_of_several_at_once_gets_it,
    3 clauses_of::renewing_keeps_the_token,
    4 clauses_of::renewing_keeps_others_out,
    5 clauses_of::an_expired_lease_goes_to_another_with_a_higher_token,
    6 clauses_of::a_released_lease_goes_to_another_with_a_higher_token,
    7 clauses_of::only_its_holder_releases_a_lease,
    8 clauses_of::leases_of_other_names_are_apart,
}

mod clauses_of {
    use super::{Case, LONG, SHORT};
    use crate::{
        Outcome, Violation,
        clause::{While as _, ensure, ensure_eq},
        harness::eventually,
    };

    pub(super) async fn whoever_comes_first_holds_the_lease(case: &Case<'_>) -> Outcome {
        case.take(LONG).await?;
        for _ in 0..3 {
            ensure_eq!(case.try_other(LONG).await?, None, "what another one gets");
        }
        // Trying does not take it from the holder.
        case.take(LONG).await.map(drop)
    }

    pub(super) async fn one_of_several_at_once_gets_it(case: &Case<'_>) -> Outcome {
        let mut tasks = Vec::new();
        for number in 0..16 {
            let lease = if number % 2 == 0 {
                case.one.clone()
            } else {
                case.other.clone()
            };
            let name = format!("{}-raced", case.name);
            tasks.push(tokio::spawn(async move {
                let holder = format!("holder-{number}");
                (lease.acquire(&name, &holder, LONG).await, holder)
            }));
        }
        let mut holders = Vec::new();
        for task in tasks {
            let (grant, holder) = task
                .await
                .map_err(|error| Violation::new(error.to_string()))?;
            if grant.while_("acquiring")?.is_some() {
                holders.push(holder);
            }
        }
        ensure!(holders.len() == 1, "{holders:?} hold it at once");
        Ok(case
            .one
            .release(&format!("{}-raced", case.name), &holders[0])
            .await?)
    }

    pub(super) async fn renewing_keeps_the_token(case: &Case<'_>) -> Outcome {
        let first = case.take(LONG).await?;
        for _ in 0..3 {
            ensure_eq!(
                case.take(LONG).await?,
                first,
                "the grant of a holder that renews"
            );
        }
        Ok(())
    }

    pub(super) async fn renewing_keeps_others_out(case: &Case<'_>) -> Outcome {
        let clock = case.harness.clock();
        // On a busy machine a renewal can come too late by itself; then this is tried again.
        for _ in 0..10 {
            let begun = clock.elapsed();
            let mut renewed_at = clock.elapsed();
            case.take(SHORT).await?;
            while clock.elapsed() - begun < SHORT * 2 {
                case.harness.pass(SHORT / 4).await;
                let other = case.try_other(SHORT).await?;
                let in_time = clock.elapsed() - renewed_at < SHORT * 3 / 4;
                if !in_time {
                    break;
                }
                ensure_eq!(other, None, "what another one gets while the holder renews");
                renewed_at = clock.elapsed();
                case.take(SHORT).await?;
            }
            if clock.elapsed() - begun >= SHORT * 2 {
                return Ok(());
            }
            case.other.release(&case.name, "other").await?;
        }
        Err(Violation::new(
            "this machine is too busy to renew a lease in time",
        ))
    }

    pub(super) async fn an_expired_lease_goes_to_another_with_a_higher_token(
        case: &Case<'_>,
    ) -> Outcome {
        let clock = case.harness.clock();
        let begun = clock.elapsed();
        let first = case.take(SHORT).await?;
        let second = eventually!(case.harness, "another one gets an expired lease", {
            case.try_other(LONG).await?.ok_or("nothing yet")
        });
        let waited = clock.elapsed() - begun;
        ensure!(
            waited >= SHORT * 9 / 10,
            "another one got it after {waited:?} of {SHORT:?}"
        );
        ensure!(
            second.token > first.token,
            "{second:?} came after {first:?}"
        );
        let late = case.one.acquire(&case.name, "one", LONG).await?;
        ensure_eq!(late, None, "what the first one gets when it comes back");
        Ok(())
    }

    pub(super) async fn a_released_lease_goes_to_another_with_a_higher_token(
        case: &Case<'_>,
    ) -> Outcome {
        let mut last = case.take(LONG).await?;
        for round in 0..3 {
            case.one.release(&case.name, "one").await?;
            let other = case.try_other(LONG).await?;
            let other = other.ok_or_else(|| Violation::new("a released lease was refused"))?;
            ensure!(
                other.token > last.token,
                "{other:?} came after {last:?} in round {round}"
            );
            case.other.release(&case.name, "other").await?;
            last = case.take(LONG).await?;
            ensure!(
                last.token > other.token,
                "{last:?} came after {other:?} in round {round}"
            );
        }
        Ok(())
    }

    pub(super) async fn only_its_holder_releases_a_lease(case: &Case<'_>) -> Outcome {
        // Where nobody holds it, there is nothing to release.
        case.other.release(&case.name, "other").await?;
        let first = case.take(LONG).await?;
        case.other.release(&case.name, "other").await?;
        ensure_eq!(
            case.try_other(LONG).await?,
            None,
            "what the one gets that released it"
        );
        ensure_eq!(case.take(LONG).await?, first, "the grant of the holder");
        Ok(())
    }

    pub(super) async fn leases_of_other_names_are_apart(case: &Case<'_>) -> Outcome {
        case.take(LONG).await?;
        let name = format!("{}-2", case.name);
        let grant = case.other.acquire(&name, "other", LONG).await?;
        ensure!(grant.is_some(), "the lease of another name was refused");
        case.other.release(&name, "other").await?;
        ensure_eq!(
            case.try_other(LONG).await?,
            None,
            "what another one gets of the first"
        );
        Ok(())
    }
}
