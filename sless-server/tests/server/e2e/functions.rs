//! Every function of `examples/functions`, deployed as its README says, answers what its cases say.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use super::{cases, dev::Dev};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/functions")
}

async fn goes_through_its_cases(name: &str) {
    let data = tempfile::tempdir().unwrap();
    let folder = examples().join(name);
    let dev = Dev::start(data.path(), &[&folder]).await;
    dev.ready(name).await;
    let client = dev.client();
    for case in cases::read(&folder) {
        for text in case.check(&client, "dev", &folder).await {
            let found = |lines: &[String]| {
                let prefix = format!("{name} | ");
                let mut lines = lines.iter().filter_map(|line| line.strip_prefix(&prefix));
                lines.any(|line| line.contains(text)).then_some(())
            };
            dev.process
                .out
                .until(&format!("{}: {text}", case.name), found)
                .await;
        }
    }
    dev.stop().await;
}

macro_rules! functions {
    ($($test:ident: $name:literal,)*) => {
        $(
            #[tokio::test]
            async fn $test() {
                goes_through_its_cases($name).await;
            }
        )*

        #[test]
        fn each_folder_has_its_test() {
            let entries = fs::read_dir(examples()).unwrap().map(Result::unwrap);
            let folders: BTreeSet<_> = entries
                .filter(|entry| entry.path().is_dir())
                .map(|entry| entry.file_name().into_string().unwrap())
                .collect();
            assert_eq!(folders, [$($name.to_owned(),)*].into());
        }
    };
}

functions! {
    hello_python: "hello-python",
    hello_node: "hello-node",
    thumbnailer: "thumbnailer",
    markdown: "markdown",
    webhook: "webhook",
    csv_summary: "csv-summary",
    slow: "slow",
    failing: "failing",
}
