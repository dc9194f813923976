//! What is sent to a model. Fields are written in the order in which they stand here: servers that
//! constrain the answer by the schema keep to that order too.

use serde::Serialize;

/// How the answer's form is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// By a schema.
    Schema,
    /// Any JSON object.
    Json,
    /// By the prompt alone.
    Text,
}

/// What the server is spoken to with; it is found out by what it refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dialect {
    pub(super) format: Format,
    /// `max_completion_tokens` in the place of `max_tokens`.
    pub(super) completion_tokens: bool,
    pub(super) temperature: bool,
}

impl Default for Dialect {
    fn default() -> Self {
        Self {
            format: Format::Schema,
            completion_tokens: false,
            temperature: true,
        }
    }
}

impl Dialect {
    /// What to try after status 400 or 422 with this text; `None` where nothing is left.
    pub(super) fn after_refusal(self, said: &str) -> Option<Self> {
        let said = said.to_lowercase();
        if said.contains("max_tokens") && !self.completion_tokens {
            return Some(Self {
                completion_tokens: true,
                ..self
            });
        }
        if said.contains("temperature") && self.temperature {
            return Some(Self {
                temperature: false,
                ..self
            });
        }
        // A server that says nothing of use is tried with less, too.
        let format = match self.format {
            Format::Schema => Format::Json,
            Format::Json => Format::Text,
            Format::Text => return None,
        };
        Some(Self { format, ..self })
    }
}

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    messages: [Message<'a>; 2],
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat>,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: &'a str,
}

#[derive(Serialize)]
struct ResponseFormat {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    json_schema: Option<NamedSchema>,
}

#[derive(Serialize)]
struct NamedSchema {
    name: &'static str,
    schema: Schema,
}

#[derive(Serialize)]
struct Schema {
    r#type: &'static str,
    properties: Properties,
    required: Vec<&'static str>,
    #[serde(rename = "additionalProperties")]
    additional_properties: bool,
}

#[derive(Serialize)]
struct Properties {
    safe: Property,
    reason: Property,
    canary: Property,
}

#[derive(Serialize)]
struct Property {
    r#type: &'static str,
    #[serde(rename = "maxLength", skip_serializing_if = "Option::is_none")]
    max_length: Option<usize>,
}

/// The longest reason that the schema allows, in characters. Without a bound, small models do not end.
pub(super) const SCHEMA_REASON_CHARS: usize = 400;
const SCHEMA_CANARY_CHARS: usize = 32;

fn response_format(format: Format, demand_canary: bool) -> Option<ResponseFormat> {
    let text = |most| Property {
        r#type: "string",
        max_length: Some(most),
    };
    match format {
        Format::Text => None,
        Format::Json => Some(ResponseFormat {
            r#type: "json_object",
            json_schema: None,
        }),
        Format::Schema => Some(ResponseFormat {
            r#type: "json_schema",
            json_schema: Some(NamedSchema {
                name: "verdict",
                schema: Schema {
                    r#type: "object",
                    properties: Properties {
                        safe: Property {
                            r#type: "boolean",
                            max_length: None,
                        },
                        reason: text(SCHEMA_REASON_CHARS),
                        canary: text(SCHEMA_CANARY_CHARS),
                    },
                    required: if demand_canary {
                        vec!["safe", "reason", "canary"]
                    } else {
                        vec!["safe"]
                    },
                    additional_properties: false,
                },
            }),
        }),
    }
}

/// The body of a request.
pub(super) fn body(
    (system, user): (&str, &str),
    model: &str,
    max_tokens: u32,
    demand_canary: bool,
    dialect: Dialect,
) -> String {
    let tokens = Some(max_tokens);
    let request = Request {
        model,
        messages: [
            Message {
                role: "system",
                content: system,
            },
            Message {
                role: "user",
                content: user,
            },
        ],
        stream: false,
        temperature: dialect.temperature.then_some(0),
        max_tokens: tokens.filter(|_| !dialect.completion_tokens),
        max_completion_tokens: tokens.filter(|_| dialect.completion_tokens),
        response_format: response_format(dialect.format, demand_canary),
    };
    serde_json::to_string(&request).unwrap_or_default()
}
