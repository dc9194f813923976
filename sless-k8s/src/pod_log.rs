//! Following the logs of pods.

use jiff::Timestamp;
use kube::api::LogParams;

/// What asks for the lines behind the last one, and for those to come. Lines of that one's second come once
/// more: whoever reads leaves out those that are not newer.
pub(crate) fn following(last: Option<Timestamp>) -> LogParams {
    // Requests name whole seconds, and the client rounds to the nearest one: without this, lines up to a
    // second that is yet to come would be passed over.
    let second = |last: Timestamp| k8s_openapi::jiff::Timestamp::from_second(last.as_second()).ok();
    LogParams {
        follow: true,
        timestamps: true,
        since_time: last.and_then(second),
        ..LogParams::default()
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Request;

    use super::*;

    #[test]
    fn no_line_behind_the_last_one_is_passed_over() {
        for (last, since) in [
            ("2026-01-02T03:04:05.000000001Z", "05Z"),
            ("2026-01-02T03:04:05.642Z", "05Z"),
            ("2026-01-02T03:04:05.999999999Z", "05Z"),
            ("2026-01-02T03:04:06Z", "06Z"),
        ] {
            let last = last.parse().expect("a time");
            let request = Request::new("/pods").logs("one", &following(Some(last)));
            let asked = request.expect("a request").uri().to_string();
            assert!(
                asked.contains(&format!("&sinceTime=2026-01-02T03%3A04%3A{since}&")),
                "{asked}"
            );
        }
    }
}
