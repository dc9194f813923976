//! The store of sources, as an operator looks into it.

use futures::TryStreamExt as _;
use sless_core::Storage as _;
use sless_s3::{S3Config, S3Storage};

use super::variable;

#[derive(Debug)]
pub(crate) struct Store {
    storage: S3Storage,
    namespace: String,
}

impl Store {
    pub(super) async fn new(namespace: &str) -> Self {
        let mut config = S3Config::new(variable("SLESS_TEST_S3_BUCKET"))
            .with_endpoint(variable("SLESS_TEST_S3_ENDPOINT"))
            .with_keys(
                variable("SLESS_TEST_S3_ACCESS_KEY"),
                variable("SLESS_TEST_S3_SECRET_KEY"),
            );
        config.region = variable("SLESS_TEST_S3_REGION");
        Self {
            storage: S3Storage::connect(config).await.unwrap(),
            namespace: namespace.to_owned(),
        }
    }

    /// All keys of the namespace.
    pub(crate) async fn keys(&self) -> Vec<String> {
        let mut found = Vec::new();
        for folder in ["functions", "contexts"] {
            let prefix = format!("{folder}/{}/", self.namespace);
            let listed: Vec<_> = self.storage.list(&prefix).try_collect().await.unwrap();
            found.extend(listed.into_iter().map(|info| info.key.to_string()));
        }
        found
    }
}
