//! Annotations of Reloader, with the outcomes that Reloader itself had (`make fixtures-reloader`).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_cluster::ObjectMeta;
use windlass_reload::ReloadOptions;
use windlass_testing::wait_until;

use super::LIMIT;
use super::followed_workloads::Followed;

const RECORD: &str = "windlass.dev/configuration-digests";

/// Where ours differs, and why: docs/config-reload.md says so.
const DIFFERENCES: [(&str, &str); 1] =
    [("made-again", "what is made again with other data has changed, also if it was away")];

/// A case and its outcome.
#[derive(Deserialize)]
struct RecordedCase {
    /// The flags that Reloader had, by a name.
    flags: String,
    /// The workload, after its configuration.
    objects: Vec<Value>,
    edits: Vec<Edit>,
    /// Whether Reloader rolls the workload out.
    rolled_out: bool,
}

/// A change of the configuration: one of three.
#[derive(Deserialize)]
struct Edit {
    delete: Option<String>,
    apply: Option<Value>,
    patch: Option<String>,
    #[serde(default)]
    with: Value,
}

impl RecordedCase {
    fn workload(&self) -> (&str, &str) {
        let workload = self.objects.last().expect("a workload");
        (workload["kind"].as_str().expect("a kind"), ObjectMeta::of(workload).name())
    }
}

fn recorded() -> BTreeMap<String, RecordedCase> {
    let text = include_str!("../../fixtures/reloader/results.json");
    serde_json::from_str(text).expect("fixtures/reloader/results.json")
}

/// What changes when a workload is rolled out: its Pod template, of a Job its UID, of a CronJob the number of its Jobs.
fn rollout_state(own: &Followed<ReloadOptions>, (kind, name): (&str, &str)) -> String {
    let path = match kind {
        "CronJob" => {
            let path = format!(
                "jsonpath={{.items[?(@.metadata.ownerReferences[0].name==\"{name}\")].metadata.name}}"
            );
            return own.cp.kubectl(["get", "jobs", "-n", own.ns.name(), "-o", &path]).unwrap_or_default();
        }
        "Job" => "jsonpath={.metadata.uid}",
        _ => "jsonpath={.spec.template}",
    };
    // A Job is away for a moment.
    own.cp.kubectl(["get", kind, name, "-n", own.ns.name(), "-o", path]).unwrap_or_default()
}

fn carry_out(own: &Followed<ReloadOptions>, edit: &Edit) {
    let namespace = own.ns.name();
    if let Some(object) = &edit.delete {
        own.cp.kubectl(["delete", object, "-n", namespace]).unwrap();
    } else if let Some(object) = &edit.apply {
        own.apply(object);
    } else if let Some(object) = &edit.patch {
        let with = edit.with.to_string();
        own.cp.kubectl(["patch", object, "-n", namespace, "--type=merge", "-p", &with]).unwrap();
    }
}

/// A workload that is rolled out last shows that the others had their turn.
fn roll_out_last(own: &Followed<ReloadOptions>, value: &str) {
    let before = rollout_state(own, ("Deployment", "last"));
    own.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "of-last"}, "data": {"A": value}}));
    wait_until("the last workload is rolled out", LIMIT, || {
        Ok((rollout_state(own, ("Deployment", "last")) != before).then_some(()))
    })
    .unwrap();
}

async fn run_cases(flags: &str, change: impl FnOnce(&mut ReloadOptions)) {
    let mut own = Followed::<ReloadOptions>::prepare().await;
    change(&mut own.options);
    let mut cases = recorded();
    cases.retain(|_, case| case.flags == flags);
    let labels = json!({"app": "last"});
    let container =
        json!({"name": "main", "image": "web:1", "envFrom": [{"configMapRef": {"name": "of-last"}}]});
    let last = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "last", "annotations": {"reloader.stakater.com/auto": "true"}},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}}});
    let mut items: Vec<&Value> = cases.values().flat_map(|case| &case.objects).collect();
    items.push(&last);
    own.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}));
    own.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "of-last"}, "data": {"A": "0"}}));
    own.start();
    own.until("Deployment", "last", "has a record", |found| {
        ObjectMeta::of(found).annotation(RECORD).is_some()
    });
    roll_out_last(&own, "1");

    let before: BTreeMap<&String, String> =
        cases.iter().map(|(name, case)| (name, rollout_state(&own, case.workload()))).collect();
    cases.values().flat_map(|case| &case.edits).for_each(|edit| carry_out(&own, edit));
    roll_out_last(&own, "2");
    roll_out_last(&own, "3");
    let mut wrong = Vec::new();
    for (name, case) in &cases {
        let differs = DIFFERENCES.iter().any(|(case, _)| case == name);
        let rolled_out = || rollout_state(&own, case.workload()) != before[name];
        let expected = case.rolled_out != differs;
        // The Job of a CronJob and a Job that is made again take a moment longer.
        let awaited = expected && wait_until("a rollout", LIMIT, || Ok(rolled_out().then_some(()))).is_ok();
        if awaited != expected || !expected && rolled_out() {
            wrong.push(format!(
                "{name}: Reloader {}",
                if case.rolled_out { "rolls it out" } else { "leaves it" }
            ));
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), own.events());
    own.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workloads_are_rolled_out_as_reloader_rolls_them_out() {
    run_cases("default", |_| {}).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workloads_without_annotations_are_rolled_out_as_by_reloader() {
    run_cases("auto-reload-all", |options| options.auto_reload_all = true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn configuration_that_comes_and_goes_counts_as_with_reloader() {
    run_cases("on-create-and-delete", |options| (options.on_create, options.on_delete) = (true, true)).await;
}
