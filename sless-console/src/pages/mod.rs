//! Pages and their parts. All text goes through the template macro, which escapes it; nothing here
//! says that some text is markup already.

pub(crate) mod actions;
pub(crate) mod calls;
pub(crate) mod failure;
pub(crate) mod functions;
pub(crate) mod layout;
pub(crate) mod letters;
pub(crate) mod panel;
pub(crate) mod source;
pub(crate) mod triggers;
