//! A schema as the protocol writes it.

use super::{Attribute, Kind, Schema};
use crate::proto::{StringKind, WireAttribute, WireBlock, WireNesting, WireObject, WireSchema};

impl Schema {
    pub(crate) fn to_wire(&self) -> WireSchema {
        WireSchema {
            version: self.version,
            block: Some(WireBlock {
                version: self.version,
                attributes: self.attributes.iter().map(Attribute::to_wire).collect(),
                description: self.docs.clone(),
                description_kind: StringKind::Markdown.into(),
                ..WireBlock::default()
            }),
        }
    }
}

impl Attribute {
    fn to_wire(&self) -> WireAttribute {
        let nested = |attributes: &[Self], nesting: WireNesting| WireObject {
            attributes: attributes.iter().map(Self::to_wire).collect(),
            nesting: nesting.into(),
        };
        let nested_type = match &self.kind {
            Kind::Plain(_) => None,
            Kind::Single(attributes) => Some(nested(attributes, WireNesting::Single)),
            Kind::List(attributes) => Some(nested(attributes, WireNesting::List)),
            Kind::Map(attributes) => Some(nested(attributes, WireNesting::Map)),
        };
        let type_json = match &self.kind {
            Kind::Plain(kind) => kind.to_json().to_string().into_bytes(),
            _ => Vec::new(),
        };
        WireAttribute {
            name: self.name.clone(),
            type_json,
            description: self.docs.clone(),
            required: self.required,
            optional: self.optional,
            computed: self.computed,
            sensitive: self.sensitive,
            description_kind: StringKind::Markdown.into(),
            deprecated: self.deprecated.is_some(),
            nested_type,
            write_only: self.write_only,
            deprecation_message: self.deprecated.clone().unwrap_or_default(),
        }
    }
}
