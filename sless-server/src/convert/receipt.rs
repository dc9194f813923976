//! Receipts.

use sless_api::{LeftItem, RemovedItem};
use sless_core::{ObjectKey, Receipt};

/// A receipt as it is answered, for an object that is gone or not.
pub(crate) fn receipt_view(key: &ObjectKey, receipt: Receipt, gone: bool) -> sless_api::Receipt {
    let removed = receipt.removed.into_iter().map(|removed| RemovedItem {
        kind: removed.kind,
        name: removed.name,
        backend: removed.backend,
    });
    let left = receipt.left.into_iter().map(|left| LeftItem {
        kind: left.kind,
        name: left.name,
        backend: left.backend,
        why: left.why,
        again: left.again,
    });
    let left: Vec<_> = left.collect();
    sless_api::Receipt {
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        complete: gone && left.is_empty(),
        removed: removed.collect(),
        left,
    }
}
