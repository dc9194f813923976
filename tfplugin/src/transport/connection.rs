//! The socket, and the connections that come through it.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::Stream;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{UnixListener, UnixStream},
    sync::mpsc,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

use super::tls::Tls;

/// How long a client may take to present its certificate.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections that are open and not yet served, at most.
const WAITING_MAX: usize = 16;

/// The socket that Terraform connects to: in a folder that only our user can enter. The folder goes
/// with it.
#[derive(Debug)]
pub(super) struct Listener {
    socket: UnixListener,
    path: PathBuf,
    folder: Folder,
    tls: Option<Tls>,
}

/// A folder that goes when nobody holds it any more.
#[derive(Debug)]
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left behind is an empty folder below the temporary one.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Listener {
    pub(super) fn bind(below: Option<&Path>, tls: Option<Tls>) -> io::Result<Self> {
        let below = below.map_or_else(std::env::temp_dir, Path::to_owned);
        let folder = make_folder(&below)?;
        // Short, since the path of a socket has about 100 bytes.
        let path = folder.0.join("s");
        let socket = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        Ok(Self {
            socket,
            path,
            folder,
            tls,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn certificate(&self) -> Option<&str> {
        self.tls.as_ref().map(|tls| tls.certificate.as_str())
    }

    /// The connections that are let in, for as long as the stream is held.
    pub(super) fn connections(self) -> impl Stream<Item = io::Result<Connection>> {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        tokio::spawn(async move {
            let Self {
                socket,
                folder: _folder,
                tls,
                ..
            } = self;
            let tls = tls.map(Arc::new);
            loop {
                let accepted = tokio::select! {
                    accepted = socket.accept() => accepted,
                    () = sender.closed() => return,
                };
                match accepted {
                    Ok((stream, _)) => {
                        tokio::spawn(let_in(stream, tls.clone(), sender.clone()));
                    }
                    Err(error) => tracing::warn!(%error, "a connection was not taken"),
                }
            }
        });
        ReceiverStream::new(receiver)
    }
}

/// A new folder with a name that nobody can guess.
fn make_folder(below: &Path) -> io::Result<Folder> {
    for _ in 0..8 {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
        let path = below.join(format!("tf-{:016x}", u64::from_ne_bytes(random)));
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(Folder(path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

async fn let_in(
    stream: UnixStream,
    tls: Option<Arc<Tls>>,
    sender: mpsc::Sender<io::Result<Connection>>,
) {
    let connection = match tls {
        None => Connection(Box::pin(stream)),
        Some(tls) => match tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await {
            Ok(Ok(stream)) => Connection(Box::pin(stream)),
            Ok(Err(error)) => return tracing::warn!(%error, "a client was turned away"),
            Err(_) => return tracing::warn!("a client did not present itself in time"),
        },
    };
    // Where nobody receives, serving has ended.
    let _ = sender.send(Ok(connection)).await;
}

trait Bytes: AsyncRead + AsyncWrite + Send {}
impl<T: AsyncRead + AsyncWrite + Send> Bytes for T {}

/// A connection that was let in.
pub(super) struct Connection(Pin<Box<dyn Bytes>>);

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.as_mut().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_shutdown(context)
    }
}
