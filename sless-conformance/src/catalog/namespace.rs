//! Namespaces.

use sless_core::{Ensured, Kind};

use super::{Case, samples};
use crate::{
    Outcome, Violation,
    clause::{While as _, ensure_eq},
    unique,
};

pub(super) async fn a_namespace_is_ensured_once(case: &Case<'_>) -> Outcome {
    let namespace = unique::namespace()?;
    ensure_eq!(
        case.ensure(&namespace).await?,
        Ensured::Created,
        "the first answer"
    );
    ensure_eq!(
        case.ensure(&namespace).await?,
        Ensured::Exists,
        "the second answer"
    );
    let object = case
        .create(samples::object(Kind::Function, &namespace, "a")?)
        .await?;
    ensure_eq!(
        case.ensure(&namespace).await?,
        Ensured::Exists,
        "the third answer"
    );
    ensure_eq!(
        case.get(&object.key()).await?,
        object,
        "what is in it after that"
    );
    Ok(())
}

pub(super) async fn one_of_parallel_ensures_creates(case: &Case<'_>) -> Outcome {
    let namespace = unique::namespace()?;
    let mut tasks = Vec::new();
    for _ in 0..16 {
        let (catalog, namespace) = (case.catalog().await?, namespace.clone());
        tasks.push(tokio::spawn(async move {
            catalog.ensure_namespace(&namespace).await
        }));
    }
    let mut created = 0;
    for task in tasks {
        let answer = task
            .await
            .map_err(|error| Violation::new(error.to_string()))?;
        created += usize::from(answer.while_("ensuring")? == Ensured::Created);
    }
    ensure_eq!(
        created,
        1,
        "how many of 16 calls were told that they made it"
    );
    Ok(())
}
