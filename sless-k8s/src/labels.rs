//! Labels that name an object's owner, so that one watch over all namespaces maps it back.

use std::collections::BTreeMap;

use sless_core::{Kind, Name, Namespace, ObjectKey, Uid};

/// Who made an object; the recommended label of Kubernetes.
pub(crate) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`] on everything that is made here.
pub(crate) const MANAGER: &str = "sless";
/// The kind of the owner: `Function`, `Trigger` or `FunctionJob`.
pub(crate) const KIND: &str = "sless.io/kind";
/// The namespace of the owner: of the resource, not of the workload.
pub(crate) const NAMESPACE: &str = "sless.io/namespace";
/// The name of the owner.
pub(crate) const NAME: &str = "sless.io/name";
/// The uid of the owner: what tells it from an earlier one of the same name.
pub(crate) const UID: &str = "sless.io/uid";

/// Selects everything that is made here.
pub(crate) const SELECTOR: &str = "app.kubernetes.io/managed-by=sless";

/// The labels of what is made for an object. Each value is a DNS label or a uid, and so a label's value.
pub(crate) fn of_owner(key: &ObjectKey, uid: &Uid) -> BTreeMap<String, String> {
    [
        (MANAGED_BY, MANAGER),
        (KIND, key.kind.as_str()),
        (NAMESPACE, key.namespace.as_str()),
        (NAME, key.name.as_str()),
        (UID, uid.as_str()),
    ]
    .into_iter()
    .map(|(label, value)| (label.to_owned(), value.to_owned()))
    .collect()
}

/// The owner that labels name; `None` where they name none.
pub(crate) fn owner(labels: &BTreeMap<String, String>) -> Option<(ObjectKey, Uid)> {
    if labels.get(MANAGED_BY)? != MANAGER {
        return None;
    }
    let kind: Kind = labels.get(KIND)?.parse().ok()?;
    let namespace = Namespace::new(labels.get(NAMESPACE)?).ok()?;
    let name = Name::new(labels.get(NAME)?).ok()?;
    let uid = Uid::new(labels.get(UID)?.clone());
    Some((ObjectKey::new(kind, namespace, name), uid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_name_their_owner() {
        let key = ObjectKey::new(
            Kind::FunctionJob,
            Namespace::new("a").expect("a label"),
            Name::new("b".repeat(63)).expect("a label"),
        );
        let uid = Uid::random();
        let mut labels = of_owner(&key, &uid);
        assert!(labels.values().all(|value| value.len() <= 63));
        assert_eq!(owner(&labels), Some((key, uid)));
        labels.insert(MANAGED_BY.to_owned(), "other".to_owned());
        assert_eq!(owner(&labels), None);
    }
}
