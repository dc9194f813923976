//! The process that is killed.

use std::path::Path;

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use sless_core::{
    Catalog as _, CatalogExt as _, Dispatcher as _, Function, FunctionSpec, InvocationLog as _,
    Lease as _, Message, Metadata, Publish as _, PutOptions, Runtime, Storage as _,
};
use sless_local::{Local, LocalConfig};

use super::*;

/// Writes to all of them until it is killed. Numbers go on where the last child stopped.
pub(super) async fn child(folder: &Path) {
    let local = Local::open(LocalConfig::new(folder.join("data")))
        .await
        .expect("opens");
    let notes_path = folder.join("notes");
    let before = Notes::read(&notes_path);
    let next = |what: &str| {
        before
            .get(what)
            .and_then(|all| all.last())
            .map_or(1, |last| last + 1)
    };
    let (notes, first) = (Notes::open(&notes_path), next("begun"));
    local
        .catalog()
        .ensure_namespace(&namespace())
        .await
        .expect("a namespace");
    local
        .dispatcher()
        .apply(&subscription(), Arc::new(Delivered(notes.clone())))
        .await
        .expect("applied");
    let catalog = async {
        for number in first.. {
            // Numbers that were begun are not used again, acknowledged or not.
            notes.write("begun", number);
            let metadata = Metadata::new(namespace(), name(&format!("f{number}")));
            let mut spec = FunctionSpec::new(Runtime::Python311);
            spec.env.insert("N".to_owned(), number.to_string());
            local
                .catalog()
                .add(Function::new(metadata, spec))
                .await
                .expect("created");
            notes.write("catalog", number);
            let (namespace, name) = (namespace(), name(&format!("f{number}")));
            let label = |function: &mut Function| {
                function
                    .metadata
                    .labels
                    .insert("l".to_owned(), number.to_string());
                Ok(())
            };
            local
                .catalog()
                .modify(&namespace, &name, label)
                .await
                .expect("changed");
            notes.write("labelled", number);
            let holder = format!("h{number}");
            let lease = local.lease().acquire("l", &holder, Duration::ZERO).await;
            notes.write("lease", lease.expect("acquired").expect("free").token);
        }
    };
    let storage = async {
        for number in first * 1000.. {
            let chunks: Vec<_> = body(number)
                .chunks(65_536)
                .map(Bytes::copy_from_slice)
                .collect();
            let stream = stream::iter(chunks.into_iter().map(Ok)).boxed();
            local
                .storage()
                .put(&key(number), stream, &PutOptions::default())
                .await
                .expect("put");
            notes.write("storage", number);
        }
    };
    let queue = async {
        for number in first * 1000.. {
            let message = Message {
                id: number.to_string(),
                ..Message::default()
            };
            local
                .dispatcher()
                .publish(&namespace(), "q", message)
                .await
                .expect("published");
            notes.write("queue", number);
        }
    };
    let invocations = async {
        for number in first * 1000.. {
            local
                .invocations()
                .append(vec![record(number)])
                .await
                .expect("appended");
            notes.write("invocations", number);
        }
    };
    tokio::join!(catalog, storage, queue, invocations);
}
