//! [`DeadLetters`]: reading and moving dead letters, one process at a time.
//!
//! A broker shows what is in a queue only by giving it out. So whoever works on the dead letters of a
//! trigger takes them all, without acknowledging, and gives back those that stay; what it has taken,
//! nobody else sees meanwhile. That is why it holds a lock: an exclusive queue, which a broker lets one
//! connection have at a time, and removes when that connection ends, however it does.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{FutureExt as _, StreamExt as _, stream};
use lapin::{
    Acker, Channel, Consumer,
    options::{
        BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicNackOptions,
        BasicQosOptions, QueueDeclareOptions, QueueDeleteOptions, QueuePurgeOptions,
    },
    types::FieldTable,
};
use sless_core::{
    DeadLetterPage, DeadLetterQuery, DeadLetterSelection, Error, ErrorKind, Receipt,
    resource::TriggerId,
};
use tokio::{sync::Mutex, time::timeout};

use crate::{
    AmqpConfig,
    connection::{Link, answer},
    error::{BACKEND, Fault},
    message::Parcel,
    names,
    publisher::{Publisher, look},
};

/// The largest page.
const PAGE_MAX: usize = 1000;

/// How many letters are redriven at once.
const AT_ONCE: usize = 16;

/// The delay between two attempts at the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// The tag of the consumer that takes all letters.
const TAG: &str = "rabbitmq.dead-letters";

/// Works on dead letters.
#[derive(Debug)]
pub(super) struct DeadLetters {
    link: Arc<Link>,
    publisher: Arc<Publisher>,
    config: Arc<AmqpConfig>,
    /// Turns within this process, whose connection may have the lock several times. Triggers share
    /// them by their digest.
    turns: [Mutex<()>; 64],
}

/// Letters that were taken, and the lock.
struct Taken {
    dead: String,
    channel: Channel,
    lock: Channel,
    /// The oldest first.
    letters: Vec<(Parcel, Acker)>,
}

impl DeadLetters {
    pub(super) fn new(
        link: Arc<Link>,
        publisher: Arc<Publisher>,
        config: Arc<AmqpConfig>,
    ) -> Arc<Self> {
        Arc::new(Self {
            link,
            publisher,
            config,
            turns: std::array::from_fn(|_| Mutex::default()),
        })
    }

    fn turn(&self, dead: &str) -> &Mutex<()> {
        let mut hasher = DefaultHasher::new();
        dead.hash(&mut hasher);
        &self.turns[hasher.finish() as usize % self.turns.len()]
    }

    pub(super) async fn page(
        &self,
        trigger: &TriggerId,
        query: &DeadLetterQuery,
    ) -> Result<DeadLetterPage, Fault> {
        let dead = names::dead(trigger);
        let _turn = self.turn(&dead).lock().await;
        let Some(taken) = self.take(&dead).await? else {
            return Ok(DeadLetterPage::default());
        };
        let limit = query.limit.clamp(1, PAGE_MAX);
        let after = query.cursor.as_deref().unwrap_or("");
        let mut page = DeadLetterPage::default();
        let letters = taken.letters.iter().map(|(parcel, _)| parcel);
        for parcel in letters.filter(|parcel| parcel.letter_id().as_str() > after) {
            if page.items.len() == limit {
                page.next = page.items.last().map(|letter| letter.id.clone());
                break;
            }
            page.items.push(parcel.letter());
        }
        self.give_back(taken, 0).await;
        Ok(page)
    }

    pub(super) async fn redrive(
        &self,
        trigger: &TriggerId,
        which: &DeadLetterSelection,
    ) -> Result<u64, Fault> {
        let dead = names::dead(trigger);
        let _turn = self.turn(&dead).lock().await;
        let Some(mut taken) = self.take(&dead).await? else {
            return Ok(0);
        };
        let chosen = split(&mut taken.letters, which);
        let moves = stream::iter(chosen).map(|(parcel, acker)| async move {
            let moved = self.put_back(&parcel).await;
            if moved.is_ok() {
                // Where this fails, it is in both places, and may come twice.
                let ack = acker.ack(BasicAckOptions::default());
                let _ = answer(&self.config, "an acknowledgement", ack).await;
            }
            moved
        });
        let (mut count, mut failed, mut kept) = (0, None, 0);
        let mut moves = moves.buffer_unordered(AT_ONCE);
        while let Some(moved) = moves.next().await {
            match moved {
                Ok(()) => count += 1,
                Err(fault) => {
                    kept += 1;
                    failed.get_or_insert(fault);
                }
            }
        }
        drop(moves);
        self.give_back(taken, kept).await;
        match failed {
            Some(fault) if count == 0 => Err(fault),
            Some(fault) => {
                let why = fault.sentence();
                tracing::warn!(%trigger, count, why, "some dead letters could not be redriven");
                Ok(count)
            }
            None => Ok(count),
        }
    }

