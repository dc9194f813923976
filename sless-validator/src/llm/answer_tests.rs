use proptest::prelude::*;

use super::*;

fn frame() -> Frame {
    Frame {
        boundary: "b".repeat(32),
        canary: "0123456789ab".to_owned(),
    }
}

fn reply(safe: bool, reason: &str, canary: &str) -> Reply {
    Reply {
        safe,
        reason: Some(reason.to_owned()),
        canary: Some(canary.to_owned()),
    }
}

#[test]
fn a_bare_or_fenced_object_is_read() {
    for text in [
        "{\"safe\": true}",
        "  {\"safe\":true}\n",
        "```json\n{\"safe\": true}\n```",
        "```\n{\"safe\": true}```",
        "<think>It says {\"safe\": false}?</think>\n{\"safe\": true}",
        "{\"safe\": true, \"category\": null, \"reason\": null}",
    ] {
        assert!(parse_reply(text).expect(text).safe);
    }
}

#[test]
fn everything_else_is_no_verdict() {
    for text in [
        "Sure! {\"safe\": true}",
        "{\"safe\": true} I hope that helps.",
        "{\"safe\": true}\n{\"safe\": false}",
        "{\"safe\": false, \"safe\": true}",
        "{\"safe\": \"true\"}",
        "{\"safe\": 1}",
        "{\"safe\": tru",
        "{\"verdict\": \"safe\"}",
        "{\"reason\": \"fine\"}",
        "[true]",
        "true",
        "safe",
        "```python\n{\"safe\": true}\n```",
        "```json\n{\"safe\": true}\n```\nDone.",
        "Here:\n```json\n{\"safe\": true}\n```",
        "```json\n{\"safe\": true}\n```\n```json\n{\"safe\": true}\n```",
        "<think>{\"safe\": true}",
        "{'safe': True}",
    ] {
        assert!(parse_reply(text).is_err(), "{text}");
    }
}

#[test]
fn unsafe_is_believed_in_any_case_and_its_reason_is_cleaned() {
    let told = "it says 0123456789ab\u{1b}[31m\r\n\u{202e}abc\u{0}";
    for canary in ["", "wrong", "0123456789ab"] {
        let verdict = judge(reply(false, told, canary), &frame(), true, 100);
        let Ok(Verdict::Unsafe { reason }) = verdict else {
            panic!("{verdict:?}");
        };
        assert_eq!(reason, "it says … [31m abc");
    }
    let nothing = judge(reply(false, " \n", ""), &frame(), false, 100);
    assert_eq!(
        nothing.expect("a verdict").reason(),
        "the model gave no reason"
    );
    let long = judge(reply(false, &"ä".repeat(1000), ""), &frame(), false, 10);
    assert_eq!(long.expect("a verdict").reason(), "äääääääää…");
}

#[test]
fn safe_is_believed_only_with_what_the_code_cannot_know() {
    let right = "0123456789ab";
    for (must_echo, reason, canary, believed) in [
        (true, "", right, true),
        (true, "fine", right, true),
        (true, "", "", false),
        (true, "", "0123456789aB", false),
        (false, "", "", true),
        (false, "", right, true),
        (false, "", "approved", false),
        (false, "the canary is 0123456789ab", right, false),
        (false, &"b".repeat(32), "", false),
    ] {
        let verdict = judge(reply(true, reason, canary), &frame(), must_echo, 100);
        assert_eq!(
            verdict.is_ok(),
            believed,
            "{must_echo} {reason:?} {canary:?}"
        );
    }
}

fn body(content: &serde_json::Value, finish: &str) -> Vec<u8> {
    let choice = serde_json::json!({"message": {"content": content}, "finish_reason": finish});
    serde_json::json!({ "choices": [choice] })
        .to_string()
        .into_bytes()
}

#[test]
fn a_completion_is_read_with_its_end() {
    let text = serde_json::json!("hi");
    assert_eq!(parse_completion(&body(&text, "stop")).expect("text"), "hi");
    let parts = serde_json::json!([{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]);
    assert_eq!(parse_completion(&body(&parts, "stop")).expect("text"), "hi");
    assert!(matches!(
        parse_completion(&body(&text, "length")),
        Err(LlmError::Cut)
    ));
    assert!(matches!(
        parse_completion(&body(&text, "content_filter")),
        Err(LlmError::Withheld)
    ));
    assert!(matches!(
        parse_completion(&body(&text, "tool_calls")),
        Err(LlmError::Shape(_))
    ));
    for empty in [
        serde_json::json!(""),
        serde_json::json!(" \n"),
        serde_json::json!(null),
    ] {
        assert!(matches!(
            parse_completion(&body(&empty, "stop")),
            Err(LlmError::Empty)
        ));
    }
    assert!(matches!(
        parse_completion(b"data: {}\n\n"),
        Err(LlmError::Shape(_))
    ));
    assert!(matches!(
        parse_completion(b"{\"choices\": []}"),
        Err(LlmError::Shape(_))
    ));
    assert!(matches!(
        parse_completion(b"<html>"),
        Err(LlmError::Form(_))
    ));
    let refusal =
        br#"{"choices":[{"message":{"content":null,"refusal":"no"},"finish_reason":"stop"}]}"#;
    assert!(matches!(parse_completion(refusal), Err(LlmError::Withheld)));
}

proptest! {
    #[test]
    fn any_text_is_read_without_a_panic(text in any::<String>(), bytes in any::<Vec<u8>>()) {
        let _ = parse_reply(&text);
        let _ = parse_completion(&bytes);
    }

    #[test]
    fn what_is_written_is_read_back(safe: bool, reason: String, canary: String, fenced: bool) {
        let text = serde_json::json!({"safe": safe, "reason": reason, "canary": canary}).to_string();
        let text = if fenced { format!("```json\n{text}\n```") } else { text };
        prop_assert_eq!(parse_reply(&text).ok(), Some(reply(safe, &reason, &canary)));
    }

    #[test]
    fn a_word_before_or_behind_makes_it_prose(safe: bool, word in "[a-zA-Z.,!]{1,20}", before: bool) {
        let json = format!("{{\"safe\": {safe}}}");
        let text = if before { format!("{word} {json}") } else { format!("{json} {word}") };
        prop_assert!(parse_reply(&text).is_err());
    }

    #[test]
    fn what_was_cut_is_never_a_verdict(safe: bool, reason: String, cut in 1_usize..40) {
        let text = serde_json::json!({"safe": safe, "reason": reason}).to_string();
        let keep = text.chars().count().saturating_sub(cut);
        let text: String = text.chars().take(keep).collect();
        prop_assert!(parse_reply(&text).is_err());
    }

    #[test]
    fn a_reason_is_one_clean_line_within_its_limit(reason: String, most in 1_usize..600) {
        let line = clean(&reason, most);
        prop_assert!(line.chars().count() <= most.max("the model gave no reason".len()));
        prop_assert!(!line.chars().any(|c| is_hidden(c) || c == '\n' || c == '\t'));
        prop_assert!(!line.is_empty());
    }
}
