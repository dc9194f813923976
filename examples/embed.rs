//! Functions inside your own program: open the backends of this machine, deploy, call, shut down.
//!
//! `cargo run -p sless-examples --example embed`

use sless_core::{Body, Deploy, FunctionSpec, Name, Namespace, Runtime, Sless};
use sless_local::{Local, LocalConfig, ToolsConfig};

const CODE: &str = "def handle(event):\n    return f\"hello {event['name']}\"\n";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // All that is kept stands in one folder; give it a lasting one to find everything again.
    let folder = tempfile::tempdir()?;
    let mut config = LocalConfig::new(folder.path());
    // The library reads no environment by itself. This lets it find Python and Node by `PATH`.
    config.tools = ToolsConfig::default().with_environment(std::env::vars());
    let local = Local::open(config).await?;
    let sless = Sless::new(local.backends())?;

    let (namespace, name) = (Namespace::new("demo")?, Name::new("hello")?);
    let spec = FunctionSpec::new(Runtime::Python311);
    let deploy = Deploy::files(
        namespace.clone(),
        name.clone(),
        spec,
        [("handler.py", CODE)],
    )?;
    sless.deploy(deploy).await?;

    let request = http::Request::post("/")
        .header("content-type", "application/json")
        .body(Body::from(r#"{"name": "world"}"#))?;
    let response = sless.invoke(&namespace, &name, request).await?;
    assert_eq!(response.status(), 200);
    assert_eq!(response.into_body().bytes(1024).await?, "hello world");

    // First the engine, which lets calls end; then what it stands on.
    sless.shutdown().await;
    local.shutdown().await;
    Ok(())
}
