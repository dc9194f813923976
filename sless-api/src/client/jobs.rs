//! Jobs.

use reqwest::Method;

use super::{Client, LogLines, Result, functions::paged};
use crate::{CreateJob, Job, ListQuery, LogQuery, Page, PatchJob, Receipt};

impl Client {
    /// One page of the jobs of a namespace.
    ///
    /// # Errors
    /// As every call: [`ClientError`](super::ClientError).
    pub async fn jobs(&self, namespace: &str, query: &ListQuery) -> Result<Page<Job>> {
        let url = self.url(&["v1", "namespaces", namespace, "jobs"])?;
        let request = self.request(Method::GET, url).with_query(&paged(query));
        let answer = self.repeated(request).await?;
        self.json(answer).await
    }

    /// Creates a job; it runs where its run id is above 0.
    ///
    /// # Errors
    /// As every call: [`ClientError`](super::ClientError).
    pub async fn create_job(&self, namespace: &str, job: &CreateJob) -> Result<Job> {
        let url = self.url(&["v1", "namespaces", namespace, "jobs"])?;
        let request = self.request(Method::POST, url).with_json(job)?;
        let answer = self.once(request).await?;
        self.json(answer).await
    }

    /// One job.
    ///
    /// # Errors
    /// As every call: [`ClientError`](super::ClientError).
    pub async fn job(&self, namespace: &str, name: &str) -> Result<Job> {
        let url = self.url(&["v1", "namespaces", namespace, "jobs", name])?;
        let answer = self.repeated(self.request(Method::GET, url)).await?;
        self.json(answer).await
    }

    /// Changes a job; a higher run id runs it again.
    ///
    /// # Errors
    /// As every call: [`ClientError`](super::ClientError).
    pub async fn patch_job(&self, namespace: &str, name: &str, patch: &PatchJob) -> Result<Job> {
        let url = self.url(&["v1", "namespaces", namespace, "jobs", name])?;
        let request = self.request(Method::PATCH, url).with_json(patch)?;
        let answer = self.once(request).await?;
        self.json(answer).await
    }

    /// Removes a job, and its run where there is one.
    ///
    /// # Errors
    /// As every call: [`ClientError`](super::ClientError).
    pub async fn delete_job(&self, namespace: &str, name: &str) -> Result<Receipt> {
        let url = self.url(&["v1", "namespaces", namespace, "jobs", name])?;
        let answer = self.repeated(self.request(Method::DELETE, url)).await?;
        self.json(answer).await
    }

    /// The logs of a job, over all its runs. The stream ends by itself unless it follows.
    ///
    /// # Errors
    /// As every call; [`ClientError::is_not_found`](super::ClientError::is_not_found) where the job
    /// does not exist or has not run.
    pub async fn job_logs(
        &self,
        namespace: &str,
        name: &str,
        query: &LogQuery,
    ) -> Result<LogLines> {
        let url = self.url(&["v1", "namespaces", namespace, "jobs", name, "logs"])?;
        self.log_lines(url, query).await
    }
}
