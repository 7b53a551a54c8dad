//! What a tenant's Helmfile tries beyond its namespace, with the operator's default account: a table of attempts.

use serde_json::{Value, json};
use windlass_controller::AccountName;
use windlass_testing::wait_until;

use super::helmfiles::{HELMFILES, LIMIT, Repository, Running};
use super::write;

/// An attempt: its name, the state file, the rest of the spec, and a part of what its status says.
type Attempt = (&'static str, String, Value, &'static str);

/// The Secret of the other tenant, and what it says.
const SECRET: &str = "s3cret-of-the-victim";

fn attempts(victim: &str) -> Vec<Attempt> {
    let release = |more: &str| format!("releases: [{{name: x, chart: ./web{more}}}]");
    let chart = |name: &str| format!("releases: [{{name: {name}, chart: ./{name}}}]");
    let reference =
        |text: &str| format!("releases: [{{name: x, chart: ./web, values: [{{size: {text:?}}}]}}]");
    let foreign = format!(", namespace: {victim}");
    vec![
        ("target", release(&foreign), json!({}), "orbidden"),
        ("named", release(&foreign), json!({"serviceAccountName": "tenant"}), "orbidden"),
        (
            "created",
            release(&format!(", namespace: {victim}-made, createNamespace: true")),
            json!({}),
            "orbidden",
        ),
        ("account", release(""), json!({"serviceAccountName": format!("{victim}/default")}), "is not a name"),
        ("user", release(""), json!({"serviceAccountName": "system:admin"}), "is not a name"),
        ("relative", release(""), json!({"serviceAccountName": "../default"}), "is not a name"),
        ("encoded", release(""), json!({"serviceAccountName": "%2e%2e"}), "is not a name"),
        ("blank", release(""), json!({"serviceAccountName": " "}), "is not a name"),
        ("environment", release(""), json!({"secretRefs": {"env": format!("../{victim}/key")}}), "key"),
        ("keys", release(""), json!({"secretRefs": {"sops": format!("../../{victim}/secrets/key")}}), "key"),
        ("login", release(""), json!({"secretRefs": {"git": "key"}}), "key"),
        // The author may create Helmfiles, and neither the author nor the account may read Secrets.
        (
            "weak",
            "releases: [{name: x, chart: ./{{ env \"word\" }}}]".to_owned(),
            json!({"serviceAccountName": "weak", "secretRefs": {"env": "guarded"}}),
            "cannot be read",
        ),
        (
            "reference",
            reference(&format!("ref+k8s://v1/Secret/{victim}/key/word")),
            json!({}),
            "operator's rights",
        ),
        ("file", reference("ref+file:///etc/passwd"), json!({}), "outside of the source"),
        ("vault", reference("ref+vault://secret/x#/y"), json!({}), "operator's rights"),
        ("lookup", chart("lookup"), json!({}), "orbidden"),
        ("object", chart("object"), json!({}), "orbidden"),
        ("role", chart("role"), json!({}), "orbidden"),
        ("crd", chart("crd"), json!({}), "orbidden"),
        ("hook", chart("hook"), json!({}), "orbidden"),
        ("need", release(&format!(", needs: [{victim}/rich]")), json!({}), "rich"),
    ]
}

/// Whether a write in the whole cluster is of the tests that run at the same time: their kinds, their accounts, and questions about rights.
fn is_of_others(uri: &str, user: &str, own: &str) -> bool {
    let is_account = |namespace: &str| user.starts_with(&format!("system:serviceaccount:{namespace}"));
    uri.starts_with("/apis/authorization.k8s.io/")
        || uri.starts_with("/apis/test.windlass.dev/")
        || uri.starts_with("/apis/windlass.dev/v1alpha1/chartresources/")
        || uri.contains("/customresourcedefinitions/") && !uri.contains("stolen")
        || is_account("") && !is_account(&format!("{own}:"))
}

