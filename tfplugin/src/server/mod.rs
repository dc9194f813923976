//! The requests of the protocol, answered by a provider.

mod apply;
mod guard;
mod plan;
mod read;
mod schema;

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::{
    DataSource, Diagnostics, Provider, Resource, Schema, Type, Value, proto,
    value::{Extra, from_json, from_msgpack, to_msgpack},
};

pub use self::guard::GRACE;

/// A provider that answers the requests of the protocol.
#[derive(Debug)]
pub(crate) struct Server {
    provider: Arc<dyn Provider>,
    schema: Schema,
    resources: BTreeMap<String, Known<dyn Resource>>,
    data_sources: BTreeMap<String, Known<dyn DataSource>>,
    /// Ends when Terraform asks to stop.
    stop: CancellationToken,
}

/// A resource or a data source with its schema, made once.
#[derive(Debug)]
struct Known<T: ?Sized> {
    does: Arc<T>,
    schema: Schema,
    kind: Type,
}

type Answer<T> = Result<T, Status>;

impl Server {
    pub(crate) fn new(provider: Arc<dyn Provider>, stop: CancellationToken) -> Self {
        let resources = provider.resources().into_iter().map(|(name, does)| {
            let schema = does.schema();
            let kind = schema.value_type();
            (name, Known { does, schema, kind })
        });
        let data_sources = provider.data_sources().into_iter().map(|(name, does)| {
            let schema = does.schema();
            let kind = schema.value_type();
            (name, Known { does, schema, kind })
        });
        Self {
            schema: provider.schema(),
            resources: resources.collect(),
            data_sources: data_sources.collect(),
            stop,
            provider,
        }
    }

    fn resource(&self, name: &str) -> Answer<&Known<dyn Resource>> {
        let known = self.resources.get(name);
        known.ok_or_else(|| Status::invalid_argument(format!("no resource type {name}")))
    }

    fn data_source(&self, name: &str) -> Answer<&Known<dyn DataSource>> {
        let known = self.data_sources.get(name);
        known.ok_or_else(|| Status::invalid_argument(format!("no data source {name}")))
    }

    /// Asks all operations to end.
    pub(crate) fn stop(&self) -> proto::StopResponse {
        self.stop.cancel();
        proto::StopResponse::default()
    }
}

/// Reads a value that Terraform sent. One that cannot be read is told, and is null.
fn received(value: Option<proto::DynamicValue>, kind: &Type, found: &mut Diagnostics) -> Value {
    let value = value.unwrap_or_default();
    let read = if value.msgpack.is_empty() && !value.json.is_empty() {
        from_json(&value.json, kind, Extra::Refuse)
    } else {
        from_msgpack(&value.msgpack, kind)
    };
    read.unwrap_or_else(|error| {
        found.error(
            "Terraform sent a value that cannot be read",
            error.to_string(),
        );
        Value::Null
    })
}

fn sent(value: &Value, kind: &Type) -> Option<proto::DynamicValue> {
    Some(proto::DynamicValue {
        msgpack: to_msgpack(value, kind),
        json: Vec::new(),
    })
}
