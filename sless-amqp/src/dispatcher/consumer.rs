//! The task that serves one subscription.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use futures::StreamExt as _;
use lapin::{
    Acker, Channel,
    options::{BasicCancelOptions, BasicConsumeOptions, BasicQosOptions},
    types::FieldTable,
};
use sless_core::{Changes, QueueDeclare};
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    call::{Calls, give_back},
    counters::InFlight,
};
use crate::{
    connection::{Link, State, answer},
    error::{BACKEND, Fault},
    message::Parcel,
    publisher::{Wanted, classic, declare, look, quorum},
    rescue::rescue,
};

/// Consumes for one subscription, over as many connections as it takes.
#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) link: Arc<Link>,
    pub(super) changes: Changes,
    pub(super) calls: Arc<Calls>,
    /// The channel of now, for whoever wants to look at the queue.
    pub(super) seen: Arc<Mutex<Option<Channel>>>,
    /// Told when the broker gives this consumer nothing any more.
    pub(super) silent: CancellationToken,
    /// Told when another consumer follows this one, and speaks for the trigger from then on.
    pub(super) followed: CancellationToken,
}

/// A message that was taken ahead.
struct Ahead {
    parcel: Parcel,
    acker: Acker,
    since: Instant,
}

/// Why a consumer stopped consuming.
enum End {
    /// It was told to.
    Stop,
    /// Something went wrong; whether it had worked before.
    Fault(Fault, bool),
}

impl Consumer {
    /// Serves until told to stop, and then finishes what is in flight.
    pub(super) async fn run(self) {
        let mut running = JoinSet::new();
        let mut failures = 0;
        let mut state = self.link.watch();
        while !self.calls.stop.is_cancelled() {
            match self.serve(&mut running).await {
                End::Stop => break,
                End::Fault(fault, worked) => {
                    self.disconnected(&fault);
                    if worked {
                        failures = 0;
                    }
                    if matches!(fault, Fault::Unreadable) {
                        self.rescue().await;
                    }
                }
            }
            self.pause(&mut state, failures).await;
            failures = failures.saturating_add(1);
        }
        self.silent.cancel();
        while running.join_next().await.is_some() {}
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let (counters, sentence) = (&self.calls.counters, "the subscription has ended");
        if !self.followed.is_cancelled() && counters.disconnect("ended", sentence) {
            self.changes.notify(self.calls.subscription.trigger.key());
        }
    }

    fn connected(&self) {
        if self.calls.counters.connect() {
            self.changes.notify(self.calls.subscription.trigger.key());
        }
    }

    fn disconnected(&self, fault: &Fault) {
        let (word, sentence) = (fault.word(), fault.sentence());
        if self.calls.counters.disconnect(&word, &sentence) {
            tracing::warn!(
                trigger = %self.calls.subscription.trigger,
                queue = self.calls.subscription.queue,
                why = sentence,
                "a trigger is disconnected; it is tried again"
            );
            self.changes.notify(self.calls.subscription.trigger.key());
        }
    }

    /// Takes messages out of the way that end a connection by themselves. Which queue they are in is not
    /// known, so each subscription looks into its own.
    async fn rescue(&self) {
        let calls = &self.calls;
        let rescue = rescue(&calls.config, &calls.publisher, &calls.subscription);
        let found = tokio::select! {
            found = rescue => found,
            () = calls.stop.cancelled() => return,
        };
        match found {
            Ok(count) => (0..count).for_each(|_| calls.counters.count_dead()),
            Err(fault) => {
                let (why, trigger) = (fault.sentence(), &calls.subscription.trigger);
                tracing::warn!(%trigger, why, "messages that cannot be read stay in the queue");
            }
        }
    }

