//! The typed client: one method per route.
//!
//! A call that only reads, that removes, or that ensures is made again, a bounded number of times,
//! when no answer came or when the answer says "later" (429, 502, 503, 504). Every other call is
//! made once, since a lost answer does not tell whether it took effect. A `DELETE` whose first
//! answer was lost may therefore answer with 404: what was to go is gone.
//!
//! ```no_run
//! use sless_api::{CreateFunction, client::{Client, ClientConfig, Content}};
//!
//! # async fn run() -> Result<(), sless_api::client::ClientError> {
//! let client = Client::new(ClientConfig::new("http://127.0.0.1:8080").with_token("…"))?;
//! client.ensure_namespace("sless-0123456789abcdef").await?;
//! let function = CreateFunction {
//!     name: "hello".into(),
//!     runtime: "python3.11".into(),
//!     ..CreateFunction::default()
//! };
//! client.create_function("sless-0123456789abcdef", &function).await?;
//! let zip = Content::file("hello.zip").await?;
//! client.upload("sless-0123456789abcdef", "hello", zip).await?;
//! # Ok(())
//! # }
//! ```

mod config;
mod content;
mod error;
mod functions;
mod invoke;
mod jobs;
mod operations;
mod transport;
mod triggers;

pub use config::ClientConfig;
pub use content::{ByteStream, Bytes, Content};
pub use error::{ApiError, ClientError};
pub use functions::LogLines;
pub use invoke::{Call, CallAnswer};
pub use operations::Readiness;
pub use transport::Client;

/// A result whose error is [`ClientError`].
pub type Result<T, E = ClientError> = std::result::Result<T, E>;
