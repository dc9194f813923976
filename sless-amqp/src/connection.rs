//! [`Link`]: a connection that comes back.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::StreamExt as _;
use lapin::{
    Channel, Connection, ConnectionProperties, Event,
    tcp::OwnedTLSConfig,
    uri::{AMQPScheme, AMQPUri},
};
use sless_core::Error;
use tokio::{sync::watch, time::timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::{AmqpConfig, error::Fault};

/// How often a connection is asked whether it still is one, should its event be lost.
const GLANCE: Duration = Duration::from_millis(500);

/// A connection that lasted so long is none that failed at once: the next attempt comes soon.
const LASTING: Duration = Duration::from_secs(10);

/// What is seen of a connection.
#[derive(Clone, Debug)]
pub(crate) enum State {
    /// There is none, and why.
    Down(Fault),
    /// There is one; the number tells it from those before.
    Up(u64, Arc<Connection>),
}

/// One connection to the broker: made anew, with growing delays, whenever it ends.
#[derive(Debug)]
pub(crate) struct Link {
    config: Arc<AmqpConfig>,
    state: watch::Receiver<State>,
    /// Why the broker takes no messages from this connection, while it takes none.
    blocked: watch::Receiver<Option<String>>,
    _task: AbortOnDropHandle<()>,
}

/// How the broker is reached.
#[derive(Debug)]
struct Address {
    config: Arc<AmqpConfig>,
    uri: AMQPUri,
    authorities: Option<String>,
    /// What the connection is for, as the broker shows it.
    role: &'static str,
}

/// Reads the address and the authorities. Touches the file system.
pub(crate) fn check(config: &AmqpConfig) -> Result<(AMQPUri, Option<String>), Error> {
    let mut uri: AMQPUri = config.url.parse().map_err(|why: String| {
        // The reason of the parser may quote what it was given.
        let _ = why;
        Error::invalid("url: expected amqp://user:password@host:port/virtual-host, or amqps://")
    })?;
    uri.query.heartbeat.get_or_insert(config.heartbeat_seconds);
    let authorities = match &config.ca_file {
        None => None,
        Some(_) if uri.scheme == AMQPScheme::AMQP => {
            return Err(Error::invalid(
                "ca_file: the address is amqp://, which has no certificate; expected amqps://",
            ));
        }
        Some(file) => {
            let text = std::fs::read_to_string(file).map_err(|source| {
                Error::invalid(format!("ca_file {}: cannot be read", file.display()))
                    .with_source(source)
            })?;
            if !text.contains("-----BEGIN CERTIFICATE-----") {
                return Err(Error::invalid(format!(
                    "ca_file {}: expected certificates in PEM form",
                    file.display()
                )));
            }
            Some(text)
        }
    };
    if config.dead_letters == 0 || config.dead_letters > AmqpConfig::DEAD_LETTERS_MAX {
        return Err(Error::invalid(format!(
            "dead_letters is {}: expected 1 to {}",
            config.dead_letters,
            AmqpConfig::DEAD_LETTERS_MAX
        )));
    }
    if config.publish_channels == 0 {
        return Err(Error::invalid("publish_channels is 0: expected at least 1"));
    }
    Ok((uri, authorities))
}

impl Link {
    /// Begins to connect. A broker that is not there is a state.
    pub(crate) fn open(config: &Arc<AmqpConfig>, role: &'static str) -> Result<Self, Error> {
        let (uri, authorities) = check(config)?;
        let address = Address {
            config: config.clone(),
            uri,
            authorities,
            role,
        };
        let why = Fault::Disconnected {
            place: config.place(),
            why: "it is being made".to_owned(),
        };
        let (state, seen) = watch::channel(State::Down(why));
        let (blocked, seen_blocked) = watch::channel(None);
        let task = tokio::spawn(supervise(address, state, blocked));
        Ok(Self {
            config: config.clone(),
            state: seen,
            blocked: seen_blocked,
            _task: AbortOnDropHandle::new(task),
        })
    }

    pub(crate) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Follows the state.
    pub(crate) fn watch(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    pub(crate) fn blocked(&self) -> Option<String> {
        self.blocked.borrow().clone()
    }

    /// Follows whether the broker takes messages.
    pub(crate) fn watch_blocked(&self) -> watch::Receiver<Option<String>> {
        self.blocked.clone()
    }

    /// The connection, waited for as long as an answer may take.
    pub(crate) async fn up(&self) -> Result<(u64, Arc<Connection>), Fault> {
        let mut state = self.watch();
        let up = state.wait_for(|state| matches!(state, State::Up(..)));
        if let Ok(Ok(found)) = timeout(self.config.answer(), up).await
            && let State::Up(number, connection) = &*found
        {
            return Ok((*number, connection.clone()));
        }
        match self.state() {
            State::Up(number, connection) => Ok((number, connection)),
            State::Down(why) => Err(why),
        }
    }

    /// A new channel, and the number of its connection.
    pub(crate) async fn channel(&self) -> Result<(u64, Channel), Fault> {
        let (number, connection) = self.up().await?;
        let channel = answer(
            &self.config,
            "opening a channel",
            connection.create_channel(),
        )
        .await?;
        Ok((number, channel))
    }

    /// Closes the connection, if there is one.
    pub(crate) async fn close(&self) {
        if let State::Up(_, connection) = self.state() {
            // It ends in any case.
            let _ = answer(&self.config, "closing", connection.close(200, "OK".into())).await;
        }
    }
}

/// Awaits an answer of the broker as long as it may take.
pub(crate) async fn answer<T>(
    config: &AmqpConfig,
    what: &'static str,
    request: impl Future<Output = lapin::Result<T>>,
) -> Result<T, Fault> {
    match timeout(config.answer(), request).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Fault::Late {
            what,
            limit: "answer_ms",
            wait_ms: config.answer_ms,
        }),
    }
}

