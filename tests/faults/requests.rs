//! Requests that fail: conflicts, throttling, errors of the server, connections that break. Then the same command again,
//! with nothing in its way.

use crate::{
    Chance,
    life::{self, STEPS, Scene, look},
    number,
    proxy::{Fault, Proxy},
    temper::Temper,
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};
use windlass_testing::{control_plane, write_file};

/// What a request that hangs costs: longer than an answer ever takes here.
const PATIENCE: u32 = 2;

/// What may go wrong with a request. A server that is busy says when to ask again: at once, here.
fn fault(chance: &mut Chance, method: &str, path: &str) -> Fault {
    // A POST meets a conflict where a quota is being counted.
    let write = matches!(method, "PUT" | "PATCH" | "POST");
    // There is no half of what goes on for minutes.
    let watch = path.contains("watch=true");
    match chance.below(10) {
        0 if write => Fault::Answer(409, None),
        0 | 1 => Fault::Answer(429, Some(0)),
        2 => Fault::Answer(500, Some(0)),
        3 => Fault::Answer(500, None),
        4 => Fault::Answer(503, None),
        // The API server's own timeout.
        5 => Fault::Answer(504, None),
        6 => Fault::Cut { after: false },
        7 if !watch => Fault::Half,
        8 => Fault::Hang { after: chance.below(2) == 0 },
        _ => Fault::Cut { after: true },
    }
}

/// What came of lives in which requests failed.
#[derive(Default)]
struct Suffered {
    commands: usize,
    /// Of the failed requests by what went wrong with them.
    faults: BTreeMap<String, usize>,
    /// Commands that failed at first, by what they said.
    failed: BTreeMap<String, usize>,
    wrong: Vec<String>,
}

/// So many lives, one request in `one_in` of which fails.
fn suffer(lives: usize, one_in: usize) -> Suffered {
    let plane = control_plane();
    let proxy = Proxy::start(plane.kubeconfig(), plane.directory());
    let seed = number("SEED", 1);
    let chance = Arc::new(Mutex::new(Chance(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1)));
    let mut all = Suffered::default();
    let faults: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
    for _ in 0..lives {
        let namespace = plane.namespace("faults").unwrap();
        let charts = tempfile::tempdir().unwrap();
        life::write_charts(charts.path());
        let temper = Temper::new(&mut chance.lock().unwrap());
        let mut revisions = 0;
        for step in 0..STEPS {
            let mut words = life::command(step, charts.path(), namespace.name());
            words.extend(temper.flags(step).into_iter().map(str::to_owned));
            let args: Vec<&str> = words.iter().map(String::as_str).collect();
            let (script, met) = (Arc::clone(&chance), Arc::clone(&faults));
            let first = proxy.run_patient(&args, Some(PATIENCE), move |_, method, path| {
                let mut chance = script.lock().unwrap();
                let fault = (chance.below(one_in) == 0).then(|| fault(&mut chance, method, path))?;
                *met.lock().unwrap().entry(format!("{fault:?}")).or_default() += 1;
                Some(fault)
            });
            all.commands += 1;
            let mut tries = 0;
            if first.code != Some(0) {
                *all.failed.entry(first.text.trim().chars().take(160).collect()).or_default() += 1;
                // Without faults it comes through at once; what is done already is refused as Helm refuses it.
                let done = look(plane, namespace.name()).is_done(step);
                let again = proxy.run(&args, |_, _, _| None);
                tries = 1 + usize::from(done && step == 2) + usize::from(temper.undoes(step));
                if again.code != Some(0) && !done {
                    all.wrong
                        .push(format!("{words:?} failed again: {}\nat first: {}", again.text, first.text));
                }
            }
            let end = look(plane, namespace.name());
            // A failed revision stays in the history, as Helm keeps it.
            let told = |wrong| format!("{words:?}: {wrong}\nat first: {}", first.text);
            all.wrong.extend(end.wrong(step, revisions, tries).map(told));
            revisions = end.history.len();
        }
    }
    all.faults = faults.lock().unwrap().clone();
    all
}

