//! The three kinds of resource: [`Function`], [`Trigger`] and [`FunctionJob`].
//!
//! A resource has [`Metadata`], a `spec` (what is wanted, written by people) and a `status` (what is
//! seen, written by the engine). Serialized, the fields are in camelCase, as in a Kubernetes
//! manifest of `sless.io/v1alpha1`.

mod function;
mod job;
mod meta;
mod trigger;

pub use function::{Function, FunctionPhase, FunctionSpec, FunctionStatus, Verification};
pub use job::{FunctionJob, JobPhase, JobSpec, JobStatus};
pub use meta::{Condition, FunctionId, JobId, Metadata, ObjectKey, TriggerId, Uid, Version};
pub use trigger::{
    DeliveryOptions, EventCounts, QueueDeclare, Trigger, TriggerSpec, TriggerStatus, TriggerType,
};

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Error, Name, Namespace};

/// The API version of every resource here.
pub const API_VERSION: &str = "sless.io/v1alpha1";

/// Which kind of resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// A [`Function`].
    Function,
    /// A [`Trigger`].
    Trigger,
    /// A [`FunctionJob`].
    FunctionJob,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Function, Self::Trigger, Self::FunctionJob];

    /// The kind as it stands in a manifest.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Function => "Function",
            Self::Trigger => "Trigger",
            Self::FunctionJob => "FunctionJob",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Kind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| {
                Error::invalid(format!(
                    "kind {text:?}: expected Function, Trigger or FunctionJob"
                ))
            })
    }
}

/// A resource of any kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum Object {
    /// A function.
    Function(Function),
    /// A trigger.
    Trigger(Trigger),
    /// A job.
    FunctionJob(FunctionJob),
}

impl Object {
    /// The kind.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Function(_) => Kind::Function,
            Self::Trigger(_) => Kind::Trigger,
            Self::FunctionJob(_) => Kind::FunctionJob,
        }
    }

    /// The metadata.
    pub const fn metadata(&self) -> &Metadata {
        match self {
            Self::Function(function) => &function.metadata,
            Self::Trigger(trigger) => &trigger.metadata,
            Self::FunctionJob(job) => &job.metadata,
        }
    }

    /// The metadata, to change.
    pub const fn metadata_mut(&mut self) -> &mut Metadata {
        match self {
            Self::Function(function) => &mut function.metadata,
            Self::Trigger(trigger) => &mut trigger.metadata,
            Self::FunctionJob(job) => &mut job.metadata,
        }
    }

    /// Kind, namespace and name.
    pub fn key(&self) -> ObjectKey {
        ObjectKey {
            kind: self.kind(),
            namespace: self.metadata().namespace.clone(),
            name: self.metadata().name.clone(),
        }
    }

    /// Whether the wanted state is the same, status and version aside. A [`Catalog`](crate::Catalog)
    /// raises the generation where it is not.
    pub fn same_spec(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Function(a), Self::Function(b)) => a.spec == b.spec,
            (Self::Trigger(a), Self::Trigger(b)) => a.spec == b.spec,
            (Self::FunctionJob(a), Self::FunctionJob(b)) => a.spec == b.spec,
            _ => false,
        }
    }

    /// Whether the seen state is the same.
    pub fn same_status(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Function(a), Self::Function(b)) => a.status == b.status,
            (Self::Trigger(a), Self::Trigger(b)) => a.status == b.status,
            (Self::FunctionJob(a), Self::FunctionJob(b)) => a.status == b.status,
            _ => false,
        }
    }

    /// Takes the status of `other`, as a [`Catalog`](crate::Catalog) does in `update_status`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the kinds differ.
    pub fn take_status_of(&mut self, other: Self) -> Result<(), Error> {
        match (self, other) {
            (Self::Function(mine), Self::Function(other)) => mine.status = other.status,
            (Self::Trigger(mine), Self::Trigger(other)) => mine.status = other.status,
            (Self::FunctionJob(mine), Self::FunctionJob(other)) => mine.status = other.status,
            (mine, other) => {
                return Err(Error::invalid(format!(
                    "a status of kind {} for an object of kind {}",
                    other.kind(),
                    mine.kind()
                )));
            }
        }
        Ok(())
    }

    /// Checks every rule that does not need another object.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) naming the field.
    pub fn validate(&self) -> Result<(), Error> {
        match self {
            Self::Function(function) => function.spec.validate(),
            Self::Trigger(trigger) => trigger.spec.validate(),
            Self::FunctionJob(job) => job.spec.validate(),
        }
    }
}

/// What [`Function`], [`Trigger`] and [`FunctionJob`] have in common.
pub trait Resource:
    Clone + fmt::Debug + Into<Object> + TryFrom<Object, Error = Error> + Send + Sync
{
    /// The kind of this type.
    const KIND: Kind;

    /// The metadata.
    fn metadata(&self) -> &Metadata;

    /// The name within the namespace.
    fn name(&self) -> &Name {
        &self.metadata().name
    }

    /// The namespace.
    fn namespace(&self) -> &Namespace {
        &self.metadata().namespace
    }

    /// Kind, namespace and name.
    fn key(&self) -> ObjectKey {
        ObjectKey {
            kind: Self::KIND,
            namespace: self.namespace().clone(),
            name: self.name().clone(),
        }
    }
}

macro_rules! resource {
    ($type:ident) => {
        impl Resource for $type {
            const KIND: Kind = Kind::$type;

            fn metadata(&self) -> &Metadata {
                &self.metadata
            }
        }

        impl From<$type> for Object {
            fn from(value: $type) -> Self {
                Self::$type(value)
            }
        }

        impl TryFrom<Object> for $type {
            type Error = Error;

            fn try_from(object: Object) -> Result<Self, Error> {
                match object {
                    Object::$type(value) => Ok(value),
                    other => Err(Error::internal(format!(
                        "expected a {}, found a {}",
                        Kind::$type,
                        other.kind()
                    ))
                    .on(other.key())),
                }
            }
        }
    };
}

resource!(Function);
resource!(Trigger);
resource!(FunctionJob);
