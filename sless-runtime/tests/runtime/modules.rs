//! Which file an entrypoint names, and where dependencies are found.

use http::Request;
use serde_json::json;
use sless_runtime::Body;

use super::support::*;

#[tokio::test]
async fn entrypoints_may_be_nested_and_modules_of_either_kind() {
    for (language, entrypoint, file, code) in [
        (
            Python,
            "pkg.mod.run",
            "pkg/mod.py",
            "from . import other\ndef run(event):\n    return other.X",
        ),
        (
            Node,
            "pkg.mod.run",
            "pkg/mod.js",
            "exports.run = (event) => require('./other').X;",
        ),
        (
            Node,
            "esm.run",
            "esm.mjs",
            "import { X } from './pkg/other.js';\nexport const run = async (event) => X;",
        ),
        (
            Node,
            "dir.run",
            "dir/index.js",
            "module.exports.run = (event) => 5;",
        ),
    ] {
        let function = Function::new(language, "")
            .file(file, code)
            .file("pkg/other.py", "X = 5")
            .file("pkg/other.js", "exports.X = 5;")
            .with(|config| config.entrypoint = entrypoint.into());
        let host = function.start().await;
        assert_eq!(
            call(&host, Request::new(Body::empty()))
                .await
                .unwrap()
                .text(),
            "5"
        );
    }
}

#[tokio::test]
async fn dependencies_are_found_and_the_code_comes_first() {
    let python = Function::new(
        Python,
        "import dep, pointed\ndef handle(e):\n    return [dep.X, pointed.X]",
    )
    .file("site/dep.py", "X = 1")
    .file("site/handler.py", "raise RuntimeError('shadowed')")
    .file("site/more.pth", "extra\n")
    .file("site/extra/pointed.py", "X = 2");
    let folder = python.folder.path().join("site");
    let python = python.with(|config| config.dependency_dirs = vec![folder]);
    let node = Function::new(
        Node,
        "exports.handle = (e) => [require('near').X, require('far').X];",
    )
    .file("node_modules/near/index.js", "exports.X = 1;")
    .file("deps/far/index.js", "exports.X = 2;");
    let folder = node.folder.path().join("deps");
    let node = node.with(|config| config.dependency_dirs = vec![folder]);
    for function in [python, node] {
        let host = function.start().await;
        let answer = call(&host, Request::new(Body::empty())).await.unwrap();
        assert_eq!(answer.json(), json!([1, 2]));
    }
}
