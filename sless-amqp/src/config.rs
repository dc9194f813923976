//! What an operator says.

use std::{fmt, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

/// Settings of [`AmqpDispatcher`](crate::AmqpDispatcher).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AmqpConfig {
    /// The broker: `amqp://user:password@host:5672/%2f`, or `amqps://` for TLS. The path is the virtual
    /// host, percent-encoded; `/` alone means the one with an empty name, no path the one named `/`.
    pub url: String,
    /// The certificates of the authorities that may have signed the broker's, as a PEM file. They are
    /// trusted beside those of the system.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// What the broker shows as the name of the connections.
    #[serde(default = "defaults::connection_name")]
    pub connection_name: String,
    /// After how many seconds without a word from the broker a heartbeat is due. After twice as many the
    /// connection counts as lost.
    #[serde(default = "defaults::heartbeat_seconds")]
    pub heartbeat_seconds: u16,
    /// How long one attempt to connect may take, in milliseconds.
    #[serde(default = "defaults::connect_ms")]
    pub connect_ms: u64,
    /// How long the broker's answer to one request may take, in milliseconds.
    #[serde(default = "defaults::answer_ms")]
    pub answer_ms: u64,
    /// How long the broker may take to confirm a message, in milliseconds.
    #[serde(default = "defaults::confirm_ms")]
    pub confirm_ms: u64,
    /// The delay after the first failed attempt at something, in milliseconds; it doubles from there.
    #[serde(default = "defaults::min_backoff_ms")]
    pub min_backoff_ms: u64,
    /// The longest delay between two attempts, in milliseconds.
    #[serde(default = "defaults::max_backoff_ms")]
    pub max_backoff_ms: u64,
    /// How often a subscription looks whether its queue is still there, in milliseconds.
    #[serde(default = "defaults::look_ms")]
    pub look_ms: u64,
    /// The longest message: body, headers, id and media type, in bytes. A longer one is refused by
    /// `publish`, and dead-lettered where it is found in a queue.
    #[serde(default = "defaults::message_bytes")]
    pub message_bytes: usize,
    /// How many messages are published at once, each on a channel of its own.
    #[serde(default = "defaults::publish_channels")]
    pub publish_channels: u16,
    /// The most dead letters of one trigger, at most 60,000. Where there are as many, a message that is
    /// to become one stays in its queue until some are redriven or purged.
    #[serde(default = "defaults::dead_letters")]
    pub dead_letters: u32,
    /// The most bytes of the dead letters of one trigger.
    #[serde(default = "defaults::dead_letter_bytes")]
    pub dead_letter_bytes: u64,
    /// How long the dead letters of a trigger are waited for, where another process works on them, in
    /// milliseconds.
    #[serde(default = "defaults::lock_ms")]
    pub lock_ms: u64,
    /// How long a message may be held that was taken ahead and not begun, in milliseconds; it then goes
    /// back to the queue. Together with a call's time it has to stay below the broker's
    /// `consumer_timeout`, which is 30 minutes unless somebody changed it.
    #[serde(default = "defaults::hold_ms")]
    pub hold_ms: u64,
    /// How long a shutdown waits for calls under way, in milliseconds. What is not finished then is cut
    /// off, and its message comes again.
    #[serde(default = "defaults::drain_ms")]
    pub drain_ms: u64,
}

/// What is used where nothing is said.
mod defaults {
    pub(super) fn connection_name() -> String {
        "sless".to_owned()
    }

    macro_rules! defaults {
        ($($name:ident: $type:ty = $value:expr;)*) => {
            $(pub(super) const fn $name() -> $type {
                $value
            })*
        };
    }

    defaults! {
        heartbeat_seconds: u16 = 10;
        connect_ms: u64 = 10_000;
        answer_ms: u64 = 15_000;
        confirm_ms: u64 = 30_000;
        min_backoff_ms: u64 = 200;
        max_backoff_ms: u64 = 15_000;
        look_ms: u64 = 15_000;
        message_bytes: usize = 1 << 20;
        publish_channels: u16 = 32;
        dead_letters: u32 = 10_000;
        dead_letter_bytes: u64 = 256 << 20;
        lock_ms: u64 = 10_000;
        hold_ms: u64 = 600_000;
        drain_ms: u64 = 30_000;
    }
}