/// Charts whose objects are not the tenant's.
fn furnish(repository: &Repository, victim: &str) {
    let kind = |api: &str, kind: &str, more: &str| format!("apiVersion: {api}\nkind: {kind}\n{more}");
    let role = "metadata: {name: windlass-test-stolen}\nrules: []\n";
    let crd = "metadata: {name: stolen.test.windlass.dev}\nspec:\n  group: test.windlass.dev\n  scope: Namespaced\n  names: {kind: Stolen, plural: stolen}\n  \
               versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]\n";
    let lookup = format!(
        "data: {{word: {{{{ (lookup \"v1\" \"Secret\" \"{victim}\" \"key\").data.word | quote }}}}}}\n"
    );
    for (chart, file, text) in [
        ("lookup", "templates/a.yaml", kind("v1", "ConfigMap", &format!("metadata: {{name: l}}\n{lookup}"))),
        (
            "object",
            "templates/a.yaml",
            kind("v1", "ConfigMap", &format!("metadata: {{name: o, namespace: {victim}}}\n")),
        ),
        ("role", "templates/a.yaml", kind("rbac.authorization.k8s.io/v1", "ClusterRole", role)),
        ("crd", "crds/a.yaml", kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", crd)),
        (
            "hook",
            "templates/a.yaml",
            kind(
                "v1",
                "ConfigMap",
                &format!(
                    "metadata: {{name: h, namespace: {victim}, annotations: {{helm.sh/hook: pre-install}}}}\n"
                ),
            ),
        ),
    ] {
        let root = repository.root.path().join(chart);
        write(&root, "Chart.yaml", &format!("apiVersion: v2\nname: {chart}\nversion: 0.1.0\n"));
        write(&root, file, &text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helmfile_reaches_nothing_beyond_its_namespace() {
    let mut running = Running::start_with(AccountName::parse("tenant")).await;
    let other = running.cp.namespace("victim").unwrap();
    let (cp, victim, own) = (running.cp, other.name(), running.ns.name());
    cp.kubectl(["create", "serviceaccount", "tenant", "-n", own]).unwrap();
    cp.kubectl(["create", "serviceaccount", "weak", "-n", own]).unwrap();
    let account = format!("--serviceaccount={own}:tenant");
    cp.kubectl(["create", "rolebinding", "tenant", "-n", own, "--clusterrole=admin", &account]).unwrap();
    let word = format!("--from-literal=word={SECRET}");
    cp.kubectl(["create", "secret", "generic", "key", "-n", victim, &word]).unwrap();
    cp.kubectl(["create", "secret", "generic", "guarded", "-n", own, &word]).unwrap();
    let mark = cp.audit_mark().unwrap();
    let all = attempts(victim);
    let mut repositories = Vec::new();
    for (name, file, more, _) in &all {
        let repository = Repository::new("releases: []").await;
        furnish(&repository, victim);
        repository.push(file);
        let mut spec = json!({"source": repository.source()});
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        running.apply(name, &spec);
        repositories.push(repository);
    }
    let mut wrong = Vec::new();
    for (name, _, _, part) in &all {
        let told = || {
            let status = running.status(name);
            let ready = status["conditions"].as_array().into_iter().flatten().find(|c| c["type"] == "Ready");
            let text =
                ready.filter(|ready| ready["status"] == "False").map(|ready| ready["message"].to_string());
            Ok(text.filter(|text| text.contains(part)))
        };
        match wait_until(&format!("{name}: {part}"), LIMIT, told) {
            Ok(text) if text.contains(SECRET) => wrong.push(format!("{name} tells the Secret")),
            Ok(_) => {}
            Err(error) => wrong.push(format!("{error}: {}", running.status(name))),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // An older definition of the kind let this in.
    let empty = json!({
        "apiVersion": "apps.mumoshu.github.io/v1alpha1", "kind": "Helmfile", "metadata": {"name": "empty", "namespace": own},
        "spec": {"state": "releases: []", "serviceAccountName": ""},
    });
    let told = cp.kubectl_with(["create", "-f", "-"], &empty.to_string()).unwrap_err().to_string();
    assert!(told.contains("serviceAccountName") && told.contains("at least 1 chars"), "{told}");
    let reached: Vec<String> = cp
        .audit_since(mark)
        .unwrap()
        .into_iter()
        .filter(|event| event.user_agent.starts_with("windlass") && event.code < 300)
        .filter(|event| {
            let whole_cluster = event.namespace.is_empty() && event.is_write();
            event.namespace.starts_with(victim)
                || whole_cluster && !is_of_others(&event.uri, &event.user, own)
        })
        .map(|event| format!("{} {} as {}", event.verb, event.uri, event.user))
        .collect();
    assert!(reached.is_empty(), "{reached:#?}");
    cp.kubectl(["delete", HELMFILES, "--all", "-n", own, "--timeout=60s"]).unwrap();
    running.pause().await;
}
