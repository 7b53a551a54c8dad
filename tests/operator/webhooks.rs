//! Webhooks of hooks: what the API server asks, and what becomes of the answers.

use serde_json::Value;

use crate::support::{MODULES, Modules, ON_LOOPBACK, Operator, control_plane, object, wait_for};

fn start(namespace: &str, modules: &Modules, more: &[&str]) -> Operator {
    let hooks = modules.path().join("global-hooks");
    let mut arguments = ON_LOOPBACK.to_vec();
    arguments.extend(more);
    if hooks.is_dir() {
        arguments.extend(["--global-hooks-dir", hooks.to_str().unwrap()]);
    }
    let operator =
        Operator::start_with(control_plane(), namespace, &modules.path().join("modules"), &arguments);
    operator.wait_converged();
    operator
}

/// A binding for labelled ConfigMaps of a namespace.
fn binding(key: &str, namespace: &str, name: &str, label: &str, more: &str) -> String {
    format!(
        "{key}:\n- name: {name}\n  labelSelector: {{matchLabels: {{asks: {label}}}}}\n  namespace: {{labelSelector: {{matchLabels: \
         {{kubernetes.io/metadata.name: {namespace}}}}}}}\n  rules: [{{apiGroups: [''], apiVersions: [v1], operations: [CREATE, UPDATE], \
         resources: [configmaps]}}]\n{more}"
    )
}

/// Creates a labelled ConfigMap; gives what kubectl said, warnings and all, as text of an error or of the object.
fn create(namespace: &str, name: &str, label: &str) -> Result<Value, String> {
    let text = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","labels":{{"asks":"{label}"}}}}}}"#
    );
    let made = control_plane().kubectl_with(["create", "-n", namespace, "-f", "-", "-o", "json"], &text);
    made.map(|t| serde_json::from_str(&t).unwrap()).map_err(|e| e.to_string())
}

fn refused(namespace: &str, name: &str, label: &str, parts: &[&str]) {
    let text = create(namespace, name, label).expect_err(name);
    for part in parts {
        assert!(text.contains(part), "{name}: {part}: {text}");
    }
}

/// Names of the entries of a configuration.
fn entries(namespace: &str, kind: &str) -> Vec<String> {
    let name = format!("windlass-{namespace}-hooks");
    let live = object(control_plane(), "default", kind, &name).unwrap_or_default();
    let entries = live["webhooks"].as_array().cloned().unwrap_or_default();
    entries.iter().map(|e| e["name"].as_str().unwrap().to_owned()).collect()
}

fn switch(namespace: &str, key: &str, on: &str) {
    let text = format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: addon-operator}}, data: {{{key}Enabled: '{on}'}}}}"
    );
    // Each key has a manager of its own, so that the others stay.
    let apply = ["apply", "--server-side", "--field-manager", key, "-n", namespace, "-f", "-"];
    control_plane().kubectl_with(apply, &text).unwrap();
}

const VALIDATING: &str = "validatingwebhookconfiguration";
const MUTATING: &str = "mutatingwebhookconfiguration";

