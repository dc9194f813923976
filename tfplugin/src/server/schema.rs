//! What there is, and whether a configuration fits it.

use super::{Answer, Server, received};
use crate::{Diagnostics, proto};

impl Server {
    fn capabilities() -> Option<proto::ServerCapabilities> {
        Some(proto::ServerCapabilities {
            get_provider_schema_optional: true,
            ..proto::ServerCapabilities::default()
        })
    }

    pub(crate) fn metadata(&self) -> proto::MetadataResponse {
        let names = |name: &String| proto::TypeName {
            type_name: name.clone(),
        };
        proto::MetadataResponse {
            server_capabilities: Self::capabilities(),
            data_sources: self.data_sources.keys().map(names).collect(),
            resources: self.resources.keys().map(names).collect(),
            ..proto::MetadataResponse::default()
        }
    }

    pub(crate) fn schemas(&self) -> proto::SchemaResponse {
        let resources = self.resources.iter();
        let data_sources = self.data_sources.iter();
        proto::SchemaResponse {
            provider: Some(self.schema.to_wire()),
            resource_schemas: resources
                .map(|(name, known)| (name.clone(), known.schema.to_wire()))
                .collect(),
            data_source_schemas: data_sources
                .map(|(name, known)| (name.clone(), known.schema.to_wire()))
                .collect(),
            server_capabilities: Self::capabilities(),
            ..proto::SchemaResponse::default()
        }
    }

    pub(crate) fn validate_provider(
        &self,
        request: proto::ValidateProviderRequest,
    ) -> proto::ValidateProviderResponse {
        let mut found = Diagnostics::default();
        let config = received(request.config, &self.schema.value_type(), &mut found);
        self.schema.validate(&config, &mut found);
        proto::ValidateProviderResponse {
            diagnostics: found.into_wire(),
        }
    }

    pub(crate) fn validate_resource(
        &self,
        request: proto::ValidateConfigRequest,
    ) -> Answer<proto::DiagnosticsResponse> {
        let known = self.resource(&request.type_name)?;
        let mut found = Diagnostics::default();
        let config = received(request.config, &known.kind, &mut found);
        let may_write_only = request
            .client_capabilities
            .is_some_and(|client| client.write_only_attributes_allowed);
        if !may_write_only {
            for attribute in known
                .schema
                .attributes()
                .iter()
                .filter(|one| one.write_only)
            {
                if !config.at(attribute.name()).is_null() {
                    found.error_at(
                        attribute.name(),
                        "Terraform is too old for a write-only attribute",
                        format!("`{}` needs Terraform 1.11 or later.", attribute.name()),
                    );
                }
            }
        }
        known.schema.validate(&config, &mut found);
        if !found.has_error() {
            known.does.validate(&config, &mut found);
        }
        Ok(proto::DiagnosticsResponse {
            diagnostics: found.into_wire(),
        })
    }

    pub(crate) fn validate_data(
        &self,
        request: proto::ValidateConfigRequest,
    ) -> Answer<proto::DiagnosticsResponse> {
        let known = self.data_source(&request.type_name)?;
        let mut found = Diagnostics::default();
        let config = received(request.config, &known.kind, &mut found);
        known.schema.validate(&config, &mut found);
        Ok(proto::DiagnosticsResponse {
            diagnostics: found.into_wire(),
        })
    }
}
