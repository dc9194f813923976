//! What is to be reached, held against what was seen.

use sless_benches::report::{Spread, Table};

use crate::{
    contestants::{
        BARE_NODE, BARE_PYTHON, CADDY, CLUSTER, DIRECT, FRAMEWORK_NODE, FRAMEWORK_PYTHON, NGINX,
        NODE, PYTHON, TRAEFIK,
    },
    measure::{CONNECTIONS, Entry, Round},
};

/// What the shortest body is called.
const SHORT: &str = "2 B";

/// A table of goals.
#[derive(Debug)]
pub(crate) struct Goals(Table);

impl Goals {
    pub(crate) fn new() -> Self {
        Self(Table::new(["goal", "bound", "seen", "reached"]))
    }

    pub(crate) fn show(&self) -> String {
        self.0.show()
    }

    /// At most so much.
    pub(crate) fn at_most(&mut self, goal: &str, bound: f64, seen: &Spread, digits: usize) {
        let reached = seen.median().map(|median| median <= bound);
        self.put(goal, &format!("≤ {bound:.digits$}"), seen, digits, reached);
    }

    fn at_least(&mut self, goal: &str, bound: f64, seen: &Spread, digits: usize) {
        let reached = seen.median().map(|median| median >= bound);
        self.put(goal, &format!("≥ {bound:.digits$}"), seen, digits, reached);
    }

    fn put(
        &mut self,
        goal: &str,
        bound: &str,
        seen: &Spread,
        digits: usize,
        reached: Option<bool>,
    ) {
        let reached = match reached {
            Some(true) => "yes",
            Some(false) => "no",
            None => "not measured",
        };
        self.0.row([goal, bound, &seen.show(digits), reached]);
    }

    /// Those of proxies.
    pub(crate) fn proxies(&mut self, all: &[Entry]) {
        for connections in CONNECTIONS {
            let case = (SHORT, connections);
            let goal = format!("p50 added, of nginx's, {connections} at once");
            let seen = pair(all, CLUSTER, DIRECT, case, |a, b| a.p50 - b.p50);
            let nginx = pair(all, NGINX, DIRECT, case, |a, b| a.p50 - b.p50).median();
            let ratio: Spread = match (seen.median(), nginx) {
                (Some(ours), Some(nginx)) if nginx > 0.0 => [ours / nginx].into_iter().collect(),
                _ => Spread::default(),
            };
            self.at_most(&goal, 1.0, &ratio, 2);
        }
        for (peer, bound) in [(NGINX, 1.5), (CADDY, 1.0 / 3.0), (TRAEFIK, 1.0 / 3.0)] {
            for connections in CONNECTIONS {
                let goal = format!("CPU of a request, of {peer}'s, {connections} at once");
                let seen = pair(all, CLUSTER, peer, (SHORT, connections), |a, b| {
                    a.cpu / b.cpu
                });
                self.at_most(&goal, bound, &seen, 2);
            }
        }
    }

    /// Those of runtimes.
    pub(crate) fn runtimes(&mut self, all: &[Entry]) {
        for (ours, framework, bare, start) in [
            (PYTHON, FRAMEWORK_PYTHON, BARE_PYTHON, 25.0),
            (NODE, FRAMEWORK_NODE, BARE_NODE, 70.0),
        ] {
            let Some(entry) = find(all, ours) else {
                continue;
            };
            for (peer, bound) in [(framework, 2.0), (bare, 0.7)] {
                for connections in CONNECTIONS {
                    let case = (SHORT, connections);
                    let goal = format!("{ours}: requests/s, of {peer}'s, {connections} at once");
                    let rate = |a: &Round, b: &Round| a.per_second / b.per_second;
                    self.at_least(&goal, bound, &pair(all, ours, peer, case, rate), 2);
                }
            }
            let goal = format!("{ours}: spawn to first 200, ms");
            self.at_most(&goal, start, &entry.start, 0);
        }
    }
}

fn find<'a>(all: &'a [Entry], name: &str) -> Option<&'a Entry> {
    all.iter().find(|entry| entry.name == name)
}

/// Two that are held against each other; nothing where one is not there.
fn pair(
    all: &[Entry],
    one: &str,
    other: &str,
    case: (&str, usize),
    of: impl Fn(&Round, &Round) -> f64,
) -> Spread {
    match (find(all, one), find(all, other)) {
        (Some(one), Some(other)) => one.against(other, case, of),
        _ => Spread::default(),
    }
}
