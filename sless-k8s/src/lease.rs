//! [`KubeLease`]: who may act, among the processes of a cluster.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use k8s_openapi::{
    api::coordination::v1::{Lease as KubeObject, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, api::PostParams};
use sless_core::{Clock, Error, Grant, Lease, Result};
use tokio::sync::Mutex;

use crate::{
    client::Cluster,
    error::{BACKEND, Fault},
    labels::{MANAGED_BY, MANAGER},
};

/// A [`Lease`] in objects of `coordination.k8s.io`.
///
/// The token is the object's `leaseTransitions`, which grows with every change of holder. Machines' clocks
/// need not agree: nobody compares a time that another one wrote. A process that does not hold the lease
/// remembers since when, by its own clock, the object has not changed, and takes it over once that is longer
/// than the holder's time. So a new process waits for that time at first, even where the holder is long gone.
///
/// Asking again renews, and always writes: the holder's time begins anew for everybody who looks on.
pub struct KubeLease {
    cluster: Cluster,
    clock: Arc<dyn Clock>,
    seen: Mutex<HashMap<String, Seen>>,
}

/// What was seen of a lease, and when first.
#[derive(Clone)]
struct Seen {
    version: String,
    at: Duration,
}

impl KubeLease {
    /// The leases in the namespace of [`LeaseConfig`](crate::LeaseConfig). The clock is asked for elapsed
    /// time, and for the times that people read in the object.
    pub fn new(cluster: Cluster, clock: Arc<dyn Clock>) -> Self {
        Self {
            cluster,
            clock,
            seen: Mutex::default(),
        }
    }

    fn api(&self) -> Api<KubeObject> {
        Api::namespaced(
            self.cluster.client(),
            &self.cluster.config().lease.namespace,
        )
    }

    /// Since when the object is as it is, as far as this process knows.
    async fn unchanged_since(&self, name: &str, version: &str) -> Duration {
        let now = self.clock.elapsed();
        let mut all = self.seen.lock().await;
        let seen = all.entry(name.to_owned()).or_insert_with(|| Seen {
            version: version.to_owned(),
            at: now,
        });
        if seen.version != version {
            version.clone_into(&mut seen.version);
            seen.at = now;
        }
        seen.at
    }

    async fn try_acquire(
        &self,
        name: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<Option<Grant>, Fault> {
        let object = name_of(name);
        // Before the request: the time that it takes is not the holder's.
        let now = self.clock.elapsed();
        let found = self.cluster.call(self.api().get_opt(&object)).await?;
        let Some(mut found) = found else {
            let created = self.wanted(&object, name, holder, ttl, 1);
            return self.write(name, now, created, true).await;
        };
        let version = found.metadata.resource_version.clone().unwrap_or_default();
        let since = self.unchanged_since(name, &version).await;
        let spec = found.spec.get_or_insert_default();
        let token = spec.lease_transitions.unwrap_or_default();
        let held_by = spec
            .holder_identity
            .clone()
            .filter(|holder| !holder.is_empty());
        let lasts = seconds(spec.lease_duration_seconds);
        let age = now.saturating_sub(since);
        match held_by {
            Some(held_by) if held_by == holder && age < lasts => {
                spec.renew_time = Some(self.time());
                spec.lease_duration_seconds = Some(whole_seconds(ttl));
            }
            Some(held_by) if held_by != holder && age < lasts => return Ok(None),
            // Given back, or its time is over: another term, also for the one that had it.
            _ => {
                let metadata = found.metadata.clone();
                found = self.wanted(&object, name, holder, ttl, token.saturating_add(1));
                found.metadata = metadata;
            }
        }
        self.write(name, now, found, false).await
    }

    /// Writes the object, held to the version that was read. `None` if somebody else was faster.
    async fn write(
        &self,
        name: &str,
        now: Duration,
        object: KubeObject,
        new: bool,
    ) -> Result<Option<Grant>, Fault> {
        let parameters = PostParams {
            field_manager: Some(self.cluster.config().field_manager.clone()),
            ..PostParams::default()
        };
        let api = self.api();
        let object_name = object.metadata.name.clone().unwrap_or_default();
        let written = if new {
            self.cluster.call(api.create(&parameters, &object)).await
        } else {
            let replaced = api.replace(&object_name, &parameters, &object);
            self.cluster.call(replaced).await
        };
        let written = match written {
            Ok(written) => written,
            Err(fault) if fault.is_conflict() || fault.is_already_exists() => return Ok(None),
            Err(fault) => return Err(fault),
        };
        let seen = Seen {
            version: written.metadata.resource_version.unwrap_or_default(),
            at: now,
        };
        self.seen.lock().await.insert(name.to_owned(), seen);
        let token = written.spec.and_then(|spec| spec.lease_transitions);
        Ok(Some(grant(token.unwrap_or_default())))
    }

    fn wanted(
        &self,
        object: &str,
        name: &str,
        holder: &str,
        ttl: Duration,
        token: i32,
    ) -> KubeObject {
        KubeObject {
            metadata: ObjectMeta {
                name: Some(object.to_owned()),
                labels: Some([(MANAGED_BY.to_owned(), MANAGER.to_owned())].into()),
                annotations: Some([("sless.io/lease".to_owned(), name.to_owned())].into()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.to_owned()),
                lease_duration_seconds: Some(whole_seconds(ttl)),
                acquire_time: Some(self.time()),
                renew_time: Some(self.time()),
                lease_transitions: Some(token),
                ..LeaseSpec::default()
            }),
        }
    }

