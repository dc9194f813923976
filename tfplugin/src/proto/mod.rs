//! The messages of plugin protocol 6.11, written from the published names and field numbers.
//!
//! Only what this crate serves is here. Fields that it neither reads nor writes, and fields that a
//! newer protocol brings, are skipped, as protocol buffers allow.

mod common;
mod plugin;
mod provider;
mod resource;
mod schema;

pub(crate) use self::{common::*, plugin::*, provider::*, resource::*, schema::*};
