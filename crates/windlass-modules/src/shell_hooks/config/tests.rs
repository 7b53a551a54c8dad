//! What hooks may say on --config, and how it is refused.

use std::time::Duration;

use super::*;
use crate::shell_hooks::{Moment, Scope};

fn read(text: &str) -> HookConfig {
    HookConfig::parse(text.as_bytes(), Scope::Module).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn refused(text: &str, scope: Scope) -> String {
    match HookConfig::parse(text.as_bytes(), scope) {
        Ok(config) => panic!("{text} is taken: {config:?}"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn the_new_form_with_every_default() {
    let config = read("configVersion: v1\nkubernetes: [{kind: Pod}]\nschedule: [{crontab: '* * * * *'}]\n");
    assert_eq!(config.settings, Settings { burst: 1, ..Settings::default() });
    let pods = &config.kubernetes[0];
    let common = |name: &str| Common {
        name: name.to_owned(),
        group: None,
        snapshots: Vec::new(),
        queue: MAIN_QUEUE.to_owned(),
        allow_failure: false,
    };
    assert_eq!((&pods.common, &config.schedules[0].common), (&common("kubernetes"), &common("schedule")));
    assert_eq!(pods.events, [WatchEvent::Added, WatchEvent::Modified, WatchEvent::Deleted]);
    assert!(pods.on_synchronization && pods.wait_for_synchronization && pods.keep_objects);
    assert_eq!(pods.namespaces, Namespaces::All);
    assert!(
        pods.filter.is_none() && pods.names.is_empty() && pods.labels.is_empty() && pods.fields.is_empty()
    );
    assert_eq!(config.count(), 2);
}

#[test]
fn the_new_form_with_every_key() {
    let config = read(
        r#"
configVersion: v1
onStartup: 5
beforeHelm: 1
afterHelm: 2
beforeDeleteHelm: 3
afterDeleteHelm: 4
settings: {executionMinInterval: 30s, executionBurst: 3, timeout: 1m30s}
schedule:
- {name: often, crontab: "*/5 * * * * *", allowFailure: true, queue: slow, group: g, includeSnapshotsFrom: [nodes]}
kubernetes:
- name: pods
  apiVersion: v1
  kind: pods
  group: g
  queue: slow
  waitForSynchronization: false
  executeHookOnSynchronization: false
  executeHookOnEvent: [Deleted, Added]
  keepFullObjectsInMemory: false
  allowFailure: true
  resynchronizationPeriod: 5m
  jqFilter: .metadata.name
  nameSelector: {matchNames: [a, b]}
  labelSelector:
    matchLabels: {app: x}
    matchExpressions:
    - {key: tier, operator: In, values: [a, b]}
    - {key: env, operator: NotIn, values: [c]}
    - {key: new, operator: Exists}
    - {key: old, operator: DoesNotExist}
  fieldSelector:
    matchExpressions: [{field: spec.nodeName, operator: Equals, value: node}, {field: status.phase, operator: "!=", value: x}]
  namespace: {nameSelector: {matchNames: [n1]}, labelSelector: {matchLabels: {team: t}}}
- {name: nodes, kind: Node, waitForSynchronization: false, watchEvent: []}
kubernetesValidating:
- name: check.example.com
  group: g
  failurePolicy: Ignore
  sideEffects: NoneOnDryRun
  timeoutSeconds: 5
  matchConditions: [{name: c, expression: "true"}]
  labelSelector: {matchLabels: {a: b}}
  namespace: {labelSelector: {matchLabels: {c: d}}}
  rules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE, "*"], scope: Namespaced}]
kubernetesMutating:
- {name: change.example.com, rules: [{apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], operations: [UPDATE]}]}
kubernetesCustomResourceConversion:
- {name: up, crdName: crons.stable.example.com, conversions: [{fromVersion: v1, toVersion: stable.example.com/v2}]}
"#,
    );
    assert_eq!(
        config.moments.into_iter().collect::<Vec<_>>(),
        [
            (Moment::OnStartup, 5),
            (Moment::BeforeHelm, 1),
            (Moment::AfterHelm, 2),
            (Moment::BeforeDeleteHelm, 3),
            (Moment::AfterDeleteHelm, 4)
        ]
    );
    assert_eq!(
        config.settings,
        Settings {
            min_interval: Some(Duration::from_secs(30)),
            burst: 3,
            timeout: Some(Duration::from_secs(90)),
            ..Settings::default()
        }
    );
    let often = &config.schedules[0].common;
    assert_eq!(often.snapshots, ["nodes", "pods"], "its own and those of its group");
    assert!(often.allow_failure);
    let (pods, nodes) = (&config.kubernetes[0], &config.kubernetes[1]);
    assert_eq!(pods.common.snapshots, ["pods"]);
    assert_eq!(pods.events, [WatchEvent::Added, WatchEvent::Deleted]);
    assert_eq!(pods.labels, "app=x,tier in (a,b),env notin (c),new,!old");
    assert_eq!(pods.fields, "spec.nodeName=node,status.phase!=x");
    assert_eq!(pods.namespaces, Namespaces::Labelled("team=t".to_owned()), "labels win");
    assert_eq!(pods.names, ["a", "b"]);
    assert!(!pods.wait_for_synchronization && nodes.wait_for_synchronization, "the main queue is waited for");
    assert!(nodes.events.is_empty() && !pods.on_synchronization && !pods.keep_objects);
    let check = &config.validating[0];
    assert_eq!(
        (check.failure_policy, check.side_effects, check.timeout_seconds),
        (Some("Ignore"), "NoneOnDryRun", 5)
    );
    assert_eq!(check.common.snapshots, ["pods"]);
    let change = &config.mutating[0];
    assert_eq!((change.failure_policy, change.side_effects, change.timeout_seconds), (None, "None", 10));
    assert_eq!(config.conversions[0].steps, [("v1".to_owned(), "stable.example.com/v2".to_owned())]);
}