    fn time(&self) -> MicroTime {
        let now = self.clock.now().as_microsecond();
        MicroTime(k8s_openapi::jiff::Timestamp::from_microsecond(now).unwrap_or_default())
    }

    async fn try_release(&self, name: &str, holder: &str) -> Result<(), Fault> {
        let object = name_of(name);
        let Some(mut found) = self.cluster.call(self.api().get_opt(&object)).await? else {
            return Ok(());
        };
        let spec = found.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(holder) {
            return Ok(());
        }
        // The object stays, and with it the count of holders.
        spec.holder_identity = None;
        spec.renew_time = Some(self.time());
        // A conflict means that the time was over, and that somebody else has it.
        let now = self.clock.elapsed();
        self.write(name, now, found, false).await.map(drop)
    }
}

impl fmt::Debug for KubeLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeLease")
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Lease for KubeLease {
    async fn acquire(&self, name: &str, holder: &str, ttl: Duration) -> Result<Option<Grant>> {
        let acquired = self.try_acquire(name, holder, ttl).await;
        acquired.map_err(|fault| named(fault, "lease.acquire", name))
    }

    async fn release(&self, name: &str, holder: &str) -> Result<()> {
        let released = self.try_release(name, holder).await;
        released.map_err(|fault| named(fault, "lease.release", name))
    }
}

fn named(fault: Fault, operation: &'static str, name: &str) -> Error {
    Error::from(fault).during(operation).on(name).at(BACKEND)
}

/// The name of the object: the lease's own where that is a DNS label, else one made of its hash.
fn name_of(name: &str) -> String {
    match sless_core::Name::new(name) {
        Ok(_) if name.len() <= 57 => format!("sless-{name}"),
        _ => format!("sless-{}", &sless_core::Digest::of(name).hex()[..32]),
    }
}

const fn grant(token: i32) -> Grant {
    Grant {
        token: token.unsigned_abs() as u64,
    }
}

/// Kubernetes counts whole seconds, from 1.
fn whole_seconds(ttl: Duration) -> i32 {
    let seconds = ttl
        .as_secs()
        .saturating_add(u64::from(ttl.subsec_nanos() > 0));
    i32::try_from(seconds.max(1)).unwrap_or(i32::MAX)
}

fn seconds(found: Option<i32>) -> Duration {
    Duration::from_secs(u64::from(found.unwrap_or_default().unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_has_an_object_of_its_own() {
        assert_eq!(name_of("operator"), "sless-operator");
        let (one, other) = (name_of("a/b"), name_of("A/b"));
        assert_ne!(one, other);
        for name in [one, name_of(&"x".repeat(63)), name_of("")] {
            assert!(sless_core::Name::new(&name).is_ok(), "{name}");
        }
    }

    #[test]
    fn times_are_rounded_up() {
        assert_eq!(whole_seconds(Duration::from_millis(1)), 1);
        assert_eq!(whole_seconds(Duration::from_millis(2001)), 3);
        assert_eq!(whole_seconds(Duration::MAX), i32::MAX);
    }
}
