//! What functions, triggers and jobs have in common.

use axum::Json;
use sless_core::{CatalogExt, Kind, ObjectKey, Resource};

use crate::{convert::receipt_view, error::ApiError, extract::Named, state::AppState};

/// Changes a resource; again where somebody else was faster.
pub(super) async fn modify<R: Resource + PartialEq>(
    state: &AppState,
    named: &Named,
    mut change: impl FnMut(&mut R) -> Result<(), ApiError> + Send,
) -> Result<R, ApiError> {
    let mut refused = None;
    let catalog = &state.sless.backends().catalog;
    let changed = catalog
        .modify(&named.namespace, &named.name, |resource: &mut R| {
            change(resource).map_err(|error| {
                refused = Some(error);
                sless_core::Error::invalid("the change was refused")
            })
        })
        .await;
    match refused {
        Some(error) => Err(error),
        None => Ok(changed?),
    }
}

/// Removes a resource and answers with the receipt.
pub(super) async fn delete(
    state: &AppState,
    kind: Kind,
    named: Named,
) -> Result<Json<sless_api::Receipt>, ApiError> {
    let key = ObjectKey::new(kind, named.namespace, named.name);
    let catalog = &state.sless.backends().catalog;
    let uid = catalog.get(&key).await?.metadata().uid.clone();
    let receipt = state.sless.delete(&key).await?;
    let gone = match catalog.get(&key).await {
        // Of the same name, and another one.
        Ok(object) => object.metadata().uid != uid,
        Err(error) => error.is_not_found(),
    };
    Ok(Json(receipt_view(&key, receipt, gone)))
}