    /// Puts a letter into the queue from which it came, as it was.
    async fn put_back(&self, parcel: &Parcel) -> Result<(), Fault> {
        let queue = parcel.note.queue.as_deref().ok_or_else(|| {
            Error::invalid("a dead letter does not say from which queue it came")
                .with_reason("letter_foreign")
        })?;
        let properties = parcel.wrapped(0, None);
        self.publisher
            .publish(queue, properties, &parcel.body)
            .await
    }

    pub(super) async fn purge(
        &self,
        trigger: &TriggerId,
        which: &DeadLetterSelection,
    ) -> Result<u64, Fault> {
        let dead = names::dead(trigger);
        let _turn = self.turn(&dead).lock().await;
        if *which == DeadLetterSelection::All {
            let Some((channel, lock)) = self.lock(&dead).await? else {
                return Ok(0);
            };
            let purge = channel.queue_purge(dead.as_str().into(), QueuePurgeOptions::default());
            let count = answer(&self.config, "purging a queue", purge).await;
            self.unlock(&dead, &channel, &lock).await;
            return Ok(count?.into());
        }
        let Some(mut taken) = self.take(&dead).await? else {
            return Ok(0);
        };
        let mut count = 0;
        for (_, acker) in split(&mut taken.letters, which) {
            let ack = acker.ack(BasicAckOptions::default());
            if answer(&self.config, "an acknowledgement", ack).await? {
                count += 1;
            }
        }
        self.give_back(taken, 0).await;
        Ok(count)
    }

    /// Removes the letters of a trigger and the queue that holds them.
    pub(super) async fn forget(&self, trigger: &TriggerId) -> Result<Receipt, Fault> {
        let dead = names::dead(trigger);
        let _turn = self.turn(&dead).lock().await;
        let mut receipt = Receipt::default();
        let Some((channel, lock)) = self.lock(&dead).await? else {
            return Ok(receipt);
        };
        let delete = channel.queue_delete(dead.as_str().into(), QueueDeleteOptions::default());
        let count = answer(&self.config, "deleting a queue", delete).await;
        self.unlock(&dead, &channel, &lock).await;
        receipt.add("dead_letters", count?.to_string(), BACKEND);
        Ok(receipt)
    }

