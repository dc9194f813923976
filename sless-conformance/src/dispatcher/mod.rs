//! The suite of [`Dispatcher`]; its contract is
//! `docs/contracts/dispatcher.md`.

mod case;
mod crash;
mod dead;
mod deliver;
mod retry;
mod sink;
mod subscription;

use std::sync::Arc;

use async_trait::async_trait;
use sless_core::{Dispatcher, Namespace, Publish, Result};

use crate::{Harness, suite::suite};
use case::Case;
pub use sink::{Recorded, RecordingSink};

/// What the suite has to know of a dispatcher.
#[async_trait]
pub trait DispatcherHarness: Harness {
    /// The dispatcher. The same one at each call, until `reopen`.
    ///
    /// # Errors
    /// Whatever keeps it from being there; the clause then fails with it.
    async fn dispatcher(&self) -> Result<Arc<dyn Dispatcher>>;

    /// What puts messages into its queues.
    ///
    /// # Errors
    /// Whatever keeps it from being there.
    async fn publisher(&self) -> Result<Arc<dyn Publish>>;

    /// Ends the dispatcher as a crash would, calls of sinks included, and opens another one over the
    /// same queues, which `dispatcher` and `publisher` give from then on. The clause holds no handle
    /// of the old ones when it calls this. Answers `false` where the queues end with the process.
    ///
    /// # Errors
    /// Whatever keeps it from being opened.
    async fn reopen(&self) -> Result<bool>;

    /// Whether queues of the same name in two namespaces are two queues.
    fn separates_namespaces(&self) -> bool;

    /// The most bytes of a message, where the backend has a limit that a clause can reach.
    fn message_bytes_max(&self) -> Option<usize>;

    /// Removes a queue and what is in it, where the backend keeps queues that nobody uses. Called
    /// for each queue of a clause when it is over.
    ///
    /// # Errors
    /// Whatever goes wrong.
    async fn remove_queue(&self, namespace: &Namespace, queue: &str) -> Result<()>;
}

suite! {
    ($)
    /// Makes a test of each clause of [`Dispatcher`](sless_core::Dispatcher)'s contract.
    ///
    /// Takes an expression that makes a
    /// [`DispatcherHarness`](crate::dispatcher::DispatcherHarness); it may `await`. Attributes in
    /// front go to every test.
    dispatcher, "dispatcher", DispatcherHarness, Case<'_>;
    1 deliver::a_message_arrives_whole,
    2 deliver::messages_wait_for_a_subscription,
    3 deliver::a_handled_message_does_not_come_again,
    4 deliver::every_published_message_arrives,
    5 deliver::queues_of_namespaces_are_apart,
    6 deliver::a_message_that_is_too_large_is_refused,
    7 deliver::no_more_calls_at_once_than_allowed,
    8 deliver::a_busy_consumer_holds_no_more_than_it_may,
    9 retry::attempts_are_counted,
    10 retry::a_retry_waits_its_time,
    11 retry::a_waiting_retry_holds_nobody_up,
    12 retry::a_sink_that_panics_gets_the_message_again,
    13 dead::a_dead_message_is_kept_whole,
    14 dead::dead_letters_are_read_in_pages_oldest_first,
    15 dead::dead_letters_outlive_their_subscription,
    16 dead::redriven_messages_come_again,
    17 dead::only_the_chosen_letters_are_redriven,
    18 dead::purged_letters_are_gone,
    19 subscription::a_subscription_has_one_consumer,
    20 subscription::another_description_replaces_the_consumer,
    21 subscription::a_removed_subscription_delivers_nothing,
    22 subscription::removing_waits_for_what_is_in_flight,
    23 subscription::removing_a_subscription_again_removes_nothing,
    24 subscription::the_status_tells_what_was_seen,
    25 subscription::a_change_is_hinted_when_a_subscription_comes_and_goes,
    26 crash::messages_survive_a_reopen,
    27 crash::a_message_that_was_taken_comes_again,
    28 crash::dead_letters_survive_a_reopen,
    29 retry::a_released_message_comes_again_uncounted,
    30 subscription::a_new_sink_takes_over,
    31 subscription::a_forgotten_subscription_leaves_its_queue_only,
    32 subscription::what_is_served_is_held_until_it_is_forgotten,
}
