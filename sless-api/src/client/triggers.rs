//! Triggers, their dead letters, and queues.

use reqwest::Method;

use super::{Client, Content, Result, functions::paged};
use crate::{
    CreateTrigger, DeadLetter, ListQuery, Page, PatchTrigger, Published, Purged, Receipt, Redrive,
    Redriven, Trigger,
};

impl Client {
    /// One page of the triggers of a namespace.
    ///
    /// # Errors
    /// As every call: [`ClientError`](super::ClientError).
    pub async fn triggers(&self, namespace: &str, query: &ListQuery) -> Result<Page<Trigger>> {
        let url = self.url(&["v1", "namespaces", namespace, "triggers"])?;
        let request = self.request(Method::GET, url).with_query(&paged(query));
        let answer = self.repeated(request).await?;
        self.json(answer).await
    }

    /// Creates a trigger.
    ///
    /// # Errors
    /// As every call: [`ClientError`](super::ClientError).
    pub async fn create_trigger(
        &self,
        namespace: &str,
        trigger: &CreateTrigger,
    ) -> Result<Trigger> {
        let url = self.url(&["v1", "namespaces", namespace, "triggers"])?;
        let request = self.request(Method::POST, url).with_json(trigger)?;
        let answer = self.once(request).await?;
        self.json(answer).await
    }

    /// One trigger.
    ///
    /// # Errors
    /// As every call: [`ClientError`](super::ClientError).
    pub async fn trigger(&self, namespace: &str, name: &str) -> Result<Trigger> {
        let url = self.url(&["v1", "namespaces", namespace, "triggers", name])?;
        let answer = self.repeated(self.request(Method::GET, url)).await?;
        self.json(answer).await
    }

    /// Changes a trigger.
    ///
    /// # Errors
    /// As every call: [`ClientError`](super::ClientError).
    pub async fn patch_trigger(
        &self,
        namespace: &str,
        name: &str,
        patch: &PatchTrigger,
    ) -> Result<Trigger> {
        let url = self.url(&["v1", "namespaces", namespace, "triggers", name])?;
        let request = self.request(Method::PATCH, url).with_json(patch)?;
        let answer = self.once(request).await?;
        self.json(answer).await
    }

    /// Removes a trigger.
    ///
    /// # Errors
    /// As every call: [`ClientError`](super::ClientError).
    pub async fn delete_trigger(&self, namespace: &str, name: &str) -> Result<Receipt> {
        let url = self.url(&["v1", "namespaces", namespace, "triggers", name])?;
        let answer = self.repeated(self.request(Method::DELETE, url)).await?;
        self.json(answer).await
    }

    /// One page of the messages that a trigger gave up.
    ///
    /// # Errors
    /// As every call: [`ClientError`](super::ClientError).
    pub async fn dead_letters(
        &self,
        namespace: &str,
        trigger: &str,
        query: &ListQuery,
    ) -> Result<Page<DeadLetter>> {
        let segments = [
            "v1",
            "namespaces",
            namespace,
            "triggers",
            trigger,
            "dead-letters",
        ];
        let request = self
            .request(Method::GET, self.url(&segments)?)
            .with_query(&paged(query));
        let answer = self.repeated(request).await?;
        self.json(answer).await
    }

    /// Puts dead letters back into their queue.
    ///
    /// # Errors
    /// As every call: [`ClientError`](super::ClientError).
    pub async fn redrive(
        &self,
        namespace: &str,
        trigger: &str,
        which: &Redrive,
    ) -> Result<Redriven> {
        let segments = [
            "v1",
            "namespaces",
            namespace,
            "triggers",
            trigger,
            "dead-letters",
            "redrive",
        ];
        let request = self
            .request(Method::POST, self.url(&segments)?)
            .with_json(which)?;
        let answer = self.once(request).await?;
        self.json(answer).await
    }

    /// Removes all dead letters of a trigger for good.
    ///
    /// # Errors
    /// As every call: [`ClientError`](super::ClientError).
    pub async fn purge_dead_letters(&self, namespace: &str, trigger: &str) -> Result<Purged> {
        let segments = [
            "v1",
            "namespaces",
            namespace,
            "triggers",
            trigger,
            "dead-letters",
        ];
        let request = self.request(Method::DELETE, self.url(&segments)?);
        // Made once: a repetition would hide how many were removed.
        let answer = self.once(request).await?;
        self.json(answer).await
    }

    /// Puts one message into a queue of the server's own dispatcher.
    ///
    /// # Errors
    /// As every call; status 501 where queues belong to a broker.
    pub async fn publish(
        &self,
        namespace: &str,
        queue: &str,
        content_type: &str,
        message: Content,
    ) -> Result<Published> {
        let segments = ["v1", "namespaces", namespace, "queues", queue, "messages"];
        let timeout = self.config().request_timeout.0;
        let request = self
            .request(Method::POST, self.url(&segments)?)
            .with_content(message, content_type, timeout)?;
        let answer = self.once(request).await?;
        self.json(answer).await
    }
}
