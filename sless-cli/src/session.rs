//! Which server is meant, with which token and which namespace.

use std::{fs, io::Read as _, path::Path};

use sless_api::{
    ListQuery, Page,
    client::{Client, ClientConfig, ClientError},
};

use crate::{
    args::Globals,
    contexts::{Context, Store},
    failure::{Exit, Failure, Result},
    output::Output,
    token::{Claims, TOKEN_BYTES},
};

/// Where nothing else is said.
pub(crate) const DEFAULT_SERVER: &str = "http://127.0.0.1:8080";

/// What the command line, the environment and the contexts file say together.
pub(crate) struct Known {
    /// The context that was used, where one was.
    pub(crate) context: Option<String>,
    pub(crate) endpoint: String,
    pub(crate) token: Option<String>,
    namespace: Option<String>,
}

/// A server, and a namespace on it.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

impl Known {
    /// A token of a context goes to the server of that context only.
    pub(crate) fn of(globals: &Globals) -> Result<Self> {
        let token = globals.token.clone();
        // With both given no file is needed, nor read.
        let (name, context) = match (&globals.server, &token, &globals.context) {
            (Some(_), Some(_), None) => (None, None),
            (_, _, Some(name)) => {
                let context = Store::of_user()?.read()?.named(name)?.clone();
                (Some(name.clone()), Some(context))
            }
            _ => match Store::of_user()?.read()?.current() {
                Some((name, context)) => (Some(name.to_owned()), Some(context.clone())),
                None => (None, None),
            },
        };
        let same = |context: &Context| {
            let server = globals.server.as_ref();
            server.is_none_or(|server| address(server) == address(&context.endpoint))
        };
        let (name, context) = match context {
            Some(context) if same(&context) => (name, Some(context)),
            _ => (None, None),
        };
        let endpoint = globals.server.clone();
        let endpoint =
            endpoint.or_else(|| context.as_ref().map(|context| context.endpoint.clone()));
        let namespace = globals.namespace.clone();
        // A token of one's own opens its own namespace, not the context's.
        let namespace = match (namespace, &token, &context) {
            (None, None, Some(context)) => context.namespace.clone(),
            (namespace, _, _) => namespace,
        };
        Ok(Self {
            context: name,
            endpoint: endpoint.unwrap_or_else(|| DEFAULT_SERVER.to_owned()),
            token: token.or_else(|| context.map(|context| context.token)),
            namespace,
        })
    }

    pub(crate) fn claims(&self) -> Option<Result<Claims, String>> {
        self.token.as_deref().map(Claims::read)
    }

    /// The namespace that was named, or else the token's own.
    pub(crate) fn namespace(&self) -> Result<String> {
        if let Some(namespace) = &self.namespace {
            return Ok(namespace.clone());
        }
        match self.claims() {
            None => Err(no_token(&self.endpoint)),
            Some(Ok(claims)) => Ok(claims.namespace()),
            Some(Err(problem)) => Err(Failure::new(
                Exit::Setup,
                format!("the token does not tell its namespace: {problem}"),
            )
            .hint("name the namespace with --namespace, or sign in with a token of the server")),
        }
    }

    pub(crate) fn client(&self, globals: &Globals) -> Result<Client> {
        let mut config = ClientConfig::new(self.endpoint.trim_end_matches('/'));
        config.token.clone_from(&self.token);
        config.proxy.clone_from(&globals.proxy);
        config.user_agent = concat!("sless/", env!("CARGO_PKG_VERSION")).to_owned();
        Client::new(config).map_err(|error| {
            Failure::new(Exit::Setup, error.to_string())
                .hint("see --server and `sless context list`")
        })
    }

    /// Warns where the token would travel so that others can read it.
    pub(crate) fn warn(&self, output: &Output) {
        let Some(rest) = self.endpoint.strip_prefix("http://") else {
            return;
        };
        let host = rest.split(['/', '?']).next().unwrap_or(rest);
        let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
        let here = host == "localhost" || host == "[::1]" || host.starts_with("127.");
        if !here && self.token.is_some() {
            let text = format!(
                "{} is not encrypted: others can read the token",
                self.endpoint
            );
            output.warn(&text);
        }
    }
}

impl Session {
    /// Ready to talk to the server; nothing is sent yet.
    pub(crate) fn open(globals: &Globals, output: &Output) -> Result<Self> {
        let known = Known::of(globals)?;
        if known.token.is_none() {
            return Err(no_token(&known.endpoint));
        }
        known.warn(output);
        Ok(Self {
            namespace: known.namespace()?,
            client: known.client(globals)?,
        })
    }

    /// Makes the namespace where it is not there.
    pub(crate) async fn ensure(&self) -> Result<()> {
        self.client.ensure_namespace(&self.namespace).await?;
        Ok(())
    }

    /// What `list` commands show where the namespace does not exist yet: nothing.
    pub(crate) fn tell_missing(&self, failure: Failure, what: &str) -> Failure {
        failure.or_hint(format!(
            "`sless {what}` shows those of {}; --namespace and --context choose another place",
            self.namespace
        ))
    }
}

/// All items of a list, page by page.
pub(crate) async fn all<T>(
    page: impl AsyncFn(ListQuery) -> Result<Page<T>, ClientError>,
) -> Result<Vec<T>> {
    /// Most items that are read into memory.
    const ITEMS: usize = 100_000;
    let mut items = Vec::new();
    let mut query = ListQuery::default();
    loop {
        let next = page(query.clone()).await?;
        items.extend(next.items);
        if items.len() > ITEMS {
            let text = format!("limit list_items of {ITEMS} exceeded");
            return Err(Failure::new(Exit::Failed, text));
        }
        match next.next {
            Some(cursor) => query.cursor = Some(cursor),
            None => return Ok(items),
        }
    }
}

/// The token in a file; `-` is standard input.
pub(crate) fn read_token(path: &Path) -> Result<String> {
    let most = TOKEN_BYTES as u64 + 2;
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().take(most).read_to_string(&mut text)
    } else {
        fs::File::open(path).and_then(|file| file.take(most).read_to_string(&mut text))
    };
    read.map_err(|error| {
        Failure::new(
            Exit::Setup,
            format!("{} cannot be read: {error}", path.display()),
        )
    })?;
    let token = text.trim();
    if token.is_empty() {
        return Err(Failure::new(
            Exit::Setup,
            format!("{} is empty", path.display()),
        ));
    }
    Ok(token.to_owned())
}

pub(crate) fn no_token(endpoint: &str) -> Failure {
    Failure::new(Exit::Setup, format!("no token for {endpoint} is known")).hint(
        "sign in with `sless login --server URL`, or set SLESS_API_TOKEN; on the machine of the \
         server, `sless-server token --sub NAME` makes one",
    )
}

/// An address in the form in which addresses are compared.
fn address(text: &str) -> String {
    text.trim_end_matches('/').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_the_same_with_and_without_a_slash() {
        assert_eq!(address("http://A:1/"), address("http://a:1"));
        assert_ne!(address("http://a:1"), address("http://a:2"));
    }
}
