//! What the console says, in each language. A text that one language lacks does not compile.

mod table;

pub(crate) use table::{ENGLISH, RUSSIAN, Texts};

/// A language of the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    English,
    Russian,
}

impl Language {
    pub(crate) const ALL: [Self; 2] = [Self::English, Self::Russian];

    /// The language of this ISO 639 code.
    pub(crate) fn of_code(code: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|language| language.code() == code)
    }

    /// Its code.
    pub(crate) const fn code(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Russian => "ru",
        }
    }

    /// Its name, in itself.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::English => "English",
            Self::Russian => "Русский",
        }
    }

    /// What is said in it.
    pub(crate) const fn texts(self) -> &'static Texts {
        match self {
            Self::English => &ENGLISH,
            Self::Russian => &RUSSIAN,
        }
    }
}
