//! Killed outright at any request, before or after the server carried it out; then the same command again.

use crate::{
    Chance,
    life::{self, STEPS, look},
    number,
    proxy::{Fault, Proxy},
};
use std::{collections::BTreeMap, time::Duration};
use windlass_test_cluster::{ControlPlane, shared, wait_until};

#[derive(Debug, Default)]
struct Counts {
    killed: usize,
    /// By what was unfinished when the process died.
    found: BTreeMap<String, usize>,
    /// Killed with nothing left to do but to let the lock go.
    done: usize,
    wrong: Vec<String>,
}

/// One life; in each step the process is killed once.
fn live(
    plane: &ControlPlane,
    proxy: &Proxy,
    lengths: &[usize; STEPS],
    chance: &mut Chance,
    counts: &mut Counts,
) {
    let namespace = plane.namespace("crash").unwrap();
    let ns = namespace.name();
    let charts = tempfile::tempdir().unwrap();
    life::write_charts(charts.path());
    let mut revisions = 0;
    for (step, length) in lengths.iter().enumerate() {
        let mut words = life::command(step, charts.path(), ns);
        // "The one before" must mean the same when it is asked for again.
        words.retain(|word| word != "1");
        let args: Vec<&str> = words.iter().map(String::as_str).collect();
        let point = chance.below(2 * length);
        let first = proxy.run(&args, move |number, _, _| {
            (number == point / 2).then_some(Fault::Kill { after: point % 2 == 1 })
        });
        let dead = look(plane, ns);
        if first.code.is_none() {
            counts.killed += 1;
            let state = match dead.history.last().and_then(|row| row.split(':').nth(1)) {
                _ if dead.is_done(step) => "done",
                Some(status) => status,
                None => "nothing",
            };
            *counts.found.entry(format!("{} {state}", args[0])).or_default() += 1;
        }
        let done = dead.is_done(step);
        // Done but for the lock, which is dead: Helm refuses the same install, a rollback to "the one before" would go
        // back once more, and there is nothing left to uninstall.
        if done && step != 1 {
            counts.done += 1;
        } else {
            let again = proxy.run(&args, |_, _, _| None);
            if again.code != Some(0) {
                counts.wrong.push(format!("{} killed at {point} fails again: {}", args[0], again.text));
            }
        }
        let end = look(plane, ns);
        let left = (!done && end.leases > 0).then(|| "a Lease is left".to_owned());
        let wrong = end.wrong(step, revisions, 0).or(left);
        counts.wrong.extend(wrong.map(|wrong| format!("{} killed at {point}: {wrong}\n{dead:?}", args[0])));
        revisions = end.history.len();
    }
    // A lock that outlived its holder goes with the release, as the garbage collector gets to it.
    let gone =
        wait_until("no Lease", Duration::from_secs(30), || Ok((look(plane, ns).leases == 0).then_some(())));
    counts.wrong.extend(gone.err().map(|_| "a Lease outlives its release".to_owned()));
}

#[test]
fn what_died_before_its_last_write_is_finished_and_not_done_twice() {
    let plane = shared().expect("a control plane");
    let proxy = Proxy::start(plane.kubeconfig(), plane.directory());
    let namespace = plane.namespace("last").unwrap();
    let charts = tempfile::tempdir().unwrap();
    life::write_charts(charts.path());
    for step in 0..STEPS - 1 {
        let mut words = life::command(step, charts.path(), namespace.name());
        // An upgrade to the same would be one more revision, and "the one before" another one.
        words.retain(|word| word != "--skip-unchanged" && word != "1");
        let args: Vec<&str> = words.iter().map(String::as_str).collect();
        let old = format!(".life.v{step}?");
        let first = proxy.run(&args, move |_, method, path| {
            let last = method == "PUT" && path.contains(&old);
            last.then_some(Fault::Kill { after: false })
        });
        let dead = look(plane, namespace.name());
        if step > 0 {
            assert_eq!(first.code, None, "{args:?} wrote no old revision: {:#?}", first.asked);
            assert_eq!(dead.history.iter().filter(|row| row.ends_with(":deployed")).count(), 2, "{dead:?}");
            let again = proxy.run(&args, |_, _, _| None);
            assert_eq!(again.code, Some(0), "{}", again.text);
        }
        let end = look(plane, namespace.name());
        assert_eq!((end.wrong(step, step, 0), end.leases), (None, 0));
    }
}

/// How many requests each step makes when nothing goes wrong.
fn lengths(plane: &ControlPlane, proxy: &Proxy) -> [usize; STEPS] {
    let namespace = plane.namespace("calm").unwrap();
    let charts = tempfile::tempdir().unwrap();
    life::write_charts(charts.path());
    std::array::from_fn(|step| {
        let words = life::command(step, charts.path(), namespace.name());
        let args: Vec<&str> = words.iter().map(String::as_str).collect();
        let ended = proxy.run(&args, |_, _, _| None);
        let life = look(plane, namespace.name());
        assert_eq!((ended.code, life.wrong(step, step, 0)), (Some(0), None), "{}", ended.text);
        assert_eq!(life.leases, 0);
        ended.asked.len()
    })
}

fn crash(wanted: usize) -> Counts {
    let plane = shared().expect("a control plane");
    let seed = number("SEED", 1);
    let proxy = Proxy::start(plane.kubeconfig(), plane.directory());
    let lengths = lengths(plane, &proxy);
    let mut counts = Counts::default();
    let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    while counts.killed < wanted {
        live(plane, &proxy, &lengths, &mut chance, &mut counts);
    }
    println!("requests of install, upgrade, rollback, uninstall: {lengths:?}; seed {seed}");
    println!(
        "killed {} times; left behind: {:?}; did not converge: {}",
        counts.killed,
        counts.found,
        counts.wrong.len()
    );
    counts
}

#[test]
fn at_a_dozen_points_and_again() {
    let counts = crash(12);
    assert!(counts.wrong.is_empty(), "{}", counts.wrong.join("\n"));
}

#[test]
#[ignore = "takes minutes: make crash"]
fn at_many_points_and_again() {
    let counts = crash(number("N", 200).try_into().unwrap());
    assert!(counts.wrong.is_empty(), "{}", counts.wrong.join("\n"));
}
