//! Objects to write.

use sless_core::{
    Function, FunctionJob, FunctionPhase, FunctionSpec, JobPhase, JobSpec, Kind, Metadata,
    Namespace, Object, Result, Runtime, Trigger, TriggerSpec,
};

use crate::unique::name;

/// A function.
pub(super) fn function(namespace: &Namespace, of: &str) -> Result<Object> {
    let metadata = Metadata::new(namespace.clone(), name(of)?);
    Ok(Function::new(metadata, FunctionSpec::new(Runtime::Python311)).into())
}

/// An object of any kind.
pub(super) fn object(kind: Kind, namespace: &Namespace, of: &str) -> Result<Object> {
    let metadata = Metadata::new(namespace.clone(), name(of)?);
    let of = name("f")?;
    Ok(match kind {
        Kind::Function => return function(namespace, metadata.name.as_str()),
        Kind::Trigger => Trigger::new(metadata, TriggerSpec::cron(of, "*/5 * * * *")).into(),
        Kind::FunctionJob => FunctionJob::new(metadata, JobSpec::new(of)).into(),
    })
}

/// Another spec. The same number gives the same one.
pub(super) fn change_spec(object: &mut Object, number: u32) {
    match object {
        Object::Function(function) => {
            function
                .spec
                .env
                .insert("NUMBER".to_owned(), number.to_string());
            function
                .spec
                .env
                .insert("AGAIN".to_owned(), number.to_string());
        }
        Object::Trigger(trigger) => {
            trigger.spec.schedule = Some(format!("{} * * * *", number % 60));
        }
        Object::FunctionJob(job) => job.spec.run_id = i64::from(number) + 10,
    }
}

/// Another status. The same number gives the same one.
pub(super) fn change_status(object: &mut Object, number: u32) {
    let message = format!("number {number}");
    match object {
        Object::Function(function) => {
            function.status.phase = FunctionPhase::Building;
            function.status.ready_replicas = number;
            function.status.message = message;
        }
        Object::Trigger(trigger) => {
            trigger.status.active = true;
            trigger.status.message = message;
        }
        Object::FunctionJob(job) => {
            job.status.phase = JobPhase::Running;
            job.status.message = message;
        }
    }
}

/// A spec that breaks a rule.
pub(super) fn break_spec(object: &mut Object) {
    match object {
        Object::Function(function) => function.spec.timeout_seconds = 0,
        Object::Trigger(trigger) => trigger.spec.schedule = Some("60 * * * *".to_owned()),
        Object::FunctionJob(job) => job.spec.run_id = -1,
    }
}
