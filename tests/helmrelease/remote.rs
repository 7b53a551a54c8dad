//! Releases in another cluster, by a kubeconfig in a Secret.

use base64::Engine as _;
use serde_json::json;
use windlass_testing::{ControlPlane, wait_until};

use super::support::{LIMIT, Running, chart, condition};

#[tokio::test(flavor = "multi_thread")]
async fn a_kubeconfig_leads_to_another_cluster() {
    let remote = tokio::task::spawn_blocking(ControlPlane::start).await.unwrap().unwrap();
    let mut running = Running::prepare("remote").await;
    let ns = running.ns.name().to_owned();
    remote.kubectl(["create", "namespace", &ns]).unwrap();
    let kubeconfig = remote.kubectl(["config", "view", "--raw", "--flatten"]).unwrap();
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    running.start().await;
    let secret = |name: &str, text: &str| {
        running.apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"value": text},
        }));
    };
    secret("plain", &kubeconfig.replace("https://", "http://"));
    let reference = |name: &str| json!({"secretRef": {"name": name}});
    let spec = json!({
        "kubeConfig": reference("far"), "interval": "1s", "driftDetection": {"mode": "enabled"},
    });
    running.release("web", &spec);
    let object = running.wait("no Secret", |o| condition(o, "Ready") == "False RESTClientError", "web");
    assert!(object["status"].to_string().contains("the Secret does not exist"), "{object}");
    // A Secret that comes later is enough.
    secret("far", &kubeconfig);
    running.wait_ready("web", "True InstallSucceeded");
    assert!(running.get("configmap", "web").is_null() && running.records().is_empty(), "nothing is here");
    let size = ["get", "configmap", "web", "-n", &ns, "--ignore-not-found", "-o", "jsonpath={.data.size}"];
    assert_eq!(remote.kubectl(size).unwrap(), "one");
    let records = ["get", "secrets", "-n", &ns, "-l", "owner=helm", "-o", "name"];
    assert_eq!(remote.kubectl(records).unwrap().lines().count(), 1);

    // Drift there is found at the interval.
    remote.kubectl(["delete", "configmap", "web", "-n", &ns]).unwrap();
    let back = || Ok((remote.kubectl(size)? == "one").then_some(()));
    wait_until("the object is back", LIMIT, back).unwrap();

    // The same name here is another release.
    running.release("here", &json!({"releaseName": "web"}));
    running.wait_ready("here", "True InstallSucceeded");
    assert_eq!(running.get("configmap", "web")["data"]["size"], "one");

    running.release("plain", &json!({"kubeConfig": reference("plain")}));
    let object = running.wait("files", |o| condition(o, "Ready") == "False RESTClientError", "plain");
    assert!(object["status"].to_string().contains("server is not an https URL"), "{object}");

    // What would be done there is planned from here.
    let (status, text, err) = running.answer(&format!("plan --helmrelease {ns}/web"));
    assert_eq!(status, 0, "{text}{err}");
    running.release("new", &json!({"kubeConfig": reference("far"), "suspend": true}));
    let (status, text, err) = running.answer(&format!("plan --helmrelease {ns}/new"));
    assert!(status == 2 && text.contains(&format!("ConfigMap {ns}/new")), "{text}{err}");

    running.cp.kubectl(["delete", "helmrelease", "web", "-n", &ns, "--timeout=30s"]).unwrap();
    assert_eq!(remote.kubectl(size).unwrap(), "");
    assert_eq!(running.get("configmap", "web")["data"]["size"], "one", "the release here stays");
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_a_service_account_leads_to_another_cluster() {
    let mut running = Running::prepare("identity").await;
    let ns = running.ns.name().to_owned();
    let cp = running.cp;
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    running.start().await;
    let spec = json!({"kubeConfig": {"configMapRef": {"name": "far"}}});
    running.release("web", &spec);
    let refused = |text: &'static str| {
        move |o: &serde_json::Value| {
            condition(o, "Ready") == "False RESTClientError" && o["status"].to_string().contains(text)
        }
    };
    running.wait("no ConfigMap", refused("the ConfigMap does not exist"), "web");
    // This cluster is as good as another one: it accepts tokens of its own ServiceAccounts.
    let view = ["config", "view", "--raw", "--minify", "--flatten", "-o"];
    let server = cp.kubectl([&view[..], &["jsonpath={.clusters[0].cluster.server}"]].concat()).unwrap();
    let authority = cp
        .kubectl([&view[..], &["jsonpath={.clusters[0].cluster.certificate-authority-data}"]].concat())
        .unwrap();
    let authority = base64::engine::general_purpose::STANDARD.decode(authority).unwrap();
    let publish = |more: serde_json::Value| {
        let mut data = json!({
            "provider": "generic", "address": server, "ca.crt": String::from_utf8(authority.clone()).unwrap(),
            "audiences": "https://kubernetes.default.svc\n", "serviceAccountName": "deployer",
        });
        for (key, value) in more.as_object().unwrap() {
            data[key] = value.clone();
        }
        running.apply(
            &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "far"}, "data": data}),
        );
    };
    publish(json!({"provider": "aws"}));
    running.wait("clouds", refused("provider \\\"aws\\\" is not supported"), "web");
    publish(json!({"serviceAccountName": ""}));
    running.wait("no account", refused("operator's own identity is not sent"), "web");
    publish(json!({}));
    running.wait("the account", refused("not found"), "web");
    // It is tried again by itself, too: from here on it can succeed.
    let mark = cp.audit_mark().unwrap();
    cp.kubectl(["create", "serviceaccount", "deployer", "-n", &ns]).unwrap();
    let account = format!("--serviceaccount={ns}:deployer");
    let leases = "--resource=leases.coordination.k8s.io";
    cp.kubectl(["create", "role", "leases", "-n", &ns, "--verb=*", leases]).unwrap();
    for role in ["--clusterrole=admin", "--role=leases"] {
        let binding = role.trim_start_matches('-').replace('=', "-");
        cp.kubectl(["create", "rolebinding", &binding, "-n", &ns, role, &account]).unwrap();
    }
    let token = "reconcile.fluxcd.io/requestedAt=1";
    cp.kubectl(["annotate", "helmrelease", "web", "-n", &ns, token]).unwrap();
    running.wait_ready("web", "True InstallSucceeded");
    let user = format!("system:serviceaccount:{ns}:deployer");
    let writes = cp.writes_since(mark).unwrap();
    let made = writes
        .iter()
        .find(|write| write.resource == "configmaps" && write.name == "web" && write.namespace == ns);
    assert_eq!(made.map(|write| write.user.as_str()), Some(user.as_str()));
    cp.kubectl(["delete", "helmrelease", "web", "-n", &ns, "--timeout=30s"]).unwrap();
    assert!(running.get("configmap", "web").is_null() && running.records().is_empty());
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_changes_in_another_cluster_before_the_status_tells_of_it() {
    let mut running = Running::prepare("announced").await;
    let (cp, ns) = (running.cp, running.ns.name().to_owned());
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    // This cluster is as good as another one.
    let kubeconfig = cp.kubectl(["config", "view", "--raw", "--flatten"]).unwrap();
    running.apply(&json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "far"}, "stringData": {"value": kubeconfig},
    }));
    let rule = json!({
        "apiGroups": ["helm.toolkit.fluxcd.io"], "apiVersions": ["v2"], "operations": ["UPDATE"], "resources": ["helmreleases/status"],
    });
    let own = json!({"resourceRules": [rule], "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns}}});
    let expression = "!has(object.status.conditions) || !object.status.conditions.exists(c, c.message.startsWith('Running '))";
    let policies = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": ns}, "spec": {
            "matchConstraints": own, "validations": [{"expression": expression, "message": "no announcements"}],
        }},
        {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": ns},
            "spec": {"policyName": ns, "validationActions": ["Deny"]}},
    ]});
    cp.kubectl_with(["apply", "-f", "-"], &policies.to_string()).unwrap();
    running.release("web", &json!({"kubeConfig": {"secretRef": {"name": "far"}}}));
    let running_now = json!({"status": {"conditions": [{
        "type": "Ready", "status": "Unknown", "reason": "Progressing", "message": "Running 'install'", "lastTransitionTime": "2026-01-02T03:04:05Z",
    }]}})
    .to_string();
    let dry = [
        "patch",
        "helmrelease",
        "web",
        "-n",
        &ns,
        "--subresource=status",
        "--type=merge",
        "--dry-run=server",
        "-p",
        &running_now,
    ];
    let refused = || Ok(cp.kubectl(dry).is_err().then_some(()));
    wait_until("the policy is in force", LIMIT, refused).unwrap();

    running.start().await;
    let object =
        running.wait("not announced", |o| o["status"].to_string().contains("no announcements"), "web");
    assert!(condition(&object, "Ready").starts_with("False"), "{object}");
    assert!(running.records().is_empty() && running.get("configmap", "web").is_null(), "nothing was changed");
    for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
        cp.kubectl(["delete", kind, &ns]).unwrap();
    }
    running.wait_ready("web", "True InstallSucceeded");
    running.cp.kubectl(["delete", "helmrelease", "web", "-n", &ns, "--timeout=30s"]).unwrap();
    running.end().await;
}
