//! A provider that keeps objects as files, for tests of `tfplugin` with the real Terraform. The content
//! of an object says how it misbehaves: `PANIC`, `FAIL`, `SLOW`, `WARN`, `SILENT`.

use std::{
    fs, io,
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, RwLock},
    time::Duration,
};

use tfplugin::{
    Action, Attribute, DataSource, Diagnostics, HclogLayer, Interrupt, Operation, Plan, Provider,
    Resource, Schema, ServeOptions, Value, async_trait, serve,
};
use tracing_subscriber::prelude::*;

/// How long a slow object takes.
const SLOW: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let layer = HclogLayer::new("files", |name| std::env::var(name).ok());
    tracing_subscriber::registry().with(layer).init();
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let served = runtime
        .map_err(|error| error.to_string())
        .and_then(|runtime| {
            let provider = Arc::new(Files::default());
            let served = runtime.block_on(serve(provider, &ServeOptions::from_env()));
            served.map_err(|error| error.to_string())
        });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug, Default)]
struct Files {
    folder: Folder,
}

type Folder = Arc<RwLock<PathBuf>>;

#[async_trait]
impl Provider for Files {
    fn schema(&self) -> Schema {
        Schema::new(
            "Files.",
            vec![Attribute::string("folder", "Where they are.").required()],
        )
    }

    fn resources(&self) -> Vec<(String, Arc<dyn Resource>)> {
        vec![(
            "files_object".to_owned(),
            Arc::new(Object(self.folder.clone())),
        )]
    }

    fn data_sources(&self) -> Vec<(String, Arc<dyn DataSource>)> {
        vec![(
            "files_object".to_owned(),
            Arc::new(Look(self.folder.clone())),
        )]
    }

    async fn configure(&self, config: &Value, found: &mut Diagnostics) {
        let Some(folder) = config.at("folder").as_str() else {
            return;
        };
        if let Err(error) = fs::create_dir_all(folder) {
            return found.error_at("folder", "The folder cannot be made", error.to_string());
        }
        if let Ok(mut kept) = self.folder.write() {
            *kept = folder.into();
        }
    }
}

fn path(folder: &Folder, id: &str) -> PathBuf {
    let folder = folder
        .read()
        .map(|folder| folder.clone())
        .unwrap_or_default();
    folder.join(format!("{id}.json"))
}

