//! Parts of schemas that several kinds have in common, and how they are written down.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, JSONSchemaProps,
    JSONSchemaPropsOrArray, ValidationRule,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sless_core::NAME_MAX;

const LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// Rules in CEL, each with what is said where it does not hold.
pub(super) fn rules(rules: &[(&str, &str)]) -> Value {
    rules
        .iter()
        .map(|(rule, message)| json!({"rule": rule, "message": message}))
        .collect()
}

/// One DNS label.
pub(super) fn label(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "maxLength": NAME_MAX, "pattern": LABEL})
}

pub(super) fn optional_digest(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "nullable": true, "pattern": "^sha256:[0-9a-fA-F]{64}$"})
}

/// The quantities that `sless-core` knows: positive, without exponents, at most what 64 bits hold in
/// thousandths.
pub(super) fn optional_quantity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "nullable": true,
        "maxLength": 64,
        "pattern": r"^[0-9]+(\.[0-9]{1,9})?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$",
        "x-kubernetes-validations": rules(&[
            ("self.matches('[1-9]')", "the quantity is 0: expected a positive number"),
            ("quantity(self).compareTo(quantity('18446744073709551615m')) <= 0", "the quantity is too large"),
        ]),
    })
}

pub(super) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time"})
}

pub(super) fn optional_time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time", "nullable": true})
}

pub(super) fn times(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": {"type": "string", "format": "date-time"}, "nullable": true})
}

/// One thing that is so, or not so, or not known.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Condition {
    /// What it is about.
    r#type: String,
    /// `True`, `False` or `Unknown`.
    #[schemars(extend("enum" = ["True", "False", "Unknown"]))]
    status: String,
    /// A machine word.
    #[schemars(length(min = 1))]
    reason: String,
    /// A sentence.
    #[serde(default)]
    message: String,
    /// When `status` last changed.
    #[schemars(schema_with = "time")]
    last_transition_time: String,
}

/// Conditions, of which there is one of each type.
pub(super) fn conditions(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "nullable": true,
        "items": Condition::json_schema(generator),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}

/// A column of `kubectl get`: its name, its type, where it is, and whether only `-o wide` shows it.
pub(super) type Column = (&'static str, &'static str, &'static str, bool);

fn column(&(name, kind, path, wide): &Column) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        name: name.to_owned(),
        type_: kind.to_owned(),
        json_path: path.to_owned(),
        priority: wide.then_some(1),
        ..CustomResourceColumnDefinition::default()
    }
}

/// Adds what the derived definition lacks: the columns, and the rule for names, which stands at the root.
pub(super) fn complete(definition: &mut CustomResourceDefinition, columns: &[Column]) {
    for version in &mut definition.spec.versions {
        version.additional_printer_columns = Some(columns.iter().map(column).collect());
        let schema = version
            .schema
            .as_mut()
            .and_then(|schema| schema.open_api_v3_schema.as_mut());
        let Some(schema) = schema else { continue };
        // Kubernetes itself allows dots, and 253 characters.
        schema.x_kubernetes_validations = Some(vec![ValidationRule {
            rule: format!(
                "self.metadata.name.matches('{LABEL}') && size(self.metadata.name) <= {NAME_MAX}"
            ),
            message: Some(format!(
                "the name is not a DNS label: expected 1 to {NAME_MAX} characters of a-z, 0-9 and \"-\", beginning \
                 and ending with a letter or digit"
            )),
            ..ValidationRule::default()
        }]);
        optional(schema);
        if let Some(status) = schema
            .properties
            .as_mut()
            .and_then(|all| all.get_mut("status"))
        {
            status.nullable = None;
        }
    }
}

/// A property that may be null may be absent.
fn optional(schema: &mut JSONSchemaProps) {
    let properties = schema.properties.iter_mut().flatten();
    let mut nullable = Vec::new();
    for (name, property) in properties {
        optional(property);
        if property.nullable == Some(true) {
            nullable.push(name.clone());
        }
    }
    if let Some(required) = &mut schema.required {
        required.retain(|name| !nullable.contains(name));
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        optional(items);
    }
}

/// A manifest as YAML.
pub(super) fn yaml(value: &Value) -> String {
    format!(
        "# Generated from the types in sless-k8s/src/crd: cargo run -p sless-k8s --example crds\n{}",
        serde_saphyr::to_string(value).unwrap_or_default()
    )
}
