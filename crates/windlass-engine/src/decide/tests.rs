//! Cases of `decide`: a mode and a history, an action or Helm's error.

use super::*;
use ReleaseStatus::{
    Deployed, Failed, PendingInstall, PendingUpgrade, Superseded, Uninstalled, Uninstalling,
};

/// revision, status, same state, hold
type Row = (u64, ReleaseStatus, bool, RecordHold);
/// Name, mode, history; action and revision, or the error.
type VerbCase<'a> = (&'a str, Mode, &'a [Row], Result<(ReleaseAction, u64), &'a str>);
/// Name, history; action, revision, and whether it is an install.
type SteadyCase<'a> = (&'a str, &'a [Row], (ReleaseAction, u64, bool));

fn run(options: &ReleaseOptions, rows: &[Row]) -> Result<Decision, String> {
    let revisions: Vec<RevisionState> = rows
        .iter()
        .map(|&(revision, status, same, hold)| RevisionState {
            revision,
            status,
            same,
            hold,
            unsettled: false,
            undeployed: false,
        })
        .collect();
    decide("web", options, &revisions).map_err(|e| e.to_string())
}

fn options(mode: Mode) -> ReleaseOptions {
    ReleaseOptions { mode, ..ReleaseOptions::default() }
}

fn with(mode: Mode, set: impl FnOnce(&mut crate::RevisionOptions)) -> ReleaseOptions {
    let mut options = options(mode);
    set(&mut options.revisions);
    options
}

const OURS: RecordHold = RecordHold::Ours;
const THEIRS: RecordHold = RecordHold::Theirs;
const GONE: RecordHold = RecordHold::Abandoned;

#[test]
fn helms_verbs() {
    let in_use = "cannot reuse a name that is still in use";
    let none = "\"web\" has no deployed releases";
    let busy = "another operation (install/upgrade/rollback) is in progress";
    let cases: &[VerbCase<'_>] = &[
        ("new", Mode::Install, &[], Ok((ReleaseAction::Install, 1))),
        ("new, either", Mode::UpgradeInstall, &[], Ok((ReleaseAction::Install, 1))),
        ("nothing to upgrade", Mode::Upgrade, &[], Err(none)),
        ("exists", Mode::Install, &[(1, Deployed, false, GONE)], Err(in_use)),
        ("failed first install", Mode::Install, &[(1, Failed, true, GONE)], Ok((ReleaseAction::Install, 2))),
        (
            "failed twice",
            Mode::Install,
            &[(1, Failed, true, GONE), (2, PendingInstall, false, GONE)],
            Ok((ReleaseAction::Install, 3)),
        ),
        ("failed later", Mode::Install, &[(3, Failed, true, GONE)], Err(in_use)),
        ("upgrade", Mode::Upgrade, &[(1, Deployed, false, GONE)], Ok((ReleaseAction::Upgrade, 2))),
        ("upgrade to the same", Mode::Upgrade, &[(1, Deployed, true, GONE)], Ok((ReleaseAction::Upgrade, 2))),
        (
            "upgrade past a failure",
            Mode::Upgrade,
            &[(1, Failed, true, GONE)],
            Ok((ReleaseAction::Upgrade, 2)),
        ),
        ("uninstalled", Mode::Upgrade, &[(3, Uninstalled, false, GONE)], Err(none)),
        (
            "uninstalled, either",
            Mode::UpgradeInstall,
            &[(3, Uninstalled, false, GONE)],
            Ok((ReleaseAction::Install, 4)),
        ),
        ("held", Mode::Upgrade, &[(1, PendingInstall, true, THEIRS)], Err(busy)),
        ("held, install", Mode::Install, &[(1, PendingInstall, true, THEIRS)], Err(in_use)),
        ("abandoned", Mode::Upgrade, &[(1, PendingInstall, false, GONE)], Ok((ReleaseAction::Upgrade, 2))),
        (
            "abandoned, the same",
            Mode::Upgrade,
            &[(1, PendingInstall, true, GONE)],
            Ok((ReleaseAction::Resume, 1)),
        ),
        (
            "abandoned, install",
            Mode::Install,
            &[(1, PendingInstall, true, GONE)],
            Ok((ReleaseAction::Resume, 1)),
        ),
        (
            "another, install",
            Mode::Install,
            &[(1, PendingInstall, false, GONE)],
            Ok((ReleaseAction::Install, 2)),
        ),
        ("abandoned upgrade, install", Mode::Install, &[(2, PendingUpgrade, true, GONE)], Err(in_use)),
        ("being uninstalled", Mode::Upgrade, &[(2, Uninstalling, true, THEIRS)], Err(busy)),
    ];
    for (what, mode, rows, expected) in cases {
        let decided = run(&options(*mode), rows).map(|d| (d.action, d.revision));
        assert_eq!(decided, expected.map_err(str::to_owned), "{what}");
    }
}

#[test]
fn replacing_reuses_a_dead_name() {
    let replace = with(Mode::Install, |revisions| revisions.replace = true);
    for (status, ok) in [(Uninstalled, true), (Failed, true), (Deployed, false), (Superseded, false)] {
        assert_eq!(run(&replace, &[(2, status, false, GONE)]).is_ok(), ok, "{status}");
    }
}

