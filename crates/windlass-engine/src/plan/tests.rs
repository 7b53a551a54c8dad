//! Cases of `plan`: desired objects, a history and a cluster; steps.

use super::*;
use crate::{
    Adoption, ApplyMethod, ReleaseAction,
    plan::preview::{ChangeVerb, PlannedChange, Preview},
};
use serde_json::Value;
use windlass_cluster::Gvk;

fn object(kind: &str, name: &str) -> ObjectRef {
    let api_version = match kind {
        "Deployment" => "apps/v1",
        "APIService" => "apiregistration.k8s.io/v1",
        "Thing" => "e.x/v1",
        _ => "v1",
    };
    ObjectRef::new(Gvk::new(api_version, kind), Some("ns"), name)
}

fn target(kind: &str, name: &str, digest: u8) -> DesiredObject {
    let object = object(kind, name);
    DesiredObject { key: object.key(), object, path: "t".into(), body: Value::Null, digest: [digest; 32] }
}

fn base(kind: &str, name: &str, digest: u8) -> BaseObject {
    BaseObject { object: object(kind, name), digest: [digest; 32], applied: Some(7), body: None }
}

fn ours() -> ObservedMeta {
    ObservedMeta {
        uid: "u".into(),
        managed_by: Some("Helm".into()),
        release_name: Some("rel".into()),
        release_namespace: Some("ns".into()),
        applied: Some(7),
        ..ObservedMeta::default()
    }
}

fn cluster(objects: &[(&str, &str, Option<ObservedMeta>)]) -> ObservedObjects {
    objects.iter().map(|(kind, name, seen)| (object(kind, name).key(), seen.clone())).collect()
}

fn id() -> ReleaseId {
    ReleaseId::new("ns", "rel")
}

/// The plan in one line: phases with `+` for a new and `~` for an existing object, `=` unchanged, `-` groups, `!` kept.
fn line(targets: &[DesiredObject], base: &[Vec<BaseObject>], seen: &ObservedObjects) -> String {
    let kept = BTreeSet::from(["moved".to_owned()]);
    let order = dependency_graph::order(targets).unwrap();
    let plan = plan(targets, order, base, seen, &id(), (ApplyMethod::Server, &kept));
    let mut words = Vec::new();
    for (Wave { phase, .. }, steps) in &plan.waves {
        let step = |s: &PlanStep| {
            format!("{}{}", if s.before.is_some() { '~' } else { '+' }, targets[s.target].object.name)
        };
        words.push(format!("{phase:?}:{}", steps.iter().map(step).collect::<Vec<_>>().join("")));
    }
    words.extend(plan.unchanged.iter().map(|s| format!("={}", targets[s.target].object.name)));
    words.extend(
        plan.prune
            .iter()
            .map(|g| format!("-{}", g.iter().map(|d| d.object.name.as_str()).collect::<Vec<_>>().join(","))),
    );
    words.extend(plan.kept.iter().map(|(o, _)| format!("!{}", o.name)));
    words.join(" ")
}

#[test]
fn plans() {
    let all = [
        target("ConfigMap", "c", 1),
        target("APIService", "a", 1),
        target("Deployment", "d", 1),
        target("Thing", "t", 1),
    ];
    let none = cluster(&[]);
    assert_eq!(line(&all, &[], &none), "Config:+c Workloads:+d Custom:+t Gates:+a");

    let c = [target("ConfigMap", "c", 1)];
    let there = cluster(&[("ConfigMap", "c", Some(ours()))]);
    let same = vec![base("ConfigMap", "c", 1)];
    assert_eq!(line(&c, std::slice::from_ref(&same), &there), "=c");
    assert_eq!(line(&c, &[vec![base("ConfigMap", "c", 2)]], &there), "Config:~c", "changed in the chart");
    assert_eq!(
        line(&c, &[same.clone(), vec![]], &there),
        "Config:~c",
        "an unfinished revision stands between"
    );
    assert_eq!(
        line(&c, std::slice::from_ref(&same), &cluster(&[("ConfigMap", "c", None)])),
        "Config:+c",
        "deleted"
    );
    for spoil in [
        |s: &mut ObservedMeta| s.applied = Some(8),
        |s: &mut ObservedMeta| s.deleting = true,
        |s: &mut ObservedMeta| s.helm_updates = true,
        |s: &mut ObservedMeta| s.managed_by = None,
    ] {
        let mut seen = ours();
        spoil(&mut seen);
        let spoiled = cluster(&[("ConfigMap", "c", Some(seen.clone()))]);
        assert_eq!(line(&c, std::slice::from_ref(&same), &spoiled), "Config:~c", "{seen:?}");
    }
}

#[test]
fn prunes_what_is_ours() {
    let base = [
        vec![base("ConfigMap", "gone", 1), base("Deployment", "run", 1), base("ConfigMap", "policy", 1)],
        vec![
            base("APIService", "gate", 1),
            base("ConfigMap", "stolen", 1),
            base("ConfigMap", "gone", 1),
            base("ConfigMap", "half", 1),
        ],
    ];
    let kept = ObservedMeta { resource_policy: Some("keep".into()), ..ours() };
    let stolen = ObservedMeta { release_name: Some("other".into()), ..ours() };
    let seen = cluster(&[
        ("ConfigMap", "gone", None),
        ("Deployment", "run", Some(ours())),
        ("ConfigMap", "policy", Some(kept)),
        ("APIService", "gate", Some(ours())),
        ("ConfigMap", "stolen", Some(stolen)),
        ("ConfigMap", "half", Some(ours())),
    ]);
    assert_eq!(line(&[], &base, &seen), "-gate -run -half !policy !stolen");
}

