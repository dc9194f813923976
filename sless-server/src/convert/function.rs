//! Functions.

use sless_api::{CreateFunction, Env, Field, PatchFunction};
use sless_core::{Function, FunctionPhase, FunctionSpec, Sless};

use super::{field, filled};
use crate::error::ApiError;

/// What is wanted of a new function.
pub(crate) fn function_spec(request: CreateFunction) -> Result<FunctionSpec, ApiError> {
    let mut spec = FunctionSpec::new(field("runtime", &request.runtime)?);
    let given = |value| Field::Value(value);
    let patch = PatchFunction {
        runtime: None,
        entrypoint: request.entrypoint.map_or(Field::Absent, given),
        env: request.env.map_or(Field::Absent, Field::Value),
        replicas: request.replicas.map_or(Field::Absent, Field::Value),
        timeout_seconds: request.timeout_seconds.map_or(Field::Absent, Field::Value),
        memory: request.memory.map_or(Field::Absent, given),
        cpu: request.cpu.map_or(Field::Absent, given),
        concurrency: request.concurrency.map_or(Field::Absent, Field::Value),
    };
    patch_function(&patch, &mut spec)?;
    Ok(spec)
}

/// Applies a patch to what is wanted.
pub(crate) fn patch_function(
    patch: &PatchFunction,
    spec: &mut FunctionSpec,
) -> Result<(), ApiError> {
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

/// A function as it is answered.
pub(crate) fn function_view(function: Function, sless: &Sless) -> sless_api::Function {
    let phase = phase(&function);
    let Function {
        metadata,
        spec,
        status,
    } = function;
    sless_api::Function {
        url: sless.function_url(&metadata.namespace, &metadata.name),
        name: metadata.name.to_string(),
        namespace: metadata.namespace.to_string(),
        runtime: spec.runtime.to_string(),
        entrypoint: spec.entrypoint.to_string(),
        env: Env(spec.env),
        replicas: spec.replicas,
        timeout_seconds: spec.timeout_seconds,
        memory: spec.memory.map(|quantity| quantity.to_string()),
        cpu: spec.cpu.map(|quantity| quantity.to_string()),
        concurrency: spec.concurrency,
        phase,
        reason: filled(&status.reason),
        message: filled(&status.message),
        code_sha256: spec.code_sha256.map(|digest| digest.hex()),
        s3_key: spec.s3_key,
        image: status.artifact.map(|artifact| artifact.reference),
        last_built_at: status.last_built_at,
        ready_replicas: status.ready_replicas,
        created_at: metadata.created_at,
    }
}

/// How far a function is. What is known of an earlier version says nothing about the one that is
/// wanted now: until somebody has looked, that one is pending.
pub(crate) const fn phase(function: &Function) -> sless_api::FunctionPhase {
    let Function {
        metadata, status, ..
    } = function;
    if status.observed_generation != metadata.generation {
        return sless_api::FunctionPhase::Pending;
    }
    match status.phase {
        FunctionPhase::Pending => sless_api::FunctionPhase::Pending,
        FunctionPhase::Building => sless_api::FunctionPhase::Building,
        FunctionPhase::Ready => sless_api::FunctionPhase::Ready,
        FunctionPhase::Failed => sless_api::FunctionPhase::Failed,
        FunctionPhase::Stopped => sless_api::FunctionPhase::Stopped,
    }
}