    /// Locks the letters of a trigger; `None` where there never were any.
    async fn lock(&self, dead: &str) -> Result<Option<(Channel, Channel)>, Fault> {
        let deadline = Instant::now() + self.config.lock();
        let (_, channel) = self.link.channel().await?;
        match look(&self.config, &channel, dead).await {
            Ok(_) => {}
            Err(fault) if fault.is_not_found() => return Ok(None),
            Err(fault) => return Err(fault),
        }
        loop {
            let (_, lock) = self.link.channel().await?;
            let exclusive = QueueDeclareOptions {
                exclusive: true,
                ..QueueDeclareOptions::default()
            };
            let name = names::lock(dead);
            let declared =
                lock.queue_declare(name.as_str().into(), exclusive, FieldTable::default());
            match answer(&self.config, "a lock", declared).await {
                Ok(_) => return Ok(Some((channel, lock))),
                Err(fault) if fault.is_locked() && Instant::now() < deadline => {
                    tokio::time::sleep(LOCK_PAUSE).await;
                }
                Err(fault) if fault.is_locked() => {
                    let message = format!(
                        "another process works on these dead letters, for longer than lock_ms of {} ms",
                        self.config.lock_ms
                    );
                    let error = Error::new(ErrorKind::Overloaded, message);
                    return Err(error.with_reason("limit_lock_ms").into());
                }
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Lets others have their turn. Where it fails, the connection is gone, and with it the lock.
    async fn unlock(&self, dead: &str, channel: &Channel, lock: &Channel) {
        let name = names::lock(dead);
        let delete = lock.queue_delete(name.as_str().into(), QueueDeleteOptions::default());
        let _ = answer(&self.config, "unlocking", delete).await;
        for channel in [channel, lock] {
            let close = channel.close(200, "OK".into());
            let _ = answer(&self.config, "closing a channel", close).await;
        }
    }

    /// Locks the letters of a trigger and takes them all.
    async fn take(&self, dead: &str) -> Result<Option<Taken>, Fault> {
        let Some((channel, lock)) = self.lock(dead).await? else {
            return Ok(None);
        };
        match self.take_all(dead, &channel).await {
            Ok(mut letters) => {
                letters.sort_by_cached_key(|(parcel, _)| parcel.letter_id());
                Ok(Some(Taken {
                    dead: dead.to_owned(),
                    channel,
                    lock,
                    letters,
                }))
            }
            Err(fault) => {
                self.unlock(dead, &channel, &lock).await;
                Err(fault)
            }
        }
    }

    async fn take_all(&self, dead: &str, channel: &Channel) -> Result<Vec<(Parcel, Acker)>, Fault> {
        let config = &self.config;
        let mut letters = Vec::new();
        let (there, _) = look(config, channel, dead).await?;
        if there == 0 {
            return Ok(letters);
        }
        let qos = channel.basic_qos(u16::MAX, BasicQosOptions::default());
        answer(config, "setting the prefetch", qos).await?;
        let consumer = channel.basic_consume(
            dead.into(),
            TAG.into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        );
        let mut consumer = answer(config, "consuming", consumer).await?;
        let mut expected = there as usize;
        loop {
            while letters.len() < expected {
                letters.push(self.next(&mut consumer).await?);
            }
            // What was given out may still be under way to here, but not past the second answer.
            let (ready, _) = look(config, channel, dead).await?;
            look(config, channel, dead).await?;
            while let Some(Some(given)) = consumer.next().now_or_never() {
                letters.push(Parcel::read(given?));
            }
            if ready == 0 {
                break;
            }
            expected = expected.max(letters.len() + 1);
        }
        let cancel = channel.basic_cancel(TAG.into(), BasicCancelOptions::default());
        answer(config, "ending a consumer", cancel).await?;
        while let Some(Some(given)) = consumer.next().now_or_never() {
            letters.push(Parcel::read(given?));
        }
        Ok(letters)
    }

    async fn next(&self, consumer: &mut Consumer) -> Result<(Parcel, Acker), Fault> {
        match timeout(self.config.answer(), consumer.next()).await {
            Ok(Some(given)) => Ok(Parcel::read(given?)),
            Ok(None) => Err(Fault::Cancelled("of dead letters".to_owned())),
            Err(_) => Err(Fault::Late {
                what: "a dead letter",
                limit: "answer_ms",
                wait_ms: self.config.answer_ms,
            }),
        }
    }

    /// Gives back what was not acknowledged: what is left of `taken`, and `more`. Waits until the broker
    /// has it ready again, and unlocks.
    async fn give_back(&self, taken: Taken, more: usize) {
        let Taken {
            dead,
            channel,
            lock,
            letters,
        } = taken;
        let all = BasicNackOptions {
            multiple: true,
            requeue: true,
        };
        let stay = letters.len() + more;
        if stay > 0 {
            let nack = channel.basic_nack(0, all);
            let _ = answer(&self.config, "giving back", nack).await;
        }
        let deadline = Instant::now() + self.config.answer();
        let mut pause = Duration::from_millis(1);
        while let Ok((ready, _)) = look(&self.config, &channel, &dead).await {
            if ready as usize >= stay || Instant::now() >= deadline {
                break;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LOCK_PAUSE);
        }
        self.unlock(&dead, &channel, &lock).await;
    }
}

/// Takes the chosen letters out.
fn split(letters: &mut Vec<(Parcel, Acker)>, which: &DeadLetterSelection) -> Vec<(Parcel, Acker)> {
    let (chosen, rest) = std::mem::take(letters)
        .into_iter()
        .partition(|(parcel, _)| which.contains(&parcel.letter_id()));
    *letters = rest;
    chosen
}
