//! Functions.

use sless_api::{Env, FunctionVerdict, VerdictOutcome};
use sless_core::{Function, FunctionPhase, Sless, resource::Verification};

use super::filled;

/// A function as it is answered.
pub(crate) fn function_view(function: Function, sless: &Sless) -> sless_api::Function {
    let phase = phase(&function);
    let Function {
        metadata,
        spec,
        status,
    } = function;
    let verdict = status
        .verification
        .filter(|said| Some(said.digest) == spec.code_sha256);
    sless_api::Function {
        url: sless.function_url(&metadata.namespace, &metadata.name),
        name: metadata.name.to_string(),
        namespace: metadata.namespace.to_string(),
        runtime: spec.runtime.to_string(),
        entrypoint: spec.entrypoint.to_string(),
        env: Env(spec.env),
        replicas: spec.replicas,
        max_replicas: spec.max_replicas,
        timeout_seconds: spec.timeout_seconds,
        memory: spec.memory.map(|quantity| quantity.to_string()),
        cpu: spec.cpu.map(|quantity| quantity.to_string()),
        concurrency: spec.concurrency,
        idle_seconds: spec.idle_seconds,
        phase,
        reason: filled(&status.reason),
        message: filled(&status.message),
        code_sha256: spec.code_sha256.map(|digest| digest.hex()),
        s3_key: spec.s3_key,
        image: status.artifact.map(|artifact| artifact.reference),
        last_built_at: status.last_built_at,
        ready_replicas: status.ready_replicas,
        verdict: verdict.map(|said| FunctionVerdict {
            outcome: outcome(&said),
            reason: filled(&said.reason),
            by: said.by,
            at: said.at,
            code_sha256: said.digest.hex(),
        }),
        created_at: metadata.created_at,
    }
}

/// A stored verdict in one word.
pub(crate) fn outcome(said: &Verification) -> VerdictOutcome {
    match said.verdict.as_str() {
        "safe" => VerdictOutcome::Safe,
        "unsafe" => VerdictOutcome::Unsafe,
        _ => VerdictOutcome::Skipped,
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