#[test]
fn admission() {
    let cp = control_plane();
    let ns = cp.namespace("admission").unwrap();
    let ns = ns.name();
    let modules = Modules::new();
    let v1 = |parts: &[String]| format!("configVersion: v1\n{}", parts.concat());
    let answer = |text: &str| format!("echo '{text}' > \"$VALIDATING_RESPONSE_PATH\"");
    // A hook of a module: what it says depends on the object's name, and it sees its snapshots.
    let seen = format!(
        "kubernetes: [{{name: maps, kind: ConfigMap, nameSelector: {{matchNames: [web]}}, namespace: {{nameSelector: {{matchNames: \
         [{ns}]}}}}, executeHookOnSynchronization: false}}]\n"
    );
    let check = binding(
        "kubernetesValidating",
        ns,
        "check-maps.hooks.test",
        "module",
        "  timeoutSeconds: 1\n  includeSnapshotsFrom: [maps]\n",
    );
    let change = binding("kubernetesMutating", ns, "check-maps.hooks.test", "module", "");
    let body = format!(
        "name=$(grep -o '\"request\":{{.*' \"$BINDING_CONTEXT_PATH\" | grep -o '\"name\":\"[a-z-]*\"' | head -1 | cut -d'\"' -f4)\n\
         if context '\"type\":\"Mutating\"'; then\n  patch=$(printf '[{{\"op\":\"add\",\"path\":\"/data\",\"value\":{{\"by\":\"hook\"}}}}]' | base64 -w0)\n  \
         echo \"{{\\\"allowed\\\":true,\\\"patch\\\":\\\"$patch\\\"}}\" > \"$ADMISSION_RESPONSE_PATH\"; exit\nfi\n\
         context '\"type\":\"Validating\"'; context '\"binding\":\"check-maps.hooks.test\"'\n\
         context '\"snapshots\":{{\"maps\":[{{'\n\
         case $name in\n*bad) {} ;;\n*failing) exit 4 ;;\n*silent) ;;\n*half) {} ;;\n*hanging) note hanging; sleep 600 & wait ;;\n*) {} ;;\nesac",
        answer(r#"{"allowed":false,"message":"no bad ones","warnings":["think again"]}"#),
        "printf '{\"allowed\":' > \"$VALIDATING_RESPONSE_PATH\"",
        answer(r#"{"allowed":true}"#),
    );
    modules
        .hook("modules/010-web/hooks/check", &v1(&[seen, check, change]), &body)
        .write(
            "modules/010-web/templates/a.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web, labels: {asks: own}}\n",
        )
        // Its own objects pass its own webhooks.
        .hook(
            "modules/010-web/hooks/own",
            &v1(&[binding("kubernetesMutating", ns, "own.hooks.test", "own", "")]),
            "note own; echo '{\"allowed\":true}' > \"$ADMISSION_RESPONSE_PATH\"",
        )
        // An entry that the API server refuses costs nobody else anything.
        .hook(
            "modules/020-wrong/hooks/wrong",
            &v1(&[binding(
                "kubernetesValidating",
                ns,
                "wrong.hooks.test",
                "wrong",
                "  matchConditions: [{name: it, expression: '1 +'}]\n",
            )]),
            "",
        )
        .hook(
            "modules/030-twice/hooks/twice",
            &v1(&[binding("kubernetesMutating", ns, "own.hooks.test", "twice", "")]),
            "",
        )
        .hook(
            "global-hooks/lenient",
            &v1(&[binding(
                "kubernetesValidating",
                ns,
                "lenient.hooks.test",
                "global",
                "  timeoutSeconds: 1\n  failurePolicy: Ignore\n",
            )]),
            "note asked; sleep 600 & wait",
        )
        .write("modules/values.yaml", "webEnabled: true\nwrongEnabled: true\ntwiceEnabled: true\n");
    let operator = start(ns, &modules, &[]);
    let both = ["check-maps.hooks.test", "lenient.hooks.test"];
    assert_eq!(entries(ns, VALIDATING), both, "{}", operator.log_end());
    assert_eq!(entries(ns, MUTATING), ["check-maps.hooks.test", "own.hooks.test"]);
    assert!(operator.notes().contains(&"own own".to_owned()), "{:?}", operator.notes());
    operator.wait_log(&["\"module\":\"wrong\"", "kubernetesValidating: ", "matchConditions"]);
    operator.wait_log(&[
        "\"module\":\"twice\"",
        "hook 010-web/hooks/own has the name \\\"own.hooks.test\\\" already",
    ]);

    assert_eq!(
        create(ns, "good", "module").unwrap()["data"]["by"],
        "hook",
        "the mutating hook has patched it"
    );
    refused(ns, "bad", "module", &["denied the request: no bad ones", "Warning: think again"]);
    refused(ns, "failing", "module", &["denied the request: Hook failed"]);
    refused(ns, "half", "module", &["denied the request: Hook failed"]);
    refused(ns, "silent", "module", &["hook 010-web/hooks/check wrote no response"]);
    refused(ns, "hanging", "module", &["hook 010-web/hooks/check did not answer within 1s"]);
    assert!(operator.notes().contains(&"check hanging".to_owned()));
    create(ns, "lenient", "global").unwrap();
    operator.wait_note("lenient asked");
    // Many at once: as many hooks run side by side as may, and each is asked.
    std::thread::scope(|scope| {
        for i in b'a'..b'a' + 12 {
            scope.spawn(move || create(ns, &format!("many-{}", char::from(i)), "module").unwrap());
        }
    });
    let metrics = operator.get("/metrics").unwrap().1;
    for (result, count) in [("allowed", 13), ("denied", 1), ("failed", 3), ("late", 1)] {
        let line = format!(
            "windlass_webhook_calls_total{{binding=\"kubernetesValidating\",webhook=\"check-maps.hooks.test\",result=\"{result}\"}} {count}"
        );
        assert!(metrics.contains(&line), "{line}\n{metrics}");
    }
    // One that watches, and two webhooks.
    let line = "binding_count{module=\"web\",hook=\"010-web/hooks/check\"} 3";
    assert!(metrics.contains(line), "{line}\n{metrics}");
    // What someone else makes of our objects does not last.
    let name = format!("windlass-{ns}-hooks");
    cp.kubectl(["delete", VALIDATING, &name]).unwrap();
    wait_for("the configuration is back", || entries(ns, VALIDATING) == both);
    let strategy = "--type=json";
    cp.kubectl([
        "patch",
        VALIDATING,
        &name,
        strategy,
        "-p",
        r#"[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Ignore"}]"#,
    ])
    .unwrap();
    wait_for("the entry is right again", || {
        object(cp, "default", VALIDATING, &name).is_some_and(|o| o["webhooks"][0]["failurePolicy"] == "Fail")
    });
    // It would take the name that it wants while the other one is off.
    switch(ns, "twice", "false");
    wait_for("that module is off", || {
        object(cp, ns, MODULES, "twice").is_some_and(|o| o["status"]["phase"] == "Disabled")
    });
    switch(ns, "web", "false");
    wait_for("the module's entries are gone", || {
        entries(ns, VALIDATING) == ["lenient.hooks.test"] && object(cp, "default", MUTATING, &name).is_none()
    });
    create(ns, "bad", "module").unwrap();
    switch(ns, "web", "true");
    wait_for("they are back", || entries(ns, VALIDATING) == both && entries(ns, MUTATING).len() == 2);
    refused(ns, "other-bad", "module", &["no bad ones"]);
    operator.stop();

    // While nobody is there the entries forbid; a module that is off by then loses its entries, and so does a hook that is gone.
    refused(ns, "nobody-there", "module", &["failed calling webhook"]);
    cp.kubectl(["delete", "configmap", "addon-operator", "-n", ns]).unwrap();
    modules.write("modules/values.yaml", "");
    std::fs::remove_dir_all(modules.path().join("global-hooks")).unwrap();
    let operator = start(ns, &modules, &[]);
    wait_for("nothing of us is left", || {
        [VALIDATING, MUTATING].iter().all(|kind| object(cp, "default", kind, &name).is_none())
    });
    create(ns, "nobody-there", "module").unwrap();
    operator.stop();
}

#[test]
fn certificates() {
    let cp = control_plane();
    let ns = cp.namespace("certificates").unwrap();
    let ns = ns.name();
    let modules = Modules::new();
    let config =
        format!("configVersion: v1\n{}", binding("kubernetesValidating", ns, "a.hooks.test", "it", ""));
    modules
        .hook("modules/010-web/hooks/a", &config, "echo '{\"allowed\":true}' > \"$ADMISSION_RESPONSE_PATH\"")
        .write("modules/values.yaml", "webEnabled: true\n");
    let bundle = || {
        let live = object(cp, "default", VALIDATING, &format!("windlass-{ns}-hooks")).unwrap();
        live["webhooks"][0]["clientConfig"]["caBundle"].as_str().unwrap().to_owned()
    };
    let operator = start(ns, &modules, &[]);
    create(ns, "first", "it").unwrap();
    let secret = "windlass-webhooks-certificate";
    let made = object(cp, ns, "secret", secret).expect("the certificate is kept");
    assert_eq!(made["data"]["ca.crt"].as_str(), Some(bundle().as_str()));
    let key = made["data"]["tls.key"].as_str().unwrap().to_owned();
    operator.stop();
    // The next process takes the same one; one that is due is made anew, and both authorities are trusted.
    let operator = start(ns, &modules, &[]);
    let before = bundle();
    assert_eq!(object(cp, ns, "secret", secret).unwrap()["data"]["tls.key"], key.as_str());
    operator.stop();
    cp.kubectl(["annotate", "secret", secret, "-n", ns, "--overwrite", "windlass.dev/renew-at=1"]).unwrap();
    let operator = start(ns, &modules, &[]);
    create(ns, "second", "it").unwrap();
    assert_ne!(object(cp, ns, "secret", secret).unwrap()["data"]["tls.key"], key.as_str());
    assert!(bundle().len() > before.len() * 3 / 2, "the bundle has both authorities");
    assert!(!operator.log().contains("PRIVATE KEY"));
    operator.stop();
    // Somebody else's, from a directory.
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    modules
        .write("certs/tls.crt", &cert.pem())
        .write("certs/ca.crt", &cert.pem())
        .write("certs/tls.key", &signing_key.serialize_pem());
    let directory = modules.path().join("certs");
    let operator = start(ns, &modules, &["--webhook-certs-dir", directory.to_str().unwrap()]);
    create(ns, "third", "it").unwrap();
    operator.stop();
}

#[test]
fn conversion() {
    let cp = control_plane();
    let ns = cp.namespace("conversion").unwrap();
    let ns = ns.name();
    let modules = Modules::new();
    let group = format!("{ns}.example.com");
    let crd = format!("crontabs.{group}");
    let version = |name: &str, storage: bool| {
        format!(
            "  - name: {name}\n    served: true\n    storage: {storage}\n    schema: {{openAPIV3Schema: {{type: object, properties: {{spec: \
             {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}}}}}\n"
        )
    };
    let text = format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: {crd}}}\nspec:\n  group: {group}\n  scope: \
         Namespaced\n  conversion: {{strategy: None}}\n  names: {{kind: CronTab, plural: crontabs, singular: crontab}}\n  versions:\n{}{}{}",
        version("v1alpha1", false),
        version("v1beta1", false),
        version("v1", true)
    );
    // Each step notes itself in the object, so that the chain can be read from it.
    let step = |from: &str, to: &str| {
        let jq = format!(
            ".[0] as $c | [$c.review.request.objects[] | .apiVersion = \"{group}/{to}\" | .spec.steps += [\"{from}-{to}\"]] as $o | if any($o[]; \
             .metadata.name == \"refused\") then {{failedMessage: \"not this one\"}} elif any($o[]; .metadata.name == \"lost\") then \
             {{convertedObjects: []}} else {{convertedObjects: $o}} end"
        );
        format!(
            "if context '\"fromVersion\":\"{from}\",' && context '\"toVersion\":\"{to}\",' || context '\"fromVersion\":\"{from}\"' && context \
             '\"toVersion\":\"{to}\"'; then\n  if context '\"name\":\"failing\"'; then exit 3; fi\n  {} jq -c '{jq}' \"$BINDING_CONTEXT_PATH\" > \
             \"$CONVERSION_RESPONSE_PATH\"; fi",
            env!("CARGO_BIN_EXE_windlass")
        )
    };
    let config = |name: &str, steps: &[(&str, &str)]| {
        let steps: Vec<String> =
            steps.iter().map(|(from, to)| format!("{{fromVersion: {from}, toVersion: {to}}}")).collect();
        format!(
            "configVersion: v1\nkubernetesCustomResourceConversion: [{{name: {name}, crdName: {crd}, conversions: [{}]}}]",
            steps.join(", ")
        )
    };
    modules
        .write("modules/010-tabs/crds/crd.yaml", &text)
        .write("modules/010-tabs/Chart.yaml", "apiVersion: v2\nname: tabs\nversion: 0.1.0\n")
        .hook(
            "modules/010-tabs/hooks/alpha",
            &config("alpha", &[("v1alpha1", "v1beta1")]),
            &step("v1alpha1", "v1beta1"),
        )
        .hook("modules/010-tabs/hooks/beta", &config("beta", &[("v1beta1", "v1")]), &step("v1beta1", "v1"))
        .hook(
            "modules/010-tabs/hooks/back",
            &config("back", &[("v1", "v1beta1"), ("v1beta1", "v1alpha1")]),
            &[step("v1", "v1beta1"), step("v1beta1", "v1alpha1")].join("\n"),
        )
        .write("modules/values.yaml", "tabsEnabled: true\n");
    let operator = start(ns, &modules, &[]);
    wait_for("the CRD is told that we convert", || {
        object(cp, "default", "crd", &crd).is_some_and(|c| c["spec"]["conversion"]["strategy"] == "Webhook")
    });
    let create = |version: &str, name: &str| {
        let text = format!(
            r#"{{"apiVersion":"{group}/{version}","kind":"CronTab","metadata":{{"name":"{name}"}},"spec":{{"cron":"*"}}}}"#
        );
        cp.kubectl_with(["create", "-n", ns, "-f", "-"], &text).map_err(|e| e.to_string())
    };
    let steps = |version: &str, name: &str| -> Option<Vec<String>> {
        let path = format!("/apis/{group}/{version}/namespaces/{ns}/crontabs/{name}");
        let object = cp.get(&path).ok()?;
        assert_eq!(object["apiVersion"], format!("{group}/{version}"));
        let steps = object["spec"]["steps"].as_array().cloned().unwrap_or_default();
        Some(steps.iter().map(|s| s.as_str().unwrap().to_owned()).collect())
    };
    // The API server learns of a changed CRD in its own time.
    let mut tries = 0;
    wait_for("old versions are converted", || {
        tries += 1;
        let name = format!("old-{tries}");
        create("v1alpha1", &name).is_ok()
            && steps("v1", &name).is_some_and(|s| s == ["v1alpha1-v1beta1", "v1beta1-v1"])
    });
    create("v1", "new").unwrap();
    assert_eq!(steps("v1", "new").unwrap(), [""; 0]);
    assert_eq!(steps("v1beta1", "new").unwrap(), ["v1-v1beta1"]);
    assert_eq!(
        steps("v1alpha1", "new").unwrap(),
        ["v1-v1beta1", "v1beta1-v1alpha1"],
        "two steps of one hook"
    );
    let list = cp.get(&format!("/apis/{group}/v1alpha1/namespaces/{ns}/crontabs")).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), tries + 1);
    for (name, part) in [
        ("refused", "not this one"),
        ("lost", "hook 010-tabs/hooks/alpha: response file: 0 converted objects instead of 1"),
        ("failing", "Hook failed to convert to"),
    ] {
        let error = create("v1alpha1", name).unwrap_err();
        assert!(error.contains(part), "{name}: {error}");
    }
    // Somebody takes it back; the module is run again; the answer stays.
    cp.kubectl([
        "patch",
        "crd",
        &crd,
        "--type=merge",
        "-p",
        r#"{"spec":{"conversion":{"strategy":"None","webhook":null}}}"#,
    ])
    .unwrap();
    wait_for("we convert again", || {
        object(cp, "default", "crd", &crd).is_some_and(|c| c["spec"]["conversion"]["strategy"] == "Webhook")
    });
    // The module's file says that nothing converts: it may change and goes on saying so.
    modules.write(
        "modules/010-tabs/crds/crd.yaml",
        &text.replace("singular: crontab", "singular: crontab, shortNames: [ct]"),
    );
    wait_for("the CRD follows its file", || {
        object(cp, "default", "crd", &crd).is_some_and(|c| c["spec"]["names"]["shortNames"][0] == "ct")
    });
    let live = object(cp, "default", "crd", &crd).unwrap();
    assert_eq!(live["spec"]["conversion"]["strategy"], "Webhook");
    operator.stop();
    cp.kubectl(["delete", "crd", &crd, "--wait=false"]).unwrap();
}

