//! The gRPC services of a plugin, each request handed to what answers it.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::Stream;
use prost::Message;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, body::Body, server::Grpc};
use tonic_prost::ProstCodec;
use tower::{Service, service_fn};

use crate::{
    proto::{Nothing, StdioData},
    server::Server,
};

/// The largest message, either way: what Terraform itself allows.
pub(crate) const MESSAGE_BYTES_MAX: usize = 256 << 20;

type Answer = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>>;

/// Declares a service whose requests go to an async function.
macro_rules! service {
    ($(#[$docs:meta])* $name:ident($inner:ty), $wire:literal, $dispatch:ident) => {
        $(#[$docs])*
        #[derive(Clone, Debug)]
        pub(crate) struct $name(pub(crate) $inner);

        impl tonic::server::NamedService for $name {
            const NAME: &'static str = $wire;
        }

        impl Service<http::Request<Body>> for $name {
            type Response = http::Response<Body>;
            type Error = Infallible;
            type Future = Answer;

            fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
                Poll::Ready(Ok(()))
            }

            fn call(&mut self, request: http::Request<Body>) -> Answer {
                let inner = self.0.clone();
                Box::pin(async move { Ok($dispatch(inner, request).await) })
            }
        }
    };
}

service!(
    /// What Terraform asks of a provider.
    ProviderService(Arc<Server>),
    "tfplugin6.Provider",
    provider
);
service!(
    /// Ends the plugin.
    ControllerService(CancellationToken),
    "plugin.GRPCController",
    controller
);
service!(
    /// What the plugin prints: nothing, for as long as it runs.
    StdioService(CancellationToken),
    "plugin.GRPCStdio",
    stdio
);

/// The last segment of the path is the method.
fn method(request: &http::Request<Body>) -> String {
    let path = request.uri().path();
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// What Terraform takes for "this provider has no such thing".
fn unimplemented(method: &str) -> http::Response<Body> {
    Status::unimplemented(format!("{method} is not implemented")).into_http()
}

async fn provider(server: Arc<Server>, request: http::Request<Body>) -> http::Response<Body> {
    let server = &server;
    let method = method(&request);
    match method.as_str() {
        "GetMetadata" => unary(request, async |_: Nothing| Ok(server.metadata())).await,
        "GetProviderSchema" => unary(request, async |_: Nothing| Ok(server.schemas())).await,
        "ValidateProviderConfig" => {
            unary(request, async |request| {
                Ok(server.validate_provider(request))
            })
            .await
        }
        "ValidateResourceConfig" => {
            unary(request, async |request| server.validate_resource(request)).await
        }
        "ValidateDataResourceConfig" => {
            unary(request, async |request| server.validate_data(request)).await
        }
        "UpgradeResourceState" => unary(request, async |request| server.upgrade(request)).await,
        "ConfigureProvider" => {
            unary(request, async |request| Ok(server.configure(request).await)).await
        }
        "ReadResource" => unary(request, async |request| server.read(request).await).await,
        "PlanResourceChange" => unary(request, async |request| server.plan(request).await).await,
        "ApplyResourceChange" => unary(request, async |request| server.apply(request).await).await,
        "ImportResourceState" => unary(request, async |request| server.import(request).await).await,
        "ReadDataSource" => unary(request, async |request| server.read_data(request).await).await,
        "StopProvider" => unary(request, async |_: Nothing| Ok(server.stop())).await,
        method => unimplemented(method),
    }
}

async fn controller(
    shutdown: CancellationToken,
    request: http::Request<Body>,
) -> http::Response<Body> {
    match method(&request).as_str() {
        "Shutdown" => {
            unary(request, async |_: Nothing| {
                shutdown.cancel();
                Ok(Nothing {})
            })
            .await
        }
        method => unimplemented(method),
    }
}

async fn stdio(shutdown: CancellationToken, request: http::Request<Body>) -> http::Response<Body> {
    match method(&request).as_str() {
        "StreamStdio" => {
            let answer = service_fn(move |_: Request<Nothing>| {
                let lines = silence(shutdown.clone());
                async move { Ok::<_, Status>(Response::new(lines)) }
            });
            grpc::<Nothing, StdioData>()
                .server_streaming(answer, request)
                .await
        }
        method => unimplemented(method),
    }
}

/// A stream of nothing that ends with the plugin.
fn silence(
    shutdown: CancellationToken,
) -> Pin<Box<dyn Stream<Item = Result<StdioData, Status>> + Send>> {
    Box::pin(futures::stream::unfold(shutdown, |shutdown| async move {
        shutdown.cancelled().await;
        None
    }))
}

fn grpc<I, O>() -> Grpc<ProstCodec<O, I>>
where
    I: Message + Default + 'static,
    O: Message + Default + 'static,
{
    Grpc::new(ProstCodec::default())
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

/// One request with one answer.
async fn unary<I, O>(
    request: http::Request<Body>,
    answer: impl AsyncFnOnce(I) -> Result<O, Status>,
) -> http::Response<Body>
where
    I: Message + Default + 'static,
    O: Message + Default + 'static,
{
    let mut answer = Some(answer);
    let once = service_fn(move |request: Request<I>| {
        let answer = answer.take();
        async move {
            let answer = answer.ok_or_else(|| Status::internal("asked twice"))?;
            answer(request.into_inner()).await.map(Response::new)
        }
    });
    grpc::<I, O>().unary(once, request).await
}
