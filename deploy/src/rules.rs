//! What a role may do, one right at a time.

use std::{collections::BTreeSet, fmt};

use serde_json::Value;

/// One verb on one resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// The group of the API; empty for the core.
    pub group: String,
    /// The resource, with its subresource.
    pub resource: String,
    /// The verb.
    pub verb: String,
    /// The one object that it is about; all where absent.
    pub of: Option<String>,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        match &self.of {
            Some(name) => write!(f, "/{name}"),
            None => Ok(()),
        }
    }
}

/// The rights of a Role or a ClusterRole. A rule without a resource, such as one for a path, is a right on
/// the resource `?`, so that nothing is overlooked.
pub fn rights_of(role: &Value) -> BTreeSet<Right> {
    let rules = role["rules"].as_array();
    let mut rights = BTreeSet::new();
    for rule in rules.into_iter().flatten() {
        let names = texts(&rule["resourceNames"]);
        let names: Vec<_> = if names.is_empty() {
            vec![None]
        } else {
            names.into_iter().map(Some).collect()
        };
        for group in or_unknown(texts(&rule["apiGroups"])) {
            for resource in or_unknown(texts(&rule["resources"])) {
                for verb in or_unknown(texts(&rule["verbs"])) {
                    rights.extend(names.iter().map(|of| Right {
                        group: group.clone(),
                        resource: resource.clone(),
                        verb: verb.clone(),
                        of: of.clone(),
                    }));
                }
            }
        }
    }
    rights
}

fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items
        .filter_map(|item| item.as_str().map(str::to_owned))
        .collect()
}

fn or_unknown(texts: Vec<String>) -> Vec<String> {
    if texts.is_empty() {
        vec!["?".to_owned()]
    } else {
        texts
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_are_taken_apart() {
        let role = json!({"rules": [
            {"apiGroups": ["", "apps"], "resources": ["a", "b/log"], "verbs": ["get"]},
            {"apiGroups": ["x"], "resources": ["l"], "verbs": ["update"], "resourceNames": ["n"]},
            {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        ]});
        let told: Vec<_> = rights_of(&role).iter().map(Right::to_string).collect();
        let expected = [
            "get a",
            "get b/log",
            "get ?.?",
            "get a.apps",
            "get b/log.apps",
            "update l.x/n",
        ];
        assert_eq!(told, expected);
    }
}
