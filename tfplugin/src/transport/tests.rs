//! Who may connect, and how large messages may be.

#![allow(clippy::unwrap_used)]

use std::{path::PathBuf, sync::Arc};

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio_rustls::{
    TlsConnector,
    rustls::{
        self, ClientConfig, DigitallySignedStruct, SignatureScheme,
        client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        crypto::{aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime},
    },
};
use tokio_util::sync::CancellationToken;
use tonic::{
    Code, Request, Status,
    transport::{Channel, Endpoint, Server as Transport},
};
use tonic_prost::ProstCodec;
use tower::service_fn;

use super::{connection::Listener, tls::Tls};
use crate::{
    DataSource, Diagnostics, Provider, Resource, Schema, Value, proto,
    server::Server,
    service::{ControllerService, ProviderService},
};

#[derive(Debug)]
struct Nothing;

#[async_trait::async_trait]
impl Provider for Nothing {
    fn schema(&self) -> Schema {
        // Larger than what gRPC takes by itself, 4 MiB.
        Schema::new("x".repeat(6 << 20), vec![])
    }

    fn resources(&self) -> Vec<(String, Arc<dyn Resource>)> {
        vec![]
    }

    fn data_sources(&self) -> Vec<(String, Arc<dyn DataSource>)> {
        vec![]
    }

    async fn configure(&self, _: &Value, _: &mut Diagnostics) {}
}

/// A client's certificate, and the key to it.
struct Identity {
    certificate: CertificateDer<'static>,
    pem: String,
    key: rcgen::KeyPair,
}

/// Terraform signs with P-521.
fn identity() -> Identity {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P521_SHA512).unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let der = certificate.der().clone();
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &der);
    let pem = format!("-----BEGIN CERTIFICATE-----\n{encoded}\n-----END CERTIFICATE-----\n");
    Identity {
        certificate: der,
        pem,
        key,
    }
}

struct Served {
    _folder: tempfile::TempDir,
    path: PathBuf,
    /// The server's certificate.
    certificate: Option<CertificateDer<'static>>,
    done: tokio::task::JoinHandle<()>,
}

fn serve(client: Option<&str>) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let tls = client.map(|pem| Tls::new(pem).unwrap());
    let listener = Listener::bind(Some(folder.path()), tls).unwrap();
    let path = listener.path().to_owned();
    let certificate = listener.certificate().map(|text| {
        let der = base64::Engine::decode(&base64::engine::general_purpose::STANDARD_NO_PAD, text);
        CertificateDer::from(der.unwrap())
    });
    let shutdown = CancellationToken::new();
    let server = Arc::new(Server::new(Arc::new(Nothing), CancellationToken::new()));
    let served = Transport::builder()
        .add_service(ProviderService(server))
        .add_service(ControllerService(shutdown.clone()))
        .serve_with_incoming_shutdown(listener.connections(), shutdown.cancelled_owned());
    Served {
        _folder: folder,
        path,
        certificate,
        done: tokio::spawn(async { served.await.unwrap() }),
    }
}

/// Knows the server's certificate, as Terraform does.
#[derive(Debug)]
struct Only(CertificateDer<'static>);

impl ServerCertVerifier for Only {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        assert_eq!(*certificate, self.0, "the one of the handshake line");
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = aws_lc_rs::default_provider().signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, &known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = aws_lc_rs::default_provider().signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, &known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let known = aws_lc_rs::default_provider().signature_verification_algorithms;
        known.supported_schemes()
    }
}

/// A connection, with this certificate where there is one.
async fn connect(
    served: &Served,
    identity: Option<&Identity>,
    tls12: bool,
) -> Result<Channel, tonic::transport::Error> {
    let tls = served.certificate.clone().map(|server| {
        let versions: &[_] = if tls12 {
            &[&tokio_rustls::rustls::version::TLS12]
        } else {
            &[&tokio_rustls::rustls::version::TLS13]
        };
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Only(server)));
        let mut config = match identity {
            Some(identity) => config
                .with_client_auth_cert(
                    vec![identity.certificate.clone()],
                    PrivateKeyDer::Pkcs8(identity.key.serialize_der().into()),
                )
                .unwrap(),
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        TlsConnector::from(Arc::new(config))
    });
    let path = served.path.clone();
    let connector = service_fn(move |_: http::Uri| {
        let (path, tls) = (path.clone(), tls.clone());
        async move {
            let stream = UnixStream::connect(path).await?;
            let stream: Box<dyn Stream> = match tls {
                Some(tls) => {
                    let name = ServerName::try_from("localhost").unwrap();
                    Box::new(tls.connect(name, stream).await?)
                }
                None => Box::new(stream),
            };
            Ok::<_, std::io::Error>(TokioIo::new(stream))
        }
    });
    Endpoint::from_static("http://localhost")
        .connect_with_connector(connector)
        .await
}

trait Stream: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send {}
impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send> Stream for T {}

async fn ask<I, O>(channel: Channel, path: &'static str, request: I) -> Result<O, Status>
where
    I: prost::Message + Default + 'static,
    O: prost::Message + Default + 'static,
{
    let mut client = tonic::client::Grpc::new(channel).max_decoding_message_size(64 << 20);
    client
        .ready()
        .await
        .map_err(|error| Status::unknown(error.to_string()))?;
    let codec = ProstCodec::<I, O>::default();
    let path = http::uri::PathAndQuery::from_static(path);
    Ok(client
        .unary(Request::new(request), path, codec)
        .await?
        .into_inner())
}

async fn schema(channel: Channel) -> Result<proto::SchemaResponse, Status> {
    ask(
        channel,
        "/tfplugin6.Provider/GetProviderSchema",
        proto::Nothing {},
    )
    .await
}

#[tokio::test]
async fn the_one_client_is_served_with_either_version_of_tls() {
    let identity = identity();
    for tls12 in [false, true] {
        let served = serve(Some(&identity.pem));
        let channel = connect(&served, Some(&identity), tls12).await.unwrap();
        let schema = schema(channel.clone()).await.unwrap();
        assert_eq!(
            schema.provider.unwrap().block.unwrap().description.len(),
            6 << 20
        );
        let missing = ask::<_, proto::Nothing>(
            channel.clone(),
            "/tfplugin6.Provider/CallFunction",
            proto::Nothing {},
        );
        assert_eq!(missing.await.unwrap_err().code(), Code::Unimplemented);
        let end = ask::<_, proto::Nothing>(
            channel,
            "/plugin.GRPCController/Shutdown",
            proto::Nothing {},
        );
        end.await.unwrap();
        served.done.await.unwrap();
        assert!(!served.path.exists(), "the socket goes with the server");
    }
}

#[tokio::test]
async fn nobody_else_is_let_in() {
    let owner = identity();
    let served = serve(Some(&owner.pem));
    for stranger in [None, Some(identity())] {
        // In TLS 1.3 the refusal comes after the client's handshake, with the first request.
        let refused = match connect(&served, stranger.as_ref(), false).await {
            Ok(channel) => schema(channel).await.is_err(),
            Err(_) => true,
        };
        assert!(refused);
    }
    let channel = connect(&served, Some(&owner), false).await.unwrap();
    assert!(
        schema(channel).await.is_ok(),
        "strangers do not keep the owner out"
    );
}

#[tokio::test]
async fn without_a_certificate_there_is_no_tls() {
    let served = serve(None);
    let channel = connect(&served, None, false).await.unwrap();
    assert!(schema(channel).await.is_ok());
}
