//! Binding contexts, to the letter.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::shell_hooks::Scope;

fn config(text: &str) -> HookConfig {
    HookConfig::parse(text.as_bytes(), Scope::Module).unwrap()
}

fn both() -> HookConfig {
    config(
        "configVersion: v1\nkubernetes: [{name: pods, kind: Pod, jqFilter: .x}, {name: nodes, kind: Node}]\n",
    )
}

fn pod(name: &str) -> Arc<Item> {
    let object = json!({"kind": "Pod", "metadata": {"namespace": "n", "name": name}});
    Arc::new(Item::new(object, Some(json!(1)), true))
}

/// The text of the file.
fn file(contexts: &[Context], config: &HookConfig, snapshots: &Snapshots) -> String {
    let mut out = Vec::new();
    write(&mut out, contexts, config, snapshots).unwrap();
    String::from_utf8(out).unwrap()
}

fn context(binding: &str, what: ContextKind) -> Context {
    Context { binding: binding.to_owned(), group: None, include: Include::Nothing, what }
}

#[test]
fn each_kind_of_context_in_the_peers_form() {
    let pods = [("pods".to_owned(), vec![pod("a")]), ("nodes".to_owned(), Vec::new())];
    let snapshots: Snapshots = pods.into_iter().collect();
    let a = pod("a").to_value();
    let these = |names: &[&str]| Include::These(names.iter().map(|n| (*n).to_owned()).collect());
    let with = |context: Context, include: Include| Context { include, ..context };
    let grouped = |context: Context| Context { group: Some("g".to_owned()), ..context };
    let review = Arc::new(json!({"kind": "AdmissionReview"}));
    let shown = review.as_ref();
    let table = [
        (Context::moment(Moment::OnStartup), json!({"binding": "onStartup"})),
        (
            Context::moment(Moment::BeforeHelm),
            json!({"binding": "beforeHelm", "snapshots": {"pods": [a], "nodes": []}}),
        ),
        (context("schedule", ContextKind::Schedule), json!({"binding": "schedule", "type": "Schedule"})),
        (
            with(context("s", ContextKind::Schedule), these(&["nodes"])),
            json!({"binding": "s", "type": "Schedule", "snapshots": {"nodes": []}}),
        ),
        (
            context("pods", ContextKind::Synchronization),
            json!({"binding": "pods", "type": "Synchronization", "objects": [a]}),
        ),
        (
            context("nodes", ContextKind::Synchronization),
            json!({"binding": "nodes", "type": "Synchronization", "objects": []}),
        ),
        (
            context("pods", ContextKind::Event(WatchEvent::Deleted, pod("b"))),
            json!({"binding": "pods", "type": "Event", "watchEvent": "Deleted", "filterResult": 1,
                "object": {"kind": "Pod", "metadata": {"namespace": "n", "name": "b"}}}),
        ),
        (
            context(
                "x",
                ContextKind::Event(
                    WatchEvent::Added,
                    Arc::new(Item::new(json!({"kind": "Pod"}), Some(json!(null)), false)),
                ),
            ),
            json!({"binding": "x", "type": "Event", "watchEvent": "Added", "filterResult": null}),
        ),
        (
            grouped(with(context("pods", ContextKind::Synchronization), these(&["pods"]))),
            json!({"binding": "pods", "type": "Group", "groupName": "g", "snapshots": {"pods": [a]}}),
        ),
        (
            grouped(context("a.b.c", ContextKind::Admission { mutating: true, review: review.clone() })),
            json!({"binding": "a.b.c", "type": "Mutating", "review": shown}),
        ),
        (
            with(
                context("a.b.c", ContextKind::Admission { mutating: false, review: review.clone() }),
                these(&["nodes"]),
            ),
            json!({"binding": "a.b.c", "type": "Validating", "review": shown, "snapshots": {"nodes": []}}),
        ),
        (
            context(
                "up",
                ContextKind::Conversion { from: "v1".into(), to: "v2".into(), review: Arc::new(json!({})) },
            ),
            json!({"binding": "up", "type": "Conversion", "fromVersion": "v1", "toVersion": "v2", "review": {}}),
        ),
    ];
    for (context, want) in table {
        let text = file(std::slice::from_ref(&context), &both(), &snapshots);
        assert_eq!(text, json!([want]).to_string(), "{context:?}");
    }
    let several = [context("s", ContextKind::Schedule), context("s", ContextKind::Schedule)];
    let want = json!({"binding": "s", "type": "Schedule"});
    assert_eq!(file(&several, &both(), &snapshots), json!([want, want]).to_string());
    let none = config("configVersion: v1\nbeforeHelm: 1\n");
    assert_eq!(
        file(&[Context::moment(Moment::BeforeHelm)], &none, &Snapshots::new()),
        json!([{"binding": "beforeHelm", "snapshots": {}}]).to_string()
    );
}

