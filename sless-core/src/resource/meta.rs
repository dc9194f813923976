use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Kind;
use crate::{Error, Name, Namespace, Result};

/// The identity of one object over its life. Deleting and creating again under the same name is
/// another uid. Given by the [`Catalog`](crate::Catalog).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Uid(String);

impl Uid {
    /// A new, random one.
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().to_string())
    }

    /// Takes the text that a catalog gave.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The uid as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether none was given yet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The version of an object, or a position in a catalog's history. Opaque: two are equal or not,
/// and only the catalog that gave them knows more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(String);

impl Version {
    /// Takes the text that a catalog gave.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The version as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Kind, namespace and name: where an object is found.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectKey {
    /// The kind.
    pub kind: Kind,
    /// The namespace.
    pub namespace: Namespace,
    /// The name.
    pub name: Name,
}

impl ObjectKey {
    /// A key of its three parts.
    pub const fn new(kind: Kind, namespace: Namespace, name: Name) -> Self {
        Self {
            kind,
            namespace,
            name,
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

macro_rules! identity {
    ($(#[$doc:meta])* $name:ident, $kind:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub struct $name {
            /// The namespace.
            pub namespace: Namespace,
            /// The name.
            pub name: Name,
            /// The uid: what tells this one from an earlier one of the same name.
            pub uid: Uid,
        }

        impl $name {
            /// The identity of the object with this metadata.
            pub fn of(metadata: &Metadata) -> Self {
                Self {
                    namespace: metadata.namespace.clone(),
                    name: metadata.name.clone(),
                    uid: metadata.uid.clone(),
                }
            }

            /// Where the object is found in the catalog.
            pub fn key(&self) -> ObjectKey {
                ObjectKey::new(Kind::$kind, self.namespace.clone(), self.name.clone())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}/{}", self.namespace, self.name)
            }
        }
    };
}

identity! {
    /// One function, over its life.
    FunctionId, Function
}

identity! {
    /// One trigger, over its life.
    TriggerId, Trigger
}

identity! {
    /// One job, over its life.
    JobId, FunctionJob
}

/// What every resource has. All but name, namespace, labels, annotations and finalizers is written
/// by the [`Catalog`](crate::Catalog) alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// The name, unique for its kind in its namespace.
    pub name: Name,
    /// The namespace.
    pub namespace: Namespace,
    /// The identity.
    #[serde(default)]
    pub uid: Uid,
    /// The version, compared by `update` and `update_status`.
    #[serde(default)]
    pub version: Version,
    /// Counts the changes of the spec, from 1.
    #[serde(default)]
    pub generation: i64,
    /// When it was created.
    #[serde(default)]
    pub created_at: Timestamp,
    /// When its deletion was asked for; it goes when the last finalizer is taken away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<Timestamp>,
    /// Who still has to clean up before it may go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// Free words, for selection.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Free words, for notes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

impl Metadata {
    /// Metadata of an object that is to be created.
    pub fn new(namespace: Namespace, name: Name) -> Self {
        Self {
            name,
            namespace,
            uid: Uid::default(),
            version: Version::default(),
            generation: 0,
            created_at: Timestamp::default(),
            deleted_at: None,
            finalizers: Vec::new(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
        }
    }

    /// Whether its deletion was asked for.
    pub const fn is_deleting(&self) -> bool {
        self.deleted_at.is_some()
    }
}

/// One thing that is so, or not so, or not known (Kubernetes API conventions, "Typical status
/// properties").
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What it is about: `Built`, `Ready`, `Scheduled`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// A machine word.
    #[serde(default)]
    pub reason: String,
    /// A sentence.
    #[serde(default)]
    pub message: String,
    /// When `status` last changed.
    pub last_transition_time: Timestamp,
}

impl Condition {
    /// Sets the condition `kind` in `conditions`. The time changes only when the status does.
    pub fn set(
        conditions: &mut Vec<Self>,
        kind: &str,
        holds: Option<bool>,
        reason: &str,
        message: &str,
        now: Timestamp,
    ) {
        let status = match holds {
            Some(true) => "True",
            Some(false) => "False",
            None => "Unknown",
        };
        match conditions
            .iter_mut()
            .find(|condition| condition.kind == kind)
        {
            Some(condition) => {
                if condition.status != status {
                    condition.last_transition_time = now;
                    status.clone_into(&mut condition.status);
                }
                reason.clone_into(&mut condition.reason);
                message.clone_into(&mut condition.message);
            }
            None => conditions.push(Self {
                kind: kind.to_owned(),
                status: status.to_owned(),
                reason: reason.to_owned(),
                message: message.to_owned(),
                last_transition_time: now,
            }),
        }
    }
}

/// Checks that `value` lies in `range`, naming the field where it does not.
pub(super) fn in_range(
    field: &str,
    value: u64,
    range: std::ops::RangeInclusive<u64>,
    unit: &str,
) -> Result<()> {
    if range.contains(&value) {
        return Ok(());
    }
    let space = if unit.is_empty() { "" } else { " " };
    Err(Error::invalid(format!(
        "{field} is {value}: expected {} to {}{space}{unit}",
        range.start(),
        range.end()
    ))
    .with_reason("field_out_of_range"))
}