#[test]
fn crds_that_moved_are_kept() {
    let crd = |name: &str| {
        let gvk = Gvk::new("apiextensions.k8s.io/v1", "CustomResourceDefinition");
        BaseObject { object: ObjectRef::new(gvk, None, name), ..base("", "", 1) }
    };
    let base = [vec![crd("moved"), crd("gone"), base("ConfigMap", "moved", 1)]];
    let seen = base[0].iter().map(|one| (one.object.key(), Some(ours()))).collect();
    assert_eq!(line(&[], &base, &seen), "-moved -gone !moved", "the first is the ConfigMap");
    let none = BTreeSet::new();
    let kept =
        plan(&[], dependency_graph::order(&[]).unwrap(), &base, &seen, &id(), (ApplyMethod::Server, &none));
    assert_eq!(kept.kept, []);
}

#[test]
fn another_api_version_is_the_same_object() {
    let mut old = base("Deployment", "d", 1);
    old.object.gvk = Gvk::new("apps/v1beta1", "Deployment");
    let seen = cluster(&[("Deployment", "d", Some(ours()))]);
    assert_eq!(line(&[target("Deployment", "d", 1)], &[vec![old]], &seen), "Workloads:~d");
}

#[test]
fn ownership_of_what_exists() {
    let c = [target("ConfigMap", "c", 1)];
    let base = [vec![base("ConfigMap", "c", 1)]];
    let check = |base: &[Vec<BaseObject>], seen: ObservedMeta| {
        check_ownership(
            &c,
            base,
            &cluster(&[("ConfigMap", "c", Some(seen))]),
            &id(),
            &OwnershipOptions::default(),
            "install",
        )
        .map_err(|e| e.to_string())
    };
    let foreign = ObservedMeta { release_name: Some("other".into()), ..ours() };
    let bare = ObservedMeta::default();
    assert_eq!(check(&[], ours()), Ok(()));
    assert_eq!(
        check(&[], foreign.clone()).unwrap_err(),
        "unable to continue with install: ConfigMap \"c\" in namespace \"ns\" exists and cannot be imported into the current \
         release: invalid ownership metadata; annotation validation error: key \"meta.helm.sh/release-name\" must equal \
         \"rel\": current value is \"other\""
    );
    let several = ["c", "d", "e"].map(|name| target("ConfigMap", name, 1));
    let seen = [
        ("ConfigMap", "c", Some(foreign.clone())),
        ("ConfigMap", "d", Some(ours())),
        ("ConfigMap", "e", Some(foreign.clone())),
    ];
    let error =
        check_ownership(&several, &[], &cluster(&seen), &id(), &OwnershipOptions::default(), "install")
            .unwrap_err()
            .to_string();
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines[0], check(&[], foreign.clone()).unwrap_err());
    assert_eq!(
        lines[1..],
        [
            "  neither can ConfigMap \"e\" in namespace \"ns\": invalid ownership metadata; annotation validation error: key \
          \"meta.helm.sh/release-name\" must equal \"rel\": current value is \"other\""
        ]
    );
    assert!(check(&[], bare.clone()).is_err(), "never ours");
    assert_eq!(check(&base, bare), Ok(()), "ours, and someone took the marks away");
    assert!(check(&base, foreign.clone()).is_err(), "ours once, another release's now");
    let taken = |seen: ObservedMeta, ownership: OwnershipOptions| {
        let seen = cluster(&[("ConfigMap", "c", Some(seen))]);
        check_ownership(&c, &[], &seen, &id(), &ownership, "install").is_ok()
    };
    let unowned = |seen: ObservedMeta| {
        taken(seen, OwnershipOptions { adoption: Adoption::Unowned, ..OwnershipOptions::default() })
    };
    let adopted = |name: &str| {
        let adopted = vec![name.to_owned()];
        let ownership = OwnershipOptions { adopted, ..OwnershipOptions::default() };
        let target = target("ConfigMap", "c", 1);
        let unmatched = ownership.without_object(&[&target.object]).count();
        (taken(foreign.clone(), ownership), unmatched)
    };
    assert_eq!(
        ["ConfigMap/c", "configmap/c", "ConfigMap/d", "Secret/c"].map(adopted),
        [(true, 0), (true, 0), (false, 1), (false, 1)],
        "adopted by name"
    );
    assert_eq!(
        (unowned(ObservedMeta::default()), unowned(foreign.clone())),
        (true, false),
        "forced, but not from another release"
    );
    assert_eq!(
        check_ownership(
            &c,
            &[],
            &cluster(&[("ConfigMap", "c", None)]),
            &id(),
            &OwnershipOptions::default(),
            "install"
        )
        .map_err(|e| e.to_string()),
        Ok(())
    );
}

#[test]
fn a_saved_plan_differs_by_what_is_saved() {
    let change = |reason: &str| PlannedChange {
        writer: Some("kubectl-edit".into()),
        ..PlannedChange::new(ChangeVerb::Update, &object("ConfigMap", "a"), "t", reason)
    };
    let preview = |change: PlannedChange| Preview {
        release: "rel".into(),
        namespace: "ns".into(),
        action: ReleaseAction::Upgrade,
        reason: String::new(),
        revision: 2,
        changes: vec![change],
        hooks: Vec::new(),
        hooks_differ: false,
        warnings: Vec::new(),
        digest: String::new(),
    };
    let now = preview(change("differs"));
    let saved: Preview = serde_json::from_value(serde_json::to_value(&now).unwrap()).unwrap();
    assert_eq!(saved.difference(&now), "an object or the release's record was changed");
    assert_eq!(saved.difference(&preview(change("recreated"))), "ConfigMap a is not as it was");
}