#[test]
fn the_old_form_names_the_object_only() {
    let old = config("onKubernetesEvent: [{kind: Pod}]");
    let event = |e| context("onKubernetesEvent", ContextKind::Event(e, pod("a")));
    let contexts = [
        Context::moment(Moment::OnStartup),
        event(WatchEvent::Added),
        event(WatchEvent::Modified),
        event(WatchEvent::Deleted),
    ];
    let shown = |event: &str| {
        json!({"binding": "onKubernetesEvent", "resourceEvent": event, "resourceNamespace": "n", "resourceKind": "Pod",
            "resourceName": "a"})
    };
    assert_eq!(
        file(&contexts, &old, &Snapshots::new()),
        json!([{"binding": "onStartup"}, shown("add"), shown("update"), shown("delete")]).to_string()
    );
}

#[test]
fn only_what_is_needed_is_asked_for() {
    let config = both();
    let sync = context("nodes", ContextKind::Synchronization);
    let schedule =
        Context { include: Include::These(vec!["pods".into()]), ..context("s", ContextKind::Schedule) };
    assert_eq!(needed(&[sync.clone(), schedule], &config), ["nodes", "pods"]);
    assert_eq!(needed(&[Context::moment(Moment::OnStartup)], &config), [""; 0]);
    assert_eq!(needed(&[Context::moment(Moment::AfterHelm), sync], &config), ["nodes", "pods"]);
}

#[test]
fn runs_of_a_group_shrink_to_the_last() {
    let in_group = |binding: &str, group: Option<&str>| Context {
        group: group.map(str::to_owned),
        ..context(binding, ContextKind::Schedule)
    };
    let contexts =
        [("a", Some("g")), ("b", Some("g")), ("c", None), ("d", None), ("e", Some("g")), ("f", Some("h"))];
    let kept = compact(contexts.iter().map(|(b, g)| in_group(b, *g)).collect());
    assert_eq!(kept.iter().map(|c| &*c.binding).collect::<Vec<_>>(), ["b", "c", "d", "e", "f"]);
}

#[test]
fn a_context_counts_its_object_and_a_copy_of_a_review_is_none() {
    let tick = context("a", ContextKind::Schedule).size();
    assert!((1..1000).contains(&tick), "{tick}");
    let large = Arc::new(Item::new(json!({"data": "x".repeat(10_000)}), None, true));
    let event = context("a", ContextKind::Event(WatchEvent::Added, Arc::clone(&large)));
    assert!((10_000..12_000).contains(&event.size()), "{}", event.size());
    let unkept = Item::new(json!({"data": "x".repeat(10_000)}), None, false);
    assert!(unkept.size() < 1000, "{}", unkept.size());
    let review = Arc::new(json!({"kind": "AdmissionReview"}));
    let asked = context("a", ContextKind::Admission { mutating: true, review: Arc::clone(&review) });
    let copies = [asked.clone(), asked];
    assert_eq!((copies[0].size(), Arc::strong_count(&review)), (tick, 3));
}
