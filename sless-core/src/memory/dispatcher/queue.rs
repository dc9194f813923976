//! The queues and dead letters of a [`MemoryDispatcher`](super::MemoryDispatcher).

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use super::{
    super::{
        lock,
        tick::{Tick, Ticks},
    },
    MemoryDispatcherConfig,
};
use crate::{
    Clock, DeadLetter, DeadLetterPage, DeadLetterQuery, DeadLetterSelection, Error, Message,
    Namespace, Result, resource::TriggerId,
};

/// What outlives every consumer.
pub(super) struct Store {
    clock: Arc<dyn Clock>,
    config: MemoryDispatcherConfig,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    queues: BTreeMap<QueueName, Queue>,
    dead: BTreeMap<TriggerId, VecDeque<Dead>>,
    /// Counts messages and dead letters, to keep them in order.
    next: u64,
}

pub(super) type QueueName = (Namespace, String);

#[derive(Default)]
struct Queue {
    /// Messages to deliver, by order of arrival.
    ready: BTreeMap<u64, Item>,
    /// Messages that wait for their time, on the clock's scale of elapsed time.
    delayed: BTreeMap<(Duration, u64), Item>,
    /// Messages that a consumer has.
    held: usize,
    tick: Tick,
}

#[derive(Clone)]
struct Item {
    message: Message,
    attempt: u32,
}

struct Dead {
    number: u64,
    queue: QueueName,
    letter: DeadLetter,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queues = lock(&self.state).queues.len();
        f.debug_struct("Store")
            .field("config", &self.config)
            .field("queues", &queues)
            .finish()
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl Store {
    pub(super) fn new(clock: Arc<dyn Clock>, config: MemoryDispatcherConfig) -> Self {
        Self {
            clock,
            config,
            state: Mutex::default(),
        }
    }

    pub(super) fn publish(
        &self,
        namespace: &Namespace,
        queue: &str,
        mut message: Message,
    ) -> Result<()> {
        let config = &self.config;
        if message_bytes(&message) > config.message_bytes {
            return Err(Error::limit("message_bytes", config.message_bytes, "bytes"));
        }
        message.published_at.get_or_insert_with(|| self.clock.now());
        let mut state = lock(&self.state);
        let name = (namespace.clone(), queue.to_owned());
        if !state.queues.contains_key(&name) && state.queues.len() >= config.queues {
            return Err(Error::limit("queues", config.queues, ""));
        }
        let number = state.number();
        let queue = state.queues.entry(name).or_default();
        if queue.ready.len() + queue.delayed.len() + queue.held >= config.queue_messages {
            return Err(Error::limit(
                "queue_messages",
                config.queue_messages,
                "messages",
            ));
        }
        queue.ready.insert(
            number,
            Item {
                message,
                attempt: 1,
            },
        );
        queue.tick.tell();
        Ok(())
    }

    /// Tells of new messages in a queue, which is made if it is not there.
    pub(super) fn subscribe(&self, name: &QueueName) -> Ticks {
        lock(&self.state)
            .queues
            .entry(name.clone())
            .or_default()
            .tick
            .subscribe()
    }

    /// Messages that wait, those for their time too.
    pub(super) fn waiting(&self, namespace: &Namespace, queue: &str) -> u64 {
        let state = lock(&self.state);
        let queue = state.queues.get(&(namespace.clone(), queue.to_owned()));
        queue.map_or(0, |queue| (queue.ready.len() + queue.delayed.len()) as u64)
    }

    /// Takes the oldest message whose time has come; else says how long until the next one's.
    pub(super) fn take(self: &Arc<Self>, name: &QueueName) -> Result<Held, Option<Duration>> {
        let now = self.clock.elapsed();
        let mut state = lock(&self.state);
        let Some(queue) = state.queues.get_mut(name) else {
            return Err(None);
        };
        while let Some(entry) = queue.delayed.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let ((_, number), item) = entry.remove_entry();
            queue.ready.insert(number, item);
        }
        match queue.ready.pop_first() {
            Some((number, item)) => {
                queue.held += 1;
                Ok(Held {
                    store: Arc::clone(self),
                    name: name.clone(),
                    number,
                    item: Some(item),
                })
            }
            None => {
                let next = queue.delayed.first_key_value();
                Err(next.map(|((at, _), _)| at.saturating_sub(now)))
            }
        }
    }

    pub(super) fn dead_letters(
        &self,
        trigger: &TriggerId,
        query: &DeadLetterQuery,
    ) -> Result<DeadLetterPage> {
        let after: u64 = match &query.cursor {
            None => 0,
            Some(cursor) => cursor.parse().map_err(|_| {
                Error::invalid("the cursor is not one that a page gave")
                    .with_reason("cursor_invalid")
            })?,
        };
        let state = lock(&self.state);
        let letters = state.dead.get(trigger).into_iter().flatten();
        let mut rest = letters.filter(|dead| dead.number > after);
        let page: Vec<_> = rest.by_ref().take(query.limit.max(1)).collect();
        let last = page.last().filter(|_| rest.next().is_some());
        Ok(DeadLetterPage {
            next: last.map(|dead| dead.number.to_string()),
            items: page.into_iter().map(|dead| dead.letter.clone()).collect(),
        })
    }

