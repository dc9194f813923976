//! What is known of the CronJobs of triggers.

use std::{
    collections::{HashMap, HashSet},
    sync::{PoisonError, RwLock},
};

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::CronJob;
use kube::ResourceExt as _;
use sless_core::{ObjectKey, Uid, resource::TriggerId};

use super::{Cache, Text, view};
use crate::{labels, scheduler::failure};

/// A CronJob.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::scheduler) struct CronView {
    pub(in crate::scheduler) trigger: TriggerId,
    /// Labels, annotations and spec.
    pub(in crate::scheduler) object: Text,
    pub(in crate::scheduler) last_fire_at: Option<Timestamp>,
}

impl CronView {
    fn of(object: &CronJob) -> Option<Self> {
        let (key, uid) = labels::owner(object.labels())?;
        let ObjectKey {
            namespace, name, ..
        } = key;
        let status = object.status.as_ref();
        Some(Self {
            trigger: TriggerId {
                namespace,
                name,
                uid,
            },
            object: Text::of(&view::child(object))?,
            last_fire_at: status
                .and_then(|status| status.last_schedule_time.as_ref())
                .and_then(failure::timestamp),
        })
    }
}

/// CronJobs by the uid of their trigger.
#[derive(Debug, Default)]
pub(super) struct Crons(RwLock<HashMap<Uid, CronView>>);

impl Cache {
    pub(in crate::scheduler) fn cron(&self, uid: &Uid) -> Option<CronView> {
        let all = self.crons.0.read().unwrap_or_else(PoisonError::into_inner);
        all.get(uid).cloned()
    }

    pub(in crate::scheduler) fn put_cron(&self, object: &CronJob) {
        let Some(new) = CronView::of(object) else {
            return;
        };
        let (key, same) = {
            let mut all = self.crons.0.write().unwrap_or_else(PoisonError::into_inner);
            let key = new.trigger.key();
            let same = all.get(&new.trigger.uid) == Some(&new);
            all.insert(new.trigger.uid.clone(), new);
            (key, same)
        };
        if !same {
            self.changes.notify(key);
        }
    }

    pub(in crate::scheduler) fn forget_cron(&self, uid: &Uid) {
        let gone = {
            let mut all = self.crons.0.write().unwrap_or_else(PoisonError::into_inner);
            all.remove(uid)
        };
        if let Some(gone) = gone {
            self.changes.notify(gone.trigger.key());
        }
    }

    pub(super) fn retain_crons(&self, seen: &HashSet<Uid>) {
        let gone: Vec<Uid> = {
            let all = self.crons.0.read().unwrap_or_else(PoisonError::into_inner);
            let known = all.keys();
            known.filter(|uid| !seen.contains(uid)).cloned().collect()
        };
        for uid in gone {
            self.forget_cron(&uid);
        }
    }
}
