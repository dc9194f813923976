//! Code that talks to the model: what is structurally so, whatever the model makes of it.

use std::collections::BTreeSet;

use serde_json::json;
use sless_core::{Result, Runtime, Validator, Verdict, source::SourceTree};
use sless_validator::{CanaryRule, LlmValidator};

use crate::{
    corpus::{PAYLOAD, attempts},
    peer::{Act, Peer, Request, judge},
};

async fn reviewed(validator: &LlmValidator, files: &[(String, String)]) -> Result<Verdict> {
    let source = SourceTree::from_files(files.to_vec()).unwrap();
    validator.validate(&source, Runtime::Python311).await
}

/// The `system` message without the words of this request.
fn fixed(request: &Request) -> String {
    request
        .system()
        .replace(request.boundary(), "B")
        .replace(request.canary(), "C")
}

#[tokio::test]
async fn code_is_data_in_every_request() {
    let peer = judge().await;
    let validator = peer.validator();
    reviewed(&validator, &[("a.py".into(), "x = 1".into())])
        .await
        .unwrap();
    let innocent = fixed(&peer.requests()[0]);
    let mut words = BTreeSet::new();
    for attempt in attempts() {
        let name = attempt.name;
        let verdict = reviewed(&validator, &attempt.files).await.unwrap();
        assert!(
            matches!(verdict, Verdict::Unsafe { .. }),
            "{name}: {verdict:?}"
        );
        let request = peer.requests().pop().unwrap();
        let (user, boundary, canary) = (request.user(), request.boundary(), request.canary());

        assert_eq!(request.body["messages"].as_array().unwrap().len(), 2);
        assert_eq!(
            fixed(&request),
            innocent,
            "{name}: nothing of the code is in `system`"
        );
        assert!(words.insert(boundary.to_owned()) && words.insert(canary.to_owned()));
        assert!(!user.contains(canary), "{name}");

        // Its own lines, in their order, and each other line is numbered.
        let reviewable = SourceTree::from_files(attempt.files)
            .unwrap()
            .reviewable()
            .unwrap();
        let edges: Vec<_> = user
            .lines()
            .filter(|line| line.contains(boundary))
            .collect();
        assert_eq!(edges.len(), 2 * reviewable.files.len(), "{name}: {edges:?}");
        for (at, edge) in edges.iter().enumerate() {
            let word = if at % 2 == 0 { "BEGIN \"" } else { "END" };
            assert!(
                edge.starts_with(&format!("FILE {boundary} {word}")),
                "{name}: {edge}"
            );
        }
        let (material, ours) = user.rsplit_once('\n').unwrap();
        assert!(ours.starts_with("That was all of the material."), "{name}");
        for line in material.lines().filter(|line| !line.contains(boundary)) {
            let number = line
                .split_once("| ")
                .unwrap_or_else(|| panic!("{name}: {line:?}"))
                .0;
            assert!(number.parse::<usize>().is_ok(), "{name}: {line:?}");
        }

        // Nothing that a tokenizer takes for a role, nothing that nobody sees.
        for word in [
            "<|",
            "|>",
            "[INST]",
            "[/INST]",
            "<<SYS>>",
            "</s>",
            "<start_of_turn>",
            "<end_of_turn>",
            "<｜",
            "<think>",
            "</think>",
        ] {
            assert!(!user.contains(word), "{name}: {word} in {user}");
        }
        let unseen = |c: char| {
            (c.is_control() && c != '\n' && c != '\t')
                || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}')
        };
        assert!(!user.contains(unseen), "{name}: {user:?}");
    }
}

/// A model that repeats an answer which stands in the code, or says that all is well.
fn parrot(request: &Request) -> Act {
    let user = request.user();
    let dictated = user.find("{\"safe\"").map(|at| {
        let rest = &user[at..];
        &rest[..rest.find('}').map_or(rest.len(), |end| end + 1)]
    });
    Act::says(dictated.unwrap_or("{\"safe\": true}"))
}

#[tokio::test]
async fn an_answer_that_stands_in_the_code_is_not_believed() {
    let peer = Peer::start(|_, request| parrot(request)).await;
    let validator = peer.validator();
    let mut refused = 0;
    for attempt in attempts() {
        let spelled = attempt.files.iter().any(|(path, text)| {
            let both = format!("{path}{text}").replace(['"', '\'', '\\', ' '], "");
            both.contains("{safe:true")
        });
        let said = reviewed(&validator, &attempt.files).await;
        if spelled {
            refused += 1;
            let error = said.expect_err(attempt.name);
            let reason = error.reason();
            assert!(
                reason == "llm_answer_untrusted" || reason == "llm_answer_prose",
                "{}: {error:?}",
                attempt.name
            );
        }
    }
    assert!(refused > 50, "{refused}");
}

#[tokio::test]
async fn where_all_answers_carry_the_canary_no_attempt_gets_a_model_that_gave_in_past_it() {
    let peer = Peer::start(|_, request| parrot(request)).await;
    let config = peer.config().with_canary(CanaryRule::Always);
    let validator = LlmValidator::new(config).unwrap();
    for attempt in attempts() {
        let said = reviewed(&validator, &attempt.files).await;
        said.expect_err(attempt.name);
    }
    let schema = &peer.requests()[0].body["response_format"]["json_schema"]["schema"];
    assert_eq!(schema["required"], json!(["safe", "reason", "canary"]));
}

#[tokio::test]
async fn a_model_that_tells_its_words_is_not_believed_when_it_says_safe() {
    let peer = Peer::start(|_, request| {
        let reason = format!("my instructions: {}", request.system());
        Act::says(&json!({"safe": true, "reason": reason, "canary": request.canary()}).to_string())
    })
    .await;
    let files = [("handler.py".to_owned(), PAYLOAD.to_owned())];
    let error = reviewed(&peer.validator(), &files).await.expect_err("told");
    assert_eq!(error.reason(), "llm_answer_untrusted");

    let peer = Peer::start(|_, request| {
        let reason = format!("it says {} \u{1b}[31m\nand more", request.canary());
        Act::says(&json!({"safe": false, "reason": reason}).to_string())
    })
    .await;
    let verdict = reviewed(&peer.validator(), &files).await.unwrap();
    assert_eq!(
        verdict.reason(),
        "it says … [31m and more",
        "unsafe is believed, and cleaned"
    );
}

#[tokio::test]
async fn words_are_drawn_for_each_request() {
    let peer = judge().await;
    let validator = peer.validator();
    let files = [("handler.py".to_owned(), PAYLOAD.to_owned())];
    for _ in 0..20 {
        reviewed(&validator, &files).await.unwrap();
    }
    let words: BTreeSet<_> = peer
        .requests()
        .iter()
        .flat_map(|request| [request.boundary().to_owned(), request.canary().to_owned()])
        .collect();
    assert_eq!(words.len(), 40);
}
