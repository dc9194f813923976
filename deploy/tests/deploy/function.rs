//! A function, from its upload to its answer.

use std::time::{Duration, Instant};

use sless_api::{
    CreateFunction, FunctionPhase,
    client::{Client, Content},
};
use sless_core::source::{SourceTree, pack};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// How long what has to happen may take on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// How long one call may take.
const CALL: Duration = Duration::from_secs(40);

/// Uploads a function that answers with the name in its event, and waits until it is ready.
pub(crate) async fn deploy(client: &Client, namespace: &str, name: &str) {
    let function = CreateFunction {
        name: name.into(),
        runtime: "python3.11".into(),
        concurrency: Some(20),
        ..CreateFunction::default()
    };
    let created = client.create_function(namespace, &function).await;
    created.expect("it is created");
    let code =
        "def handle(event):\n    print('greeting', event['name'])\n    return event['name']\n";
    let tree = SourceTree::from_files([("handler.py", code.to_owned())]).expect("a source");
    let zip = pack::write_zip(&tree, std::io::Cursor::new(Vec::new())).expect("a zip");
    let uploaded = client.upload(namespace, name, Content::bytes(zip.into_inner()));
    uploaded.await.expect("it is uploaded");
    ready(client, namespace, name).await;
}

/// Waits until a function is ready.
pub(crate) async fn ready(client: &Client, namespace: &str, name: &str) {
    eventually("the function is ready", async || {
        let function = client.function(namespace, name).await;
        let function = function.map_err(|error| error.to_string())?;
        if function.phase == FunctionPhase::Ready {
            Ok(())
        } else {
            Err(format!("{function:?}"))
        }
    })
    .await;
}

/// Calls a function with a name, on a connection of its own, and answers what it said.
pub(crate) async fn call(url: &str, namespace: &str, function: &str, name: &str) -> String {
    match try_call(url, namespace, function, name).await {
        Ok(said) => said,
        Err(why) => panic!("the call failed: {why}"),
    }
}

/// The same; anything but a whole answer with status 200 is an error.
pub(crate) async fn try_call(
    url: &str,
    namespace: &str,
    function: &str,
    name: &str,
) -> Result<String, String> {
    let address = url.strip_prefix("http://").expect("plain HTTP");
    let body = format!(r#"{{"name":"{name}"}}"#);
    let request = format!(
        "POST /fn/{namespace}/{function} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    let answer = match tokio::time::timeout(CALL, exchange).await {
        Ok(answer) => answer.map_err(|error| error.to_string())?,
        Err(_) => return Err("no answer in time".to_owned()),
    };
    let (head, said) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    if !head.starts_with("HTTP/1.1 200 ") {
        return Err(answer);
    }
    // One chunk, where it is sent so: its length, and then the text.
    let chunked = head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked");
    let text = said.lines().nth(usize::from(chunked));
    Ok(text.unwrap_or_default().to_owned())
}

/// Waits until `look` finds something. Its `Err` says what was seen instead.
pub(crate) async fn eventually<T>(
    what: &str,
    mut look: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) if Instant::now() > until => panic!("not in time: {what}; seen last: {seen}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}
