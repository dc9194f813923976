//! Names of the queues that this backend makes beside those of triggers.
//!
//! They all begin with `sless.`, a prefix that no trigger may consume from: another trigger's dead
//! letters are not for it. A name of AMQP has at most 255 bytes; a longer one is cut and gets a digest.

use std::time::Duration;

use sha2::{Digest as _, Sha256};
use sless_core::{Error, resource::TriggerId};

/// What the names of our own queues begin with.
pub(crate) const OWN: &str = "sless.";

/// The longest name, in bytes (AMQP 0-9-1, section 4.2.5.3).
const NAME_BYTES: usize = 255;

/// For how long messages are put into the same delay queue; then the next one is made.
const EPOCH: Duration = Duration::from_secs(3600);

/// The shortest delay, in milliseconds: below it a broker's own work takes longer.
const STEP_MIN: u64 = 8;

/// The longest delay, in milliseconds: 37 hours, the power of two above the longest of a trigger.
const STEP_MAX: u64 = 1 << 27;

/// Checks the name of a trigger's queue.
pub(crate) fn check(queue: &str) -> Result<(), Error> {
    let expected = if queue.is_empty() || queue.len() > NAME_BYTES {
        format!("1 to {NAME_BYTES} bytes")
    } else if queue.starts_with(OWN) || queue.starts_with("amq.") {
        format!("a name that does not begin with {OWN} or amq., which are reserved")
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!("queue {queue:?}: expected {expected}")).with_reason("queue_name"))
}

/// The queue of a trigger's dead letters.
pub(crate) fn dead(trigger: &TriggerId) -> String {
    let (namespace, name, uid) = (&trigger.namespace, &trigger.name, &trigger.uid);
    fitted(format!("{OWN}dead.{namespace}.{name}.{}", uid.as_str()))
}

/// The queue that is held by whoever works on these dead letters.
pub(crate) fn lock(dead: &str) -> String {
    fitted(format!("{OWN}lock.{dead}"))
}

/// Where a message waits before it comes to its queue again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Delay {
    /// The name of the delay queue.
    pub(crate) queue: String,
    /// How long a message waits there, in milliseconds.
    pub(crate) step_ms: u64,
    /// After how long without use the queue goes, in milliseconds.
    pub(crate) expires_ms: u64,
}

impl Delay {
    /// The delay queue for messages of `queue` that are to wait at least `after`, as of a time in
    /// milliseconds since 1970.
    ///
    /// All messages of one delay queue wait equally long, so that none waits behind another that waits
    /// longer. A delay is rounded up to a power of two, so that there are few of them.
    ///
    /// A queue that expires takes what is in it along. Redeclaring one does not reliably count as use,
    /// so nothing here depends on that: a name holds for an hour, and a queue lives for more than two
    /// hours and twice its delay. Whatever is put into it at the end of its hour, by a process whose
    /// clock is up to an hour late, leaves it in time.
    ///
    /// A delay queue that takes nothing any more is gone around: `spare` counts those that do so.
    pub(crate) fn of(queue: &str, after: Duration, now_ms: i64, spare: u8) -> Self {
        let after = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        // A broker counts whole milliseconds and may round either way.
        let step_ms = after
            .saturating_add(1)
            .clamp(STEP_MIN, STEP_MAX)
            .next_power_of_two();
        let epoch_ms = EPOCH.as_millis() as u64;
        let epoch = u64::try_from(now_ms).unwrap_or(0) / epoch_ms;
        let kind = match spare {
            0 => "delay".to_owned(),
            spare => format!("delay-{spare}"),
        };
        Self {
            queue: fitted(format!("{OWN}{kind}.{step_ms}.{epoch}.{queue}")),
            step_ms,
            expires_ms: 2 * epoch_ms + 2 * step_ms,
        }
    }
}

fn fitted(name: String) -> String {
    if name.len() <= NAME_BYTES {
        return name;
    }
    let digest = Sha256::digest(name.as_bytes());
    let digest: String = digest[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let mut end = NAME_BYTES - digest.len() - 1;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}~{digest}", &name[..end])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sless_core::{Name, Namespace, Uid};

    use super::*;

    #[test]
    fn reserved_and_impossible_names_are_refused() {
        for queue in ["", "sless.dead.a.b.c", "amq.gen-1", &"q".repeat(256)] {
            let error = check(queue).expect_err(queue);
            assert_eq!(error.reason(), "queue_name", "{error}");
        }
        for queue in ["orders", "sless", "é", &"q".repeat(255)] {
            check(queue).expect("a name");
        }
    }

    #[test]
    fn the_longest_names_fit() {
        let trigger = TriggerId {
            namespace: Namespace::new("n".repeat(63)).expect("a label"),
            name: Name::new("t".repeat(63)).expect("a label"),
            uid: Uid::random(),
        };
        let dead = dead(&trigger);
        assert!(
            dead.len() <= NAME_BYTES && dead.ends_with(trigger.uid.as_str()),
            "{dead}"
        );
        assert!(lock(&dead).len() <= NAME_BYTES);
        assert_ne!(lock(&dead), lock(&fitted(format!("{dead}x"))));
    }

    proptest! {
        #[test]
        fn a_delay_is_never_too_short_and_its_queue_outlives_what_is_in_it(
            after in 0_u64..=86_400_000,
            into_epoch in 0_i64..3_600_000,
            queue in "\\PC{1,255}",
        ) {
            let now = 500_000 * 3_600_000 + into_epoch;
            let after = Duration::from_millis(after);
            let delay = Delay::of(&queue, after, now, 0);
            prop_assert!(delay.queue.len() <= NAME_BYTES);
            let ms = after.as_millis() as u64;
            prop_assert!(delay.step_ms > ms && delay.step_ms <= (2 * ms + 2).max(STEP_MIN));
            // Made at the begin of the hour; the last one goes in at its end, an hour late.
            prop_assert!(delay.expires_ms > 2 * 3_600_000 + delay.step_ms);
            prop_assert_eq!(&Delay::of(&queue, after, now - into_epoch, 0), &delay);
            prop_assert_ne!(&Delay::of(&queue, after, now + 3_600_000, 0).queue, &delay.queue);
            prop_assert_ne!(&Delay::of(&queue, after, now, 1).queue, &delay.queue);
        }
    }
}
