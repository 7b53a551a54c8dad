//! What a tenant writes into every reference of sources, releases and notifications to reach what another tenant has: names of the other
//! namespace, paths, escapes, nothing at all, names of objects without a namespace. Each is refused where its owner sees it, and nothing
//! of the other tenant is asked for.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use windlass_controller::{AccountName, EventNote, EventSink as _, EventType};
use windlass_flux::helmrelease::HelmReleaseOptions;
use windlass_testing::{wait_until, write_file};

use super::notifications::{Inbox, notification};
use super::sources::{Files, Registry, chart_spec, git, message, publish_repository, source};
use super::support::{LIMIT, Running, condition};

/// What the other tenant's Secret says.
const WORD: &str = "s3cret-of-the-victim";

/// The names that a reference may have, and what each is called.
fn names(victim: &str) -> [(&'static str, String); 6] {
    [
        // There is one of this name, elsewhere.
        ("foreign", "key".to_owned()),
        ("qualified", format!("{victim}/key")),
        ("relative", format!("../../{victim}/secrets/key")),
        ("encoded", format!("..%2F..%2F{victim}%2Fsecrets%2Fkey")),
        ("query", format!("key?namespace={victim}")),
        ("empty", String::new()),
    ]
}

/// Specs by what refers, each with a function that puts a name into it.
type Reference = (&'static str, &'static str, Box<dyn Fn(&str) -> Value>);

/// Every reference of the kinds of sources. `server`: where a repository is that needs no login; `registry`: a registry with a chart.
fn of_sources(server: &str, registry: &str) -> Vec<Reference> {
    let with = |kind, what, base: &Value, field: &'static str| -> Reference {
        let base = base.clone();
        let put = move |name: &str| {
            let mut spec = base.clone();
            spec[field] = json!({"name": name});
            spec
        };
        (kind, what, Box::new(put))
    };
    let repository = json!({"url": format!("http://{server}/repository.git"), "ref": {"branch": "main"}});
    let index = json!({"url": format!("http://{server}/")});
    let signed =
        json!({"url": format!("oci://{registry}/charts/demo"), "insecure": true, "ref": {"tag": "1.0.0"}});
    let registry = json!({"url": format!("oci://{server}/demo"), "insecure": true, "ref": {"tag": "1"}});
    let bucket = json!({"bucketName": "b", "endpoint": server, "insecure": true, "provider": "generic"});
    let (verified, included, chart) = (repository.clone(), repository.clone(), json!({"chart": "chart"}));
    let sts = {
        let mut spec = bucket.clone();
        spec["sts"] = json!({"provider": "ldap", "endpoint": format!("http://{server}/sts")});
        spec
    };
    let in_sts = |field: &'static str| {
        let sts = sts.clone();
        move |name: &str| {
            let mut spec = sts.clone();
            spec["sts"][field] = json!({"name": name});
            spec
        }
    };
    vec![
        with("GitRepository", "secret", &repository, "secretRef"),
        with("GitRepository", "proxy", &repository, "proxySecretRef"),
        (
            "GitRepository",
            "verify",
            Box::new(move |name| {
                let mut spec = verified.clone();
                spec["verify"] = json!({"mode": "HEAD", "secretRef": {"name": name}});
                spec
            }),
        ),
        (
            "GitRepository",
            "include",
            Box::new(move |name| {
                let mut spec = included.clone();
                spec["include"] = json!([{"repository": {"name": name}}]);
                spec
            }),
        ),
        with("HelmRepository", "secret", &index, "secretRef"),
        with("HelmRepository", "cert", &index, "certSecretRef"),
        with("OCIRepository", "secret", &registry, "secretRef"),
        with("OCIRepository", "cert", &registry, "certSecretRef"),
        with("OCIRepository", "proxy", &registry, "proxySecretRef"),
        (
            "OCIRepository",
            "oci-verify",
            Box::new(move |name| {
                let mut spec = signed.clone();
                spec["verify"] = json!({"provider": "cosign", "secretRef": {"name": name}});
                spec
            }),
        ),
        with("Bucket", "secret", &bucket, "secretRef"),
        with("Bucket", "cert", &bucket, "certSecretRef"),
        with("Bucket", "proxy", &bucket, "proxySecretRef"),
        ("Bucket", "sts", Box::new(in_sts("secretRef"))),
        ("Bucket", "sts-cert", Box::new(in_sts("certSecretRef"))),
        (
            "HelmChart",
            "source",
            Box::new(move |name| {
                let mut spec = chart.clone();
                spec["sourceRef"] = json!({"kind": "GitRepository", "name": name});
                spec
            }),
        ),
        (
            "HelmChart",
            "chart-verify",
            Box::new(|name| {
                let from = json!({"kind": "HelmRepository", "name": "charts"});
                let verify = json!({"provider": "cosign", "secretRef": {"name": name}});
                json!({"chart": "demo", "version": "1.0.0", "sourceRef": from, "verify": verify})
            }),
        ),
    ]
}

