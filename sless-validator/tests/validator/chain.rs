//! Several validators as one.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use sless_core::{Error, Runtime, Validator, Verdict, memory::MemoryValidator, source::SourceTree};
use sless_validator::{ChainValidator, StaticValidator};

fn found(reason: &str) -> Verdict {
    Verdict::Unsafe {
        reason: reason.to_owned(),
    }
}

fn skipped(reason: &str) -> Verdict {
    Verdict::Skipped {
        reason: reason.to_owned(),
    }
}

/// What a chain of these says, as one word and a reason, and how many were asked.
async fn said(members: Vec<Result<Verdict, &'static str>>) -> (String, String, usize) {
    let asked = Arc::new(AtomicUsize::new(0));
    let members = members.into_iter().map(|says| {
        let asked = asked.clone();
        let validator = MemoryValidator::new(move |_, _| {
            asked.fetch_add(1, Ordering::Relaxed);
            says.clone().map_err(Error::unavailable)
        });
        Arc::new(validator) as Arc<dyn Validator>
    });
    let chain = ChainValidator::new(members);
    let source = SourceTree::from_files([("handler.py", "x = 1")]).unwrap();
    let (word, reason) = match chain.validate(&source, Runtime::Python311).await {
        Ok(verdict) => (verdict.as_str().to_owned(), verdict.reason().to_owned()),
        Err(error) => ("error".to_owned(), error.message().to_owned()),
    };
    (word, reason, asked.load(Ordering::Relaxed))
}

#[tokio::test]
async fn the_first_unsafe_ends_it() {
    for (members, expected) in [
        (vec![Ok(found("a")), Ok(found("b"))], ("unsafe", "a", 1)),
        (vec![Ok(Verdict::Safe), Ok(found("b"))], ("unsafe", "b", 2)),
        (vec![Err("away"), Ok(found("b"))], ("unsafe", "b", 2)),
        (vec![Ok(found("a")), Err("away")], ("unsafe", "a", 1)),
        (vec![Err("away"), Ok(Verdict::Safe)], ("error", "away", 2)),
        (vec![Err("one"), Err("two")], ("error", "one", 2)),
        (vec![Ok(skipped("a")), Ok(Verdict::Safe)], ("safe", "", 2)),
        (
            vec![Ok(skipped("a")), Ok(skipped("b"))],
            ("skipped", "a; b", 2),
        ),
        (
            vec![Ok(skipped("a")), Ok(skipped("a"))],
            ("skipped", "a", 2),
        ),
        (vec![Ok(skipped("a")), Err("away")], ("error", "away", 2)),
        (vec![], ("skipped", "no validator is configured", 0)),
    ] {
        let shown = format!("{members:?}");
        let (word, reason, asked) = said(members).await;
        assert_eq!((word.as_str(), reason.as_str(), asked), expected, "{shown}");
    }
}

#[test]
fn its_identity_is_all_of_theirs_in_order() {
    let rules: Arc<dyn Validator> = Arc::new(StaticValidator);
    let memory: Arc<dyn Validator> = Arc::new(MemoryValidator::fixed(Verdict::Safe));
    let one = ChainValidator::new([rules.clone(), memory.clone()]).identity();
    let other = ChainValidator::new([memory, rules]).identity();
    assert_eq!(one, format!("{} + memory", StaticValidator.identity()));
    assert_ne!(one, other);
}
