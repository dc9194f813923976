//! Trying again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use sless_core::{Delivery, Disposition, EventSink};

use super::{Case, RecordingSink, case::message};
use crate::{
    Outcome,
    clause::{ensure, ensure_eq},
    harness::{eventually, when},
};

fn again(after: Duration) -> Disposition {
    Disposition::Retry {
        after,
        reason: "the sink of this test is not ready".to_owned(),
    }
}

pub(super) async fn attempts_are_counted(case: &Case<'_>) -> Outcome {
    let subscription = case.subscription()?;
    let sink = case.sink(|delivery| {
        if delivery.attempt < 5 {
            again(Duration::from_millis(20))
        } else {
            Disposition::Done
        }
    });
    case.apply(&subscription, &sink).await?;
    let mut sent = message("again");
    sent.headers.insert("x-one".to_owned(), "1".to_owned());
    case.publish(&subscription, sent).await?;
    case.bodies(&sink, 5).await?;
    let calls = sink.calls();
    let attempts: Vec<_> = calls.iter().map(|call| call.delivery.attempt).collect();
    ensure_eq!(attempts, [1, 2, 3, 4, 5], "the attempts of one message");
    for call in &calls {
        ensure_eq!(
            &call.delivery.message.body[..],
            b"again",
            "the body of a later attempt"
        );
        let header = call
            .delivery
            .message
            .headers
            .get("x-one")
            .map(String::as_str);
        ensure_eq!(header, Some("1"), "a header of a later attempt");
    }
    Ok(())
}

pub(super) async fn a_retry_waits_its_time(case: &Case<'_>) -> Outcome {
    let subscription = case.subscription()?;
    let sink = case.sink(|delivery| match delivery.attempt {
        1 => again(Duration::from_millis(300)),
        2 => again(Duration::from_millis(1_200)),
        3 => again(Duration::from_millis(500)),
        _ => Disposition::Done,
    });
    case.apply(&subscription, &sink).await?;
    case.publish(&subscription, message("later")).await?;
    case.bodies(&sink, 4).await?;
    let times: Vec<_> = sink.calls().iter().map(|call| call.at).collect();
    for (at, least) in [300, 1_200, 500].into_iter().enumerate() {
        let waited = times[at + 1] - times[at];
        // A broker may count in whole milliseconds.
        let least = Duration::from_millis(least - 2);
        ensure!(
            waited >= least,
            "it came again after {waited:?}, sooner than {least:?}"
        );
    }
    Ok(())
}

pub(super) async fn a_waiting_retry_holds_nobody_up(case: &Case<'_>) -> Outcome {
    let subscription = case.subscription()?;
    let sink = case.sink(
        |delivery| match (&delivery.message.body[..], delivery.attempt) {
            (b"waits", 1) => again(Duration::from_secs(3)),
            _ => Disposition::Done,
        },
    );
    case.apply(&subscription, &sink).await?;
    case.publish(&subscription, message("waits")).await?;
    eventually!(case.harness, "the first attempt has failed", {
        let calls = sink.calls().len();
        when(calls == 1 && sink.at_once() == 0, calls)
    });
    case.publish_all(&subscription, ["next", "after"].map(str::to_owned))
        .await?;
    eventually!(case.harness, "all are handled in the end", {
        let calls = sink.calls().len();
        when(calls >= 4, calls)
    });
    let order: Vec<_> = sink
        .calls()
        .iter()
        .map(|call| String::from_utf8_lossy(&call.delivery.message.body).into_owned())
        .collect();
    ensure_eq!(order[3], "waits", "what came last of {order:?}");
    Ok(())
}

/// A sink that panics first.
#[derive(Debug)]
struct Panicking {
    left: AtomicU32,
    inner: Arc<RecordingSink>,
}

#[async_trait]
impl EventSink for Panicking {
    async fn deliver(&self, delivery: Delivery) -> Disposition {
        let fewer = |left: u32| left.checked_sub(1);
        if self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer)
            .is_ok()
        {
            // Unwinds as a panic does, without its noise.
            std::panic::resume_unwind(Box::new("the sink of this test panics"));
        }
        self.inner.deliver(delivery).await
    }
}

pub(super) async fn a_sink_that_panics_gets_the_message_again(case: &Case<'_>) -> Outcome {
    let (subscription, inner) = (case.subscription()?, case.handling());
    let sink = Panicking {
        left: AtomicU32::new(2),
        inner: inner.clone(),
    };
    case.apply_any(&subscription, Arc::new(sink)).await?;
    case.publish_all(&subscription, ["one", "two", "three"].map(str::to_owned))
        .await?;
    let found = case.bodies(&inner, 3).await?;
    ensure_eq!(
        found,
        ["one", "three", "two"],
        "what was handled after two panics"
    );
    Ok(())
}

pub(super) async fn a_released_message_comes_again_uncounted(case: &Case<'_>) -> Outcome {
    let (subscription, calls) = (case.subscription()?, Arc::new(AtomicU32::new(0)));
    let sink = case.sink(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        0 | 1 => Disposition::Release,
        2 => again(Duration::from_millis(10)),
        3 => Disposition::Release,
        _ => Disposition::Done,
    });
    case.apply(&subscription, &sink).await?;
    case.publish(&subscription, message("released")).await?;
    case.bodies(&sink, 5).await?;
    let attempts: Vec<_> = sink
        .calls()
        .iter()
        .map(|call| call.delivery.attempt)
        .collect();
    ensure_eq!(
        attempts,
        [1, 1, 1, 2, 2],
        "the attempts of a message that is released"
    );
    ensure_eq!(
        case.letters(&subscription.trigger, 10).await?,
        [],
        "its dead letters"
    );
    Ok(())
}
