//! Mutual TLS with one certificate on each side, each known to the other beforehand.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, CertificateError, DigitallySignedStruct, DistinguishedName, ServerConfig,
        SignatureScheme,
        client::danger::HandshakeSignatureValid,
        crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
        pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem::PemObject as _},
        server::danger::{ClientCertVerified, ClientCertVerifier},
    },
    server::TlsStream,
};

use super::ServeError;

/// Takes connections of one client.
pub(super) struct Tls {
    acceptor: TlsAcceptor,
    /// Our certificate, as the handshake line holds it.
    pub(super) certificate: String,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// TLS for the client that has this certificate, with a new one of our own.
    pub(super) fn new(client: &str) -> Result<Self, ServeError> {
        let failed = |error: &dyn std::fmt::Display| ServeError::Tls(error.to_string());
        let client = CertificateDer::from_pem_slice(client.as_bytes());
        let client = client.map_err(|error| failed(&format!("PLUGIN_CLIENT_CERT: {error}")))?;
        let (certificate, key) = own().map_err(|error| failed(&error))?;
        let crypto = Arc::new(aws_lc_rs::default_provider());
        let verifier = OnlyThis {
            client,
            crypto: crypto.clone(),
        };
        // TLS 1.2 stays on: programs built with an older Go may offer nothing newer.
        let mut config = ServerConfig::builder_with_provider(crypto)
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(&error))?
            .with_client_cert_verifier(Arc::new(verifier))
            .with_single_cert(vec![certificate.clone()], key)
            .map_err(|error| failed(&error))?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            certificate: STANDARD_NO_PAD.encode(certificate),
        })
    }

    pub(super) async fn accept<T>(&self, stream: T) -> std::io::Result<TlsStream<T>>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        self.acceptor.accept(stream).await
    }
}

/// A certificate of our own. It is its own authority, since that is how Terraform checks it.
fn own() -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), rcgen::Error> {
    let key = rcgen::KeyPair::generate()?;
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()])?;
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.key_usages = vec![
        rcgen::KeyUsagePurpose::DigitalSignature,
        rcgen::KeyUsagePurpose::KeyEncipherment,
        rcgen::KeyUsagePurpose::KeyCertSign,
    ];
    params.extended_key_usages = vec![
        rcgen::ExtendedKeyUsagePurpose::ServerAuth,
        rcgen::ExtendedKeyUsagePurpose::ClientAuth,
    ];
    let certificate = params.self_signed(&key)?;
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    Ok((certificate.der().clone(), key))
}

/// Lets in who has exactly this certificate and its key.
#[derive(Debug)]
struct OnlyThis {
    client: CertificateDer<'static>,
    crypto: Arc<CryptoProvider>,
}

impl ClientCertVerifier for OnlyThis {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        if *certificate == self.client {
            return Ok(ClientCertVerified::assertion());
        }
        Err(CertificateError::UnknownIssuer.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.crypto.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.crypto.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.crypto
            .signature_verification_algorithms
            .supported_schemes()
    }
}
