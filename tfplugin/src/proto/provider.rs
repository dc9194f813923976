//! Requests about the provider itself and about data sources.

use std::collections::HashMap;

use prost::Message;

use super::{ClientCapabilities, Diagnostic, DynamicValue, ServerCapabilities, WireSchema};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TypeName {
    #[prost(string, tag = "1")]
    pub(crate) type_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MetadataResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) server_capabilities: Option<ServerCapabilities>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) diagnostics: Vec<Diagnostic>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) data_sources: Vec<TypeName>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) resources: Vec<TypeName>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SchemaResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) provider: Option<WireSchema>,
    #[prost(map = "string, message", tag = "2")]
    pub(crate) resource_schemas: HashMap<String, WireSchema>,
    #[prost(map = "string, message", tag = "3")]
    pub(crate) data_source_schemas: HashMap<String, WireSchema>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) diagnostics: Vec<Diagnostic>,
    #[prost(message, optional, tag = "6")]
    pub(crate) server_capabilities: Option<ServerCapabilities>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ValidateProviderRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) config: Option<DynamicValue>,
}

/// The answer to validation of a provider: its field has number 2, where the others have 1.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ValidateProviderResponse {
    #[prost(message, repeated, tag = "2")]
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// The answer to everything that answers with diagnostics only.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct DiagnosticsResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) diagnostics: Vec<Diagnostic>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ConfigureRequest {
    #[prost(string, tag = "1")]
    pub(crate) terraform_version: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) config: Option<DynamicValue>,
    #[prost(message, optional, tag = "3")]
    pub(crate) client_capabilities: Option<ClientCapabilities>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ReadDataRequest {
    #[prost(string, tag = "1")]
    pub(crate) type_name: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) config: Option<DynamicValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ReadDataResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) state: Option<DynamicValue>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) diagnostics: Vec<Diagnostic>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StopResponse {
    /// Filled where stopping failed.
    #[prost(string, tag = "1")]
    pub(crate) error: String,
}
