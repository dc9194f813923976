//! What a model is shown of a source.

use proptest::prelude::*;
use sless_core::{
    Runtime, Validator, Verdict,
    source::{ReviewSet, SourceTree},
};

use crate::peer::{Peer, judge};

async fn shown(peer: &Peer, files: &[(String, String)]) -> (Verdict, Option<String>) {
    let before = peer.requests().len();
    let source = SourceTree::from_files(files.to_vec()).unwrap();
    let verdict = peer
        .validator()
        .validate(&source, Runtime::NodeJs20)
        .await
        .unwrap();
    let requests = peer.requests();
    assert!(requests.len() <= before + 1);
    (
        verdict,
        requests
            .get(before)
            .map(|request| request.user().to_owned()),
    )
}

fn files(sizes: &[(&str, usize)]) -> Vec<(String, String)> {
    let sizes = sizes.iter();
    sizes
        .map(|(path, size)| ((*path).to_owned(), "x".repeat(*size)))
        .collect()
}

#[tokio::test]
async fn above_the_limit_nobody_is_asked() {
    let peer = judge().await;
    let most = ReviewSet::MOST_BYTES as usize;
    let (verdict, asked) = shown(&peer, &files(&[("a.py", most), ("b.js", 1)])).await;
    assert!(
        matches!(verdict, Verdict::Skipped { .. }) && asked.is_none(),
        "{verdict:?}"
    );
    assert!(verdict.reason().contains(&most.to_string()), "{verdict:?}");
    let (verdict, asked) = shown(&peer, &files(&[("a.py", most), ("b.bin", most)])).await;
    assert_eq!(verdict, Verdict::Safe);
    assert!(asked.unwrap().len() > most);
}

#[tokio::test]
async fn where_there_is_nothing_to_look_at_nobody_is_asked() {
    let peer = judge().await;
    let (verdict, asked) = shown(&peer, &files(&[("a.png", 10), ("node_modules/a.js", 10)])).await;
    assert!(
        matches!(verdict, Verdict::Skipped { .. }) && asked.is_none(),
        "{verdict:?}"
    );
}

const ENDINGS: &[&str] = &[
    "py", "js", "ts", "json", "yaml", "yml", "txt", "sh", "sql", "go", "PY", "bin", "md", "pyc",
    "jsx", "",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn exactly_the_selected_files_are_shown(
        names in proptest::collection::btree_set(
            ("(node_modules|lib|src)(/[a-z]{1,3}){0,2}/n[0-9]{3}", 0..ENDINGS.len()), 1..12),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let peer = judge().await;
            let files: Vec<_> = names
                .iter()
                .enumerate()
                .map(|(number, (stem, ending))| {
                    let dot = if ENDINGS[*ending].is_empty() { "" } else { "." };
                    (format!("{stem}{number}{dot}{}", ENDINGS[*ending]), format!("content {number};"))
                })
                .collect();
            let Ok(_) = SourceTree::from_files(files.clone()) else { return };
            let (_, asked) = shown(&peer, &files).await;
            let asked = asked.unwrap_or_default();
            for (path, text) in &files {
                let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
                let selected = ENDINGS[..11].contains(&ending) && !path.starts_with("node_modules/");
                assert_eq!(asked.contains(&format!("1| {text}\n")), selected, "{path}");
                assert_eq!(asked.contains(&format!("BEGIN \"{path}\"\n")), selected, "{path}");
            }
        });
    }

    #[test]
    fn no_text_leaves_its_file(text: String, path in "[a-z <|>\\[\\]{}:'#.]{1,20}") {
        let files = vec![(format!("x{path}y.py"), text), ("z.py".to_owned(), "z = 1".to_owned())];
        let Ok(_) = SourceTree::from_files(files.clone()) else { return Ok(()) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let request = runtime.block_on(async {
            let peer = judge().await;
            shown(&peer, &files).await.1.map(|_| peer.requests().pop().unwrap())
        });
        let Some(request) = request else { return Ok(()) };
        let boundary = request.boundary();
        let (material, _) = request.user().rsplit_once('\n').unwrap();
        let mut within = false;
        for line in material.split('\n') {
            if line.starts_with("FILE ") {
                prop_assert!(line.contains(boundary));
                within = line.contains(" BEGIN ");
            } else {
                prop_assert!(within, "{line:?}");
                let number = line.split_once('|').map(|(number, _)| number.parse::<usize>().is_ok());
                prop_assert_eq!(number, Some(true), "{:?}", line);
            }
        }
    }
}