/// Every reference of HelmReleases by a name alone; those with a namespace are in `tenants`.
fn of_releases() -> Vec<Reference> {
    let chart = |name: &str| json!({"chart": "demo", "sourceRef": {"kind": "HelmRepository", "name": name}});
    vec![
        ("HelmRelease", "kubeconfig", Box::new(|name| json!({"kubeConfig": {"secretRef": {"name": name}}}))),
        ("HelmRelease", "cloud", Box::new(|name| json!({"kubeConfig": {"configMapRef": {"name": name}}}))),
        ("HelmRelease", "values", Box::new(|name| json!({"valuesFrom": [{"kind": "Secret", "name": name}]}))),
        (
            "HelmRelease",
            "settings",
            Box::new(|name| json!({"valuesFrom": [{"kind": "ConfigMap", "name": name}]})),
        ),
        ("HelmRelease", "after", Box::new(|name| json!({"dependsOn": [{"name": name}]}))),
        (
            "HelmRelease",
            "chart",
            Box::new(move |name| json!({"chartRef": null, "chart": {"spec": chart(name)}})),
        ),
        (
            "HelmRelease",
            "chart-ref",
            Box::new(|name| json!({"chartRef": {"kind": "HelmChart", "name": name}})),
        ),
        ("HelmRelease", "account", Box::new(|name| json!({"serviceAccountName": name}))),
    ]
}

/// The other tenant: one of each kind, all with the name `key`, none of which anybody reconciles.
fn furnish(running: &Running, victim: &str) {
    let cp = running.cp;
    let word = format!("--from-literal=password={WORD}");
    let values = format!("--from-literal=values.yaml=size: {WORD}");
    let fields = ["--from-literal=username=u", "--from-literal=token=t", "--from-literal=value=v"];
    let data = [&[word.as_str(), &values][..], &fields].concat();
    cp.kubectl([&["create", "secret", "generic", "key", "-n", victim][..], &data].concat()).unwrap();
    cp.kubectl(["create", "configmap", "key", "-n", victim, &values]).unwrap();
    cp.kubectl(["create", "serviceaccount", "key", "-n", victim]).unwrap();
    for (kind, spec) in [
        (
            "GitRepository",
            json!({"url": "https://git.example.test/r.git", "interval": "1h", "suspend": true}),
        ),
        ("HelmRepository", json!({"url": "https://charts.example.test", "interval": "1h", "suspend": true})),
    ] {
        let mut object = source(kind, "key", &spec);
        object["metadata"]["namespace"] = victim.into();
        cp.kubectl_with(["apply", "-f", "-"], &object.to_string()).unwrap();
    }
    running.release_in(victim, "key", &json!({"suspend": true}));
    let mut provider =
        notification("Provider", "key", &json!({"type": "generic", "address": "https://hooks.example.test"}));
    provider["metadata"]["namespace"] = victim.into();
    cp.kubectl_with(["apply", "-f", "-"], &provider.to_string()).unwrap();
    let own = running.ns.name();
    cp.kubectl(["create", "serviceaccount", "tenant", "-n", own]).unwrap();
    let account = format!("--serviceaccount={own}:tenant");
    cp.kubectl(["create", "rolebinding", "tenant", "-n", own, "--clusterrole=admin", &account]).unwrap();
}

/// Applies an object; `None` if the API server refuses it for the field that refers.
fn admitted(running: &Running, object: &Value) -> Option<()> {
    let applied = running.cp.kubectl_with(["apply", "-n", running.ns.name(), "-f", "-"], &object.to_string());
    match applied.map_err(|error| error.to_string()) {
        Ok(_) => Some(()),
        Err(told) if told.contains("is invalid") => None,
        Err(told) => panic!("{told}: {object}"),
    }
}

/// Why an object is not ready, from its conditions; `None` until they say so.
fn told(running: &Running, kind: &str, name: &str) -> Option<String> {
    let object = running.get(&kind.to_lowercase(), name);
    let is_false = condition(&object, "Ready").starts_with("False ");
    is_false.then(|| format!("{} {}", condition(&object, "Ready"), message(&object, "Ready")))
}