/// A module with a hook that allows what it is asked about.
fn allowing(namespace: &str) -> Modules {
    let modules = Modules::new();
    let entry = binding("kubernetesValidating", namespace, "a.hooks.test", "it", "  failurePolicy: Fail\n");
    let body = "note asked; echo '{\"allowed\":true}' > \"$ADMISSION_RESPONSE_PATH\"";
    modules
        .hook("modules/010-web/hooks/a", &format!("configVersion: v1\n{entry}"), body)
        .write("modules/values.yaml", "webEnabled: true\n");
    modules
}

#[test]
fn of_several_operators_the_leader_answers() {
    let cp = control_plane();
    let ns = cp.namespace("replicas").unwrap();
    let ns = ns.name();
    let modules = allowing(ns);
    let directory = modules.path().join("modules");
    let start = |name: &str| {
        let mut arguments = ON_LOOPBACK.to_vec();
        arguments.extend(["--leader-election", "--pod-name", name]);
        Operator::start_with(cp, ns, &directory, &arguments)
    };
    let first = start("first");
    first.wait_converged();
    let second = start("second");
    second.wait_log(&["another process leads"]);
    create(ns, "one", "it").unwrap();
    first.wait_note("a asked");
    first.stop();
    second.wait_log(&["converged"]);
    create(ns, "two", "it").unwrap();
    second.wait_note("a asked");
    second.stop();
}

