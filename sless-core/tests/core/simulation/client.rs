//! What clients ask an engine for.

use sless_core::{
    Body, Call, CatalogExt as _, Error, FunctionJob, FunctionSpec, JobSpec, Message, Metadata,
    ObjectKey, Publish as _, Runtime, Sless, Trigger, TriggerSpec, bytes_stream,
};

use super::{
    ops::{CODES, Op, What},
    seen::Seen,
    world::{name, ns},
};

/// Asks for one line of a script, and waits for the answer.
pub(super) async fn ask(sless: &Sless, seen: &Seen, op: &Op) -> Result<(), Error> {
    let catalog = &sless.backends().catalog;
    match op {
        Op::PutFunction {
            name: function,
            entrypoint,
            node,
            replicas,
            env,
        } => {
            let mut spec = FunctionSpec::new(if *node {
                Runtime::NodeJs20
            } else {
                Runtime::Python311
            });
            spec.entrypoint = entrypoint.parse().unwrap();
            spec.replicas = Some(*replicas);
            spec.env.insert("variant".to_owned(), env.to_string());
            sless.put_function(&ns(), &name(function), &spec).await?;
        }
        Op::Upload {
            name: function,
            code,
        } => {
            let zip = bytes_stream(CODES[*code].zip.clone());
            sless.upload(&ns(), &name(function), zip).await?;
        }
        Op::PutTrigger {
            name: trigger,
            function,
            what,
            enabled,
        } => {
            let spec = trigger_spec(function, *what, *enabled);
            let metadata = Metadata::new(ns(), name(trigger));
            match catalog.add(Trigger::new(metadata, spec.clone())).await {
                Err(error) if error.kind() == sless_core::ErrorKind::AlreadyExists => {}
                other => return other.map(drop),
            }
            let (ns, name) = (ns(), name(trigger));
            let changed = catalog.modify(&ns, &name, |trigger: &mut Trigger| {
                trigger.spec = spec.clone();
                Ok(())
            });
            changed.await?;
        }
        Op::PutJob {
            number,
            function,
            run_id,
        } => {
            let mut spec = JobSpec::new(name(function));
            spec.run_id = *run_id;
            let metadata = Metadata::new(ns(), name(&format!("j{number}")));
            catalog.add(FunctionJob::new(metadata, spec)).await?;
        }
        Op::RunAgain { number } => {
            let (ns, job) = (ns(), name(&format!("j{number}")));
            let changed = catalog.modify(&ns, &job, |job: &mut FunctionJob| {
                job.spec.run_id += 1;
                Ok(())
            });
            changed.await?;
        }
        Op::Delete { kind, name: object } => {
            let key = ObjectKey::new(*kind, ns(), name(object));
            sless.delete(&key).await?;
        }
        Op::Call { name: function } => {
            let call = Call::new(ns(), name(function), http::Request::new(Body::empty()));
            let response = sless.call(call).await?;
            response.into_body().bytes(1_000).await?;
        }
        Op::Publish { queue, id } => {
            let message = Message {
                id: id.clone(),
                body: "{}".into(),
                ..Message::default()
            };
            let publisher = sless.backends().publisher.as_ref().unwrap();
            publisher.publish(&ns(), queue, message).await?;
            seen.state().accepted.insert(id.clone());
        }
        _ => {}
    }
    Ok(())
}

pub(super) fn trigger_spec(function: &str, what: What, enabled: bool) -> TriggerSpec {
    let function = name(function);
    let mut spec = match what {
        What::Http => TriggerSpec::http(function),
        What::Cron(schedule) => TriggerSpec::cron(function, schedule),
        What::Event(queue) => {
            let mut spec = TriggerSpec::event(function, queue);
            spec.delivery = Some(sless_core::DeliveryOptions {
                max_attempts: 3,
                min_backoff_ms: 200,
                max_backoff_ms: 20_000,
                ..Default::default()
            });
            spec
        }
    };
    spec.enabled = enabled;
    spec
}