#[test]
fn the_old_form() {
    let config = read(
        r#"{"onStartup": 1, "schedule": [{"crontab": "@hourly"}], "onKubernetesEvent": [
            {"kind": "Pod", "event": ["add", "delete"], "objectName": "o", "namespaceSelector": {"matchNames": ["n"]},
             "selector": {"matchLabels": {"a": "b"}}, "jqFilter": ".x", "allowFailure": true},
            {"kind": "Node", "name": "nodes", "namespaceSelector": {"any": true, "matchNames": ["n"]}}]}"#,
    );
    assert_eq!(config.version, Version::V0);
    let (pods, nodes) = (&config.kubernetes[0], &config.kubernetes[1]);
    assert_eq!((&*pods.common.name, &*nodes.common.name), ("onKubernetesEvent", "nodes"));
    assert_eq!(pods.events, [WatchEvent::Added, WatchEvent::Deleted]);
    assert_eq!((&*pods.labels, &pods.names[..]), ("a=b", &["o".to_owned()][..]));
    assert_eq!(pods.namespaces, Namespaces::Named(vec!["n".to_owned()]));
    assert_eq!(nodes.namespaces, Namespaces::All);
    assert!(!pods.on_synchronization, "there is none");
}

#[test]
fn scopes_have_moments_of_their_own() {
    let config = HookConfig::parse(b"configVersion: v1\nbeforeAll: 1\nafterAll: 2\n", Scope::Global).unwrap();
    assert_eq!(config.moments.len(), 2);
    for (text, scope, part) in [
        ("configVersion: v1\nbeforeHelm: 1", Scope::Global, "beforeHelm: only hooks of modules"),
        ("afterAll: 1", Scope::Module, "afterAll: only hooks of GLOBAL_HOOKS_DIR"),
    ] {
        let error = refused(text, scope);
        assert!(error.starts_with(part), "{error}");
    }
}

