//! Addresses that give an object to whoever holds them.

use std::time::Duration;

use async_trait::async_trait;
use object_store::{
    ObjectStore,
    signer::{Method, Signer},
};
use sless_core::{Presign, Result, StorageKey};

use crate::{ObjectStoreStorage, fault::fault};

/// Where the store can sign: Amazon, Google and Azure can.
#[async_trait]
impl<S: ObjectStore + Signer> Presign for ObjectStoreStorage<S> {
    async fn presign_get(&self, key: &StorageKey, valid: Duration) -> Result<String> {
        let place = self.place(key);
        let signed = self.store().signed_url(Method::GET, &place, valid).await;
        let signed = signed.map(String::from).map_err(fault);
        signed.map_err(|error| self.named(error, "storage.presign_get", key))
    }
}
