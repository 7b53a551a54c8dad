//! An operator with the rights that `windlass rbac` prints for its modules and their hooks, and with one of them less.

use serde_json::Value;
use windlass_testing::{AuditEvent, AuditMark, Namespace};

use crate::deploy::windlass;
use crate::support::{
    MODULES, Modules, ON_LOOPBACK, Operator, as_service_account, control_plane, object, status, wait_for,
};

/// Our own chart.
const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/chart");

/// A module with a chart and a hook that watches accounts here and quotas in labelled namespaces, asks to be asked about
/// Services, and writes a third kind.
fn modules(home: &str) -> Modules {
    let modules = Modules::new();
    modules.small("001-alpha").enable(&["alpha"]);
    let config = format!(
        "configVersion: v1
kubernetes:
- {{name: accounts, kind: sa, nameSelector: {{matchNames: [seen]}}, namespace: {{nameSelector: {{matchNames: [{home}]}}}}}}
- {{name: quotas, apiVersion: v1, kind: ResourceQuota, namespace: {{labelSelector: {{matchLabels: {{rights: {home}}}}}}}}}
$(printf 'kubernetes%s' Validating):
- {{name: c.rights.test, namespace: {{labelSelector: {{matchLabels: {{kubernetes.io/metadata.name: {home}}}}}}},
   rules: [{{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [services]}}]}}"
    );
    // The key of webhooks is not in the text: what it says counts.
    let hook = format!(
        "#!/bin/bash\nset -euo pipefail\nif [[ \"${{1:-}}\" == --config ]]; then cat <<END\n{config}\nEND\nexit; fi\n\
         if grep -q '\"Validating\"' \"$BINDING_CONTEXT_PATH\"; then echo '{{\"allowed\":true}}' > \"$VALIDATING_RESPONSE_PATH\"; fi\n\
         for name in seen counted; do if grep -q \"\\\"name\\\":\\\"$name\\\"\" \"$BINDING_CONTEXT_PATH\"; then\n\
         echo $name >> \"$(dirname \"$TMPDIR\")/notes\"; fi; done\n\
         echo '{{\"operation\":\"CreateOrUpdate\",\"object\":{{\"apiVersion\":\"v1\",\"kind\":\"PodTemplate\",\"metadata\":{{\"name\":\"made\",\
         \"namespace\":\"{home}\"}},\"template\":{{\"spec\":{{\"containers\":[{{\"name\":\"a\",\"image\":\"b\"}}]}}}}}}}}' > \"$KUBERNETES_PATCH_PATH\"\n"
    );
    modules.write("001-alpha/hooks/watch", &hook);
    let path = modules.path().join("001-alpha/hooks/watch");
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    modules
}

/// Brings the rights and the operator's account by our own chart; gives what `windlass rbac` printed.
fn install(ns: &Namespace<'_>, modules: &Modules, without: Option<&str>) -> String {
    let cp = control_plane();
    let rules =
        "rules:\n- {apiGroups: [''], resources: [podtemplates], verbs: [get, create, patch, update]}\n";
    modules.write("rules.txt", rules);
    let added = modules.path().join("rules.txt");
    let directory = modules.path().to_str().unwrap();
    let words = ["rbac", directory, "--values", "-n", ns.name(), "--add-rules", added.to_str().unwrap()];
    let printed = windlass(cp.kubeconfig(), &words);
    // A list of resources must not become empty.
    let fewer = without.map(|word| printed.replace(&format!("- {word}\n"), "- nothing\n"));
    let rights = modules.path().join("rights.txt");
    std::fs::write(&rights, fewer.as_ref().unwrap_or(&printed)).unwrap();
    assert_ne!(fewer.as_ref(), Some(&printed), "there is something to take away");
    // The operator runs beside this test: no Pod is wanted.
    let set = "webhooks.enabled=true,replicas=0";
    let words = ["install", "windlass", CHART, "-n", ns.name(), "--set", set];
    windlass(cp.kubeconfig(), &[&words[..], &["-f", rights.to_str().unwrap()]].concat());
    printed
}

fn start(ns: &Namespace<'_>, modules: &Modules) -> Operator {
    let kubeconfig = as_service_account(ns.name(), modules);
    let search = std::env::var("PATH").unwrap();
    Operator::spawn(kubeconfig.to_str().unwrap(), ns.name(), modules.path(), &ON_LOOPBACK, &search)
}

