//! Services of tests listen on this machine only; what pods are to reach is passed on.

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// Passes connections on, until it is dropped.
#[derive(Debug)]
pub(crate) struct Forward {
    address: String,
    task: JoinHandle<()>,
}

impl Forward {
    /// From a free port of this address to that one.
    pub(crate) async fn start(host: &str, to: &str) -> Self {
        let listener = TcpListener::bind((host, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let to = to.to_owned();
        let task = tokio::spawn(async move {
            while let Ok((mut from, _)) = listener.accept().await {
                let to = to.clone();
                tokio::spawn(async move {
                    if let Ok(mut to) = TcpStream::connect(to).await {
                        // Either end may break off.
                        let _ = copy_bidirectional(&mut from, &mut to).await;
                    }
                });
            }
        });
        Self { address, task }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        self.task.abort();
    }
}
