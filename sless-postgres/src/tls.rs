//! TLS, as libpq's `sslmode` means it, on the one provider of this workspace.

use std::{path::PathBuf, str::FromStr, sync::Arc};

use rustls::{
    ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
};
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::Fault;

/// What `sslmode` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsMode {
    /// None.
    Disable,
    /// Where the server offers it, unchecked.
    Prefer,
    /// Always, unchecked.
    Require,
    /// Always, and the server is who it says it is.
    VerifyFull,
}

/// Whose certificates are believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Roots {
    /// Those of the system's authorities.
    System,
    /// Those of the authorities in this PEM file.
    File(PathBuf),
}

impl TlsMode {
    pub(crate) const fn client_mode(self) -> SslMode {
        match self {
            Self::Disable => SslMode::Disable,
            Self::Prefer => SslMode::Prefer,
            Self::Require | Self::VerifyFull => SslMode::Require,
        }
    }
}

impl FromStr for TlsMode {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        Ok(match text {
            "disable" => Self::Disable,
            "prefer" => Self::Prefer,
            "require" => Self::Require,
            "verify-full" => Self::VerifyFull,
            _ => {
                return Err(Fault::Setting(
                    "url: expected sslmode to be disable, prefer, require or verify-full"
                        .to_owned(),
                ));
            }
        })
    }
}

/// What makes the TLS part of connections.
pub(crate) fn connector(mode: TlsMode, roots: &Roots) -> Result<MakeRustlsConnect, Fault> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(Fault::Tls)?;
    let config = if mode == TlsMode::VerifyFull {
        builder
            .with_root_certificates(authorities(roots)?)
            .with_no_client_auth()
    } else {
        // What `require` means in libpq: nobody can listen, but nobody knows who answers.
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
            .with_no_client_auth()
    };
    Ok(MakeRustlsConnect::new(config))
}

fn authorities(roots: &Roots) -> Result<RootCertStore, Fault> {
    let mut store = RootCertStore::empty();
    match roots {
        Roots::System => {
            let found = rustls_native_certs::load_native_certs();
            store.add_parsable_certificates(found.certs);
        }
        Roots::File(path) => {
            let wrong = |why: String| {
                let file = path.display();
                Fault::Setting(format!("url: sslrootcert {file} cannot be read: {why}"))
            };
            let certificates =
                CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
                store
                    .add(certificate)
                    .map_err(|error| wrong(error.to_string()))?;
            }
        }
    }
    if store.is_empty() {
        return Err(Fault::Setting(
            "url: sslmode=verify-full without any authority to believe: see sslrootcert".to_owned(),
        ));
    }
    Ok(store)
}

/// Believes that the server is whoever it says, and checks only that it has the certificate's key.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