/// The chart of the tenant's own repository.
fn own_chart() -> Value {
    chart_spec("GitRepository", &json!({"chart": "./chart"}))
}

/// The words with which a reference is refused.
fn is_refusal(told: &str) -> bool {
    [
        "not found",
        "does not exist",
        "is not a name",
        "not a valid name",
        "must not be empty",
        "no name",
        "Could not find",
        "may not be empty",
        "forbidden",
        "it has no key",
        "Name parameter invalid",
        "no artifact available for include",
        "DependencyNotReady",
        "secretRef is not set",
        "unable to get",
    ]
    .iter()
    .any(|words| told.contains(words))
}

#[tokio::test(flavor = "multi_thread")]
async fn no_reference_leads_to_another_namespace() {
    let mut running = Running::prepare("referrer").await;
    let other = running.cp.namespace("referred").unwrap();
    let victim = other.name();
    let (files, storage, repository) =
        (Files::default(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = files.serve().await.to_string();
    git(repository.path(), &["init", "--quiet", "-b", "main"]);
    write_file(repository.path().join("chart/Chart.yaml"), "apiVersion: v2\nname: demo\nversion: 1.0.0\n");
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}\"}\n";
    write_file(repository.path().join("chart/templates/config.yaml"), object);
    git(repository.path(), &["add", "-A"]);
    git(repository.path(), &["commit", "--quiet", "-m", "first"]);
    publish_repository(repository.path(), &files);
    files.chart("1.0.0", &[]);
    files.index(&[]);
    furnish(&running, victim);
    let registry = Registry::start();
    registry.push("1.0.0", &[]);
    let charts = format!("oci://{}/charts", registry.host());
    let charts = json!({"url": charts, "type": "oci", "insecure": true, "interval": "1h"});
    running.apply(&source("HelmRepository", "charts", &charts));
    let mark = running.cp.audit_mark().unwrap();
    running.release_options = HelmReleaseOptions {
        default_service_account: AccountName::parse("tenant"),
        no_cross_namespace_refs: true,
        ..HelmReleaseOptions::default()
    };

    running.apply(&source(
        "GitRepository",
        "demo",
        &json!({"url": format!("http://{server}/repository.git"), "ref": {"branch": "main"}, "interval": "1h"}),
    ));

    // What may be written down at all; the API server refuses the rest.
    let mut all: Vec<(&str, String)> = Vec::new();
    let mut refused = 0;
    for (kind, what, spec) in of_sources(&server, registry.host()).into_iter().chain(of_releases()) {
        for (form, name) in names(victim) {
            let own = format!("{what}-{form}");
            let mut spec = spec(&name);
            spec["interval"] = "1h".into();
            if kind != "HelmChart" {
                spec["timeout"] = "10s".into();
            }
            let object = if kind == "HelmRelease" {
                if spec.get("chartRef").is_none() {
                    spec["chart"] = own_chart()["chart"].clone();
                }
                json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": kind, "metadata": {"name": own}, "spec": spec})
            } else {
                source(kind, &own, &spec)
            };
            match admitted(&running, &object) {
                Some(()) => all.push((kind, own)),
                None => refused += 1,
            }
        }
    }
    for (form, name) in names(victim) {
        let spec = json!({
            "type": "github", "secretRef": {"name": name}, "resources": [{"kind": "HelmRepository", "name": "demo"}],
        });
        match admitted(&running, &notification("Receiver", &format!("receiver-{form}"), &spec)) {
            Some(()) => all.push(("Receiver", format!("receiver-{form}"))),
            None => refused += 1,
        }
    }
    assert!(all.len() > 100 && all.len() + refused == 6 * 26, "{} and {refused}", all.len());
    let alerts = alerts(&running, victim, &Inbox::default().serve().await.to_string());
    running.start_with_notifications(storage.path()).await;

    let mut wrong: Vec<String> = Vec::new();
    let refusals = || {
        wrong.clear();
        for (kind, name) in &all {
            let told = told(&running, kind, name)
                .unwrap_or_else(|| running.get(&kind.to_lowercase(), name)["status"].to_string());
            if !is_refusal(&told) {
                wrong.push(format!("{kind} {name}: {told}"));
            }
        }
        Ok(wrong.is_empty().then_some(()))
    };
    let refused = wait_until("all are refused", 3 * LIMIT, refusals);
    assert!(refused.is_ok(), "{} of {}:\n{}", wrong.len(), all.len(), wrong.join("\n"));

    // An event for the Alerts, and what they say of their references.
    running.release("home", &own_chart());
    running.wait_ready("home", "True InstallSucceeded");
    for (name, part) in &alerts {
        let found = || {
            let of = |event: &Value| {
                event["involvedObject"]["name"] == name.as_str()
                    && event["message"].as_str().is_some_and(|text| text.contains(part))
            };
            Ok(running.list("events").iter().any(of).then_some(()))
        };
        if let Err(error) = wait_until(&format!("{name}: {part}"), LIMIT, found) {
            wrong.push(error.to_string());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    let reached: Vec<String> = running
        .cp
        .audit_since(mark)
        .unwrap()
        .into_iter()
        .filter(|event| event.user_agent.starts_with("windlass"))
        .filter(|event| event.namespace == victim || event.uri.contains(&format!("/namespaces/{victim}")))
        .map(|event| format!("{} {} {} as {}", event.code, event.verb, event.uri, event.user))
        .collect();
    assert!(reached.is_empty(), "{reached:#?}");
    let kinds = "helmreleases,gitrepositories,helmrepositories,ocirepositories,buckets,helmcharts,receivers,alerts,events,secrets,configmaps";
    let shown = running.cp.kubectl(["get", kinds, "-n", running.ns.name(), "-o", "json"]).unwrap();
    assert!(!shown.contains(WORD) && !shown.contains(&STANDARD.encode(WORD)));
    running.end().await;
}

/// Alerts and Providers that refer to what is not theirs; returns who tells of it, and how.
fn alerts(running: &Running, victim: &str, inbox: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let releases = json!([{"kind": "HelmRelease", "name": "home"}]);
    let mut alert = |name: String, provider: &str, part: &str| {
        let spec = json!({"providerRef": {"name": provider}, "eventSources": releases});
        if admitted(running, &notification("Alert", &name, &spec)).is_some() {
            all.push((name, part.to_owned()));
        }
    };
    for (form, name) in names(victim) {
        alert(format!("alert-{form}"), &name, "does not exist");
        for field in ["secretRef", "certSecretRef", "proxySecretRef"] {
            let provider = format!("{}-{form}", field.to_lowercase());
            let spec =
                json!({"type": "generic", "address": format!("http://{inbox}/"), field: {"name": name}});
            if admitted(running, &notification("Provider", &provider, &spec)).is_some() {
                alert(format!("of-{provider}"), &provider, "failed to get secret");
            }
        }
    }
    all
}

/// An Alert that names an object of another namespace gets nothing of its events, and its owner sees why.
#[tokio::test(flavor = "multi_thread")]
async fn an_alert_gets_no_event_of_another_namespace() {
    let mut running = Running::prepare("listener").await;
    let other = running.cp.namespace("overheard").unwrap();
    let inbox = Inbox::default();
    let address = json!({"type": "generic", "address": format!("http://{}/", inbox.serve().await)});
    running.apply(&notification("Provider", "inbox", &address));
    let own = running.ns.name().to_owned();
    let sources = [(&*own, "own"), (other.name(), "foreign")];
    for (namespace, name) in sources {
        let source = json!([{"kind": "HelmRelease", "name": "*", "namespace": namespace}]);
        let spec = json!({"providerRef": {"name": "inbox"}, "eventSources": source});
        running.apply(&notification("Alert", name, &spec));
    }
    let events = running.start_dispatch().await;
    let publish = |namespace: &str, name: &str| {
        let object = json!({
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "metadata": {"name": name, "namespace": namespace},
        });
        let note = EventNote {
            event_type: EventType::Normal,
            reason: "InstallSucceeded",
            action: "Reconcile",
            note: format!("{WORD} of {name}"),
            annotations: BTreeMap::new(),
        };
        events.take(&object, &note);
    };
    publish(other.name(), "theirs");
    publish(&own, "ours");
    inbox.wait("ours", "InstallSucceeded");
    let refused = || {
        let list = running.cp.list(&["events", "-n", &own])?;
        let of_alert = |event: &&Value| event["involvedObject"]["name"] == "foreign";
        Ok(list.iter().find(of_alert).map(|event| event["message"].to_string()))
    };
    let message = wait_until("an Event on the Alert", LIMIT, refused).unwrap();
    assert!(message.contains("cross-namespace references have been blocked"), "{message}");
    assert!(!message.contains(WORD), "{message}");
    assert_eq!(inbox.events().len(), 1, "{:#?}", inbox.events());
    running.end().await;
}