#[test]
fn one_revision_for_one_state() {
    let steady = with(Mode::UpgradeInstall, |revisions| revisions.skip_unchanged = true);
    let cases: &[SteadyCase<'_>] = &[
        ("as deployed", &[(1, Deployed, true, GONE)], (ReleaseAction::Unchanged, 1, false)),
        ("changed", &[(1, Deployed, false, GONE)], (ReleaseAction::Upgrade, 2, false)),
        ("crashed installing", &[(1, PendingInstall, true, OURS)], (ReleaseAction::Resume, 1, true)),
        (
            "crashed installing again",
            &[(1, Failed, false, GONE), (2, PendingInstall, true, OURS)],
            (ReleaseAction::Resume, 2, true),
        ),
        ("crashed, then changed", &[(1, PendingInstall, false, OURS)], (ReleaseAction::Upgrade, 2, false)),
        (
            "crashed upgrading",
            &[(1, Deployed, false, GONE), (2, PendingUpgrade, true, OURS)],
            (ReleaseAction::Resume, 2, false),
        ),
        (
            "failed, tried again",
            &[(1, Deployed, false, GONE), (2, Failed, true, GONE)],
            (ReleaseAction::Resume, 2, false),
        ),
        (
            "failed, taken back",
            &[(1, Deployed, true, GONE), (2, Failed, false, GONE)],
            (ReleaseAction::Upgrade, 3, false),
        ),
    ];
    for (what, rows, expected) in cases {
        let d = run(&steady, rows).unwrap();
        assert_eq!((d.action, d.revision, d.installing), *expected, "{what}");
    }
}

#[test]
fn bases_and_leftovers() {
    let any = options(Mode::UpgradeInstall);
    /// base, abandon, supersede
    type Lists = (Vec<u64>, Vec<u64>, Vec<u64>);
    let cases: &[(&str, &[Row], Lists)] = &[
        ("plain", &[(4, Deployed, false, GONE)], (vec![4], vec![], vec![4])),
        (
            "failures after the deployed one",
            &[
                (2, Failed, false, GONE),
                (4, Deployed, false, GONE),
                (5, Failed, false, GONE),
                (6, PendingUpgrade, false, GONE),
            ],
            (vec![4, 5, 6], vec![6], vec![4]),
        ),
        (
            "two deployed: a crash between two writes",
            &[(4, Deployed, false, GONE), (5, Deployed, false, GONE)],
            (vec![5], vec![], vec![4, 5]),
        ),
        (
            "before an uninstall",
            &[(1, Uninstalled, false, GONE), (2, Failed, false, GONE)],
            (vec![2], vec![], vec![2]),
        ),
        (
            "nothing deployed ever: the last failure is replaced, as in Helm",
            &[(1, Failed, false, GONE), (2, Failed, false, GONE)],
            (vec![1, 2], vec![], vec![2]),
        ),
    ];
    for (what, rows, expected) in cases {
        let d = run(&any, rows).unwrap();
        assert_eq!((d.base, d.abandon, d.supersede), *expected, "{what}");
    }
    let steady = with(any.mode, |revisions| revisions.skip_unchanged = true);
    let healed = run(&steady, &[(4, Deployed, false, GONE), (5, Deployed, true, GONE)]).unwrap();
    assert_eq!(
        (healed.action, healed.supersede),
        (ReleaseAction::Unchanged, vec![4]),
        "an older deployed one is put right"
    );
}

#[test]
fn a_death_before_the_last_writes_makes_no_second_revision() {
    let row = |revision, same, unsettled| {
        let undeployed = false;
        RevisionState { revision, status: Deployed, same, hold: GONE, unsettled, undeployed }
    };
    for mode in [Mode::Install, Mode::Upgrade, Mode::UpgradeInstall] {
        let asked = |same, unsettled| {
            let revisions = [row(2, false, false), row(3, same, unsettled)];
            decide("web", &options(mode), &revisions).map(|d| (d.action, d.revision, d.supersede)).ok()
        };
        assert_eq!(asked(true, true), Some((ReleaseAction::Unchanged, 3, vec![2])), "{mode:?}");
        let other = (mode != Mode::Install).then(|| (ReleaseAction::Upgrade, 4, vec![2, 3]));
        assert_eq!(asked(false, true), other, "{mode:?} of something else");
        assert_eq!(asked(true, false), other, "{mode:?} of two by Helm");
    }
}

#[test]
fn an_install_whose_undoing_died_frees_its_name() {
    let row = |revision, status, undeployed| {
        let (same, hold, unsettled) = (true, GONE, false);
        RevisionState { revision, status, same, hold, unsettled, undeployed }
    };
    let in_use = Err("cannot reuse a name that is still in use".to_owned());
    let cases = [
        ("undone half", vec![row(1, Uninstalling, true)], Ok((ReleaseAction::Install, 2, vec![1]))),
        (
            "its elder is gone already",
            vec![row(2, Uninstalling, true)],
            Ok((ReleaseAction::Install, 3, vec![2])),
        ),
        (
            "and the next one died as well",
            vec![row(2, Failed, true), row(3, PendingInstall, false)],
            Ok((ReleaseAction::Resume, 3, vec![])),
        ),
        ("it was deployed once", vec![row(2, Uninstalling, false)], in_use.clone()),
        ("deployed since", vec![row(1, Failed, true), row(2, Deployed, false)], in_use),
    ];
    for (what, revisions, expected) in cases {
        let decided = decide("web", &options(Mode::Install), &revisions);
        let decided = decided.map(|d| (d.action, d.revision, d.abandon)).map_err(|e| e.to_string());
        assert_eq!(decided, expected, "{what}");
    }
    // Another operation may be running.
    let revisions = [RevisionState { hold: THEIRS, ..row(1, Uninstalling, true) }];
    assert!(decide("web", &options(Mode::Install), &revisions).is_err());
}

#[test]
fn breaking_a_lock() {
    let force = with(Mode::Upgrade, |revisions| revisions.break_lock = true);
    let d = run(&force, &[(1, Deployed, false, GONE), (2, PendingUpgrade, false, THEIRS)]).unwrap();
    assert_eq!((d.action, d.revision, d.abandon), (ReleaseAction::Upgrade, 3, vec![2]));
}
