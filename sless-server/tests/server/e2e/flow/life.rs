//! Upload, validation, storage, build, calls, new versions, stop and start, deletion.

#![allow(clippy::print_stdout, reason = "the times are told")]

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use futures::TryStreamExt as _;
use serde_json::json;
use sless_api::{CreateTrigger, FunctionPhase, PatchTrigger, client::Content};

use super::{Flow, Place, code::installing, until, version};
use crate::support::refused;

impl Flow<'_> {
    /// What the validator refuses is stored nowhere.
    pub(super) async fn refuses_what_is_unsafe(&self) {
        let (client, namespace, name) =
            (&self.machine.client, &self.machine.namespace, self.name());
        let function = self.language.function();
        client.create_function(namespace, &function).await.unwrap();
        let content = Content::bytes(self.language.unsafe_zip());
        let (status, code, message) = refused(client.upload(namespace, name, content).await);
        assert_eq!(
            (status, code.as_str()),
            (400, "code_validation_failed"),
            "{message}"
        );
        assert!(message.contains("code validation failed: "), "{message}");
        assert_eq!(self.place.store.keys().await, Vec::<String>::new());
        assert_eq!(self.status().await, 503, "there is no code");
    }

    async fn upload(&self, number: u32) -> String {
        let (client, namespace, name) =
            (&self.machine.client, &self.machine.namespace, self.name());
        let zip = if self.by_cluster && number > 1 {
            installing(number)
        } else {
            version(self.language, number)
        };
        let content = Content::bytes(zip);
        let uploaded = client.upload(namespace, name, content).await.unwrap();
        uploaded.code_sha256
    }

    pub(super) async fn deploys(&self) {
        let began = Instant::now();
        let digest = self.upload(1).await;
        let ready = self
            .function_is("ready", |it| it.phase == FunctionPhase::Ready)
            .await;
        let (name, took) = (self.name(), began.elapsed().as_secs_f64());
        println!("{name}: ready {took:.1} s after its upload began");
        assert_eq!(ready.code_sha256.as_deref(), Some(&*digest));
        assert_eq!(ready.ready_replicas, 1);
        assert!(
            ready.last_built_at.is_some() && ready.image.is_some(),
            "{ready:?}"
        );
        let (status, answer) = self.call(r#"{"n": 41}"#).await;
        assert_eq!(
            (status, answer),
            (200, json!({"n": 42, "word": "hi", "version": 1}))
        );
        self.machine.logged(self.name(), "got 41").await;
    }

    pub(super) async fn shows_its_source(&self) {
        let (client, namespace, name) =
            (&self.machine.client, &self.machine.namespace, self.name());
        let shown = client.source(namespace, name).await.unwrap();
        let shown: Vec<_> = shown
            .into_iter()
            .map(|file| (file.name, file.content))
            .collect();
        let files = self.language.files(1).into_iter();
        let files: Vec<_> = files.map(|(path, text)| (path.to_owned(), text)).collect();
        assert_eq!(shown, files);
        let zip = client.source_zip(namespace, name).await.unwrap();
        let zip: Vec<_> = zip.try_collect().await.unwrap();
        assert_eq!(
            zip.concat(),
            version(self.language, 1),
            "the zip as it was uploaded"
        );
        let keys = self.place.store.keys().await;
        assert!(keys.iter().any(|key| key.ends_with(".zip")), "{keys:?}");
        assert!(keys.iter().any(|key| key.ends_with(".tar.gz")), "{keys:?}");
    }

    /// While a new version takes over, every call is answered, by one of the two.
    pub(super) async fn rolls_out_without_a_failed_call(&self) {
        let done = AtomicBool::new(false);
        let calling = async {
            let mut calls = 0;
            while !done.load(Ordering::Relaxed) {
                let (status, answer) = self.call(r#"{"n": 1}"#).await;
                assert_eq!(status, 200, "{answer}");
                assert!(answer["version"] == 1 || answer["version"] == 2, "{answer}");
                calls += 1;
            }
            calls
        };
        let rolling = async {
            let digest = self.upload(2).await;
            self.function_is("of version 2", |it| {
                it.phase == FunctionPhase::Ready && it.code_sha256.as_deref() == Some(&*digest)
            })
            .await;
            until("version 2 answers", async || match self.call("{}").await {
                (200, answer) if answer["version"] == 2 => Ok(()),
                other => Err(format!("{other:?}")),
            })
            .await;
            done.store(true, Ordering::Relaxed);
        };
        let (calls, ()) = futures::join!(calling, rolling);
        assert!(calls > 0);
        assert_eq!(self.call("{}").await.1["version"], 2);
    }

    pub(super) async fn stops_and_starts(&self) {
        let (client, namespace) = (&self.machine.client, &self.machine.namespace);
        let trigger = json!({"name": "web", "type": "http", "function_ref": self.name()});
        let trigger: CreateTrigger = serde_json::from_value(trigger).unwrap();
        client.create_trigger(namespace, &trigger).await.unwrap();
        let url = until("its URL is told", async || {
            let trigger = client.trigger(namespace, "web").await.unwrap();
            let seen = format!("{trigger:?}");
            trigger.url.filter(|_| trigger.active).ok_or(seen)
        })
        .await;
        let path = format!("/fn/{namespace}/{}", self.name());
        assert!(url.ends_with(&path), "{url}");
        let enable = async |enabled: bool| {
            let patch: PatchTrigger = serde_json::from_value(json!({"enabled": enabled})).unwrap();
            client
                .patch_trigger(namespace, "web", &patch)
                .await
                .unwrap();
        };
        enable(false).await;
        self.function_is("stopped", |it| it.phase == FunctionPhase::Stopped)
            .await;
        let (status, answer) = self.call("{}").await;
        assert_eq!(
            (status, &answer["code"]),
            (503, &json!("trigger_disabled")),
            "{answer}"
        );
        if let Some(objects) = &self.place.objects {
            assert!(!objects.images().is_empty(), "the registry has its image");
            until("no pod runs", async || {
                let mut pods = objects.owners::<k8s_openapi::api::core::v1::Pod>().await;
                // Where the cluster fires, the pods that did are there, too.
                pods.retain(|(owner, _)| owner == self.name());
                if pods.is_empty() {
                    Ok(())
                } else {
                    Err(format!("{pods:?}"))
                }
            })
            .await;
        }
        enable(true).await;
        self.function_is("ready again", |it| it.phase == FunctionPhase::Ready)
            .await;
        until("it answers again", async || match self.call("{}").await {
            (200, answer) if answer["version"] == 2 => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
    }

    /// The function goes, and all that was made for it.
    pub(super) async fn leaves_nothing(&self) {
        let (client, namespace, name) =
            (&self.machine.client, &self.machine.namespace, self.name());
        for trigger in ["web", "clock", "orders"] {
            client.delete_trigger(namespace, trigger).await.unwrap();
        }
        client.delete_job(namespace, "once").await.unwrap();
        let receipt = client.delete_function(namespace, name).await.unwrap();
        if self.together {
            let removed = |kind: &str| receipt.removed.iter().any(|item| item.kind == kind);
            assert!(
                removed("stored_source") && removed("stored_context"),
                "{receipt:?}"
            );
            if self.place.objects.is_some() {
                for kind in ["deployment", "service", "image"] {
                    assert!(removed(kind), "{kind}: {receipt:?}");
                }
            }
        }
        until("the function is gone", async || {
            let found = client.function(namespace, name).await;
            if found
                .as_ref()
                .is_err_and(sless_api::client::ClientError::is_not_found)
            {
                Ok(())
            } else {
                Err(format!("{found:?}"))
            }
        })
        .await;
        nothing_is_left(self.place).await;
    }
}

/// Nothing is in the store, in the cluster or in the registry, and the namespaces are there.
pub(crate) async fn nothing_is_left(place: &Place) {
    until("nothing is stored", async || {
        let keys = place.store.keys().await;
        if keys.is_empty() {
            Ok(())
        } else {
            Err(format!("{keys:?}"))
        }
    })
    .await;
    if let Some(objects) = &place.objects {
        until("nothing is in the namespaces", async || {
            let all = objects.all().await;
            if all.is_empty() {
                Ok(())
            } else {
                Err(format!("{all:?}"))
            }
        })
        .await;
        assert!(objects.namespaces_are_there().await);
        until("nothing is in the registry", async || {
            let images = objects.images();
            if images.is_empty() {
                Ok(())
            } else {
                Err(format!("{images:?}"))
            }
        })
        .await;
    }
}
