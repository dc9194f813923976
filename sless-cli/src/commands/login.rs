//! `sless login`.

use jiff::Timestamp;
use sless_api::ListQuery;

use super::shown;
use crate::{
    args::Globals,
    contexts::{Context, Store},
    failure::{Exit, Failure, Result},
    output::{Output, Paint, beside},
    session::{DEFAULT_SERVER, Known},
    token::Claims,
};

const EXAMPLES: &str = "\
Examples:
  $ sless login --server http://127.0.0.1:8080 --token-file token.txt
  $ sless login --server http://127.0.0.1:8080 --name staging --token-file - < token.txt";

/// Sign in to a server and keep its address and token.
///
/// The token is asked for at the terminal where it is neither in --token-file nor in
/// SLESS_API_TOKEN. It is tried on the server, and kept with the address as a context: in
/// sless/contexts.toml below XDG_CONFIG_HOME (~/.config), which only you can read. The new context
/// becomes the current one.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What to call the context; the server's host where it is left out.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Keep the token without trying it.
    #[arg(long)]
    no_check: bool,
}

pub(crate) async fn run(args: &Args, globals: &Globals, output: &Output) -> Result<()> {
    let store = Store::of_user()?;
    let contexts = store.read()?;
    let renewed = args.name.as_ref().and_then(|name| contexts.all.get(name));
    let endpoint = globals.server.clone();
    let endpoint = endpoint.or_else(|| Some(renewed?.endpoint.clone()));
    let endpoint = endpoint.unwrap_or_else(|| DEFAULT_SERVER.to_owned());
    let endpoint = endpoint.trim_end_matches('/').to_owned();
    let token = match &globals.token {
        Some(token) => token.clone(),
        None => ask(output, &endpoint).await?,
    };
    let claims = Claims::read(&token).map_err(|problem| {
        Failure::new(
            Exit::Setup,
            format!("this is not a token of a sless server: {problem}"),
        )
        .hint("on the machine of the server, `sless-server token --sub NAME` makes one")
    })?;
    if claims.is_expired(Timestamp::now()) {
        return Err(Failure::new(Exit::Refused, "the token has expired")
            .hint("get a new one where this one came from"));
    }
    let known = Known::of(&Globals {
        server: Some(endpoint.clone()),
        token: Some(token.clone()),

        context: None,
        ..globals.clone()
    })?;
    known.warn(output);
    let namespace = known.namespace()?;
    if !args.no_check {
        let query = ListQuery {
            limit: Some(1),
            ..ListQuery::default()
        };
        match known.client(globals)?.functions(&namespace, &query).await {
            Ok(_) => {}
            // It is made by the first deploy.
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(Failure::from(error)),
        }
    }
    let name = args.name.clone().unwrap_or_else(|| host(&endpoint));
    let context = Context {
        endpoint: endpoint.clone(),
        token,
        namespace: globals.namespace.clone(),
    };
    store.change(|contexts| {
        contexts.all.insert(name.clone(), context);
        contexts.current = Some(name.clone());
        Ok(())
    })?;
    let until = claims
        .expires
        .map(|expires| format!(", until {}", shown::time(expires)));
    let until = until.unwrap_or_default();
    output.say_painted(
        Paint::Good,
        &format!(
            "signed in to {endpoint} as {}{until}",
            shown::safe(&claims.subject)
        ),
    );
    output.say(&format!("context {name}, namespace {namespace}"));
    Ok(())
}

async fn ask(output: &Output, endpoint: &str) -> Result<String> {
    if !output.can_ask() {
        return Err(Failure::usage("there is no terminal to ask for the token")
            .hint("give it with --token-file FILE, or --token-file - for standard input"));
    }
    let question = format!("token for {endpoint} (it is not shown): ");
    let _echo = Echo::kept();
    let token = beside(move || {
        let terminal = console::Term::stderr();
        let asked = terminal.write_str(&question);
        let token = asked.and_then(|()| terminal.read_secure_line());
        token.map_err(|error| {
            Failure::new(Exit::Failed, format!("the token cannot be read: {error}"))
        })
    });
    let token = token.await?;
    let token = token.trim().to_owned();
    if token.is_empty() {
        return Err(Failure::new(Exit::Setup, "no token was given"));
    }
    Ok(token)
}

/// Gives the terminal its echo back, also where the question is cut off.
struct Echo {
    #[cfg(unix)]
    before: Option<rustix::termios::Termios>,
}

impl Echo {
    fn kept() -> Self {
        Self {
            #[cfg(unix)]
            before: rustix::termios::tcgetattr(std::io::stdin()).ok(),
        }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(before) = &self.before {
            let now = rustix::termios::OptionalActions::Now;
            // Where the terminal is gone, it needs no echo.
            let _ = rustix::termios::tcsetattr(std::io::stdin(), now, before);
        }
    }
}

/// The host and port of an address, which make a good name.
fn host(endpoint: &str) -> String {
    let rest = endpoint
        .split_once("://")
        .map_or(endpoint, |(_, rest)| rest);
    rest.split(['/', '?']).next().unwrap_or(rest).to_owned()
}
