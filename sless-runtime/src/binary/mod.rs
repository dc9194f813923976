//! The parts of the binary.

pub(crate) mod front;
pub(crate) mod log_tail;
pub(crate) mod logs;
pub(crate) mod once;
pub(crate) mod settings;
pub(crate) mod termination;
