//! What a tenant tries that may write HelmReleases, Secrets and everything else in one namespace: a table of attempts, each with the
//! condition that it ends in; and what came of all of them: nothing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use windlass_controller::AccountName;
use windlass_flux::helmrelease::HelmReleaseOptions;
use windlass_testing::{ControlPlane, wait_until};

use super::support::{LIMIT, Running, chart, condition};

/// An attempt: its name, the spec, the condition Ready, and a part of its text.
type Attempt = (&'static str, Value, &'static str, &'static str);

/// A template of a ConfigMap in the namespace of somebody else.
fn foreign(victim: &str, annotations: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: taken, namespace: {victim}, annotations: {{{annotations}}}}}\ndata: {{a: b}}\n"
    )
}

/// The charts, each as the artifact of a source.
fn publish(running: &Running, victim: &str) {
    let lookup = |arguments: &str| {
        format!("{{{{ lookup \"v1\" \"Secret\" {arguments} | toYaml | nindent 0 | fail }}}}\n")
    };
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: taken-by-tenant}\nrules: []\n";
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: takens.tenant.test}\nspec:\n  group: \
               tenant.test\n  names: {kind: Taken, plural: takens}\n  scope: Namespaced\n  versions: [{name: v1, served: true, storage: true, \
               schema: {openAPIV3Schema: {type: object}}}]\n";
    for (name, path, text) in [
        ("demo", "templates/more.yaml", String::new()),
        ("lookup", "templates/more.yaml", lookup(&format!("\"{victim}\" \"key\""))),
        ("lookup-all", "templates/more.yaml", lookup("\"\" \"\"")),
        ("role", "templates/more.yaml", role.to_owned()),
        ("crd", "crds/taken.yaml", crd.to_owned()),
        ("object", "templates/more.yaml", foreign(victim, "")),
        ("hook", "templates/more.yaml", foreign(victim, "helm.sh/hook: pre-install")),
        ("test-hook", "templates/more.yaml", foreign(victim, "helm.sh/hook: test")),
    ] {
        running.publish(name, "1.0.0", chart("1.0.0", &[(path, &text)]));
    }
    running.publish("link", "1.0.0", chart_with_link());
}

/// A chart whose file `secret` is a link to a file of this machine; the ConfigMap shows its length.
fn chart_with_link() -> Vec<u8> {
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut archive = tar::Builder::new(gzip);
    let mut add = |path: &str, text: &str| {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, format!("chart/{path}"), text.as_bytes()).unwrap();
    };
    add("Chart.yaml", "apiVersion: v2\nname: demo\nversion: 1.0.0\n");
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}\"}\ndata: {length: \"{{ .Files.Get \"secret\" | len }}\"}\n";
    add("templates/config.yaml", template);
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    archive.append_link(&mut header, "chart/secret", "/etc/passwd").unwrap();
    archive.into_inner().unwrap().finish().unwrap()
}

fn kubeconfig(server: &str, user: &Value) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}], "users": [{"name": "u", "user": user}],
    })
    .to_string()
}