impl AmqpConfig {
    /// The most that [`dead_letters`](Self::dead_letters) may be: as many as a broker gives out at once.
    pub const DEAD_LETTERS_MAX: u32 = 60_000;

    /// The defaults, for this broker.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            ca_file: None,
            connection_name: defaults::connection_name(),
            heartbeat_seconds: defaults::heartbeat_seconds(),
            connect_ms: defaults::connect_ms(),
            answer_ms: defaults::answer_ms(),
            confirm_ms: defaults::confirm_ms(),
            min_backoff_ms: defaults::min_backoff_ms(),
            max_backoff_ms: defaults::max_backoff_ms(),
            look_ms: defaults::look_ms(),
            message_bytes: defaults::message_bytes(),
            publish_channels: defaults::publish_channels(),
            dead_letters: defaults::dead_letters(),
            dead_letter_bytes: defaults::dead_letter_bytes(),
            lock_ms: defaults::lock_ms(),
            hold_ms: defaults::hold_ms(),
            drain_ms: defaults::drain_ms(),
        }
    }

    pub(crate) const fn connect(&self) -> Duration {
        Duration::from_millis(self.connect_ms)
    }

    pub(crate) const fn answer(&self) -> Duration {
        Duration::from_millis(self.answer_ms)
    }

    pub(crate) const fn confirm(&self) -> Duration {
        Duration::from_millis(self.confirm_ms)
    }

    pub(crate) const fn look(&self) -> Duration {
        Duration::from_millis(self.look_ms)
    }

    pub(crate) const fn lock(&self) -> Duration {
        Duration::from_millis(self.lock_ms)
    }

    pub(crate) const fn hold(&self) -> Duration {
        Duration::from_millis(self.hold_ms)
    }

    pub(crate) const fn drain(&self) -> Duration {
        Duration::from_millis(self.drain_ms)
    }

    /// The delay after so many failures in a row. It is spread over a fifth, so that the subscriptions
    /// of a broker that comes back do not all ask at once.
    pub(crate) fn backoff(&self, failures: u32) -> Duration {
        let most = self.max_backoff_ms.max(1);
        let doubled = 1_u64.checked_shl(failures).unwrap_or(u64::MAX);
        let delay = self.min_backoff_ms.max(1).saturating_mul(doubled).min(most);
        let spread = uuid::Uuid::new_v4().as_u128() as u64 % (delay / 5 + 1);
        Duration::from_millis(delay - spread)
    }

    /// The address without its password, for logs and messages.
    pub(crate) fn place(&self) -> String {
        match self.url.parse::<lapin::uri::AMQPUri>() {
            Ok(uri) => {
                let (scheme, host, port) = (&uri.scheme, &uri.authority.host, uri.authority.port);
                format!("{scheme}://{host}:{port}")
            }
            Err(_) => "an address that cannot be read".to_owned(),
        }
    }
}

impl fmt::Debug for AmqpConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AmqpConfig")
            .field("url", &self.place())
            .field("ca_file", &self.ca_file)
            .field("message_bytes", &self.message_bytes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_alone_is_a_config_and_its_password_is_not_shown() {
        let given = r#"{"url":"amqp://user:hunter2@broker:5673/%2f","message_bytes":10}"#;
        let config: AmqpConfig = serde_json::from_str(given).expect("a config");
        let mut expected = AmqpConfig::new("amqp://user:hunter2@broker:5673/%2f");
        expected.message_bytes = 10;
        assert_eq!(config, expected);
        let shown = format!("{config:?} {}", config.place());
        assert!(shown.contains("amqp://broker:5673"), "{shown}");
        assert!(
            !shown.contains("hunter2") && !shown.contains("user"),
            "{shown}"
        );
        let unknown = r#"{"url":"amqp://x","messages_bytes":10}"#;
        assert!(serde_json::from_str::<AmqpConfig>(unknown).is_err());
    }

    #[test]
    fn delays_double_up_to_a_bound_and_are_spread() {
        let config = AmqpConfig::new("amqp://x");
        for (failures, most) in [(0, 200), (1, 400), (5, 6_400), (9, 15_000), (64, 15_000)] {
            let delay = config.backoff(failures).as_millis();
            assert!(
                delay <= most && delay >= most * 4 / 5,
                "{failures}: {delay}"
            );
        }
    }
}
