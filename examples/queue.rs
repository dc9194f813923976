//! A queue: messages are delivered to a function, tried again when it fails, parked as dead letters
//! when it fails too often, and put back once the function is mended.
//!
//! The queue is the local backend's: it stands in the data folder and needs no broker.
//!
//! `cargo run -p sless-examples --example queue`

use std::{error::Error, time::Duration};

use sless_core::{
    CatalogExt as _, DeadLetterQuery, DeadLetterSelection, DeliveryOptions, Deploy,
    Dispatcher as _, FunctionSpec, Message, Metadata, Name, Namespace, Publish as _, Runtime,
    Sless, SubscriptionStatus, Trigger, TriggerId, TriggerSpec,
};
use sless_local::{Local, LocalConfig, ToolsConfig};

/// Refuses what it should be able to handle.
const BROKEN: &str = "
def handle(event):
    if event['count'] == 0:
        raise ValueError('an order of nothing')
";
const MENDED: &str = "
def handle(event):
    return 'ignored' if event['count'] == 0 else 'shipped'
";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let mut config = LocalConfig::new(folder.path());
    config.tools = ToolsConfig::default().with_environment(std::env::vars());
    let local = Local::open(config).await?;
    let sless = Sless::new(local.backends())?;
    let (namespace, function) = (Namespace::new("demo")?, Name::new("ship")?);
    deploy(&sless, &namespace, &function, BROKEN).await?;

    // The trigger connects queue and function. Three attempts, with 50 and 100 ms between them.
    let mut spec = TriggerSpec::event(function.clone(), "orders");
    spec.delivery = Some(DeliveryOptions {
        max_attempts: 3,
        min_backoff_ms: 50,
        ..DeliveryOptions::default()
    });
    let metadata = Metadata::new(namespace.clone(), Name::new("orders-to-ship")?);
    let trigger = local.catalog().add(Trigger::new(metadata, spec)).await?;
    let trigger = TriggerId::of(&trigger.metadata);

    // A message is stored when `publish` answers, whether or not anybody listens yet.
    for (id, body) in [
        ("order-1", r#"{"count": 2}"#),
        ("order-2", r#"{"count": 0}"#),
    ] {
        let message = Message {
            id: id.to_owned(),
            body: body.into(),
            content_type: Some("application/json".to_owned()),
            ..Message::default()
        };
        let queue = local.dispatcher();
        queue.publish(&namespace, "orders", message).await?;
    }
    let status = until(&local, &trigger, |status| status.dead_lettered == 1).await?;
    assert_eq!((status.delivered, status.failed), (1, 3));

    // The dead letter is the message, whole, and why it was given up.
    let queue = local.dispatcher();
    let letters = queue
        .dead_letters(&trigger, &DeadLetterQuery::first(10))
        .await?;
    let [letter] = letters.items.as_slice() else {
        return Err(format!("expected one dead letter: {letters:?}").into());
    };
    assert_eq!(
        (letter.message.id.as_str(), letter.attempts),
        ("order-2", 3)
    );
    assert!(letter.reason.contains("500"), "{}", letter.reason);

    // Mended and put back, it is delivered like any other.
    deploy(&sless, &namespace, &function, MENDED).await?;
    let put_back = queue.redrive(&trigger, &DeadLetterSelection::All).await?;
    assert_eq!(put_back, 1);
    until(&local, &trigger, |status| status.delivered == 2).await?;
    let letters = queue
        .dead_letters(&trigger, &DeadLetterQuery::first(10))
        .await?;
    assert!(letters.items.is_empty());

    sless.shutdown().await;
    local.shutdown().await;
    Ok(())
}

async fn deploy(
    sless: &Sless,
    namespace: &Namespace,
    function: &Name,
    code: &'static str,
) -> sless_core::Result<()> {
    let (namespace, function) = (namespace.clone(), function.clone());
    let spec = FunctionSpec::new(Runtime::Python311);
    let deploy = Deploy::files(namespace, function, spec, [("handler.py", code)])?;
    sless.deploy(deploy).await.map(drop)
}

/// Waits until the subscription's counts are so.
async fn until(
    local: &Local,
    trigger: &TriggerId,
    reached: impl Fn(&SubscriptionStatus) -> bool,
) -> Result<SubscriptionStatus, Box<dyn Error>> {
    let wait = async {
        loop {
            // There is none before the engine has seen the trigger.
            if let Some(status) = local.dispatcher().status(trigger).await?
                && reached(&status)
            {
                return Ok::<_, sless_core::Error>(status);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    Ok(tokio::time::timeout(Duration::from_secs(30), wait).await??)
}
