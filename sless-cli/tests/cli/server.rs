//! A server on a port and a data folder of its own, in this process.

use std::{net::SocketAddr, path::Path, thread::JoinHandle, time::Duration};

use jiff::Timestamp;
use sless_server::{
    App,
    auth::Hs256Key,
    settings::{Settings, Sources},
};
use tokio::sync::oneshot;

/// Runs until it is dropped, and then ends all that it started.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    key: Hs256Key,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(data: &Path) -> Self {
        Self::start_with(vec![
            ("SLESS_LISTEN", "127.0.0.1:0".to_owned()),
            ("SLESS_DATA_DIR", data.display().to_string()),
            ("SLESS_DRAIN_TIMEOUT", "2s".to_owned()),
        ])
    }

    /// The same, with these settings and no others.
    pub(crate) fn start_with(given: Vec<(&str, String)>) -> Self {
        let given = given
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()));
        // Where interpreters and package managers are, as for the server's process.
        let ours = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("SLESS_");
        let others = std::env::vars_os().filter(|(name, _)| !ours(name));
        let given = others.chain(given);
        let settings = Settings::load(&Sources::new(given, None)).unwrap();
        let key_file = settings.auth.hs256_key_file.clone();
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let app = App::start(&settings).await.unwrap();
                tell.send(app.address().unwrap()).unwrap();
                app.run(async {
                    let _ = stopped.await;
                })
                .await
                .unwrap();
            });
        });
        Self {
            address: told.recv().unwrap(),
            key: Hs256Key::load_or_create(&key_file).unwrap(),
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    pub(crate) fn token(&self, subject: &str, ttl: Duration) -> String {
        self.key.mint(subject, ttl, Timestamp::now()).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(
                ended.is_ok() || std::thread::panicking(),
                "the server failed"
            );
        }
    }
}
