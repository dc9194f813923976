//! The suite of [`Scheduler`]; its contract is `docs/contracts/scheduler.md`.

mod apply;
mod call;
mod case;
mod jobs;
mod limits;
mod logs;
mod remove;
mod revision;
mod scale;

use std::sync::Arc;

use async_trait::async_trait;
use sless_core::{Artifact, Entrypoint, Result, Runtime, Scheduler};

use crate::{Fixture, Harness, suite::suite};
pub(crate) use case::Case;

/// What the suite has to know of a scheduler.
#[async_trait]
pub trait SchedulerHarness: Harness {
    /// The scheduler. The same one at each call, until `reopen`.
    ///
    /// # Errors
    /// Whatever keeps it from being there; the clause then fails with it.
    async fn scheduler(&self) -> Result<Arc<dyn Scheduler>>;

    /// Ends the scheduler as a crash would, and opens another one over the same data, which
    /// `scheduler` gives from then on. The clause holds no handle of the old one when it calls this,
    /// no invoker either. Answers `false` where the data ends with the process.
    ///
    /// # Errors
    /// Whatever keeps it from being opened.
    async fn reopen(&self) -> Result<bool>;

    /// Makes of a fixture what the scheduler runs: builds its source, or registers its function.
    /// `None` only for a fixture that [may be missing](Fixture::may_be_missing). Called again with
    /// the same fixture, it gives the same.
    ///
    /// # Errors
    /// Whatever goes wrong.
    async fn prepare(&self, fixture: Fixture) -> Result<Option<Prepared>>;

    /// How many calls at once are too many for one copy that takes one call at a time: one more
    /// than run and wait together.
    fn overflow(&self) -> usize;

    /// Whether a run goes on while the scheduler is away, since something else runs it. Where not, a
    /// crash cuts it off.
    fn runs_survive(&self) -> bool {
        false
    }
}

/// What a scheduler is given to run a fixture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// What was built of it.
    pub artifact: Artifact,
    /// The language.
    pub runtime: Runtime,
    /// What is called.
    pub entrypoint: Entrypoint,
}

suite! {
    ($)
    /// Makes a test of each clause of [`Scheduler`](sless_core::Scheduler)'s contract.
    ///
    /// Takes an expression that makes a
    /// [`SchedulerHarness`](crate::scheduler::SchedulerHarness); it may `await`. Attributes in front
    /// go to every test.
    scheduler, "scheduler", SchedulerHarness, Case<'_>;
    1 apply::an_applied_workload_answers,
    2 apply::applying_again_changes_nothing,
    3 apply::what_was_never_applied_is_absent,
    4 apply::an_artifact_of_another_kind_does_not_run,
    5 apply::a_change_is_hinted_when_a_workload_moves_on,
    6 apply::the_function_sees_its_environment,
    7 apply::a_namespace_is_made_once,
    8 apply::workloads_come_back_after_a_reopen,
    9 call::every_byte_arrives_both_ways,
    10 call::the_request_arrives_as_it_is,
    11 call::a_raised_error_is_a_response,
    12 call::a_request_streams_in,
    13 call::a_response_streams_out,
    14 call::large_bodies_arrive_both_ways,
    15 call::a_dropped_call_leaves_the_function_usable,
    16 revision::a_new_revision_takes_over_without_a_failed_call,
    17 revision::serving_names_what_answers,
    18 revision::a_revision_that_cannot_start_leaves_the_old_one_serving,
    19 revision::a_workload_that_cannot_start_is_failed_and_says_why,
    20 revision::another_environment_is_another_revision,
    21 scale::no_replicas_is_off,
    22 scale::more_replicas_are_counted,
    23 scale::an_idle_function_sleeps_and_wakes,
    24 scale::a_function_that_may_not_sleep_stays_awake,
    25 limits::a_call_ends_at_its_timeout,
    26 limits::waiting_counts_against_the_timeout,
    27 limits::one_copy_takes_as_many_calls_as_it_may,
    28 limits::too_many_calls_are_told_to_come_again,
    29 limits::a_process_that_ends_fails_its_call_only,
    30 remove::a_removed_function_is_gone,
    31 remove::removing_again_removes_nothing,
    32 remove::what_is_in_flight_is_finished,
    33 remove::another_uid_is_another_function,
    34 jobs::a_job_runs_and_gives_its_result,
    35 jobs::a_run_happens_once,
    36 jobs::another_run_id_is_another_run,
    37 jobs::a_job_that_raises_has_failed,
    38 jobs::a_job_that_takes_too_long_has_failed,
    39 jobs::a_result_that_is_too_long_has_failed,
    40 jobs::a_job_that_cannot_start_has_failed,
    41 jobs::a_removed_job_is_forgotten,
    42 jobs::removing_a_job_ends_its_run,
    43 jobs::a_change_is_hinted_when_a_job_moves_on,
    44 jobs::a_run_is_remembered_over_a_reopen,
    45 jobs::a_run_that_was_cut_off_is_interrupted,
    46 logs::lines_carry_their_request_and_source,
    47 logs::a_part_of_the_log_is_given,
    48 logs::a_line_is_seen_while_its_call_runs,
    49 logs::a_followed_log_ends_with_the_function,
    50 logs::a_job_has_a_log,
    51 apply::a_missing_namespace_is_named,
    52 apply::an_overtaken_writer_is_refused,
    53 scale::another_idle_time_is_no_revision,
    54 jobs::a_run_that_began_does_not_begin_again,
    55 logs::the_end_of_a_calls_log_is_told,
    56 remove::what_is_made_is_held_until_it_is_removed,
}
