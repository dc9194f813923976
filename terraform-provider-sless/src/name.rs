//! Names, by the rule that the server has.

use tfplugin::{Attribute, Value};

/// The attribute `name` of a thing.
pub(crate) fn attribute(thing: &str) -> Attribute {
    let docs = format!(
        "The name of the {thing}, unique among those of its namespace: a DNS label of at most 63 characters."
    );
    Attribute::string("name", &docs)
        .required()
        .requires_replace()
        .checked(check)
}

/// Whether a value is a name.
pub(crate) fn check(value: &Value) -> Result<(), String> {
    let name = sless_core::Name::new(value.as_str().unwrap_or_default());
    name.map(drop).map_err(|error| error.message().to_owned())
}

/// What every resource says of itself.
pub(crate) fn computed(thing: &str) -> Vec<Attribute> {
    vec![
        Attribute::string("id", &format!("The name of the {thing}."))
            .computed()
            .changes_with(&["name"]),
        Attribute::string("namespace", "The namespace, which follows from the token.")
            .computed()
            .keeps_state(),
    ]
}
