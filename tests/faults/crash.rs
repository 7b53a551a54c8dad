//! Killed outright at any request, before or after the server carried it out; then the same command again.

use crate::{
    Chance,
    life::{self, Life, STEPS, Scene, look},
    number,
    proxy::{Fault, Proxy},
    temper::{Temper, refuse},
};
use std::{collections::BTreeMap, time::Duration};
use windlass_testing::{ControlPlane, control_plane, wait_until};

#[derive(Debug, Default)]
struct Counts {
    killed: usize,
    /// By what was unfinished when the process died.
    found: BTreeMap<String, usize>,
    /// By the flags of the command that was killed.
    flags: BTreeMap<&'static str, usize>,
    /// Killed with nothing left to do but to let the lock go.
    done: usize,
    /// Failures that were undone, and those of commands that had been killed before.
    undone: (usize, usize),
    wrong: Vec<String>,
}

impl Counts {
    /// Counts a command that was killed, and what it left.
    fn take_killed(&mut self, verb: &str, done: bool, dead: &Life, flags: &[&'static str]) {
        self.killed += 1;
        let state = match dead.history.last().and_then(|row| row.split(':').nth(1)) {
            _ if done => "done",
            Some(status) => status,
            None => "nothing",
        };
        *self.found.entry(format!("{verb} {state}")).or_default() += 1;
        for flag in flags {
            *self.flags.entry(flag).or_default() += 1;
        }
    }
}

/// One life; in each step the process is killed once, and perhaps was to fail anyway.
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
    let temper = Temper::new(chance);
    let mut revisions = 0;
    for (step, length) in lengths.iter().enumerate() {
        let refused = temper.refused(chance);
        let mut words = life::command(step, charts.path(), ns);
        words.extend(temper.flags(step).into_iter().map(str::to_owned));
        if revisions <= 2 && refused.is_none() {
            // "The one before" must mean the same when it is asked for again.
            words.retain(|word| word != "1");
        }
        let args: Vec<&str> = words.iter().map(String::as_str).collect();
        // An operation and its undoing are two.
        let reach = if refused.is_some() && temper.undoes(step) { 2 * length } else { *length };
        let point = chance.below(2 * reach);
        let refusal = refuse(refused);
        let first = proxy.run(&args, move |number, method, path| {
            let kill = (number == point / 2).then_some(Fault::Kill { after: point % 2 == 1 });
            kill.or_else(|| refusal(method, path))
        });
        let dead = look(plane, ns);
        let complain = |wrong: String| format!("{} killed at {point}: {wrong}\n{dead:?}", args.join(" "));
        let (killed, done) = (first.code.is_none(), dead.is_done(step));
        if killed {
            counts.take_killed(args[0], done, &dead, &temper.flags(step));
        }
        // Revisions that failed, and those that undid them.
        let mut more = usize::from(refused.is_some()) * (1 + usize::from(temper.undoes(step)));
        if !killed && let Some(object) = refused {
            if first.code != Some(1) {
                counts.wrong.push(complain(format!("{object} was refused: {}", first.text)));
            }
            let made = if step == 1 { "life-second" } else { "life-first" };
            let wrong = match (temper.undoes(step), temper.cleans(step)) {
                (true, _) => dead.wrong_undone(step, revisions, more),
                (false, true) => dead.objects.iter().find(|row| row.contains(made)).cloned(),
                (false, false) => None,
            };
            counts.undone.0 += usize::from(temper.undoes(step));
            counts.wrong.extend(wrong.map(complain));
        } else if let Some(object) = refused.filter(|_| temper.undoes(step) && !done && chance.below(2) == 0)
        {
            // Killed, and failing once more: it is undone now, whatever the one before left of that.
            let refusal = refuse(refused);
            let again = proxy.run(&args, move |_, method, path| refusal(method, path));
            more += 2;
            let end = look(plane, ns);
            let wrong = end
                .wrong_undone(step, revisions, more)
                .or((end.leases > 0).then(|| "a Lease is left".into()));
            let wrong = wrong.or((again.code != Some(1)).then(|| format!("{object} was refused")));
            counts.undone.1 += 1;
            counts.wrong.extend(wrong.map(|wrong| complain(format!("{wrong}: {}", again.text))));
        }
        // Done but for the lock, which is dead: Helm refuses the same install, a rollback to "the one before" would go
        // back once more, and there is nothing left to uninstall.
        if done && step != 1 {
            counts.done += 1;
        } else {
            let again = proxy.run(&args, |_, _, _| None);
            if again.code != Some(0) {
                counts.wrong.push(complain(format!("fails again: {}", again.text)));
            }
        }
        let end = look(plane, ns);
        let left = (!done && end.leases > 0).then(|| "a Lease is left".to_owned());
        counts.wrong.extend(end.wrong(step, revisions, more).or(left).map(complain));
        revisions = end.history.len();
    }
    // A lock that outlived its holder goes with the release, as the garbage collector gets to it.
    let gone =
        wait_until("no Lease", Duration::from_secs(30), || Ok((look(plane, ns).leases == 0).then_some(())));
    counts.wrong.extend(gone.err().map(|_| "a Lease outlives its release".to_owned()));
}

#[test]
fn what_died_before_its_last_write_is_finished_and_not_done_twice() {
    let Scene { plane, proxy, namespace, charts } = Scene::new("last");
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
    let plane = control_plane();
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
        "killed {} times; left behind: {:?}; with flags: {:?}",
        counts.killed, counts.found, counts.flags
    );
    println!(
        "failures that were undone: {}, and {} of commands that had been killed at it; did not converge: {}",
        counts.undone.0,
        counts.undone.1,
        counts.wrong.len()
    );
    counts
}

#[test]
fn at_two_dozen_points_and_again() {
    let counts = crash(24);
    assert!(counts.wrong.is_empty(), "{}", counts.wrong.join("\n"));
}

#[test]
#[ignore = "takes minutes: make crash"]
fn at_many_points_and_again() {
    let counts = crash(number("N", 200).try_into().unwrap());
    assert!(counts.wrong.is_empty(), "{}", counts.wrong.join("\n"));
}
