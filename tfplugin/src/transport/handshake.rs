//! The first words between Terraform and a plugin.

use std::{
    io::{self, Write as _},
    path::PathBuf,
};

use super::{ServeError, ServeOptions, connection::Listener};

/// What Terraform sets, so that a plugin knows who started it.
const COOKIE: (&str, &str) = (
    "TF_PLUGIN_MAGIC_COOKIE",
    "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2",
);

/// The version of go-plugin's own protocol.
const CORE_VERSION: u32 = 1;

/// The version of the plugin protocol that is served.
const VERSION: &str = "6";

/// What Terraform said.
#[derive(Debug)]
pub(super) struct Handshake {
    /// The certificate of the one client that may connect, as PEM. Without it there is no TLS: the
    /// test programs of HashiCorp ask for that.
    pub(super) client_certificate: Option<String>,
    /// Where the socket goes.
    pub(super) socket_folder: Option<PathBuf>,
}

impl Handshake {
    pub(super) fn read(options: &ServeOptions) -> Result<Self, ServeError> {
        if options.read(COOKIE.0) != Some(COOKIE.1) {
            return Err(ServeError::NotTerraform);
        }
        if let Some(offered) = options.read("PLUGIN_PROTOCOL_VERSIONS")
            && !offered.split(',').any(|version| version.trim() == VERSION)
        {
            let offered = offered.chars().take(40).collect();
            return Err(ServeError::Protocol { offered });
        }
        Ok(Self {
            client_certificate: options.read("PLUGIN_CLIENT_CERT").map(str::to_owned),
            socket_folder: options.read("PLUGIN_UNIX_SOCKET_DIR").map(PathBuf::from),
        })
    }
}

/// The one line on standard output that tells Terraform where to connect.
pub(super) fn announce(listener: &Listener) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", line(listener))?;
    out.flush()
}

fn line(listener: &Listener) -> String {
    let path = listener.path().display();
    let line = format!("{CORE_VERSION}|{VERSION}|unix|{path}|grpc");
    match listener.certificate() {
        Some(certificate) => format!("{line}|{certificate}"),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(extra: &[(&str, &str)]) -> ServeOptions {
        let variables = [COOKIE].iter().chain(extra);
        let owned = variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        ServeOptions::from_variables(owned)
    }

    #[test]
    fn who_is_not_terraform_is_told_so() {
        for variables in [vec![], vec![(COOKIE.0.to_owned(), "x".to_owned())]] {
            let refused = Handshake::read(&ServeOptions::from_variables(variables));
            assert!(matches!(refused, Err(ServeError::NotTerraform)));
        }
    }

    #[test]
    fn an_older_protocol_is_refused_by_name() {
        let refused = Handshake::read(&options(&[("PLUGIN_PROTOCOL_VERSIONS", "4,5")]));
        assert!(
            refused
                .expect_err("old")
                .to_string()
                .ends_with("Terraform offers 4,5")
        );
        let taken = Handshake::read(&options(&[("PLUGIN_PROTOCOL_VERSIONS", "5,6")]));
        assert!(taken.expect("6").client_certificate.is_none());
    }

    #[tokio::test]
    async fn the_line_has_five_parts_and_a_certificate_with_tls() {
        let folder = tempfile::tempdir().expect("folder");
        let listener = Listener::bind(Some(folder.path()), None).expect("socket");
        let path = listener.path().display().to_string();
        assert_eq!(line(&listener), format!("1|6|unix|{path}|grpc"));
    }
}
