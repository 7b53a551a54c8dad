//! The table of docs/operating.md that says what is retried when, made of the constants that the operator runs by.

use windlass_base::backoff;
use windlass_cluster::LEADER_LEASE;
use windlass_controller::{
    DEPENDENCY_DELAY, DEPENDENCY_INTERVAL, OWN_LINES, REPEAT, SHORTEST_INTERVAL, STALLED_DELAY, WAIT_DELAY,
    WINDOW,
};
use windlass_modules::shell_hooks::queues::LONGEST_PAUSE;

/// The table in Markdown.
fn table() -> String {
    let (first, last) = (backoff::FIRST_DELAY.as_secs(), backoff::LONGEST.as_secs());
    let shortest = SHORTEST_INTERVAL.as_secs();
    let backoff = format!(
        "{first} s, doubled to {last} s, or to its interval if that is shorter ({shortest} s at least)"
    );
    let own = |other: u64| format!("its interval; {other} s without one");
    let stalled = own(STALLED_DELAY.as_secs());
    let dependency = own(DEPENDENCY_DELAY.as_secs());
    let changes = "a new generation or trigger annotation, a changed reference or lookup";
    let rows: [[&str; 5]; 12] = [
        [
            "the API server refuses or does not answer (admission, quota, rights, conflict, webhook, time-out)",
            &backoff,
            changes,
            "a new generation cancels waits; suspension",
            "condition, Event, log",
        ],
        [
            "a kind is not served",
            &backoff,
            "the kind is served, at once",
            "the same",
            "condition, Event, log",
        ],
        [
            "the chart, its values, or the render is invalid",
            &stalled,
            changes,
            "the same",
            "condition Stalled or Ready, Event, log",
        ],
        [
            "a chart or state file cannot be fetched",
            &backoff,
            "a new artifact; for a source, its Secret",
            "the same",
            "condition of the source and of what uses it, Event, log",
        ],
        [
            "a source is not ready",
            &dependency,
            "the source is ready, or fails for another reason",
            "the same",
            "condition; Event and log only if the source has failed",
        ],
        [
            "a dependency (`dependsOn`) is not ready",
            &format!("{} s if it is not watched", DEPENDENCY_INTERVAL.as_secs()),
            "the dependency is ready",
            "the same",
            "condition, Event",
        ],
        [
            "another operation runs on the release",
            &format!("{} s", WAIT_DELAY.as_secs()),
            "–",
            "it ends, or its Lease expires",
            "condition, log",
        ],
        [
            "a release that was written has failed, remediation is left",
            "by its strategy: at once, or its `retryInterval`",
            changes,
            "retries are used up: Stalled",
            "condition, Event, log, record",
        ],
        [
            "an object differs from the release (drift)",
            "at once; a failed correction as above",
            "each change of an owned object",
            "`driftDetection`, maintenance",
            "condition, Event, metric",
        ],
        [
            "a shell hook fails",
            &format!("{} s at most", LONGEST_PAUSE.as_secs()),
            "–",
            "the module is disabled; `allowFailure`",
            "log, status of the module, metric",
        ],
        [
            "a module waits for a hook that fails",
            &backoff,
            "the hook succeeds, at once",
            "the module is disabled",
            "log, status of the module",
        ],
        [
            "the leader is gone",
            &format!("{} s", LEADER_LEASE.as_secs()),
            "a leader that stops releases its Lease",
            "–",
            "log, metric `windlass_leader`",
        ],
    ];
    let mut text = "| what | tried again after | or when | ends with | where it shows |\n| --- | --- | --- | --- | --- |\n".to_owned();
    for row in rows {
        text.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    text.push_str(&format!(
        "\nA change of anything that the pass depends on starts the delay anew. A failure is logged as an error once for each object and reason; of \
         more than {OWN_LINES} objects with\nthe same reason, the others are counted in one line {} s later, and again after {} minutes.\n",
        WINDOW.as_secs(),
        REPEAT.as_secs() / 60
    ));
    text
}

#[test]
fn the_documentation_has_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operating.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (begin, end) = ("<!-- begin: src/runtime/retry_table.rs -->\n", "<!-- end -->");
    let start = page.find(begin).unwrap() + begin.len();
    let length = page[start..].find(end).unwrap();
    let shown = &page[start..start + length];
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let rest = &page[start + length..];
        std::fs::write(path, format!("{}{}{rest}", &page[..start], table())).unwrap();
        return;
    }
    assert_eq!(shown, table(), "run this test with UPDATE_DOCS=1");
}
