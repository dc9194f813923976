//! What pages show, read from the engine.

use std::collections::HashMap;

use sless_core::{
    CatalogExt, Error, EventCounts, Function, FunctionPhase, Kind, ListQuery, Name, Namespace,
    Sless, SubscriptionStatus, Trigger, TriggerId, TriggerType,
};

/// A function with the triggers that call it.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) function: Function,
    pub(crate) triggers: Vec<Trigger>,
}

/// Part of the functions of a namespace.
#[derive(Clone, Debug)]
pub(crate) struct Items {
    pub(crate) items: Vec<Item>,
    pub(crate) next: Option<String>,
}

/// A queue as its trigger sees it.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub(crate) seen: Option<SubscriptionStatus>,
    pub(crate) counts: EventCounts,
}

impl Item {
    pub(crate) fn name(&self) -> &Name {
        &self.function.metadata.name
    }

    /// How far it is. What is known of an earlier version says nothing about the one that is wanted
    /// now.
    pub(crate) fn phase(&self) -> FunctionPhase {
        if self.function.status.observed_generation == self.function.metadata.generation {
            self.function.status.phase
        } else {
            FunctionPhase::Pending
        }
    }

    pub(crate) fn http(&self) -> impl Iterator<Item = &Trigger> {
        let of_http = |trigger: &&Trigger| trigger.spec.kind == TriggerType::Http;
        self.triggers.iter().filter(of_http)
    }
}

/// A page of the functions with this text in their names, from this cursor.
pub(crate) async fn items(
    sless: &Sless,
    namespace: &Namespace,
    limit: usize,
    cursor: Option<String>,
    find: &str,
) -> Result<Items, Error> {
    let catalog = &sless.backends().catalog;
    let mut query = ListQuery::all(Kind::Function)
        .in_namespace(namespace.clone())
        .with_limit(limit)
        .from_cursor(cursor);
    let mut functions = Vec::new();
    let next = loop {
        let page = catalog.list(&query).await?;
        for object in page.items {
            let function = Function::try_from(object)?;
            if function.metadata.name.as_str().contains(find) {
                functions.push(function);
            }
        }
        // A search goes on until a page is full; without one, the first is.
        if page.next.is_none() || find.is_empty() || functions.len() >= limit {
            break page.next;
        }
        query.cursor = page.next;
    };
    let mut triggers: HashMap<Name, Vec<Trigger>> = HashMap::new();
    if !functions.is_empty() {
        for trigger in catalog.read_all::<Trigger>(Some(namespace)).await? {
            let function = trigger.spec.function_ref.clone();
            triggers.entry(function).or_default().push(trigger);
        }
    }
    let items = functions.into_iter().map(|function| Item {
        triggers: triggers.remove(&function.metadata.name).unwrap_or_default(),
        function,
    });
    Ok(Items {
        items: items.collect(),
        next,
    })
}

/// One function.
pub(crate) async fn item(sless: &Sless, namespace: &Namespace, name: &Name) -> Result<Item, Error> {
    let catalog = &sless.backends().catalog;
    let function: Function = catalog.read(namespace, name).await?;
    let mut triggers = catalog.read_all::<Trigger>(Some(namespace)).await?;
    triggers.retain(|trigger| trigger.spec.function_ref == *name);
    Ok(Item { function, triggers })
}

/// The queue of an event trigger. Where its dispatcher cannot be asked, what is stored is shown.
pub(crate) async fn queue(sless: &Sless, trigger: &Trigger) -> Queue {
    let id = TriggerId::of(&trigger.metadata);
    let asked = async {
        let counts = sless.event_counts(trigger).await?;
        let seen = sless.backends().dispatcher.status(&id).await?;
        Ok::<_, Error>(Queue { seen, counts })
    };
    asked.await.unwrap_or_else(|error| {
        tracing::debug!(error = %error.chain(), "the dispatcher cannot be asked");
        Queue {
            seen: None,
            counts: trigger.status.counts,
        }
    })
}

/// The queues of the event triggers of a function.
pub(crate) async fn queues(sless: &Sless, item: &Item) -> HashMap<Name, Queue> {
    let mut queues = HashMap::new();
    for trigger in &item.triggers {
        if trigger.spec.kind == TriggerType::Event {
            queues.insert(trigger.metadata.name.clone(), queue(sless, trigger).await);
        }
    }
    queues
}
