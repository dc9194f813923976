//! Objects of Kubernetes out of YAML.

use std::{collections::BTreeMap, fmt};

use serde_json::Value;

/// What tells an object from all others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// Its kind.
    pub kind: String,
    /// Its namespace; empty where it has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// Why a text is no list of objects.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// It is no YAML.
    #[error("it is no YAML")]
    Yaml(#[from] serde_saphyr::Error),
    /// A document of it is no object.
    #[error("a document has no kind and name: {0}")]
    NoObject(String),
    /// Two documents are the same object.
    #[error("{0} is there twice")]
    Twice(Id),
}

/// Objects, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects(BTreeMap<Id, Value>);

impl Objects {
    /// The documents of this YAML.
    ///
    /// # Errors
    /// [`Unreadable`] where one of them is no object, or is there twice.
    pub fn read(text: &str) -> Result<Self, Unreadable> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(text)?;
        let mut objects = BTreeMap::new();
        for object in documents {
            let metadata = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
            let (Some(kind), Some(name)) = (object["kind"].as_str(), metadata("name")) else {
                return Err(Unreadable::NoObject(object.to_string()));
            };
            let id = Id {
                kind: kind.to_owned(),
                namespace: metadata("namespace").unwrap_or_default(),
                name,
            };
            if objects.insert(id.clone(), object).is_some() {
                return Err(Unreadable::Twice(id));
            }
        }
        Ok(Self(objects))
    }

    /// All of them, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (&Id, &Value)> {
        self.0.iter()
    }

    /// Those of a kind.
    pub fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        let of_kind = move |(id, _): &(&Id, &Value)| id.kind == kind;
        self.0.iter().filter(of_kind).map(|(_, object)| object)
    }

    /// The one of a kind and a name.
    pub fn find(&self, kind: &str, name: &str) -> Option<&Value> {
        self.of_kind(kind)
            .find(|object| object["metadata"]["name"] == name)
    }

    /// The same objects without what the two ways of installing do each in its own manner and which means
    /// the same in a cluster: labels that name the tool, the hash in the name of generated settings in the
    /// place of one in an annotation, and numbers that are written otherwise.
    #[must_use]
    pub fn normalized(&self) -> Self {
        let mut renamed = BTreeMap::new();
        // Nothing else is named by a hash of its content.
        for id in self.0.keys().filter(|id| id.kind == "ConfigMap") {
            if let Some((name, hash)) = id.name.rsplit_once('-')
                && hash.len() == 10
            {
                renamed.insert(id.name.clone(), name.to_owned());
            }
        }
        let objects = self.0.iter().map(|(id, object)| {
            let mut object = object.clone();
            normalize(&mut object, &renamed);
            let name = renamed.get(&id.name).unwrap_or(&id.name).clone();
            (Id { name, ..id.clone() }, object)
        });
        Self(objects.collect())
    }
}

/// Labels and annotations by which a tool knows its own.
const OF_A_TOOL: [&str; 4] = [
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "checksum/settings",
    "helm.sh/chart",
];

/// Below it, each whole number is one of 64 bits and of a float alike.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

fn normalize(value: &mut Value, renamed: &BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !OF_A_TOOL.contains(&name.as_str()));
            for field in fields.values_mut() {
                normalize(field, renamed);
            }
            // An empty map says the same as none.
            fields.retain(|name, field| {
                !(matches!(name.as_str(), "annotations" | "labels")
                    && field.as_object().is_some_and(serde_json::Map::is_empty))
            });
        }
        Value::Array(items) => {
            for item in items.iter_mut() {
                normalize(item, renamed);
            }
        }
        // 3600.0 is 3600.
        Value::Number(number) => {
            if let Some(whole) = number.as_f64().filter(|number| number.fract() == 0.0)
                && whole.abs() < WHOLE_MAX
            {
                *number = serde_json::Number::from(whole as i64);
            }
        }
        Value::String(text) => {
            if let Some(name) = renamed.get(text) {
                name.clone_into(text);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_objects_each_once() {
        let one = "kind: A\nmetadata: {name: x}\n";
        let objects = Objects::read(&format!(
            "---\n{one}---\n---\nkind: B\nmetadata: {{name: x}}\n"
        ));
        assert_eq!(objects.expect("two").iter().count(), 2);
        let twice = Objects::read(&format!("{one}---\n{one}")).expect_err("twice");
        assert!(matches!(twice, Unreadable::Twice(_)), "{twice}");
        let nameless = Objects::read("kind: A\n").expect_err("no name");
        assert!(matches!(nameless, Unreadable::NoObject(_)), "{nameless}");
    }

    #[test]
    fn what_means_the_same_is_the_same() {
        let kustomize = "kind: ConfigMap\nmetadata: {name: s-m9bg5kh45m}\n---\n\
                         kind: D\nmetadata: {name: d}\nspec: {from: s-m9bg5kh45m, most: 7}\n";
        let helm = "kind: ConfigMap\nmetadata: {name: s, labels: {helm.sh/chart: a}}\n---\n\
                    kind: D\nmetadata: {name: d, annotations: {checksum/settings: a}}\n\
                    spec: {from: s, most: 7.0}\n";
        let read = |text| Objects::read(text).expect("objects").normalized();
        assert_eq!(read(kustomize), read(helm));
        assert_ne!(read(kustomize), read(&helm.replace("from: s", "from: t")));
    }
}