fn attempts(victim: &str) -> Vec<Attempt> {
    let of_chart = |name: &str| json!({"chartRef": {"kind": "OCIRepository", "name": name}});
    let template = json!({"spec": {
        "chart": "demo", "sourceRef": {"kind": "HelmRepository", "name": "r", "namespace": victim},
    }});
    let moved = json!([{"op": "add", "path": "/metadata/namespace", "value": victim}]).to_string();
    let refused = "False InstallFailed";
    vec![
        ("target", json!({"targetNamespace": victim}), refused, "forbidden"),
        (
            "created",
            json!({"targetNamespace": format!("{victim}-made"), "install": {"createNamespace": true}}),
            refused,
            "forbidden",
        ),
        ("storage", json!({"storageNamespace": victim}), "False ReconcileError", "forbidden"),
        (
            "both",
            json!({"targetNamespace": victim, "storageNamespace": victim}),
            "False ReconcileError",
            "forbidden",
        ),
        (
            "account",
            json!({"serviceAccountName": format!("{victim}/default")}),
            "False ReconcileError",
            "is not a name",
        ),
        ("user", json!({"serviceAccountName": "system:admin"}), "False ReconcileError", "is not a name"),
        // The default account has no more rights than one that is named.
        ("nobody", json!({"serviceAccountName": null, "targetNamespace": victim}), refused, "forbidden"),
        (
            "source",
            json!({"chartRef": {"kind": "OCIRepository", "name": "demo", "namespace": victim}}),
            "False AccessDenied",
            "cross-namespace references have been blocked",
        ),
        (
            "repository",
            json!({"chartRef": null, "chart": template}),
            "False AccessDenied",
            "cross-namespace references have been blocked",
        ),
        (
            "dependency",
            json!({"dependsOn": [{
                "name": "rich", "namespace": victim, "readyExpr": "dep.spec.values.password.startsWith('s')",
            }]}),
            "False AccessDenied",
            "readyExpr",
        ),
        (
            "values",
            json!({"valuesFrom": [{"kind": "Secret", "name": "key"}]}),
            "False ValuesError",
            "not found",
        ),
        (
            "path",
            json!({"valuesFrom": [{"kind": "Secret", "name": format!("../../{victim}/secrets/key")}]}),
            "False ValuesError",
            "key",
        ),
        (
            "files",
            json!({"kubeConfig": {"secretRef": {"name": "files"}}}),
            "False RESTClientError",
            "tokenFile",
        ),
        (
            "program",
            json!({"kubeConfig": {"secretRef": {"name": "program"}}}),
            "False RESTClientError",
            "exec refers to this machine",
        ),
        (
            "metadata",
            json!({"kubeConfig": {"secretRef": {"name": "metadata"}}}),
            "False RESTClientError",
            "not an https URL",
        ),
        ("lookup", of_chart("lookup"), refused, "forbidden"),
        ("lookup-all", of_chart("lookup-all"), refused, "forbidden"),
        ("role", of_chart("role"), refused, "forbidden"),
        ("crd", of_chart("crd"), refused, "forbidden"),
        ("object", of_chart("object"), refused, "forbidden"),
        ("hook", of_chart("hook"), refused, "forbidden"),
        (
            "test-hook",
            json!({"chartRef": {"kind": "OCIRepository", "name": "test-hook"}, "test": {"enable": true}}),
            "False TestFailed",
            "forbidden",
        ),
        (
            "moved",
            json!({"postRenderers": [{"kustomize": {"patches": [{
                "target": {"kind": "ConfigMap"}, "patch": moved,
            }]}}]}),
            refused,
            "forbidden",
        ),
        ("link", of_chart("link"), "True InstallSucceeded", ""),
    ]
}

/// A tenant with all rights in its own namespace, and somebody else's namespace with a Secret and a HelmRelease.
fn furnish(running: &Running, victim: &str) {
    let (cp, own) = (running.cp, running.ns.name());
    cp.kubectl(["create", "serviceaccount", "tenant", "-n", own]).unwrap();
    let account = format!("--serviceaccount={own}:tenant");
    cp.kubectl(["create", "rolebinding", "tenant", "-n", own, "--clusterrole=admin", &account]).unwrap();
    cp.kubectl([
        "create",
        "secret",
        "generic",
        "key",
        "-n",
        victim,
        "--from-literal=values.yaml=size: stolen",
    ])
    .unwrap();
    cp.kubectl(["create", "configmap", "precious", "-n", victim, "--from-literal=a=b"]).unwrap();
    running.release_in(victim, "rich", &json!({"suspend": true, "values": {"password": "secret-word"}}));
    let exec =
        json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "interactiveMode": "Never"});
    for (name, text) in [
        (
            "files",
            kubeconfig(
                "https://10.0.0.1",
                &json!({"tokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token"}),
            ),
        ),
        ("program", kubeconfig("https://10.0.0.1", &json!({"exec": exec}))),
        ("metadata", kubeconfig("http://169.254.169.254", &json!({"token": "t"}))),
    ] {
        running.apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"value": text},
        }));
    }
}

