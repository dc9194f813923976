//! One attribute and its properties.

use std::{fmt, sync::Arc};

use super::object;
use crate::{Type, Value};

/// Checks a known value; the error is a sentence.
pub(super) type Check = Arc<dyn Fn(&Value) -> Result<(), String> + Send + Sync>;

/// Whether two known values mean the same.
pub(super) type Same = Arc<dyn Fn(&Value, &Value) -> bool + Send + Sync>;

/// What an attribute holds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// A value of a type.
    Plain(Type),
    /// An object, each attribute of which has properties of its own.
    Single(Vec<Attribute>),
    /// A list of such objects.
    List(Vec<Attribute>),
    /// A map of such objects.
    Map(Vec<Attribute>),
}

/// What happens at a change to what only the provider can know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Stability {
    /// It may be another one after any change.
    #[default]
    Changes,
    /// It stays as long as the object does.
    Keeps,
    /// It stays unless one of these attributes changes.
    ChangesWith(Vec<&'static str>),
}

/// One attribute: its type and its properties, from which validation and plans follow.
///
/// ```
/// use tfplugin::Attribute;
///
/// let name = Attribute::string("name", "What it is called.").required().requires_replace();
/// let size = Attribute::number("size", "In bytes.").with_default(1024);
/// let url = Attribute::string("url", "Where it answers.").computed().changes_with(&["name"]);
/// # let _ = (name, size, url);
/// ```
#[derive(Clone)]
pub struct Attribute {
    pub(crate) name: String,
    pub(crate) docs: String,
    pub(crate) kind: Kind,
    pub(crate) required: bool,
    pub(crate) optional: bool,
    pub(crate) computed: bool,
    pub(crate) sensitive: bool,
    pub(crate) write_only: bool,
    pub(crate) deprecated: Option<String>,
    pub(crate) default: Option<Value>,
    pub(super) requires_replace: bool,
    pub(super) stability: Stability,
    pub(super) check: Option<Check>,
    pub(super) same: Option<Same>,
    /// What stands for "given, but not known to us", as after an import.
    pub(crate) stand_in: Option<Value>,
    pub(super) empty_is_absent: bool,
}

impl Attribute {
    /// An attribute of this kind. Its text is Markdown.
    pub fn new(name: &str, kind: Kind, docs: &str) -> Self {
        Self {
            name: name.to_owned(),
            docs: docs.to_owned(),
            kind,
            required: false,
            optional: false,
            computed: false,
            sensitive: false,
            write_only: false,
            deprecated: None,
            default: None,
            requires_replace: false,
            stability: Stability::default(),
            check: None,
            same: None,
            stand_in: None,
            empty_is_absent: false,
        }
    }

    /// A text.
    pub fn string(name: &str, docs: &str) -> Self {
        Self::new(name, Kind::Plain(Type::String), docs)
    }

    /// A truth value.
    pub fn bool(name: &str, docs: &str) -> Self {
        Self::new(name, Kind::Plain(Type::Bool), docs)
    }

    /// A number.
    pub fn number(name: &str, docs: &str) -> Self {
        Self::new(name, Kind::Plain(Type::Number), docs)
    }

    /// A map of values of one type.
    pub fn map_of(name: &str, item: Type, docs: &str) -> Self {
        Self::new(name, Kind::Plain(Type::map(item)), docs)
    }

    /// A list of values of one type.
    pub fn list_of(name: &str, item: Type, docs: &str) -> Self {
        Self::new(name, Kind::Plain(Type::list(item)), docs)
    }

    /// An object with attributes of its own.
    pub fn single(name: &str, attributes: Vec<Self>, docs: &str) -> Self {
        Self::new(name, Kind::Single(attributes), docs)
    }

    /// It must be given.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// It may be given.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// The provider fills it; with [`optional`](Self::optional), where it is not given.
    #[must_use]
    pub fn computed(mut self) -> Self {
        self.computed = true;
        self
    }

    /// It may be given, and is this where it is not.
    #[must_use]
    pub fn with_default(mut self, value: impl Into<Value>) -> Self {
        self.default = Some(value.into());
        self.optional = true;
        self.computed = true;
        self
    }

    /// Terraform never shows it.
    #[must_use]
    pub fn sensitive(mut self) -> Self {
        self.sensitive = true;
        self
    }

    /// It is handed to the provider and never stored, neither in a plan nor in a state.
    #[must_use]
    pub fn write_only(mut self) -> Self {
        self.write_only = true;
        self.optional = true;
        self
    }

    /// Who gives it is told this.
    #[must_use]
    pub fn deprecated(mut self, instead: &str) -> Self {
        self.deprecated = Some(instead.to_owned());
        self
    }

    /// Another value means another object.
    #[must_use]
    pub fn requires_replace(mut self) -> Self {
        self.requires_replace = true;
        self
    }

    /// Computed once: what the state says holds until the object is replaced.
    #[must_use]
    pub fn keeps_state(mut self) -> Self {
        self.stability = Stability::Keeps;
        self
    }

    /// Computed, and another one only where one of these attributes changes. Without this, any change
    /// of the object makes it unknown.
    #[must_use]
    pub fn changes_with(mut self, names: &[&'static str]) -> Self {
        self.stability = Stability::ChangesWith(names.to_vec());
        self
    }

    /// A check of a value that is given and known. Its error is a sentence, shown at the attribute.
    #[must_use]
    pub fn checked(
        mut self,
        check: impl Fn(&Value) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.check = Some(Arc::new(check));
        self
    }

    /// When two values mean the same, such as `60s` and `1m`: then there is no change, and what the
    /// state says stays.
    #[must_use]
    pub fn same_when(
        mut self,
        same: impl Fn(&Value, &Value) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.same = Some(Arc::new(same));
        self
    }

    /// For what only the provider reads, so that an import cannot know it: this value in a state says
    /// that it was given, but not to us. A plan that would change nothing else leaves it.
    ///
    /// Such an attribute is optional, and null where it is not given.
    #[must_use]
    pub fn with_stand_in(mut self, value: impl Into<Value>) -> Self {
        self.stand_in = Some(value.into());
        self.optional = true;
        self.computed = true;
        self
    }

    /// For a map or a list: where it is not given, a state in which it is empty is no difference.
    #[must_use]
    pub fn empty_is_absent(mut self) -> Self {
        self.empty_is_absent = true;
        self.optional = true;
        self.computed = true;
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is where it is not given; null where it has no default.
    pub fn default_value(&self) -> Value {
        self.default.clone().unwrap_or_default()
    }

    pub(super) const fn replaces(&self) -> bool {
        self.requires_replace
    }

    /// The type of its values.
    pub(crate) fn value_type(&self) -> Type {
        match &self.kind {
            Kind::Plain(kind) => kind.clone(),
            Kind::Single(attributes) => object(attributes),
            Kind::List(attributes) => Type::list(object(attributes)),
            Kind::Map(attributes) => Type::map(object(attributes)),
        }
    }

    /// Whether the provider fills it without being asked to keep anything.
    pub(super) fn is_filled_in(&self) -> bool {
        self.computed && self.default.is_none() && self.stand_in.is_none() && !self.empty_is_absent
    }

    /// Whether a state's value means what is given now.
    pub(super) fn is_same(&self, one: &Value, other: &Value) -> bool {
        let comparable = |value: &Value| !value.is_null() && value.is_wholly_known();
        one == other
            || self
                .same
                .as_ref()
                .is_some_and(|same| comparable(one) && comparable(other) && same(one, other))
    }
}

impl fmt::Debug for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attribute")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}