#[test]
fn the_service_leads_to_the_leader() {
    let cp = control_plane();
    let ns = cp.namespace("slices").unwrap();
    let ns = ns.name();
    let modules = allowing(ns);
    let directory = modules.path().join("modules");
    let service = |selector: &str| {
        let text = format!(
            r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"windlass-webhooks"}},"spec":{{"selector":{selector},"ports":[{{"name":"hooks","port":443,"targetPort":9651}}]}}}}"#
        );
        cp.kubectl_with(["apply", "-n", ns, "-f", "-"], &text).unwrap();
    };
    service("null");
    let start = |name: &str, address: &str| {
        let listen = ["--webhook-listen-address", "127.0.0.1", "--webhook-listen-port", "0"];
        let mut arguments = vec!["--leader-election", "--pod-name", name, "--pod-ip", address];
        arguments.extend(listen);
        Operator::start_with(cp, ns, &directory, &arguments)
    };
    let slice = || object(cp, ns, "endpointslice", "windlass-webhooks-leader").unwrap_or_default();
    let leads_to = |address: &str| slice()["endpoints"][0]["addresses"][0] == address;
    let first = start("first", "10.9.0.1");
    first.wait_converged();
    assert!(leads_to("10.9.0.1"), "{}", slice());
    let port = slice()["ports"][0].clone();
    assert_eq!(port["name"], "hooks");
    first.wait_log(&["serving webhooks", &format!("127.0.0.1:{}", port["port"])]);
    // What someone else makes of it does not last.
    cp.kubectl(["delete", "endpointslice", "windlass-webhooks-leader", "-n", ns]).unwrap();
    wait_for("the slice is back", || leads_to("10.9.0.1"));
    let second = start("second", "10.9.0.2");
    second.wait_log(&["another process leads"]);
    assert!(leads_to("10.9.0.1"), "a follower leads nobody to itself");
    first.stop();
    wait_for("the Service leads to the next leader", || leads_to("10.9.0.2"));
    second.stop();
    // A Service that selects Pods is somebody else's to mend.
    service(r#"{"app":"windlass"}"#);
    let third = start("third", "10.9.0.3");
    third.wait_log(&["WARN", "without a selector it leads to the one that does"]);
    assert!(leads_to("10.9.0.2"));
    third.stop();
    cp.kubectl(["delete", VALIDATING, &format!("windlass-{ns}-hooks")]).unwrap();
}