    /// Waits after a failure: until the delay has passed, or, where there is no connection, until there
    /// is one.
    async fn pause(&self, state: &mut watch::Receiver<State>, failures: u32) {
        let delay = tokio::time::sleep(self.calls.config.backoff(failures));
        let was_down = matches!(*state.borrow(), State::Down(_));
        let up = async {
            if was_down {
                // An error means that the link is gone, and with it this consumer.
                let _ = state.wait_for(|state| matches!(state, State::Up(..))).await;
            } else {
                delay.await;
            }
        };
        tokio::select! {
            () = up => {}
            () = self.calls.stop.cancelled() => {}
        }
    }

    /// Consumes over one channel, until that ends.
    async fn serve(&self, running: &mut JoinSet<()>) -> End {
        let mut worked = false;
        match self.consume(running, &mut worked).await {
            Ok(()) => End::Stop,
            Err(fault) => {
                // The fault of a channel is often that of its connection, which says it better.
                let fault = match self.link.state() {
                    State::Down(why) => why,
                    State::Up(..) => fault,
                };
                End::Fault(fault, worked)
            }
        }
    }

    async fn consume(&self, running: &mut JoinSet<()>, worked: &mut bool) -> Result<(), Fault> {
        let (config, stop) = (&self.calls.config, &self.calls.stop);
        let begin = async {
            let (_, channel) = self.link.channel().await?;
            let channel = self.ensure_queue(channel).await?;
            let delivery = &self.calls.subscription.delivery;
            let window = delivery.in_flight.max(1).saturating_add(delivery.prefetch);
            let window = u16::try_from(window).unwrap_or(u16::MAX);
            let qos = channel.basic_qos(window, BasicQosOptions::default());
            answer(config, "setting the prefetch", qos).await?;
            let trigger = &self.calls.subscription.trigger;
            let tag = format!("{BACKEND}.{}.{}", trigger.namespace, trigger.name);
            let queue = self.calls.subscription.queue.as_str();
            let consumer = channel.basic_consume(
                queue.into(),
                tag.as_str().into(),
                BasicConsumeOptions::default(),
                FieldTable::default(),
            );
            let consumer = answer(config, "consuming", consumer).await?;
            Ok::<_, Fault>((channel, consumer))
        };
        let (channel, consumer) = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            begun = begin => begun?,
        };
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(channel.clone());
        *worked = true;
        self.connected();
        let ended = self.serve_channel(&channel, consumer, running).await;
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = None;
        ended
    }

    /// The queue, as the trigger says: one that is there is taken as it is.
    async fn ensure_queue(&self, channel: Channel) -> Result<Channel, Fault> {
        let (config, subscription) = (&self.calls.config, &self.calls.subscription);
        let queue = &subscription.queue;
        match look(config, &channel, queue).await {
            Ok(_) => return Ok(channel),
            Err(fault) if fault.is_not_found() => {}
            Err(fault) => return Err(fault),
        }
        let arguments = match subscription.declare {
            QueueDeclare::Never => return Err(Fault::NoQueue(queue.clone())),
            QueueDeclare::Classic => classic(),
            _ => quorum(),
        };
        // The broker has closed the other one.
        let (_, channel) = self.link.channel().await?;
        let wanted = Wanted {
            queue: queue.clone(),
            arguments,
        };
        declare(config, &channel, &wanted).await?;
        Ok(channel)
    }

    async fn serve_channel(
        &self,
        channel: &Channel,
        mut consumer: lapin::Consumer,
        running: &mut JoinSet<()>,
    ) -> Result<(), Fault> {
        let stop = &self.calls.stop;
        let mut ahead: VecDeque<Ahead> = VecDeque::new();
        let mut looks = tokio::time::interval(self.calls.config.look());
        looks.reset();
        let mut blocked = self.calls.publisher.link().watch_blocked();
        let mut link = self.link.watch();
        let ended = loop {
            self.begin_calls(&mut ahead, running);
            tokio::select! {
                biased;
                () = stop.cancelled() => break Ok(()),
                given = consumer.next() => match given {
                    Some(Ok(given)) => {
                        let (parcel, acker) = Parcel::read(given);
                        let since = Instant::now();
                        ahead.push_back(Ahead { parcel, acker, since });
                    }
                    Some(Err(error)) => break Err(error.into()),
                    None => break Err(self.cancelled(channel)),
                },
                Some(_) = running.join_next(), if !running.is_empty() => {}
                () = self.calls.counters.freed.notified(), if !ahead.is_empty() => {}
                Ok(()) = blocked.changed() => self.tell_blocked(blocked.borrow_and_update().clone()),
                // A consumer is not always told that its connection is gone.
                Ok(()) = link.changed() => {
                    if let State::Down(why) = link.borrow_and_update().clone() {
                        break Err(why);
                    }
                }
                _ = looks.tick() => {
                    let queue = &self.calls.subscription.queue;
                    if let Err(fault) = look(&self.calls.config, channel, queue).await {
                        break Err(fault);
                    }
                    self.let_go(&mut ahead).await;
                }
            }
        };
        if ended.is_ok() {
            self.end_consuming(channel, consumer, ahead).await;
            self.silent.cancel();
            // Their acknowledgements need the channel.
            while running.join_next().await.is_some() {}
            let close = channel.close(200, "OK".into());
            let _ = answer(&self.calls.config, "closing a channel", close).await;
        } else {
            self.calls.counters.set_ahead(0);
        }
        ended
    }

    fn begin_calls(&self, ahead: &mut VecDeque<Ahead>, running: &mut JoinSet<()>) {
        let most = u64::from(self.calls.subscription.delivery.in_flight.max(1));
        let counters = &self.calls.counters;
        while counters.in_flight() < most
            && let Some(Ahead { parcel, acker, .. }) = ahead.pop_front()
        {
            let (calls, in_flight) = (self.calls.clone(), InFlight::new(counters.clone()));
            running.spawn(async move { calls.run(parcel, acker, in_flight).await });
        }
        counters.set_ahead(ahead.len());
    }

    /// Gives back what has waited for a call so long that the broker would take it for lost.
    async fn let_go(&self, ahead: &mut VecDeque<Ahead>) {
        let hold = self.calls.config.hold();
        while ahead
            .front()
            .is_some_and(|first| first.since.elapsed() >= hold)
        {
            if let Some(first) = ahead.pop_front() {
                give_back(&self.calls.config, &first.acker).await;
            }
        }
        self.calls.counters.set_ahead(ahead.len());
    }

    /// Tells the broker that nothing more is wanted, and gives back what was not begun.
    async fn end_consuming(
        &self,
        channel: &Channel,
        mut consumer: lapin::Consumer,
        ahead: VecDeque<Ahead>,
    ) {
        let cancel = channel.basic_cancel(consumer.tag(), BasicCancelOptions::default());
        if answer(&self.calls.config, "ending a consumer", cancel)
            .await
            .is_err()
        {
            // Then the channel is gone, and with it whatever it held.
            return;
        }
        for waiting in ahead {
            give_back(&self.calls.config, &waiting.acker).await;
        }
        // What was under way to here when the broker was told.
        while let Some(Some(Ok(given))) = futures::FutureExt::now_or_never(consumer.next()) {
            give_back(&self.calls.config, &given.acker).await;
        }
        self.calls.counters.set_ahead(0);
    }

    fn tell_blocked(&self, why: Option<String>) {
        match why {
            Some(why) => self.disconnected(&Fault::Blocked(why)),
            None => self.connected(),
        }
    }

    /// Why there are no more messages of a channel.
    fn cancelled(&self, channel: &Channel) -> Fault {
        if channel.status().connected() {
            Fault::Cancelled(self.calls.subscription.queue.clone())
        } else {
            Fault::Disconnected {
                place: self.calls.config.place(),
                why: "the broker closed the channel".to_owned(),
            }
        }
    }
}
