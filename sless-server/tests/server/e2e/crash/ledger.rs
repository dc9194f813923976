//! What the server has accepted, kept outside of it; and what the functions noted.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use sless_api::Job;

/// What was accepted.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) steady: Versions,
    pub(super) installed: Versions,
    /// The messages that were accepted.
    pub(super) messages: BTreeSet<u64>,
    /// The last message that was sent, accepted or not.
    pub(super) sent: u64,
    /// The jobs that are not deleted.
    pub(super) jobs: BTreeMap<u64, Known>,
    /// The last job that was sent, accepted or not.
    pub(super) begun: u64,
    /// The last function that came and went.
    pub(super) passing: u64,
    /// What went wrong while the server was there.
    pub(super) complaints: Vec<String>,
    /// What was counted over all rounds.
    pub(super) counts: Counts,
}

/// What was counted over all rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) uploads: u64,
    pub(super) calls: u64,
    pub(super) jobs: u64,
    pub(super) interrupted: u64,
}

/// A job.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Whether the server has said that it has it.
    pub(super) accepted: bool,
    /// Whether it was to be deleted.
    pub(super) deleting: bool,
    /// How it ended, once that is known.
    pub(super) ended: Option<Job>,
}

/// The versions of a function.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Versions {
    /// The version that was serving when it was looked at last.
    pub(super) served: u32,
    /// The newest one that the server took.
    pub(super) taken: u32,
    /// The newest one that was sent, taken or not.
    pub(super) sent: u32,
    /// The newest number that was used.
    last: u32,
}

impl Versions {
    /// The number of the next one, which is about to be sent.
    pub(super) fn next(&mut self) -> u32 {
        self.last += 1;
        self.sent = self.last;
        self.sent
    }

    /// Whether this one may answer now.
    pub(super) fn may_serve(&self, version: u32) -> bool {
        (self.served..=self.sent).contains(&version)
    }

    /// Whether this one may answer once nothing is under way; takes note that it does.
    pub(super) fn settle(&mut self, version: u32) -> bool {
        let right = version == self.taken || version == self.sent;
        (self.served, self.taken, self.sent) = (version, version, version);
        right
    }
}

/// What the function `steady` noted, over all rounds.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub(super) begun: BTreeMap<u64, u32>,
    pub(super) ended: BTreeMap<u64, u32>,
    pub(super) messages: BTreeMap<u64, u32>,
    /// The causes of the runs by the clock, by their due time.
    pub(super) cron: BTreeMap<String, Vec<String>>,
}

impl Notes {
    /// Reads them from the folders of the functions.
    pub(super) fn read(data: &Path) -> Self {
        let mut notes = Self::default();
        for home in fs::read_dir(data.join("home"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let text = fs::read_to_string(home.path().join("notes")).unwrap_or_default();
            for line in text.lines() {
                notes.take(line);
            }
        }
        notes
    }

    fn take(&mut self, line: &str) {
        let words: Vec<_> = line.split(' ').collect();
        let count = |counts: &mut BTreeMap<u64, u32>, number: &str| {
            *counts.entry(number.parse().unwrap()).or_default() += 1;
        };
        match words[..] {
            ["begun", job] => count(&mut self.begun, job),
            ["ended", job] => count(&mut self.ended, job),
            ["message", number] => count(&mut self.messages, number),
            ["cron", at, cause] => {
                let causes = self.cron.entry(at.to_owned()).or_default();
                causes.push(cause.to_owned());
            }
            _ => panic!("a line that is not whole: {line:?}"),
        }
    }
}
