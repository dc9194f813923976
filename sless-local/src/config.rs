//! Settings, each with its default. All are limits or sizes: nothing here changes what a trait means.

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{BuilderConfig, LogsConfig, SandboxConfig, SchedulerConfig, ToolsConfig};

/// Settings of [`Local`](crate::Local).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalConfig {
    /// The data folder. It is made if it is not there.
    pub data_dir: PathBuf,
    /// Of the catalog and the leases.
    #[serde(default)]
    pub catalog: CatalogConfig,
    /// Of the storage.
    #[serde(default)]
    pub storage: StorageConfig,
    /// Of the queues.
    #[serde(default)]
    pub queue: QueueConfig,
    /// Of the invocation log.
    #[serde(default)]
    pub invocations: InvocationsConfig,
    /// Of the builder.
    #[serde(default)]
    pub builder: BuilderConfig,
    /// Of the scheduler.
    #[serde(default)]
    pub scheduler: SchedulerConfig,
    /// Of what keeps functions and installers apart.
    #[serde(default)]
    pub sandbox: SandboxConfig,
    /// Of the logs of builds, functions and jobs.
    #[serde(default)]
    pub logs: LogsConfig,
    /// Interpreters and installers.
    #[serde(default)]
    pub tools: ToolsConfig,
    /// Of the file `work.db`.
    #[serde(default)]
    pub work: DatabaseConfig,
}

impl LocalConfig {
    /// The defaults, in this data folder.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            catalog: CatalogConfig::default(),
            storage: StorageConfig::default(),
            queue: QueueConfig::default(),
            invocations: InvocationsConfig::default(),
            builder: BuilderConfig::default(),
            scheduler: SchedulerConfig::default(),
            sandbox: SandboxConfig::default(),
            logs: LogsConfig::default(),
            tools: ToolsConfig::default(),
            work: DatabaseConfig::default(),
        }
    }
}

/// Settings of [`LocalCatalog`](crate::LocalCatalog).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CatalogConfig {
    /// How many changes are kept for watches. A watch that is further behind ends in `Expired`.
    pub watch_history: u32,
    /// The longest object, in bytes of JSON.
    pub object_bytes: usize,
    /// Of the file `catalog.db`.
    pub database: DatabaseConfig,
}

impl Default for CatalogConfig {
    fn default() -> Self {
        Self {
            watch_history: 10_000,
            object_bytes: 4 * 1024 * 1024,
            database: DatabaseConfig::default(),
        }
    }
}

/// Settings of [`LocalStorage`](crate::LocalStorage).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StorageConfig {
    /// The longest object, in bytes.
    pub object_bytes: u64,
    /// How many bytes of a body are held in memory before they are written.
    pub part_bytes: usize,
    /// The most objects of one listing.
    pub list_objects: usize,
}

impl Default for StorageConfig {
    fn default() -> Self {
        Self {
            object_bytes: 1 << 30,
            part_bytes: 1 << 20,
            list_objects: 1_000_000,
        }
    }
}

/// Settings of [`LocalDispatcher`](crate::LocalDispatcher).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueConfig {
    /// The most queues.
    pub queues: u32,
    /// The most messages of one queue, dead letters counted.
    pub queue_messages: u32,
    /// The most bytes of one queue, dead letters counted.
    pub queue_bytes: u64,
    /// The longest message: body, headers, id and media type, in bytes.
    pub message_bytes: usize,
    /// How long a shutdown waits for calls under way, in milliseconds. What is not finished then is
    /// cut off, and its message comes again.
    pub drain_ms: u64,
    /// Of the file `queue.db`.
    pub database: DatabaseConfig,
}

impl QueueConfig {
    pub(crate) const fn drain(&self) -> Duration {
        Duration::from_millis(self.drain_ms)
    }
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            queues: 10_000,
            queue_messages: 1_000_000,
            queue_bytes: 1 << 30,
            message_bytes: 1 << 20,
            drain_ms: 30_000,
            database: DatabaseConfig::default(),
        }
    }
}

/// Settings of [`LocalInvocationLog`](crate::LocalInvocationLog).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InvocationsConfig {
    /// The most records of one append.
    pub append_records: usize,
    /// How many records are dropped in one step of a retention, so that appends get a turn between.
    pub retain_step: u32,
    /// Of the file `invocations.db`.
    pub database: DatabaseConfig,
}

impl Default for InvocationsConfig {
    fn default() -> Self {
        Self {
            append_records: 10_000,
            retain_step: 1_000,
            database: DatabaseConfig::default(),
        }
    }
}

/// Settings of one SQLite file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DatabaseConfig {
    /// How many writes may wait for the writer.
    pub write_queue: usize,
    /// How many writes that wait become one transaction.
    pub write_batch: usize,
    /// How many reads run at once.
    pub readers: usize,
    /// How long a read or write may wait for a place, in milliseconds.
    pub place_wait_ms: u64,
    /// How long SQLite waits for another program that has locked the file, in milliseconds.
    pub busy_wait_ms: u64,
    /// The page cache of each connection, in KiB.
    pub cache_kib: u32,
}

impl DatabaseConfig {
    pub(crate) const fn place_wait(&self) -> Duration {
        Duration::from_millis(self.place_wait_ms)
    }

    pub(crate) const fn busy_wait(&self) -> Duration {
        Duration::from_millis(self.busy_wait_ms)
    }
}

impl Default for DatabaseConfig {
    fn default() -> Self {
        Self {
            write_queue: 1024,
            write_batch: 256,
            readers: 4,
            place_wait_ms: 10_000,
            busy_wait_ms: 5_000,
            cache_kib: 2_048,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_embedder_writes_only_what_differs() {
        let config: LocalConfig =
            serde_json::from_str(r#"{"data_dir":"data","queue":{"message_bytes":10}}"#)
                .expect("a config");
        let mut expected = LocalConfig::new("data");
        expected.queue.message_bytes = 10;
        assert_eq!(config, expected);
        let wrong = serde_json::from_str::<LocalConfig>(r#"{"data_dir":"d","queues":{}}"#);
        assert!(
            wrong
                .expect_err("no such field")
                .to_string()
                .contains("queues")
        );
    }
}