#[test]
fn conversions_have_a_server_of_their_own() {
    let cp = control_plane();
    let ns = cp.namespace("apart").unwrap();
    let ns = ns.name();
    let (group, modules) = (format!("{ns}.example.com"), allowing(ns));
    let crd = format!("things.{group}");
    let version = |name: &str, storage: bool| {
        format!(
            "{{name: {name}, served: true, storage: {storage}, schema: {{openAPIV3Schema: {{type: object}}}}}}"
        )
    };
    let text = format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: {crd}}}\nspec:\n  group: {group}\n  \
         scope: Namespaced\n  names: {{kind: Thing, plural: things, singular: thing}}\n  versions: [{}, {}]\n",
        version("v1", true),
        version("v2", false)
    );
    cp.kubectl_with(["apply", "-f", "-"], &text).unwrap();
    cp.kubectl(["wait", "--for=condition=Established", "--timeout=30s", "crd", &crd]).unwrap();
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    modules
        .write("own/tls.crt", &cert.pem())
        .write("own/tls.key", &signing_key.serialize_pem())
        .hook(
            "modules/010-web/hooks/convert",
            &format!(
                "configVersion: v1\nkubernetesCustomResourceConversion: [{{name: it, crdName: {crd}, conversions: [{{fromVersion: v1, \
                 toVersion: v2}}]}}]"
            ),
            &format!(
                "note converts; {} jq -c '{{convertedObjects: [.[0].review.request.objects[] | .apiVersion = \"{group}/v2\"]}}' \
                 \"$BINDING_CONTEXT_PATH\" > \"$CONVERSION_RESPONSE_PATH\"",
                env!("CARGO_BIN_EXE_windlass")
            ),
        );
    let own = |file: &str| modules.path().join("own").join(file).to_str().unwrap().to_owned();
    let (certificate, key) = (own("tls.crt"), own("tls.key"));
    let more = [
        ["--conversion-webhook-listen-port", "0"],
        ["--conversion-webhook-server-cert", &certificate],
        ["--conversion-webhook-server-key", &key],
        ["--conversion-webhook-ca", &certificate],
    ];
    let operator = start(ns, &modules, &more.concat());
    let client = |live: Value, pointer: &str| live.pointer(pointer).cloned().unwrap_or_default();
    let conversion =
        client(object(cp, "default", "crd", &crd).unwrap(), "/spec/conversion/webhook/clientConfig");
    let admission = client(
        object(cp, "default", VALIDATING, &format!("windlass-{ns}-hooks")).unwrap(),
        "/webhooks/0/clientConfig",
    );
    assert_ne!(conversion["caBundle"], admission["caBundle"]);
    let port = |config: &Value| config["url"].as_str().unwrap().split(['/', ':']).nth(4).unwrap().to_owned();
    assert_ne!(port(&conversion), port(&admission));
    // Both are called.
    create(ns, "one", "it").unwrap();
    cp.kubectl_with(
        ["create", "-n", ns, "-f", "-"],
        &format!("{{apiVersion: {group}/v1, kind: Thing, metadata: {{name: one}}}}"),
    )
    .unwrap();
    let read =
        cp.kubectl(["get", &format!("things.v2.{group}"), "one", "-n", ns, "-o", "jsonpath={.apiVersion}"]);
    assert_eq!(read.unwrap(), format!("{group}/v2"), "{}", operator.log_end());
    operator.wait_note("convert converts");
    operator.stop();
    cp.kubectl(["delete", "crd", &crd]).unwrap();
}