/// What the operator's account was refused, but for what it asks to see whether it may: kinds of releases everywhere, where its
/// own namespace will do, and the definition of its own kind.
fn refused(ns: &Namespace<'_>, mark: AuditMark) -> Vec<String> {
    let account = format!("system:serviceaccount:{}:windlass", ns.name());
    let events = control_plane().audit_since(mark).unwrap();
    let own: Vec<_> = events.iter().filter(|e| e.user == account).collect();
    assert!(!own.is_empty(), "it ran as its ServiceAccount");
    let is_question = |e: &&&AuditEvent| {
        let everywhere = ["list", "watch"].contains(&e.verb.as_str()) && e.namespace.is_empty();
        let of_releases = ["configmaps", "deployments", "secrets", "services"].contains(&e.resource.as_str());
        everywhere && of_releases || e.verb == "get" && e.name == MODULES
    };
    let refused = own.iter().filter(|e| e.code == 403);
    refused.filter(|e| !is_question(e)).map(|e| format!("{} {}", e.verb, e.uri)).collect()
}

/// Whether the operator's account may do something.
fn may(ns: &Namespace<'_>, words: &[&str]) -> bool {
    let account = format!("--as=system:serviceaccount:{}:windlass", ns.name());
    let words = ["auth", "can-i"].iter().chain(words).copied().chain([account.as_str()]);
    // It exits with an error where it says no.
    control_plane().kubectl(words).is_ok_and(|text| text.trim() == "yes")
}

/// A module that lives in a namespace of its own and is applied as an account of that namespace, beside one that lives here.
fn placed(home: &str, other: &str) -> Modules {
    let modules = modules(home);
    modules.small("002-beta").enable(&["alpha", "beta"]);
    place(&modules, other);
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: beta}\n---\napiVersion: v1\nkind: LimitRange\nmetadata: {name: \
                  beta}\nspec: {limits: [{type: Pod, max: {cpu: 1}}]}\n";
    modules.write("002-beta/templates/secret.yaml", secret);
    modules
}

fn place(modules: &Modules, namespace: &str) {
    let annotations = format!("annotations: {{windlass.dev/namespace: {namespace}}}");
    modules.write(
        "002-beta/Chart.yaml",
        &format!("apiVersion: v2\nname: beta\nversion: 0.1.0\n{annotations}\n"),
    );
}

#[test]
fn rights_end_at_the_namespaces_of_modules() {
    let cp = control_plane();
    let (ns, other, third) = (
        cp.namespace("rights-home").unwrap(),
        cp.namespace("rights-there").unwrap(),
        cp.namespace("rights-nowhere").unwrap(),
    );
    let modules = placed(ns.name(), other.name());
    install(&ns, &modules, None);
    for (words, expected) in [
        (vec!["get", "secrets", "-n", ns.name()], true),
        (vec!["get", "secrets", "-n", other.name()], true),
        (vec!["get", "secrets", "-n", third.name()], false),
        (vec!["list", "secrets", "-A"], false),
        (vec!["create", "limitranges", "-n", other.name()], true),
        (vec!["create", "limitranges", "-n", ns.name()], false),
        // What is of the cluster: objects by their names.
        (vec!["delete", "validatingwebhookconfigurations/other"], false),
        (vec!["impersonate", "serviceaccounts/deployer", "-n", other.name()], false),
    ] {
        assert_eq!(may(&ns, &words), expected, "{words:?}");
    }
    let mark = cp.audit_mark().unwrap();
    let operator = start(&ns, &modules);
    operator.wait_converged();
    wait_for("both are released", || {
        ["alpha", "beta"].iter().all(|name| status(ns.name(), name)["phase"] == "Ready")
    });
    assert!(object(cp, other.name(), "limitrange", "beta").is_some());
    cp.kubectl(["delete", "limitrange", "beta", "-n", other.name()]).unwrap();
    wait_for("what is deleted there is back", || object(cp, other.name(), "limitrange", "beta").is_some());
    let questions = |text: &String| !text.contains("limitranges?") || text.contains("/namespaces/");
    assert_eq!(refused(&ns, mark).into_iter().filter(questions).collect::<Vec<_>>(), [""; 0]);
    // One namespace further, without other rights.
    place(&modules, third.name());
    let mut last = Value::Null;
    wait_for("the module fails there", || {
        last = status(ns.name(), "beta");
        last["phase"] == "Failed"
    });
    let text = last["lastError"].as_str().unwrap_or_default();
    assert!(text.contains("cannot") && text.contains(third.name()), "{last}");
    assert!(object(cp, third.name(), "limitrange", "beta").is_none());
    operator.stop();
    cleanup(&ns);

    // One right less.
    let modules = placed(ns.name(), other.name());
    cp.kubectl(["delete", "limitrange", "beta", "-n", other.name()]).unwrap();
    windlass(cp.kubeconfig(), &["uninstall", "windlass", "-n", ns.name()]);
    install(&ns, &modules, Some("limitranges"));
    let operator = start(&ns, &modules);
    wait_for("it is missed", || {
        last = status(ns.name(), "beta");
        let text = last["lastError"].as_str().unwrap_or_default();
        text.contains("resource \"limitranges\"") && text.contains(other.name())
    });
    operator.stop();
    cleanup(&ns);
}

