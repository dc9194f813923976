//! What a provider is made of.

use std::{fmt::Debug, sync::Arc, time::Duration};

use async_trait::async_trait;

use crate::{Diagnostics, Operation, Plan, Schema, Value};

/// How long an operation may take where neither the resource nor its user says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(20 * 60);

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// It is looked at.
    Read,
    /// It is made.
    Create,
    /// It is changed in place.
    Update,
    /// It is removed.
    Delete,
    /// It is taken over.
    Import,
}

impl Action {
    /// Its name in `timeouts`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Import => "import",
        }
    }
}

/// A provider.
#[async_trait]
pub trait Provider: Debug + Send + Sync + 'static {
    /// Its own attributes.
    fn schema(&self) -> Schema;

    /// Its resources: the name of each type, and what does it.
    fn resources(&self) -> Vec<(String, Arc<dyn Resource>)>;

    /// Its data sources.
    fn data_sources(&self) -> Vec<(String, Arc<dyn DataSource>)>;

    /// Takes its configuration. Values that come from objects which do not exist yet are unknown
    /// while a plan is made. Called once per process, before anything below.
    async fn configure(&self, config: &Value, diagnostics: &mut Diagnostics);
}

/// A type of objects that Terraform makes, changes and removes.
///
/// An operation tells its outcome through [`Operation::save`], at any time and as often as it likes;
/// what was saved last is the state, also where the operation panics, is stopped or takes too long.
/// An operation that fails tells one error.
///
/// Where Terraform asks to stop, [`Operation::interrupted`] ends; an operation is dropped only where
/// it goes on past its deadline for longer than [`GRACE`](crate::GRACE).
#[async_trait]
pub trait Resource: Debug + Send + Sync + 'static {
    /// Its attributes.
    fn schema(&self) -> Schema;

    /// Checks that go beyond one attribute, on a configuration whose attributes are each fine. Values
    /// may be unknown.
    fn validate(&self, config: &Value, diagnostics: &mut Diagnostics);

    /// Has its say in a plan; not called where an object is to be removed.
    async fn plan(&self, plan: &mut Plan);

    /// Makes the object. `planned` holds unknowns where the provider fills in; `config` is what is
    /// written, with the values that are never stored.
    async fn create(&self, operation: &Operation, planned: Value, config: Value);

    /// Looks at the object, and saves what it is, or null where it is gone. Nothing saved leaves the
    /// state as it is.
    async fn read(&self, operation: &Operation, state: Value);

    /// Changes the object in place.
    async fn update(&self, operation: &Operation, prior: Value, planned: Value, config: Value);

    /// Removes the object, and saves null.
    async fn delete(&self, operation: &Operation, prior: Value);

    /// Finds the object that a user names by this text, and saves as much as a read needs. A read
    /// follows.
    async fn import(&self, operation: &Operation, id: &str);

    /// How long an operation may take, given what is planned or, where it is removed, stored.
    fn timeout(&self, action: Action, value: &Value) -> Duration;

    /// A state that an earlier version of the schema stored, as one of this version. The state holds
    /// what both versions have; `raw` is what was stored, as JSON.
    ///
    /// # Errors
    /// A sentence.
    fn upgrade(&self, from: i64, state: Value, raw: &serde_json::Value) -> Result<Value, String>;
}

/// A type of objects that Terraform looks at.
#[async_trait]
pub trait DataSource: Debug + Send + Sync + 'static {
    /// Its attributes.
    fn schema(&self) -> Schema;

    /// Looks, and saves what it sees.
    async fn read(&self, operation: &Operation, config: Value);
}
