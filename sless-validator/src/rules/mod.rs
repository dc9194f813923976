//! [`StaticValidator`]: what is written plainly.

mod file;
mod table;

use std::sync::LazyLock;

use async_trait::async_trait;
use sless_core::{
    Result, Runtime, Validator, Verdict,
    source::{ReviewSet, SourceTree},
};

use file::{File, Rule};

/// Finds the plain cases of the six checks by rules: no network, no state, the same verdict each time.
///
/// A rule is a few patterns that have to be found in one file together; the reason names the file, the
/// line of the first, and what the rule is about. Lines that are only a comment do not count. Text is
/// looked at as Python reads names (Unicode NFKC), and without characters that nobody sees.
///
/// It finds no more than that: whoever takes a program's name apart into two strings is past it. It is
/// meant to stand in front of a model, which costs more, or where there is none.
///
/// [`validate`](Validator::validate) does not fail unless the source cannot be read.
#[derive(Clone, Copy, Debug, Default)]
pub struct StaticValidator;

/// The version of the rules: with other rules, the verdicts of before do not stand.
const VERSION: u32 = 1;

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| table::RULES.iter().map(Rule::of).collect());

#[async_trait]
impl Validator for StaticValidator {
    fn identity(&self) -> String {
        format!("static/{VERSION}")
    }

    async fn validate(&self, source: &SourceTree, _: Runtime) -> Result<Verdict> {
        let set = source.reviewable()?;
        Ok(skipped(&set).unwrap_or_else(|| look(&set)))
    }
}

/// The verdict where there is nothing to look at, or too much.
pub(crate) fn skipped(set: &ReviewSet) -> Option<Verdict> {
    let reason = if set.oversized {
        let (bytes, most) = (set.bytes, ReviewSet::MOST_BYTES);
        format!("{bytes} bytes of code are more than the {most} that are looked at")
    } else if set.files.is_empty() {
        "there is no file of a kind that is looked at".to_owned()
    } else {
        return None;
    };
    Some(Verdict::Skipped { reason })
}

fn look(set: &ReviewSet) -> Verdict {
    for (path, content) in &set.files {
        let file = File::new(path, content);
        let found = file
            .turned_line()
            .map(|line| (line, file::TURNED))
            .or_else(|| {
                let mut found = RULES
                    .iter()
                    .filter_map(|rule| Some((rule.find(&file)?, rule.says)));
                found.next()
            });
        if let Some((line, says)) = found {
            return Verdict::Unsafe {
                reason: format!("{path}:{line}: {says}"),
            };
        }
    }
    Verdict::Safe
}