/// An account is impersonated in its own namespace, by its name; nothing else is printed for that.
#[test]
fn an_account_is_impersonated_by_name_where_it_lives() {
    let cp = control_plane();
    let (ns, other) = (cp.namespace("rights-as").unwrap(), cp.namespace("rights-as-there").unwrap());
    let modules = placed(ns.name(), other.name());
    let annotations = format!(
        "annotations: {{windlass.dev/namespace: {}, windlass.dev/service-account: deployer}}",
        other.name()
    );
    modules.write(
        "002-beta/Chart.yaml",
        &format!("apiVersion: v2\nname: beta\nversion: 0.1.0\n{annotations}\n"),
    );
    install(&ns, &modules, None);
    for (account, namespace, expected) in
        [("deployer", other.name(), true), ("default", other.name(), false), ("deployer", ns.name(), false)]
    {
        let account = format!("serviceaccounts/{account}");
        assert_eq!(may(&ns, &["impersonate", &account, "-n", namespace]), expected, "{account} {namespace}");
    }
}

fn cleanup(ns: &Namespace<'_>) {
    let configuration = format!("windlass-{}-hooks", ns.name());
    let words = ["delete", "validatingwebhookconfiguration", &configuration, "--ignore-not-found"];
    control_plane().kubectl(words).unwrap();
}

#[test]
fn hooks_see_answer_and_write_with_what_was_printed() {
    let cp = control_plane();
    let (ns, other) = (cp.namespace("rights").unwrap(), cp.namespace("rights-other").unwrap());
    cp.kubectl(["label", "namespace", other.name(), &format!("rights={}", ns.name())]).unwrap();
    cp.kubectl(["create", "serviceaccount", "seen", "-n", ns.name()]).unwrap();
    cp.kubectl(["create", "quota", "counted", "-n", other.name()]).unwrap();
    let modules = modules(ns.name());
    let printed = install(&ns, &modules, None);
    assert!(
        printed.starts_with("# module alpha: what its hooks write in the cluster, and read besides"),
        "{printed}"
    );
    assert!(printed.contains("--add-rules FILE"), "{printed}");
    let mark = cp.audit_mark().unwrap();
    let operator = start(&ns, &modules);
    operator.wait_converged();
    for name in ["seen", "counted"] {
        operator.wait_note(name);
    }
    wait_for("what the hook writes is there", || object(cp, ns.name(), "podtemplate", "made").is_some());
    wait_for("the module is released", || status(ns.name(), "alpha")["phase"] == "Ready");
    let configuration = format!("windlass-{}-hooks", ns.name());
    assert!(object(cp, "", "validatingwebhookconfiguration", &configuration).is_some());
    cp.kubectl(["create", "service", "clusterip", "asked", "--tcp=80", "-n", ns.name()]).unwrap();
    operator.stop();
    cleanup(&ns);
    assert_eq!(refused(&ns, mark), [""; 0]);
}

#[test]
fn one_right_less_is_told_where_modules_are_looked_at() {
    let cp = control_plane();
    // What is taken away, and what is tried first then.
    let table = [
        ("serviceaccounts", "list"),
        ("resourcequotas", "list"),
        ("deployments", "get"),
        ("podtemplates", "create"),
        ("validatingwebhookconfigurations", "patch"),
    ];
    for (resource, verb) in table {
        let (ns, other) = (cp.namespace("less").unwrap(), cp.namespace("less-other").unwrap());
        cp.kubectl(["label", "namespace", other.name(), &format!("rights={}", ns.name())]).unwrap();
        let modules = modules(ns.name());
        let printed = install(&ns, &modules, Some(resource));
        let operator = start(&ns, &modules);
        let mut last = Value::Null;
        wait_for(resource, || {
            last = status(ns.name(), "alpha");
            last["phase"] == "Failed"
        });
        let text = last["lastError"].as_str().unwrap_or_default();
        // Given later, it is tried again by itself.
        let words = ["upgrade", "windlass", CHART, "-n", ns.name(), "--reuse-values", "-f"];
        let whole = modules.path().join("whole.txt");
        std::fs::write(&whole, &printed).unwrap();
        windlass(cp.kubeconfig(), &[&words[..], &[whole.to_str().unwrap()]].concat());
        wait_for("the module works with it", || status(ns.name(), "alpha")["phase"] == "Ready");
        operator.stop();
        cleanup(&ns);
        let place = match resource {
            "resourcequotas" => other.name(),
            "validatingwebhookconfigurations" => "at the cluster scope",
            _ => ns.name(),
        };
        let cannot = format!("cannot {verb} resource \"{resource}\"");
        assert!(text.contains(&cannot) && text.contains(place), "{resource}: {last}");
    }
}
