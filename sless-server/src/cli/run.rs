//! `serve` and `dev`: a server until the system says stop.

use std::{error::Error, sync::Arc};

use tokio::sync::Notify;

use super::{Dev, dev};
use crate::{App, settings::Settings};

/// Serves until the process is told to stop (SIGTERM, or SIGINT as from Ctrl-C), then drains. Told
/// once more, it ends at once.
///
/// # Errors
/// Why it did not start; with `dev`, also why a folder cannot be read at all.
pub async fn run(settings: &Settings, dev: Option<&Dev>) -> Result<(), Box<dyn Error>> {
    let stop = Arc::new(Notify::new());
    let mut signals = Signals::new()?;
    let app = App::start(settings).await?;
    tracing::info!(address = %app.address()?, url = settings.external_url, "serving");
    let deployed = match dev {
        Some(arguments) => Some(dev::Session::begin(
            app.sless().clone(),
            &arguments.folders,
            settings,
        )?),
        None => None,
    };
    let told = stop.clone();
    let serving = app.run(async move { told.notified().await });
    tokio::pin!(serving);
    let mut asked = false;
    loop {
        tokio::select! {
            ended = &mut serving => {
                drop(deployed);
                return Ok(ended?);
            }
            () = signals.next() => {
                if asked {
                    tracing::warn!("told to stop again: ending at once");
                    return Ok(());
                }
                asked = true;
                stop.notify_one();
            }
        }
    }
}

#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
