//! Functions, their code and their logs.

use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use reqwest::{Method, Url};
use tokio_util::{
    codec::{FramedRead, LinesCodec, LinesCodecError},
    io::StreamReader,
};

use super::{ByteStream, Client, ClientError, Content, Result};
use crate::{
    CreateFunction, Ensured, Function, Invocation, InvocationsQuery, ListQuery, LogLine, LogQuery,
    Page, PatchFunction, Receipt, SourceFile, UploadResult,
};

/// Log lines as they come.
pub type LogLines = BoxStream<'static, Result<LogLine>>;

pub(super) fn paged(query: &ListQuery) -> [(&'static str, Option<String>); 2] {
    [
        ("limit", query.limit.map(|limit| limit.to_string())),
        ("cursor", query.cursor.clone()),
    ]
}

impl Client {
    /// Makes the namespace if it is not there: `POST /v1/namespaces/{ns}/ensure`.
    ///
    /// # Errors
    /// As every call: [`ClientError`].
    pub async fn ensure_namespace(&self, namespace: &str) -> Result<Ensured> {
        let url = self.url(&["v1", "namespaces", namespace, "ensure"])?;
        let answer = self.repeated(self.request(Method::POST, url)).await?;
        self.json(answer).await
    }

    /// One page of the functions of a namespace.
    ///
    /// # Errors
    /// As every call: [`ClientError`].
    pub async fn functions(&self, namespace: &str, query: &ListQuery) -> Result<Page<Function>> {
        let url = self.url(&["v1", "namespaces", namespace, "functions"])?;
        let request = self.request(Method::GET, url).with_query(&paged(query));
        let answer = self.repeated(request).await?;
        self.json(answer).await
    }

    /// Creates a function. It answers once code is uploaded.
    ///
    /// # Errors
    /// As every call; [`ClientError::is_conflict`] where the name is taken.
    pub async fn create_function(
        &self,
        namespace: &str,
        function: &CreateFunction,
    ) -> Result<Function> {
        let url = self.url(&["v1", "namespaces", namespace, "functions"])?;
        let request = self.request(Method::POST, url).with_json(function)?;
        let answer = self.once(request).await?;
        self.json(answer).await
    }

    /// One function.
    ///
    /// # Errors
    /// As every call; [`ClientError::is_not_found`] where it does not exist.
    pub async fn function(&self, namespace: &str, name: &str) -> Result<Function> {
        let url = self.url(&["v1", "namespaces", namespace, "functions", name])?;
        let answer = self.repeated(self.request(Method::GET, url)).await?;
        self.json(answer).await
    }

    /// Changes a function.
    ///
    /// # Errors
    /// As every call; [`ClientError::is_not_found`] where it does not exist.
    pub async fn patch_function(
        &self,
        namespace: &str,
        name: &str,
        patch: &PatchFunction,
    ) -> Result<Function> {
        let url = self.url(&["v1", "namespaces", namespace, "functions", name])?;
        let request = self.request(Method::PATCH, url).with_json(patch)?;
        let answer = self.once(request).await?;
        self.json(answer).await
    }

    /// Removes a function and everything that it made.
    ///
    /// # Errors
    /// As every call; [`ClientError::is_not_found`] where it does not exist.
    pub async fn delete_function(&self, namespace: &str, name: &str) -> Result<Receipt> {
        let url = self.url(&["v1", "namespaces", namespace, "functions", name])?;
        let answer = self.repeated(self.request(Method::DELETE, url)).await?;
        self.json(answer).await
    }

    /// Uploads the code of a function, as a zip. The answer comes when it is checked and stored.
    ///
    /// # Errors
    /// As every call; an [`ApiError`](super::ApiError) with status 400 where the zip is refused.
    pub async fn upload(&self, namespace: &str, name: &str, zip: Content) -> Result<UploadResult> {
        let url = self.url(&["v1", "namespaces", namespace, "functions", name, "upload"])?;
        let timeout = self.config().upload_timeout.0;
        let request =
            self.request(Method::POST, url)
                .with_content(zip, "application/zip", timeout)?;
        let answer = self.once(request).await?;
        self.json(answer).await
    }

    /// The files of a function's code.
    ///
    /// # Errors
    /// As every call; [`ClientError::is_not_found`] where nothing was uploaded yet.
    pub async fn source(&self, namespace: &str, name: &str) -> Result<Vec<SourceFile>> {
        let url = self.url(&["v1", "namespaces", namespace, "functions", name, "source"])?;
        let answer = self.repeated(self.request(Method::GET, url)).await?;
        self.json(answer).await
    }

    /// The zip that was uploaded.
    ///
    /// # Errors
    /// As every call; [`ClientError::is_not_found`] where nothing was uploaded yet.
    pub async fn source_zip(&self, namespace: &str, name: &str) -> Result<ByteStream> {
        let segments = [
            "v1",
            "namespaces",
            namespace,
            "functions",
            name,
            "source.zip",
        ];
        let request = self.request(Method::GET, self.url(&segments)?);
        let answer = self.repeated(request.endless("application/zip")).await?;
        Ok(self.stream(answer))
    }

    /// The build and run logs of a function. The stream ends by itself unless it follows.
    ///
    /// # Errors
    /// As every call; [`ClientError::is_not_found`] where the function does not exist.
    pub async fn logs(&self, namespace: &str, name: &str, query: &LogQuery) -> Result<LogLines> {
        let url = self.url(&["v1", "namespaces", namespace, "functions", name, "logs"])?;
        self.log_lines(url, query).await
    }

    /// The lines of a log, of whatever this is the address.
    pub(super) async fn log_lines(&self, url: Url, query: &LogQuery) -> Result<LogLines> {
        let request = self.request(Method::GET, url).with_query(&[
            ("follow", query.follow.then(|| "true".to_owned())),
            ("tail", query.tail.map(|lines| lines.to_string())),
            ("since", query.since.map(|since| since.to_string())),
        ]);
        let answer = self
            .repeated(request.endless("application/x-ndjson"))
            .await?;
        let limit = self.config().max_log_line_bytes;
        let reader = StreamReader::new(self.stream(answer).map_err(std::io::Error::other));
        let lines = FramedRead::new(reader, LinesCodec::new_with_max_length(limit));
        let lines = lines.filter_map(move |line| async move {
            match line {
                Ok(line) if line.trim().is_empty() => None,
                Ok(line) => {
                    Some(
                        serde_json::from_str(&line).map_err(|error| ClientError::Answer {
                            message: format!("log line: {error}"),
                        }),
                    )
                }
                Err(LinesCodecError::MaxLineLengthExceeded) => Some(Err(ClientError::Limit {
                    name: "max_log_line_bytes",
                    value: limit,
                })),
                Err(LinesCodecError::Io(error)) => Some(Err(unwrapped(error))),
            }
        });
        Ok(Box::pin(lines))
    }

    /// One page of the invocation log of a function, newest first.
    ///
    /// # Errors
    /// As every call; status 501 where the server keeps no such log.
    pub async fn invocations(
        &self,
        namespace: &str,
        name: &str,
        query: &InvocationsQuery,
    ) -> Result<Page<Invocation>> {
        let segments = [
            "v1",
            "namespaces",
            namespace,
            "functions",
            name,
            "invocations",
        ];
        let parameters = [
            ("limit", query.limit.map(|limit| limit.to_string())),
            ("cursor", query.cursor.clone()),
            (
                "origin",
                query.origin.map(|origin| origin.as_str().to_owned()),
            ),
            ("failed", query.failed.then(|| "true".to_owned())),
            ("since", query.since.map(|since| since.to_string())),
        ];
        let request = self
            .request(Method::GET, self.url(&segments)?)
            .with_query(&parameters);
        let answer = self.repeated(request).await?;
        self.json(answer).await
    }
}

/// The error that travelled through an `io::Error`.
fn unwrapped(error: std::io::Error) -> ClientError {
    match error.downcast::<ClientError>() {
        Ok(error) => error,
        Err(error) => ClientError::Answer {
            message: format!("log: {error}"),
        },
    }
}
