//! `sless trigger create`.

use clap::ValueEnum;
use sless_api::{
    CreateTrigger, CronPolicies, Delivery, MissedRuns, Overlap, QueueDeclare, TriggerType,
    WireDuration,
};

use crate::{
    failure::{Failure, Result},
    output::Output,
    session::Session,
};

const EXAMPLES: &str = "\
Examples:
  $ sless trigger create nightly --function hello --cron '0 3 * * *' --time-zone Europe/Berlin
  $ sless trigger create uploads --function hello --queue uploads --max-attempts 2
  $ sless trigger create url --function hello --http";

/// Make a trigger.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group = clap::ArgGroup::new("kind").required(true).args(["http", "cron", "queue"]))]
pub(crate) struct Create {
    /// The trigger's name.
    name: String,
    /// The function.
    #[arg(long, value_name = "NAME")]
    function: String,
    /// Requests to the function's URL, so that this can be switched off.
    #[arg(long)]
    http: bool,
    /// The clock: five fields in POSIX order, or a name such as @weekly.
    #[arg(long, value_name = "SCHEDULE")]
    cron: Option<String>,
    /// Messages of this queue.
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// Make it without letting it act.
    #[arg(long)]
    disabled: bool,
    /// The time zone of the schedule, such as Europe/Berlin; UTC where it is left out.
    #[arg(long, requires = "cron", value_name = "ZONE")]
    time_zone: Option<String>,
    /// What becomes of a due time that passed while nothing could fire it.
    #[arg(long, requires = "cron", value_enum, value_name = "WHAT")]
    missed_runs: Option<Missed>,
    /// What becomes of a due time that comes while an earlier run goes on.
    #[arg(long, requires = "cron", value_enum, value_name = "WHAT")]
    overlap: Option<Overlapping>,
    /// What happens where the queue is not there.
    #[arg(long, requires = "queue", value_enum, value_name = "WHAT")]
    queue_declare: Option<Declare>,
    /// After how many deliveries a message becomes a dead letter.
    #[arg(long, requires = "queue", value_name = "TIMES")]
    max_attempts: Option<u32>,
    /// The delay before the second delivery, such as 1s; it doubles with each one after.
    #[arg(long, requires = "queue", value_name = "DURATION")]
    min_backoff: Option<WireDuration>,
    /// The longest delay between two deliveries.
    #[arg(long, requires = "queue", value_name = "DURATION")]
    max_backoff: Option<WireDuration>,
    /// How many calls may be under way at once.
    #[arg(long, requires = "queue", value_name = "CALLS")]
    in_flight: Option<u32>,
    /// How many messages are taken from the queue ahead of their calls.
    #[arg(long, requires = "queue", value_name = "MESSAGES")]
    prefetch: Option<u32>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Missed {
    /// The latest one is run, once.
    RunOnce,
    /// None is run.
    Skip,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Overlapping {
    /// It is left out and counted.
    Skip,
    /// It is run beside the others.
    Allow,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Declare {
    /// It is made, durable, and replicated where the broker replicates queues.
    Quorum,
    /// It is made, durable, on one node of the broker.
    Classic,
    /// It is waited for.
    Never,
}

impl Create {
    fn request(&self) -> CreateTrigger {
        let kind = match (&self.cron, &self.queue) {
            (Some(_), _) => TriggerType::Cron,
            (_, Some(_)) => TriggerType::Event,
            _ => TriggerType::Http,
        };
        let policies = CronPolicies {
            missed_runs: self.missed_runs.map(|missed| match missed {
                Missed::RunOnce => MissedRuns::RunOnce,
                Missed::Skip => MissedRuns::Skip,
            }),
            overlap: self.overlap.map(|overlap| match overlap {
                Overlapping::Skip => Overlap::Skip,
                Overlapping::Allow => Overlap::Allow,
            }),
            ..CronPolicies::default()
        };
        let delivery = Delivery {
            max_attempts: self.max_attempts,
            min_backoff: self.min_backoff,
            max_backoff: self.max_backoff,
            in_flight: self.in_flight,
            prefetch: self.prefetch,
        };
        CreateTrigger {
            name: self.name.clone(),
            kind,
            function_ref: self.function.clone(),
            enabled: self.disabled.then_some(false),
            schedule: self.cron.clone(),
            time_zone: self.time_zone.clone(),
            policies: (policies != CronPolicies::default()).then_some(policies),
            queue: self.queue.clone(),
            queue_declare: self.queue_declare.map(|declare| match declare {
                Declare::Quorum => QueueDeclare::Quorum,
                Declare::Classic => QueueDeclare::Classic,
                Declare::Never => QueueDeclare::Never,
            }),
            delivery: (delivery != Delivery::default()).then_some(delivery),
        }
    }
}

pub(super) async fn run(args: &Create, session: &Session, output: &Output) -> Result<()> {
    let Session { client, namespace } = session;
    let trigger = client
        .create_trigger(namespace, &args.request())
        .await
        .map_err(|error| {
            let (conflict, missing) = (error.is_conflict(), error.is_not_found());
            let failure = Failure::from(error);
            match (conflict, missing) {
                (true, _) => failure.or_hint(format!("`sless trigger get {}` shows it", args.name)),
                (_, true) => failure.or_hint("the first `sless deploy` makes the namespace"),
                _ => failure,
            }
        })?;
    super::show(&trigger, output)
}
