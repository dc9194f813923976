//! `serve` and `dev`: a server until the system says stop.

use std::{error::Error, io, sync::Arc, time::Duration};

use tokio::sync::Notify;

use crate::{
    App, StartError,
    dev::{self, DevError},
    settings::Settings,
    telemetry::Telemetry,
};

/// How long the end of the process waits for what cannot be cut off, such as a write.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// Does the work of a command on a runtime of its own, with the telemetry that the settings ask for.
///
/// # Errors
/// Where that telemetry cannot be had, or what the work says.
pub fn block_on<T>(
    settings: &Settings,
    work: impl Future<Output = Result<T, Box<dyn Error>>>,
) -> Result<T, Box<dyn Error>> {
    let _telemetry = Telemetry::begin(&settings.log)?;
    for warning in &settings.warnings {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let ended = runtime.block_on(work);
    // Whoever is told to end at once does not wait for what blocks.
    runtime.shutdown_timeout(LAST_WAIT);
    ended
}

/// Serves until the process is told to stop (SIGTERM, or SIGINT as from Ctrl-C), then drains. Told
/// once more, it ends at once. With `dev`, deploys folders meanwhile.
///
/// # Errors
/// Why it did not start.
pub async fn run(settings: &Settings, dev: Option<&dev::Prepared>) -> Result<(), Box<dyn Error>> {
    let stop = Arc::new(Notify::new());
    let mut signals = Signals::new()?;
    let app = match App::start(settings).await {
        Err(error) if dev.is_some() => return Err(explain(error)),
        started => started?,
    };
    tracing::info!(address = %app.address()?, url = settings.external_url, "serving");
    let mut session = match dev {
        Some(prepared) => Some(dev::Session::begin(&app, prepared).await?),
        None => None,
    };
    let told = stop.clone();
    let serving = app.run(async move { told.notified().await });
    tokio::pin!(serving);
    let mut asked = false;
    loop {
        tokio::select! {
            ended = &mut serving => return Ok(ended?),
            () = signals.next() => {
                if asked {
                    tracing::warn!("told to stop again: ending at once");
                    return Ok(());
                }
                asked = true;
                if let Some(session) = session.take() {
                    session.stop();
                }
                stop.notify_one();
            }
        }
    }
}

/// Why a `dev` did not start, with what to do about it on its own command line.
fn explain(error: StartError) -> Box<dyn Error> {
    match error {
        StartError::Listen { address, source } if source.kind() == io::ErrorKind::AddrInUse => {
            DevError::PortTaken { address }.into()
        }
        StartError::Backend(error) if error.reason() == "data_dir_in_use" => {
            let owner = error.message().to_owned();
            DevError::InUse { owner }.into()
        }
        error => error.into(),
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
