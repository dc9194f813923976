//! Dead letters, with several processes at work on them.

use std::{collections::BTreeSet, sync::Arc};

use sless_amqp::{AmqpConfig, AmqpDispatcher};
use sless_core::{
    DeadLetter, DeadLetterQuery, DeadLetterSelection, Dispatcher, Disposition, Message,
    Publish as _, Subscription,
};

use super::support::{
    config, delete, eventually, handling, look, open, shared, sink, subscription, when,
};

async fn letters(dispatcher: &dyn Dispatcher, of: &Subscription) -> Vec<DeadLetter> {
    let query = DeadLetterQuery::first(1000);
    dispatcher
        .dead_letters(&of.trigger, &query)
        .await
        .expect("read")
        .items
}

/// Lets so many messages die.
async fn kill(dispatcher: &Arc<AmqpDispatcher>, subscription: &Subscription, count: u32) {
    let dying = sink(|_| Disposition::Dead {
        reason: "of no use".to_owned(),
    });
    dispatcher
        .apply(subscription, dying)
        .await
        .expect("applied");
    for number in 0..count {
        let message = Message {
            id: number.to_string(),
            body: number.to_string().into(),
            ..Message::default()
        };
        let namespace = &subscription.trigger.namespace;
        dispatcher
            .publish(namespace, &subscription.queue, message)
            .await
            .expect("published");
    }
    eventually("all are dead", || async {
        let found = letters(&**dispatcher, subscription).await.len();
        when(found == count as usize, found)
    })
    .await;
    dispatcher
        .remove(&subscription.trigger)
        .await
        .expect("removed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs RabbitMQ: testing/rabbitmq/up"]
async fn processes_that_read_redrive_and_purge_at_once_lose_and_double_nothing() {
    const LETTERS: u32 = 60;
    let url = shared();
    let subscription = subscription(4);
    let dispatchers = [open(&url).await, open(&url).await, open(&url).await];
    kill(&dispatchers[0], &subscription, LETTERS).await;
    let ids: Vec<_> = letters(&*dispatchers[0], &subscription)
        .await
        .into_iter()
        .map(|l| l.id)
        .collect();
    let (redriven, purged) = ids.split_at(40);
    let mut tasks = Vec::new();
    for (at, dispatcher) in dispatchers.iter().enumerate() {
        let (dispatcher, subscription) = (dispatcher.clone(), subscription.clone());
        let (redriven, purged) = (redriven.to_vec(), purged.to_vec());
        tasks.push(tokio::spawn(async move {
            let (mut moved, mut gone) = (0, 0);
            for some in 0..5 {
                // All see the same ids, and each letter is moved by one of them.
                let of = |ids: &[String]| {
                    let step = ids.len() / 5;
                    DeadLetterSelection::Ids(ids[some * step..(some + 1) * step].to_vec())
                };
                if (some + at) % 2 == 0 {
                    let seen = letters(&*dispatcher, &subscription).await;
                    let sorted: Vec<_> = seen.iter().map(|letter| letter.id.clone()).collect();
                    assert!(sorted.is_sorted(), "{sorted:?}");
                }
                moved += dispatcher
                    .redrive(&subscription.trigger, &of(&redriven))
                    .await
                    .expect("redriven");
                gone += dispatcher
                    .purge(&subscription.trigger, &of(&purged))
                    .await
                    .expect("purged");
            }
            (moved, gone)
        }));
    }
    let (mut moved, mut gone) = (0, 0);
    for task in tasks {
        let (some, others) = task.await.expect("no panic");
        moved += some;
        gone += others;
    }
    assert_eq!((moved, gone), (40, 20), "redriven and purged, in all");
    assert_eq!(
        letters(&*dispatchers[1], &subscription).await,
        [],
        "what is left"
    );
    let later = handling();
    dispatchers[2]
        .apply(&subscription, later.clone())
        .await
        .expect("applied");
    eventually("all that were redriven are delivered", || async {
        let calls = later.calls().len();
        when(calls >= 40, calls)
    })
    .await;
    let bodies: BTreeSet<_> = later
        .calls()
        .into_iter()
        .map(|call| call.delivery.message.id)
        .collect();
    assert_eq!(
        (bodies.len(), later.calls().len()),
        (40, 40),
        "each came once"
    );
    dispatchers[2]
        .forget(&subscription.trigger)
        .await
        .expect("forgotten");
    delete(&url, &subscription.queue).await;
}

#[tokio::test]
#[ignore = "needs RabbitMQ: testing/rabbitmq/up"]
async fn a_letter_whose_queue_is_gone_stays_a_letter() {
    let url = shared();
    let (dispatcher, subscription) = (open(&url).await, subscription(1));
    kill(&dispatcher, &subscription, 2).await;
    delete(&url, &subscription.queue).await;
    let redriven = dispatcher
        .redrive(&subscription.trigger, &DeadLetterSelection::All)
        .await;
    let error = redriven.expect_err("there is no queue");
    assert_eq!(error.reason(), "queue_missing", "{error}");
    assert_eq!(
        letters(&*dispatcher, &subscription).await.len(),
        2,
        "what is left"
    );
    // Made again, it takes them.
    let later = handling();
    dispatcher
        .apply(&subscription, later.clone())
        .await
        .expect("applied");
    let moved = eventually("they can be redriven", || async {
        let which = DeadLetterSelection::All;
        let moved = dispatcher.redrive(&subscription.trigger, &which).await;
        when(moved.is_ok(), moved)
    })
    .await;
    assert_eq!(moved.expect("redriven"), 2);
    eventually("they are delivered", || async {
        let calls = later.calls().len();
        when(calls == 2, calls)
    })
    .await;
    dispatcher
        .forget(&subscription.trigger)
        .await
        .expect("forgotten");
    delete(&url, &subscription.queue).await;
}

#[tokio::test]
#[ignore = "needs RabbitMQ: testing/rabbitmq/up"]
async fn where_there_is_no_room_for_a_letter_its_message_stays_in_the_queue() {
    let url = shared();
    let mut small = config(&url);
    small.dead_letters = 2;
    let dispatcher = Arc::new(AmqpDispatcher::connect(small).await.expect("a dispatcher"));
    let subscription = subscription(1);
    kill(&dispatcher, &subscription, 2).await;
    let dying = sink(|_| Disposition::Dead {
        reason: "of no use".to_owned(),
    });
    dispatcher
        .apply(&subscription, dying)
        .await
        .expect("applied");
    let namespace = &subscription.trigger.namespace;
    for _ in 0..3 {
        // The limit of a quorum queue is soft by a message or two.
        let message = Message::default();
        dispatcher
            .publish(namespace, &subscription.queue, message)
            .await
            .expect("published");
    }
    eventually("the status names the limit", || async {
        let status = dispatcher
            .status(&subscription.trigger)
            .await
            .expect("a status")
            .expect("one");
        when(status.message.contains("dead_letters of 2"), status)
    })
    .await;
    let purged = dispatcher
        .purge(&subscription.trigger, &DeadLetterSelection::All)
        .await
        .expect("purged");
    // It is soft by a message or two, and one more may have come in by now.
    assert!((2..5).contains(&purged), "the limit of 2 let {purged} in");
    let rest = 5 - usize::try_from(purged).expect("a small number");
    eventually("the rest becomes dead letters, too", || async {
        let found = letters(&*dispatcher, &subscription).await.len();
        let waiting = look(&url, &subscription.queue).await;
        when(found == rest && waiting == Some((0, 1)), (found, waiting))
    })
    .await;
    dispatcher
        .forget(&subscription.trigger)
        .await
        .expect("forgotten");
    delete(&url, &subscription.queue).await;
    assert_eq!(AmqpConfig::new("").dead_letters, 10_000);
}