fn check(lives: usize) {
    let Suffered { commands, faults, failed, wrong } = suffer(lives, 8);
    let (failures, met): (usize, usize) = (failed.values().sum(), faults.values().sum());
    println!(
        "{commands} commands met {met} faults {faults:?}; {failures} of them failed at first: {failed:#?}"
    );
    println!("did not converge: {}", wrong.len());
    assert!(met > 0, "nothing went wrong");
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
    let Scene { plane, proxy, namespace, charts } = Scene::new("busy");
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
    let plane = control_plane();
    let proxy = Proxy::start(plane.kubeconfig(), plane.directory());
    let namespace = plane.namespace("hangs").unwrap();
    let ns = namespace.name();
    let chart = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| write_file(chart.path().join(path), text);
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
    let hung =
        proxy.run(&words("upgrade", path, ns, &["--set", "v=2", "--deadline", "2s"]), |_, method, path| {
            (method == "PATCH" && path.contains("/configmaps/")).then_some(Fault::Hang { after: false })
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
fn a_failure_that_cannot_be_recorded_is_undone_all_the_same() {
    let Scene { plane, proxy, namespace, charts } = Scene::new("undone");
    for step in 0..2 {
        let mut words = life::command(step, charts.path(), namespace.name());
        words.extend((step == 1).then(|| "--rollback-on-failure".to_owned()));
        let args: Vec<&str> = words.iter().map(String::as_str).collect();
        let (object, record) = (AtomicBool::new(step == 0), AtomicBool::new(step == 0));
        let ended = proxy.run(&args, move |_, method, path| {
            let first =
                |what: &str, met: &AtomicBool| path.contains(what) && !met.swap(true, Ordering::SeqCst);
            let due = match method {
                "PATCH" => first("/configmaps/life-both", &object),
                "PUT" => {
                    object.load(Ordering::SeqCst) && first("/secrets/sh.helm.release.v1.life.v2", &record)
                }
                _ => false,
            };
            due.then_some(Fault::Answer(500, None))
        });
        assert_eq!(
            (ended.code, ended.faults),
            (Some(i32::try_from(step).unwrap()), 2 * step),
            "{}",
            ended.text
        );
        assert!(step == 0 || ended.text.contains("has been rolled back"), "{}", ended.text);
    }
    let end = look(plane, namespace.name());
    assert_eq!((end.wrong_undone(1, 1, 2), end.leases), (None, 0));
}

#[test]
fn a_lock_that_was_taken_without_an_answer_is_held() {
    let Scene { plane, proxy, namespace, charts } = Scene::new("unanswered");
    // Made anew, then left by who is killed, and taken from the dead.
    let lives = [
        (0, "POST", Fault::Cut { after: true }, Some(0)),
        (1, "POST", Fault::Kill { after: true }, None),
        (1, "PUT", Fault::Cut { after: true }, Some(0)),
    ];
    for (step, verb, fault, code) in lives {
        let words = life::command(step, charts.path(), namespace.name());
        let args: Vec<&str> = words.iter().map(String::as_str).collect();
        let met = AtomicBool::new(false);
        let ended = proxy.run(&args, move |_, method, path| {
            let its = method == verb && path.contains("/leases");
            (its && !met.swap(true, Ordering::SeqCst)).then_some(fault)
        });
        assert_eq!((ended.code, ended.faults), (code, 1), "{verb}: {}", ended.text);
    }
    let end = look(plane, namespace.name());
    assert_eq!((end.wrong(1, 1, 0), end.leases), (None, 0));
}

#[test]
fn a_watch_that_hangs_is_asked_for_again() {
    let Scene { plane, proxy, namespace, charts } = Scene::new("watch");
    for step in 0..2 {
        let words = life::command(step, charts.path(), namespace.name());
        let args: Vec<&str> = words.iter().map(String::as_str).collect();
        let start = std::time::Instant::now();
        let met = AtomicBool::new(false);
        // The Job of a hook is waited for.
        let ended = proxy.run_patient(&args, Some(PATIENCE), move |_, _, path| {
            let due = path.contains("/jobs?") && !met.swap(true, Ordering::SeqCst);
            due.then_some(Fault::Hang { after: false })
        });
        assert_eq!((ended.code, ended.faults), (Some(0), step), "{}: {:#?}", ended.text, ended.asked);
        assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
        assert!(look(plane, namespace.name()).is_done(step));
    }
}

#[test]
fn a_lock_that_cannot_be_let_go_is_left_to_expire() {
    let Scene { plane, proxy, namespace, charts } = Scene::new("lease");
    let words = life::command(0, charts.path(), namespace.name());
    let args: Vec<&str> = words.iter().map(String::as_str).collect();
    let start = std::time::Instant::now();
    let ended = proxy.run(&args, |_, method, path| {
        (method == "DELETE" && path.contains("/leases/")).then_some(Fault::Hang { after: false })
    });
    let took = start.elapsed().as_secs();
    assert_eq!((ended.code, ended.faults), (Some(0), 1), "{}", ended.text);
    assert!((15..40).contains(&took), "{took} s");
    assert!(look(plane, namespace.name()).is_done(0));
}

#[test]
fn a_server_that_throttles_for_good_is_told_of_after_a_minute() {
    let plane = control_plane();
    let proxy = Proxy::start(plane.kubeconfig(), plane.directory());
    let start = std::time::Instant::now();
    // It does not say when to come again.
    let ended = proxy.run(&["list", "-n", "default"], |_, _, _| Some(Fault::Answer(429, None)));
    let took = start.elapsed().as_secs();
    assert!(ended.code == Some(1) && (45..90).contains(&took), "after {took} s: {}", ended.text);
    assert!(ended.asked.len() < 30, "{:?}", ended.asked);
    let said = ["Error: GET /api", "the API server throttled requests for", "a fault of status 429"];
    assert!(said.iter().all(|said| ended.text.contains(said)), "{}", ended.text);
}