fn load(folder: &Folder, id: &str) -> io::Result<Option<serde_json::Value>> {
    match fs::read(path(folder, id)) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

const STORED: [&str; 4] = ["name", "content", "enabled", "run_id"];

fn put(state: &mut Value, stored: &serde_json::Value) {
    for field in STORED {
        state.put(
            field,
            match &stored[field] {
                serde_json::Value::Bool(value) => Value::Bool(*value),
                serde_json::Value::String(text) => text.as_str().into(),
                _ => Value::Null,
            },
        );
    }
    state.put("revision", stored["revision"].as_i64());
}

#[derive(Debug)]
struct Object(Folder);

impl Object {
    fn store(&self, id: &str, wanted: &Value, revision: i64) -> io::Result<()> {
        let mut stored = serde_json::Map::new();
        for field in STORED {
            let value = match wanted.at(field) {
                Value::Bool(value) => (*value).into(),
                Value::String(text) => text.as_str().into(),
                _ => serde_json::Value::Null,
            };
            stored.insert(field.to_owned(), value);
        }
        stored.insert("revision".to_owned(), revision.into());
        fs::write(
            path(&self.0, id),
            serde_json::Value::Object(stored).to_string(),
        )
    }

    async fn misbehave(operation: &Operation, content: Option<&str>) {
        match content {
            Some("PANIC") => panic!("boom"),
            Some("FAIL") => {
                operation.error_at("content", "Waiting failed", "It never became ready.")
            }
            Some("WARN") => operation.warning("Careful", "It said WARN."),
            Some("SLOW") => match operation.pause(SLOW).await {
                Ok(()) => {}
                Err(Interrupt::Stopped) => operation.error("Interrupted", "The object exists."),
                Err(_) => operation.error("Timed out", "The object exists; last seen: SLOW."),
            },
            _ => {}
        }
    }
}

#[async_trait]
impl Resource for Object {
    fn schema(&self) -> Schema {
        let not_empty = |value: &Value| match value.as_str() {
            Some("") => Err("Expected a name.".to_owned()),
            _ => Ok(()),
        };
        Schema::new(
            "An object.",
            vec![
                Attribute::string("id", "Its id.").computed().keeps_state(),
                Attribute::string("name", "Its name.")
                    .required()
                    .checked(not_empty),
                Attribute::string("content", "What it holds.").optional(),
                Attribute::bool("enabled", "Whether.").with_default(true),
                Attribute::string("run_id", "Another one replaces it.")
                    .optional()
                    .requires_replace(),
                Attribute::string("secret", "Not shown.")
                    .optional()
                    .sensitive(),
                Attribute::string("secret_wo", "Not stored.").write_only(),
                Attribute::string("old", "Old.")
                    .optional()
                    .deprecated("Use `content`."),
                Attribute::number("weight", "A number.").optional(),
                Attribute::number("revision", "Counts changes.").computed(),
                tfplugin::timeouts::attribute(
                    &[Action::Create, Action::Delete],
                    tfplugin::DEFAULT_TIMEOUT,
                ),
            ],
        )
    }

    fn validate(&self, _: &Value, _: &mut Diagnostics) {}

    async fn plan(&self, _: &mut Plan) {}

    async fn create(&self, operation: &Operation, mut planned: Value, config: Value) {
        let name = planned.at("name").as_str().unwrap_or_default();
        let id = format!("{name}-{:x}", std::process::id());
        if let Err(error) = self.store(&id, &planned, 1) {
            return operation.error("The object cannot be written", error.to_string());
        }
        let content = planned.at("content").as_str().map(str::to_owned);
        if content.as_deref() == Some("SILENT") {
            return;
        }
        planned.put("id", id.as_str());
        planned.put("revision", 1);
        operation.save(&planned);
        let length = config.at("secret_wo").as_str().map_or(0, str::len);
        operation.change_private(|private| private.write("secret_wo", length.to_string()));
        tracing::info!(id, "created");
        Self::misbehave(operation, content.as_deref()).await;
    }

    async fn read(&self, operation: &Operation, mut state: Value) {
        match load(&self.0, state.at("id").as_str().unwrap_or_default()) {
            Ok(Some(stored)) => {
                put(&mut state, &stored);
                operation.save(&state);
            }
            Ok(None) => operation.save(&Value::Null),
            Err(error) => operation.error("The object cannot be read", error.to_string()),
        }
    }

    async fn update(&self, operation: &Operation, prior: Value, mut planned: Value, _: Value) {
        let id = prior.at("id").as_str().unwrap_or_default();
        let revision = prior.at("revision").as_i64().unwrap_or_default() + 1;
        if let Err(error) = self.store(id, &planned, revision) {
            return operation.error("The object cannot be written", error.to_string());
        }
        planned.put("revision", revision);
        operation.save(&planned);
    }

    async fn delete(&self, operation: &Operation, prior: Value) {
        if std::env::var_os("FILES_FAIL_DELETE").is_some() {
            return operation.error("The object cannot be removed", "The store said 503.");
        }
        if std::env::var_os("FILES_SILENT_DELETE").is_some() {
            return;
        }
        match fs::remove_file(path(&self.0, prior.at("id").as_str().unwrap_or_default())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                operation.error("The object cannot be removed", error.to_string());
            }
            _ => operation.save(&Value::Null),
        }
    }

    async fn import(&self, operation: &Operation, id: &str) {
        match load(&self.0, id) {
            Ok(Some(_)) => {
                let timeouts =
                    Value::from_iter(["create", "delete"].map(|name| (name, Value::Null)));
                operation.save(&Value::from_iter([
                    ("id", id.into()),
                    ("timeouts", timeouts),
                ]));
            }
            Ok(None) => operation.error("Not found", format!("There is no object {id}.")),
            Err(error) => operation.error("The object cannot be read", error.to_string()),
        }
    }

    fn timeout(&self, action: Action, value: &Value) -> Duration {
        tfplugin::timeouts::of(value, action).unwrap_or(tfplugin::DEFAULT_TIMEOUT)
    }

    fn upgrade(&self, _: i64, state: Value, _: &serde_json::Value) -> Result<Value, String> {
        Ok(state)
    }
}

#[derive(Debug)]
struct Look(Folder);

#[async_trait]
impl DataSource for Look {
    fn schema(&self) -> Schema {
        Schema::new(
            "An object.",
            vec![
                Attribute::string("id", "Its id.").required(),
                Attribute::string("content", "What it holds.").computed(),
            ],
        )
    }

    async fn read(&self, operation: &Operation, mut config: Value) {
        match load(&self.0, config.at("id").as_str().unwrap_or_default()) {
            Ok(Some(stored)) => {
                config.put("content", stored["content"].as_str());
                operation.save(&config);
            }
            _ => operation.error_at("id", "Not found", "There is no such object."),
        }
    }
}
