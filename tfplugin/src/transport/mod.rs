//! How Terraform starts a plugin and talks to it.

mod connection;
mod handshake;
mod parent;
mod tls;

use std::{io, sync::Arc};

use tokio_util::sync::CancellationToken;
use tonic::transport::Server as Transport;

use crate::{
    Provider,
    server::Server,
    service::{ControllerService, ProviderService, StdioService},
};
use connection::Listener;
use handshake::Handshake;

/// Why a plugin could not be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Somebody started the program who is not Terraform.
    #[error(
        "this program is a Terraform provider: Terraform starts it by itself, see \
         https://developer.hashicorp.com/terraform/language/providers"
    )]
    NotTerraform,
    /// Terraform does not speak version 6 of the plugin protocol.
    #[error("this provider speaks plugin protocol 6, and Terraform offers {offered}")]
    Protocol {
        /// What it offers.
        offered: String,
    },
    /// The certificate that Terraform gave, or ours, cannot be used.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
    /// The socket cannot be made.
    #[error("cannot listen on a socket")]
    Socket(#[source] io::Error),
    /// Serving ended with an error.
    #[error("serving ended")]
    Transport(#[source] tonic::transport::Error),
}

/// What a plugin is told by who starts it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ServeOptions {
    variables: Vec<(String, String)>,
}

impl ServeOptions {
    /// The environment of this process, which is how Terraform tells.
    pub fn from_env() -> Self {
        Self::from_variables(std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        }))
    }

    /// These variables in the place of the environment.
    pub fn from_variables(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self {
            variables: variables.into_iter().collect(),
        }
    }

    fn read(&self, name: &str) -> Option<&str> {
        let mut variables = self.variables.iter();
        let found = variables.find(|(known, value)| known == name && !value.is_empty());
        found.map(|(_, value)| value.as_str())
    }
}

/// Serves a provider to the Terraform that started this process, until Terraform ends it.
///
/// The process belongs to the plugin while this runs: standard output carries the handshake and
/// nothing else, and SIGINT is ignored, since a Ctrl-C reaches Terraform too, which asks to stop in
/// its own way. Where Terraform is gone, operations are stopped and serving ends.
///
/// Needs a multi-threaded tokio runtime. Dropping the future closes the socket.
///
/// # Errors
/// [`ServeError`]
pub async fn serve(provider: Arc<dyn Provider>, options: &ServeOptions) -> Result<(), ServeError> {
    let handshake = Handshake::read(options)?;
    let shutdown = CancellationToken::new();
    let stop = CancellationToken::new();
    let tls = handshake
        .client_certificate
        .as_deref()
        .map(tls::Tls::new)
        .transpose()?;
    let listener =
        Listener::bind(handshake.socket_folder.as_deref(), tls).map_err(ServeError::Socket)?;
    handshake::announce(&listener).map_err(ServeError::Socket)?;

    let _watch = parent::watch(shutdown.clone(), stop.clone());
    let _interrupts = parent::ignore_interrupts();
    let server = Arc::new(Server::new(provider, stop.clone()));
    let served = Transport::builder()
        .add_service(ProviderService(server))
        .add_service(ControllerService(shutdown.clone()))
        .add_service(StdioService(shutdown.clone()))
        .serve_with_incoming_shutdown(listener.connections(), async {
            shutdown.cancelled().await;
            // Operations that go on would keep the server open.
            stop.cancel();
        })
        .await;
    served.map_err(ServeError::Transport)
}

#[cfg(test)]
mod tests;
