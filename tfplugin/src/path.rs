//! Where in a configuration something is.

use std::fmt;

use crate::proto;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// To an attribute of an object.
    Attribute(String),
    /// To an item of a map.
    Key(String),
    /// To an item of a list.
    Index(i64),
}

/// Where in a configuration something is, so that Terraform shows the line of it.
///
/// ```
/// use tfplugin::Path;
/// assert_eq!(Path::from("timeouts.create").to_string(), "timeouts.create");
/// assert_eq!(Path::from("env").key("HOME").to_string(), r#"env["HOME"]"#);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(Vec<Step>);

impl Path {
    /// The whole.
    pub const ROOT: Self = Self(Vec::new());

    /// An attribute below.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Self {
        self.step(Step::Attribute(name.to_owned()))
    }

    /// An item of a map below.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.step(Step::Key(key.to_owned()))
    }

    /// An item of a list below.
    #[must_use]
    pub fn index(&self, at: usize) -> Self {
        self.step(Step::Index(i64::try_from(at).unwrap_or(i64::MAX)))
    }

    fn step(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    /// The steps, outermost first.
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    /// The name of the last attribute on the way.
    pub fn name(&self) -> &str {
        let names = self.0.iter().rev().filter_map(|step| match step {
            Step::Attribute(name) => Some(name.as_str()),
            _ => None,
        });
        names.into_iter().next().unwrap_or_default()
    }

    pub(crate) fn to_wire(&self) -> proto::AttributePath {
        use proto::Selector;
        let steps = self.0.iter().map(|step| proto::PathStep {
            selector: Some(match step {
                Step::Attribute(name) => Selector::AttributeName(name.clone()),
                Step::Key(key) => Selector::ElementKeyString(key.clone()),
                Step::Index(at) => Selector::ElementKeyInt(*at),
            }),
        });
        proto::AttributePath {
            steps: steps.collect(),
        }
    }
}

impl From<&str> for Path {
    /// Attributes with dots between.
    fn from(text: &str) -> Self {
        let names = text.split('.').filter(|name| !name.is_empty());
        Self(names.map(|name| Step::Attribute(name.to_owned())).collect())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            match step {
                Step::Attribute(name) if at == 0 => f.write_str(name)?,
                Step::Attribute(name) => write!(f, ".{name}")?,
                Step::Key(key) => write!(f, "[{key:?}]")?,
                Step::Index(at) => write!(f, "[{at}]")?,
            }
        }
        Ok(())
    }
}
