//! Receipts.

use sless_api::RemovedItem;
use sless_core::{ObjectKey, Receipt};

/// A receipt as it is answered.
pub(crate) fn receipt_view(
    key: &ObjectKey,
    receipt: Receipt,
    complete: bool,
) -> sless_api::Receipt {
    let removed = receipt.removed.into_iter().map(|removed| RemovedItem {
        kind: removed.kind,
        name: removed.name,
        backend: removed.backend,
    });
    sless_api::Receipt {
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        complete,
        removed: removed.collect(),
    }
}