    /// How many dead letters each trigger has.
    pub(super) fn letters(&self) -> Vec<(TriggerId, usize)> {
        let state = lock(&self.state);
        let all = state.dead.iter();
        all.map(|(trigger, letters)| (trigger.clone(), letters.len()))
            .collect()
    }

    pub(super) fn redrive(&self, trigger: &TriggerId, which: &DeadLetterSelection) -> u64 {
        let mut state = lock(&self.state);
        let chosen = state.choose(trigger, which);
        let count = chosen.len() as u64;
        for dead in chosen {
            let number = state.number();
            let queue = state.queues.entry(dead.queue).or_default();
            queue.ready.insert(
                number,
                Item {
                    message: dead.letter.message,
                    attempt: 1,
                },
            );
            queue.tick.tell();
        }
        count
    }

    pub(super) fn purge(&self, trigger: &TriggerId, which: &DeadLetterSelection) -> u64 {
        lock(&self.state).choose(trigger, which).len() as u64
    }
}

impl State {
    /// Takes the chosen ones out of the dead letters of a trigger.
    fn choose(&mut self, trigger: &TriggerId, which: &DeadLetterSelection) -> Vec<Dead> {
        let all = self.dead.remove(trigger).unwrap_or_default();
        let (mut chosen, mut rest) = (Vec::new(), VecDeque::new());
        for dead in all {
            if which.contains(&dead.letter.id) {
                chosen.push(dead);
            } else {
                rest.push_back(dead);
            }
        }
        if !rest.is_empty() {
            self.dead.insert(trigger.clone(), rest);
        }
        chosen
    }
}

fn message_bytes(message: &Message) -> usize {
    let headers = message
        .headers
        .iter()
        .map(|(name, value)| name.len() + value.len());
    let content_type = message.content_type.as_ref().map_or(0, String::len);
    message.body.len() + message.id.len() + content_type + headers.sum::<usize>()
}

/// A message that a consumer has. Dropped without a word, it is in its queue again, in its old place.
pub(super) struct Held {
    store: Arc<Store>,
    name: QueueName,
    number: u64,
    item: Option<Item>,
}

impl Held {
    pub(super) fn message(&self) -> Message {
        self.item
            .as_ref()
            .map(|item| item.message.clone())
            .unwrap_or_default()
    }

    pub(super) fn attempt(&self) -> u32 {
        self.item.as_ref().map_or(1, |item| item.attempt)
    }

    /// It was handled.
    pub(super) fn done(mut self) {
        self.settle(|_, _, _| ());
    }

    /// It comes again after this time.
    pub(super) fn retry(self, after: Duration) {
        self.again(after, 1);
    }

    /// It was not tried: it comes again after this time, as the same attempt.
    pub(super) fn release(self, after: Duration) {
        self.again(after, 0);
    }

    fn again(mut self, after: Duration, attempts: u32) {
        let due = self.store.clock.elapsed().saturating_add(after);
        self.settle(|state, name, (number, item)| {
            let queue = state.queues.entry(name.clone()).or_default();
            let item = Item {
                attempt: item.attempt.saturating_add(attempts),
                ..item
            };
            queue.delayed.insert((due, number), item);
        });
    }

    /// It becomes a dead letter of this trigger. Gives itself back, with the limit, where there is
    /// no place for one more.
    pub(super) fn dead(
        mut self,
        trigger: &TriggerId,
        reason: String,
    ) -> Result<(), Box<(Self, Error)>> {
        let most = self.store.config.dead_letters;
        let count = lock(&self.store.state)
            .dead
            .get(trigger)
            .map_or(0, VecDeque::len);
        if count >= most {
            let limit = Error::limit("dead_letters", most, "dead letters");
            return Err(Box::new((self, limit)));
        }
        let died_at = self.store.clock.now();
        self.settle(|state, name, (_, item)| {
            let number = state.number();
            let letter = DeadLetter {
                id: number.to_string(),
                message: item.message,
                reason,
                attempts: item.attempt,
                died_at,
            };
            let dead = Dead {
                number,
                queue: name.clone(),
                letter,
            };
            state
                .dead
                .entry(trigger.clone())
                .or_default()
                .push_back(dead);
        });
        Ok(())
    }

    /// Ends the hold and does `work` with the message, in one step.
    fn settle(&mut self, work: impl FnOnce(&mut State, &QueueName, (u64, Item))) {
        let Some(item) = self.item.take() else { return };
        let store = Arc::clone(&self.store);
        let mut state = lock(&store.state);
        work(&mut state, &self.name, (self.number, item));
        if let Some(queue) = state.queues.get_mut(&self.name) {
            queue.held -= 1;
            queue.tick.tell();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.settle(|state, name, (number, item)| {
            state
                .queues
                .entry(name.clone())
                .or_default()
                .ready
                .insert(number, item);
        });
    }
}
