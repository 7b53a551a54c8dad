//! Names, entries and configurations, as the API server is to see them.

use super::*;
use crate::shell_hooks::Scope;
use crate::shell_hooks::config::HookConfig;

fn webhook_endpoint() -> WebhookEndpoint {
    let way = |name: &str, authority: &str| {
        let reach = ClientConfigTarget::Service { namespace: "ns".into(), name: name.into(), port: 443 };
        EndpointConfig { reach, authority: authority.into(), port: 9651 }
    };
    WebhookEndpoint { admission: way("svc", "CA"), conversion: way("conversion-svc", "CB") }
}

#[test]
fn names_that_are_safe_in_paths() {
    for (name, want) in [
        ("private-repo.example.com", "private-repo-example-com"),
        ("Check.example.com", "-check-example-com"),
        ("checkPods.example.com", "check-pods-example-com"),
        ("a__b..c/d", "a-b-c/d"),
        ("ünï.example.com", "-n-example-com"),
        ("", ""),
    ] {
        assert_eq!(safe(name), want, "{name}");
    }
    assert_eq!(Kind::Validating.path("a.b.c"), "/hooks/a-b-c");
    assert_ne!(Kind::Mutating.path("a.b.c"), Kind::Validating.path("a.b.c"));
}

#[test]
fn an_entry_says_what_the_binding_says() {
    let text = b"configVersion: v1
kubernetesValidating:
- name: short.example.com
  rules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
- name: full.example.com
  failurePolicy: Ignore
  sideEffects: NoneOnDryRun
  timeoutSeconds: 3
  labelSelector: {matchLabels: {a: b}}
  namespace: {labelSelector: {matchExpressions: [{key: c, operator: Exists}]}}
  matchConditions: [{name: it, expression: 'true'}]
  rules: [{apiGroups: [apps], apiVersions: ['*'], operations: [UPDATE, DELETE], resources: [deployments], scope: Namespaced}]
";
    let config = HookConfig::parse(text, Scope::Module).unwrap();
    let entries: Vec<Value> =
        config.validating.iter().map(|v| entry(Kind::Validating, v, &webhook_endpoint(), "Fail")).collect();
    assert_eq!(
        entries[0],
        json!({
            "name": "short.example.com",
            "clientConfig": {
                "service": {"namespace": "ns", "name": "svc", "port": 443, "path": "/hooks/short-example-com"},
                "caBundle": "Q0E=",
            },
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "matchPolicy": "Equivalent", "failurePolicy": "Fail", "sideEffects": "None", "timeoutSeconds": 10,
            "admissionReviewVersions": ["v1"],
        })
    );
    for (key, want) in [
        ("failurePolicy", json!("Ignore")),
        ("sideEffects", json!("NoneOnDryRun")),
        ("timeoutSeconds", json!(3)),
        ("objectSelector", json!({"matchLabels": {"a": "b"}})),
        ("namespaceSelector", json!({"matchExpressions": [{"key": "c", "operator": "Exists"}]})),
        ("matchConditions", json!([{"name": "it", "expression": "true"}])),
    ] {
        assert_eq!(entries[1][key], want, "{key}");
    }
    // What the operator says holds where the binding says nothing.
    let policy = |i: usize| entry(Kind::Validating, &config.validating[i], &webhook_endpoint(), "Ignore");
    assert_eq!(policy(0)["failurePolicy"], "Ignore");
    let admission = EndpointConfig {
        reach: ClientConfigTarget::Url("https://127.0.0.1:1".into()),
        ..webhook_endpoint().admission
    };
    let url = entry(
        Kind::Mutating,
        &config.validating[0],
        &WebhookEndpoint { admission, ..webhook_endpoint() },
        "Fail",
    );
    assert_eq!(url["clientConfig"]["url"], "https://127.0.0.1:1/mutating/short-example-com");
    assert!(url["clientConfig"]["service"].is_null());
}

#[test]
fn a_configuration_tells_whose_its_entries_are() {
    let object = Kind::Mutating.object("windlass-ns-hooks");
    let entries = Entries::from([
        ("b.c.d".to_owned(), (String::new(), json!({"name": "b.c.d"}))),
        ("a.b.c".to_owned(), ("web".to_owned(), json!({"name": "a.b.c"}))),
    ]);
    let mut live = configuration(&object, &entries);
    assert_eq!(live["kind"], "MutatingWebhookConfiguration");
    assert_eq!(live["webhooks"][0]["name"], "a.b.c");
    assert!(is_ours(&live) && !is_ours(&json!({})));
    assert_eq!(listed(&live), entries);
    live["webhooks"].as_array_mut().unwrap().push(json!({"name": "of.someone.else"}));
    assert_eq!(listed(&live), entries);
    assert_eq!(listed(&Value::Null), Entries::new());
}

#[test]
fn what_holds() {
    let live = json!({"a": {"b": [1, {"c": 2, "default": true}], "more": 0}});
    for (wanted, want) in [
        (json!({"a": {"b": [1, {"c": 2}]}}), true),
        (json!({"a": {"b": [1]}}), false),
        (json!({"a": {"b": [1, {"c": 3}]}}), false),
        (json!({"x": null}), false),
    ] {
        assert_eq!(holds(&live, &wanted), want, "{wanted}");
    }
    let patch = conversion(&crd("crontabs.stable.example.com"), &webhook_endpoint());
    let webhook = &patch["spec"]["conversion"]["webhook"];
    assert_eq!(webhook["clientConfig"]["service"]["path"], "/crontabs.stable.example.com");
}
