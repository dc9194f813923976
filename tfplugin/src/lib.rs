#![doc = include_str!("../README.md")]

mod diagnostics;
pub mod docs;
mod log;
mod operation;
mod path;
mod plan;
mod private;
mod proto;
mod provider;
mod schema;
mod server;
mod service;
pub mod timeouts;
mod transport;
mod ty;
mod value;

pub use crate::{
    diagnostics::{Diagnostic, Diagnostics},
    log::HclogLayer,
    operation::{Interrupt, Operation},
    path::{Path, Step},
    plan::Plan,
    private::Private,
    provider::{Action, DEFAULT_TIMEOUT, DataSource, Provider, Resource},
    schema::{Attribute, Kind, Schema},
    server::GRACE,
    transport::{ServeError, ServeOptions, serve},
    ty::Type,
    value::{DecodeError, InvalidNumber, Number, Unknown, Value},
};
pub use async_trait::async_trait;
