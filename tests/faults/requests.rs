//! Requests that fail: conflicts, throttling, errors of the server, connections that break. Then the same command again,
//! with nothing in its way.

use crate::{
    Chance,
    life::{self, STEPS, look},
    number,
    proxy::{Fault, Proxy},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};
use windlass_test_cluster::shared;

/// What may go wrong with a request. A server that is busy says when to ask again: at once, here.
fn fault(chance: &mut Chance, method: &str) -> Fault {
    // A POST meets a conflict where a quota is being counted.
    let write = matches!(method, "PUT" | "PATCH" | "POST");
    match chance.below(8) {
        0 if write => Fault::Answer(409, None),
        0 | 1 => Fault::Answer(429, Some(0)),
        2 => Fault::Answer(500, Some(0)),
        3 => Fault::Answer(500, None),
        4 => Fault::Answer(503, None),
        // The API server's own timeout.
        5 => Fault::Answer(504, None),
        6 => Fault::Cut { after: false },
        _ => Fault::Cut { after: true },
    }
}

/// So many lives, one request in `one_in` of which fails. Answers with the commands that were run, those that failed at
/// first, the faults, and what went wrong for good.
fn suffer(lives: usize, one_in: usize) -> (usize, BTreeMap<String, usize>, usize, Vec<String>) {
    let plane = shared().expect("a control plane");
    let proxy = Proxy::start(plane.kubeconfig(), plane.directory());
    let seed = number("SEED", 1);
    let chance = Arc::new(Mutex::new(Chance(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1)));
    let (mut commands, mut faults, mut failed, mut wrong) = (0, 0, BTreeMap::new(), Vec::new());
    for _ in 0..lives {
        let namespace = plane.namespace("faults").unwrap();
        let charts = tempfile::tempdir().unwrap();
        life::write_charts(charts.path());
        let mut revisions = 0;
        for step in 0..STEPS {
            let words = life::command(step, charts.path(), namespace.name());
            let args: Vec<&str> = words.iter().map(String::as_str).collect();
            let script = Arc::clone(&chance);
            let first = proxy.run(&args, move |_, method, _| {
                let mut chance = script.lock().unwrap();
                (chance.below(one_in) == 0).then(|| fault(&mut chance, method))
            });
            commands += 1;
            faults += first.faults;
            let mut tries = 0;
            if first.code != Some(0) {
                *failed.entry(first.text.trim().chars().take(160).collect()).or_default() += 1;
                // Without faults it comes through at once; what is done already is refused as Helm refuses it.
                let done = look(plane, namespace.name()).is_done(step);
                let again = proxy.run(&args, |_, _, _| None);
                tries = 1 + usize::from(done && step == 2);
                if again.code != Some(0) && !done {
                    wrong.push(format!("{words:?} failed again: {}\nat first: {}", again.text, first.text));
                }
            }
            let end = look(plane, namespace.name());
            // A failed revision stays in the history, as Helm keeps it.
            wrong.extend(end.wrong(step, revisions, tries).map(|w| format!("{w}\nat first: {}", first.text)));
            revisions = end.history.len();
        }
    }
    (commands, failed, faults, wrong)
}

fn check(lives: usize) {
    let (commands, failed, faults, wrong) = suffer(lives, 8);
    let failures: usize = failed.values().sum();
    println!("{commands} commands met {faults} faults; {failures} of them failed at first: {failed:#?}");
    println!("did not converge: {}", wrong.len());
    assert!(faults > 0, "nothing went wrong");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn some_fail_and_again() {
    check(3);
}

#[test]
#[ignore = "takes minutes: make crash"]
fn many_fail_and_again() {
    check((number("N", 200) / 4).try_into().unwrap());
}

#[test]
fn a_busy_server_is_waited_for() {
    let plane = shared().expect("a control plane");
    let proxy = Proxy::start(plane.kubeconfig(), plane.directory());
    let namespace = plane.namespace("busy").unwrap();
    let charts = tempfile::tempdir().unwrap();
    life::write_charts(charts.path());
    for step in 0..STEPS {
        let words = life::command(step, charts.path(), namespace.name());
        let args: Vec<&str> = words.iter().map(String::as_str).collect();
        // Every other request is turned away, writes too: nothing of it may show.
        let ended = proxy.run(&args, |number, _, _| (number % 2 == 0).then_some(Fault::Answer(429, Some(0))));
        let end = look(plane, namespace.name());
        assert_eq!((ended.code, end.wrong(step, step, 0)), (Some(0), None), "{}", ended.text);
        assert!(ended.faults >= 5, "{} faults", ended.faults);
    }
}

/// A command on a release of one ConfigMap.
fn words<'a>(verb: &'a str, chart: &'a str, ns: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&[verb, "web", chart, "-n", ns][..], more].concat()
}

#[test]
fn a_quota_that_is_being_counted_and_a_server_that_hangs() {
    let plane = shared().expect("a control plane");
    let proxy = Proxy::start(plane.kubeconfig(), plane.directory());
    let namespace = plane.namespace("hangs").unwrap();
    let ns = namespace.name();
    let chart = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = chart.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
    write(
        "templates/a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {v: \"{{ .Values.v }}\"}\n",
    );
    let path = chart.path().to_str().unwrap();
    // The record's own creation meets the quota's count twice.
    let refused = Arc::new(Mutex::new(0));
    let count = Arc::clone(&refused);
    let quota = proxy.run(&words("install", path, ns, &["--set", "v=1"]), move |_, method, path| {
        let mut count = count.lock().unwrap();
        let record = method == "POST" && path.contains("/secrets");
        *count += usize::from(record);
        (record && *count <= 2).then_some(Fault::Answer(409, None))
    });
    assert_eq!((quota.code, *refused.lock().unwrap()), (Some(0), 3), "{}", quota.text);

    let start = std::time::Instant::now();
    let hung = proxy
        .run(&words("upgrade", path, ns, &["--set", "v=2", "--deadline", "2s"]), |_, method, path| {
            (method == "PATCH" && path.contains("/configmaps/")).then_some(Fault::Hang)
        });
    assert!(
        hung.code == Some(1) && hung.text.contains("not done within its deadline of 2s"),
        "{}",
        hung.text
    );
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    let history = plane.helm4(["history", "web", "-n", ns]).unwrap();
    assert!(history.contains("deployed") && history.contains("failed"), "{history}");

    let again = proxy.run(&words("upgrade", path, ns, &["--set", "v=2"]), |_, _, _| None);
    assert_eq!(again.code, Some(0), "{}", again.text);
    let live = plane.kubectl(["get", "configmap", "a", "-n", ns, "-o", "jsonpath={.data.v}"]).unwrap();
    assert_eq!(live, "2");
}

#[test]
fn a_server_that_throttles_for_good_is_told_of_after_a_minute() {
    let plane = shared().expect("a control plane");
    let proxy = Proxy::start(plane.kubeconfig(), plane.directory());
    let start = std::time::Instant::now();
    // It does not say when to come again.
    let ended = proxy.run(&["list", "-n", "default"], |_, _, _| Some(Fault::Answer(429, None)));
    let took = start.elapsed().as_secs();
    assert!(ended.code == Some(1) && (45..90).contains(&took), "after {took} s: {}", ended.text);
    assert!(ended.asked.len() < 30, "{:?}", ended.asked);
    let said = [
        "Error: GET /api",
        "the API server is throttling requests, and still was after",
        "a fault of status 429",
    ];
    assert!(said.iter().all(|said| ended.text.contains(said)), "{}", ended.text);
}