/// The requests of the operator, or on behalf of the tenant, that the API server carried out in a namespace; and its writes to
/// objects without a namespace.
fn reached(cp: &ControlPlane, since: windlass_testing::AuditMark, victim: &str) -> Vec<String> {
    let events = cp.audit_since(since).unwrap();
    let ours =
        events.into_iter().filter(|event| event.user_agent.starts_with("windlass") && event.code < 300);
    // Other tests install definitions at the same time.
    let is_of_others = |event: &windlass_testing::AuditEvent| {
        event.resource == "customresourcedefinitions" && !event.name.ends_with(".tenant.test")
    };
    // What an account may do is asked of the server, and changes nothing.
    let is_question = |event: &windlass_testing::AuditEvent| event.resource == "selfsubjectaccessreviews";
    let there = |event: &windlass_testing::AuditEvent| {
        event.namespace.starts_with(victim)
            || (event.namespace.is_empty() && event.is_write() && !is_of_others(event) && !is_question(event))
    };
    ours.filter(there).map(|event| format!("{} {} as {}", event.verb, event.uri, event.user)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_reaches_nothing_beyond_its_namespace() {
    let mut running = Running::prepare("tenant").await;
    let other = running.cp.namespace("victim").unwrap();
    let victim = other.name();
    publish(&running, victim);
    furnish(&running, victim);
    let mark = running.cp.audit_mark().unwrap();
    let options = HelmReleaseOptions {
        default_service_account: AccountName::parse("tenant"),
        no_cross_namespace_refs: true,
        ..HelmReleaseOptions::default()
    };
    running.start_with_options(options).await;
    running.release("home", &json!({"serviceAccountName": "tenant"}));
    running.wait_ready("home", "True InstallSucceeded");
    let all = attempts(victim);
    assert!(all.len() >= 20);
    for (name, spec, ..) in &all {
        let mut whole = json!({"serviceAccountName": "tenant", "timeout": "10s"});
        for (key, value) in spec.as_object().unwrap() {
            whole[key] = value.clone();
        }
        running.release(name, &whole);
    }
    let mut wrong = Vec::new();
    for (name, _, ready, part) in &all {
        let ended = || {
            let object = running.get("helmrelease", name);
            let text = object["status"]["conditions"].to_string();
            Ok((condition(&object, "Ready") == *ready && text.contains(part)).then_some(()))
        };
        if wait_until(name, LIMIT, ended).is_err() {
            wrong.push(format!("{name}: {}", running.get("helmrelease", name)["status"]["conditions"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(running.get("configmap", "link")["data"]["length"], "0");
    assert_eq!(reached(running.cp, mark, victim), Vec::<String>::new());
    let kinds = ["secrets,configmaps,leases.coordination.k8s.io,helmcharts", "-n", victim, "-o", "name"];
    let names = running.cp.kubectl([&["get"], &kinds[..]].concat()).unwrap();
    let left: Vec<&str> = names.lines().filter(|name| !name.contains("kube-root-ca")).collect();
    assert_eq!(left, ["secret/key", "configmap/precious"]);
    // No status, Event or object of the tenant shows what is not the tenant's.
    let shown = running
        .cp
        .kubectl(["get", "helmreleases,events,configmaps,secrets", "-n", running.ns.name(), "-o", "json"])
        .unwrap();
    assert!(
        !shown.contains("stolen")
            && !shown.contains(&STANDARD.encode("size: stolen"))
            && !shown.contains("secret-word")
    );
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_never_released_for_lack_of_rights_can_be_deleted() {
    let mut running = Running::prepare("powerless").await;
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    let storage = running.cp.namespace("storage").unwrap();
    running.cp.kubectl(["create", "serviceaccount", "powerless", "-n", running.ns.name()]).unwrap();
    running.start().await;
    // Of neither there is a record: the account may not read the objects of the first one, nor the records of the second one.
    for (name, spec) in [("web", json!({})), ("stored", json!({"storageNamespace": storage.name()}))] {
        let mut whole = json!({"serviceAccountName": "powerless"});
        for (key, value) in spec.as_object().unwrap() {
            whole[key] = value.clone();
        }
        running.release(name, &whole);
        let refused = |o: &Value| {
            condition(o, "Ready").starts_with("False ") && o["status"].to_string().contains("forbidden")
        };
        let object = running.wait("refused", refused, name);
        assert!(object["metadata"]["finalizers"][0].is_string(), "nothing holds its deletion: {object}");
        assert!(object["status"]["history"][0].is_null(), "{object}");
        let args = ["delete", "helmrelease", name, "-n", running.ns.name(), "--timeout=60s"];
        let deleted = running.cp.kubectl(args);
        assert!(deleted.is_ok(), "{deleted:?}: {}", running.get("helmrelease", name)["status"]);
    }
    assert_eq!(running.records(), [""; 0], "there is no record");
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_deletes_nothing_beyond_its_namespace() {
    let mut running = Running::prepare("forger").await;
    let other = running.cp.namespace("victim").unwrap();
    let victim = other.name();
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    furnish(&running, victim);
    // A release of somebody else, which the operator installed.
    running.cp.kubectl(["delete", "helmrelease", "rich", "-n", victim]).unwrap();
    let mark = running.cp.audit_mark().unwrap();
    let options = HelmReleaseOptions {
        default_service_account: AccountName::parse("tenant"),
        ..HelmReleaseOptions::default()
    };
    running.start_with_options(options).await;
    for name in ["status", "record", "drift"] {
        running.release(name, &json!({"driftDetection": {"mode": "enabled"}}));
        running.wait_ready(name, "True InstallSucceeded");
    }
    // A status that shows the release of somebody else as its own.
    let shot = json!({"name": "rich", "namespace": victim, "version": 1, "status": "deployed", "chartName": "demo", "digest": "x", "chartVersion": "1.0.0",
        "configDigest": "", "firstDeployed": "2026-01-01T00:00:00Z", "lastDeployed": "2026-01-01T00:00:00Z", "apiVersion": "v2"});
    running.set_status("helmrelease", "status", &json!({"storageNamespace": victim, "history": [shot]}));
    // Records that contain an object of somebody else: to be deleted with the release, or to be corrected as drift.
    let object =
        format!("---\n# Source: demo/templates/x.yaml\n{}", foreign(victim, "").replace("taken", "precious"));
    for name in ["record", "drift"] {
        running.forge(name, 1, |record| {
            let manifest = format!("{}{object}", record["manifest"].as_str().unwrap());
            record["manifest"] = manifest.into();
        });
    }
    for name in ["status", "record"] {
        running.cp.kubectl(["delete", "helmrelease", name, "-n", running.ns.name(), "--wait=false"]).unwrap();
        let refused = |o: &Value| o["status"]["conditions"].to_string().contains("forbidden");
        running.wait("refused", refused, name);
    }
    let token = "reconcile.fluxcd.io/requestedAt=1";
    running.cp.kubectl(["annotate", "helmrelease", "drift", "-n", running.ns.name(), token]).unwrap();
    running.wait("handled", |o| o["status"]["lastHandledReconcileAt"] == "1", "drift");
    assert_eq!(reached(running.cp, mark, victim), Vec::<String>::new());
    let data = running
        .cp
        .kubectl(["get", "configmap", "precious", "-n", victim, "-o", "jsonpath={.data.a}"])
        .unwrap();
    assert_eq!(data, "b");
    // Whoever cleans up removes the finalizers.
    for name in ["status", "record"] {
        let patch = r#"{"metadata":{"finalizers":null}}"#;
        running
            .cp
            .kubectl(["patch", "helmrelease", name, "-n", running.ns.name(), "--type=merge", "-p", patch])
            .unwrap();
    }
    running.end().await;
}