#[test]
fn what_is_wrong_is_told_with_key_and_value() {
    let v1 = |rest: &str| format!("configVersion: v1\n{rest}\n");
    let table = [
        ("- a".to_owned(), "[\"a\"] where a map is wanted"),
        ("a: b: c".to_owned(), "line 1: "),
        ("configVersion: v2".to_owned(), "configVersion: \"v2\" is none of v0, v1"),
        (v1("onStart: 1"), "onStart: no such key; known here are afterAll, "),
        (v1("onStartup: early"), "onStartup: \"early\" where a whole number is wanted"),
        (v1("onStartup: 1.5"), "onStartup: 1.5 where a whole number is wanted"),
        (v1("schedule: {crontab: x}"), "schedule: {\"crontab\":\"x\"} where a list is wanted"),
        (v1("schedule: [{}]"), "schedule[0].crontab: it is missing"),
        (v1("schedule: [{crontab: '* * *'}]"), "schedule[0].crontab: \"* * *\": it has 3 fields"),
        (v1("schedule: [{crontab: '@daily', que: x}]"), "schedule[0].que: no such key"),
        (v1("kubernetes: [{kind: Pod}, {}]"), "kubernetes[1].kind: it is missing"),
        (
            v1("kubernetes: [{kind: Pod, apiVersion: a/b/c}]"),
            "kubernetes[0].apiVersion: \"a/b/c\" is neither",
        ),
        (v1("kubernetes: [{kind: Pod, jqFilter: '.a.['}]"), "kubernetes[0].jqFilter: \".a.[\": expected"),
        (
            v1("kubernetes: [{kind: Pod, executeHookOnEvent: [Addded]}]"),
            "executeHookOnEvent: \"Addded\" is none of Added",
        ),
        (v1("kubernetes: [{kind: Pod, allowFailure: 'yes'}]"), "allowFailure: \"yes\" where true or false"),
        (
            v1("kubernetes: [{kind: Pod, nameSelector: {}}]"),
            "kubernetes[0].nameSelector.matchNames: it is missing",
        ),
        (
            v1("kubernetes: [{kind: Pod, labelSelector: {matchExpressions: [{key: a, operator: Is}]}}]"),
            "kubernetes[0].labelSelector.matchExpressions[0].operator: \"Is\" is none of In",
        ),
        (
            v1("kubernetes: [{kind: Pod, labelSelector: {matchExpressions: [{key: a, operator: In}]}}]"),
            "values: it needs at least one value",
        ),
        (
            v1(
                "kubernetes: [{kind: Pod, nameSelector: {matchNames: [a]}, fieldSelector: {matchExpressions: [{field: metadata.name, operator: =, value: b}]}}]",
            ),
            "kubernetes[0].fieldSelector: metadata.name and nameSelector exclude each other",
        ),
        (
            v1("kubernetes: [{kind: Pod, includeSnapshotsFrom: [pods]}]"),
            "kubernetes[0].includeSnapshotsFrom: there is no kubernetes binding of the name \"pods\"",
        ),
        (
            v1(
                "kubernetes: [{kind: A}, {kind: B}]\nschedule: [{crontab: '@daily', includeSnapshotsFrom: [kubernetes]}]",
            ),
            "schedule[0].includeSnapshotsFrom: there are several",
        ),
        (
            v1("settings: {executionMinInterval: soon}"),
            "settings.executionMinInterval: \"soon\" is not a duration",
        ),
        (
            v1("kubernetesValidating: [{name: a.b}]"),
            "kubernetesValidating[0].name: \"a.b\" has fewer than three parts",
        ),
        (
            v1("kubernetesValidating: [{name: a.b.c, rules: [{apiGroups: ['']}]}]"),
            "kubernetesValidating[0].rules[0].apiVersions: it is missing",
        ),
        (
            v1("kubernetesMutating: [{name: a.b.c, timeoutSeconds: 60}]"),
            "timeoutSeconds: 60 is not between 1 and 30",
        ),
        (
            v1("kubernetesCustomResourceConversion: [{name: a, crdName: c}]"),
            "kubernetesCustomResourceConversion[0].conversions: it is missing",
        ),
        (
            "onKubernetesEvent: [{kind: Pod, event: [created]}]".to_owned(),
            "event: \"created\" is none of add, update",
        ),
    ];
    for (text, part) in table {
        let error = refused(&text, Scope::Module);
        assert!(error.contains(part), "{text}\n{error}");
    }
}