async fn supervise(
    address: Address,
    state: watch::Sender<State>,
    blocked: watch::Sender<Option<String>>,
) {
    let config = &address.config;
    let place = config.place();
    let mut failures = 0;
    for number in 1_u64.. {
        let why = match address.connect().await {
            Ok(connection) => {
                tracing::info!(broker = place, role = address.role, "connected");
                let began = Instant::now();
                let connection = Arc::new(connection);
                state.send_replace(State::Up(number, connection.clone()));
                let why = ended(&connection, &blocked).await;
                blocked.send_replace(None);
                if began.elapsed() >= LASTING {
                    failures = 0;
                }
                why
            }
            Err(why) => why,
        };
        let sentence = why.sentence();
        tracing::warn!(
            broker = place,
            role = address.role,
            why = sentence,
            "disconnected"
        );
        let down = match why {
            Fault::Broker(_) => Fault::Disconnected {
                place: place.clone(),
                why: sentence,
            },
            other => other,
        };
        state.send_replace(State::Down(down));
        tokio::time::sleep(config.backoff(failures)).await;
        failures = failures.saturating_add(1);
    }
}

/// Waits until a connection is none any more, and says why.
async fn ended(connection: &Connection, blocked: &watch::Sender<Option<String>>) -> Fault {
    let mut events = Box::pin(connection.events_listener());
    let mut glance = tokio::time::interval(GLANCE);
    let mut last = None;
    loop {
        tokio::select! {
            event = events.next() => match event {
                // Errors of channels are told here too.
                Some(Event::Error(error)) => last = Some(error),
                Some(Event::ConnectionBlocked(why)) => {
                    tracing::warn!(why, "the broker takes no messages");
                    blocked.send_replace(Some(why));
                }
                Some(Event::ConnectionUnblocked) => {
                    blocked.send_replace(None);
                }
                Some(_) => {}
                None => return last.map_or_else(gone, Fault::from),
            },
            _ = glance.tick() => {}
        }
        if !connection.status().connected() {
            // Why it ended may be told a moment later than that it did.
            while let Ok(Some(event)) = timeout(Duration::from_millis(50), events.next()).await {
                if let Event::Error(error) = event {
                    last = Some(error);
                }
            }
            return match last {
                Some(error) => error.into(),
                None => gone(),
            };
        }
    }
}

fn gone() -> Fault {
    lapin::Error::from(std::io::Error::from(std::io::ErrorKind::ConnectionAborted)).into()
}

impl Address {
    async fn connect(&self) -> Result<Connection, Fault> {
        let name = format!("{} {}", self.config.connection_name, self.role);
        let properties = ConnectionProperties::default().with_connection_name(name.into());
        let tls = OwnedTLSConfig {
            identity: None,
            cert_chain: self.authorities.clone(),
        };
        let runtime = lapin::runtime::default_runtime()?;
        let connect =
            Connection::connect_uri_with_config(self.uri.clone(), properties, tls, runtime);
        match timeout(self.config.connect(), connect).await {
            Ok(connection) => Ok(connection?),
            Err(_) => Err(Fault::Late {
                what: "a connection",
                limit: "connect_ms",
                wait_ms: self.config.connect_ms,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_config_is_told_by_its_field() {
        let of = |change: fn(&mut AmqpConfig)| {
            let mut config = AmqpConfig::new("amqps://user:hunter2@localhost");
            change(&mut config);
            check(&config).map_err(|error| error.to_string())
        };
        assert!(of(|_| {}).is_ok());
        for (change, field) in [
            (
                (|config| "http://user:hunter2@x".clone_into(&mut config.url))
                    as fn(&mut AmqpConfig),
                "url",
            ),
            (
                |config| config.ca_file = Some("/no/such/file".into()),
                "ca_file",
            ),
            (|config| config.dead_letters = 60_001, "dead_letters"),
            (|config| config.publish_channels = 0, "publish_channels"),
        ] {
            let error = of(change).expect_err("a wrong config");
            assert!(error.starts_with(field), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_broker_that_is_not_there_is_a_state() {
        let mut config = AmqpConfig::new("amqp://127.0.0.1:1");
        config.answer_ms = 50;
        let link = Link::open(&Arc::new(config), "test").expect("a link");
        let why = link.up().await.expect_err("no connection").to_error();
        assert_eq!(why.kind(), sless_core::ErrorKind::Unavailable);
        assert_eq!(why.reason(), "disconnected");
    }
}
