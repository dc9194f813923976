//! Functions.

use sless_api::{CreateFunction, Field, PatchFunction};
use sless_core::FunctionSpec;

use super::{FieldError, field};

/// What is wanted of a new function.
///
/// # Errors
/// [`FieldError`] naming the first field that cannot be used.
pub fn function_spec(request: CreateFunction) -> Result<FunctionSpec, FieldError> {
    let mut spec = FunctionSpec::new(field("runtime", &request.runtime)?);
    let given = |value| Field::Value(value);
    let patch = PatchFunction {
        runtime: None,
        entrypoint: request.entrypoint.map_or(Field::Absent, given),
        env: request.env.map_or(Field::Absent, Field::Value),
        replicas: request.replicas.map_or(Field::Absent, Field::Value),
        max_replicas: request.max_replicas.map_or(Field::Absent, Field::Value),
        timeout_seconds: request.timeout_seconds.map_or(Field::Absent, Field::Value),
        memory: request.memory.map_or(Field::Absent, given),
        cpu: request.cpu.map_or(Field::Absent, given),
        concurrency: request.concurrency.map_or(Field::Absent, Field::Value),
        idle_seconds: request.idle_seconds.map_or(Field::Absent, Field::Value),
    };
    patch_function(&patch, &mut spec)?;
    Ok(spec)
}

/// Applies a patch to what is wanted: a field that is left out stays, null brings the default back.
///
/// # Errors
/// [`FieldError`] naming the first field that cannot be used; part of the patch is applied then.
pub fn patch_function(patch: &PatchFunction, spec: &mut FunctionSpec) -> Result<(), FieldError> {
    let defaults = FunctionSpec::new(spec.runtime);
    if let Some(runtime) = &patch.runtime {
        spec.runtime = field("runtime", runtime)?;
    }
    match &patch.entrypoint {
        Field::Absent => {}
        Field::Null => spec.entrypoint = defaults.entrypoint,
        Field::Value(text) => spec.entrypoint = field("entrypoint", text)?,
    }
    match &patch.env {
        Field::Absent => {}
        Field::Null => spec.env.clear(),
        Field::Value(env) => spec.env.clone_from(&env.0),
    }
    patch.replicas.apply(&mut spec.replicas);
    patch.max_replicas.apply(&mut spec.max_replicas);
    patch.idle_seconds.apply(&mut spec.idle_seconds);
    match patch.timeout_seconds {
        Field::Absent => {}
        Field::Null => spec.timeout_seconds = defaults.timeout_seconds,
        Field::Value(seconds) => spec.timeout_seconds = seconds,
    }
    for (name, given, kept) in [
        ("memory", &patch.memory, &mut spec.memory),
        ("cpu", &patch.cpu, &mut spec.cpu),
    ] {
        match given {
            Field::Absent => {}
            Field::Null => *kept = None,
            Field::Value(text) => *kept = Some(field(name, text)?),
        }
    }
    match patch.concurrency {
        Field::Absent => {}
        Field::Null => spec.concurrency = defaults.concurrency,
        Field::Value(calls) => spec.concurrency = calls,
    }
    Ok(())
}
