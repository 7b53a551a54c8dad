//! Bindings of hooks from end to end: the old form of configurations, namespaces by their labels, and what becomes of each
//! result file when a later one cannot be used.

use serde_json::{Value, json};

use crate::hooks::{data, edit, start};
use crate::support::{Modules, Operator, control_plane, wait_for};

/// All contexts that a hook was told, in order.
fn contexts(operator: &Operator, hook: &str) -> Vec<Value> {
    let notes = operator.notes();
    let texts = notes.iter().filter_map(|note| note.strip_prefix(&format!("{hook} ")));
    texts.flat_map(|text| serde_json::from_str::<Vec<Value>>(text).expect(text)).collect()
}

const TELL: &str = "note \"$(tr -d '\\n' < \"$BINDING_CONTEXT_PATH\")\"";

#[test]
fn hooks_with_the_old_form_of_configuration() {
    let cp = control_plane();
    let ns = cp.namespace("v0").unwrap();
    let modules = Modules::new();
    let here = format!("namespaceSelector: {{matchNames: [{}]}}", ns.name());
    modules
        .hook(
            "global-hooks/old",
            &format!(
                "onStartup: 5\nonKubernetesEvent:\n- {{name: maps, kind: configmap, event: [add, update, delete], objectName: watched, \
                 {here}, jqFilter: .data.size}}\n- {{kind: Secret, event: [delete], selector: {{matchLabels: {{app: x}}}}, {here}}}"
            ),
            TELL,
        )
        .hook(
            "global-hooks/often",
            "schedule: [{name: often, crontab: '* * * * * *'}, {crontab: '*/2 * * * * *', allowFailure: true}]",
            &format!("{TELL}\nif context '\"schedule\"'; then exit 1; fi"),
        )
        .write("modules/values.yaml", "");
    let secret = |name: &str, app: &str| {
        let text =
            format!("{{apiVersion: v1, kind: Secret, metadata: {{name: {name}, labels: {{app: {app}}}}}}}");
        cp.kubectl_with(["apply", "-n", ns.name(), "-f", "-"], &text).unwrap();
    };
    edit(ns.name(), "watched", "size", "1");
    secret("one", "x");
    secret("two", "z");
    let operator = start(ns.name(), &modules, &[]);
    operator.wait_converged();
    // Of what exists already this form tells nothing.
    assert_eq!(contexts(&operator, "old"), [json!({"binding": "onStartup"})], "{}", operator.log_end());
    let event = |event: &str| {
        json!({"binding": "maps", "resourceEvent": event, "resourceNamespace": ns.name(), "resourceKind": "ConfigMap",
            "resourceName": "watched"})
    };
    let told = |count: usize| wait_for("the event is told", || contexts(&operator, "old").len() > count);
    edit(ns.name(), "watched", "size", "2");
    told(1);
    // Nothing that the filter sees.
    cp.kubectl(["label", "configmap", "watched", "a=b", "-n", ns.name()]).unwrap();
    cp.kubectl(["delete", "configmap", "watched", "-n", ns.name()]).unwrap();
    told(2);
    edit(ns.name(), "watched", "size", "3");
    told(3);
    cp.kubectl(["delete", "secret", "two", "one", "-n", ns.name()]).unwrap();
    told(4);
    let gone = json!({"binding": "onKubernetesEvent", "resourceEvent": "delete", "resourceNamespace": ns.name(),
        "resourceKind": "Secret", "resourceName": "one"});
    assert_eq!(contexts(&operator, "old")[1..], [event("update"), event("delete"), event("add"), gone]);
    wait_for("both schedules tick", || {
        let ticks = contexts(&operator, "often");
        ["often", "schedule"].iter().all(|name| ticks.contains(&json!({"binding": name})))
    });
    operator.stop();
}

#[test]
fn namespaces_are_picked_by_their_labels_as_they_come_and_go() {
    let cp = control_plane();
    let [home, east, west] = ["picked", "picked-east", "picked-west"].map(|n| cp.namespace(n).unwrap());
    let modules = Modules::new();
    let binding = format!(
        "configVersion: v1\nkubernetes:\n- {{name: things, kind: ConfigMap, nameSelector: {{matchNames: [thing]}}, namespace: \
         {{labelSelector: {{matchExpressions: [{{key: pick, operator: In, values: [{}]}}]}}}}, jqFilter: .data.size}}",
        home.name()
    );
    modules.hook("global-hooks/watch", &binding, TELL).write("modules/values.yaml", "");
    let label = |namespace: &str, label: &str| {
        cp.kubectl(["label", "--overwrite", "namespace", namespace, label]).unwrap();
    };
    let picked = format!("pick={}", home.name());
    for namespace in [&east, &west] {
        edit(namespace.name(), "thing", "size", "1");
    }
    label(east.name(), &picked);
    let operator = start(home.name(), &modules, &[]);
    operator.wait_converged();
    let found = |context: &Value| -> Vec<(String, String)> {
        let objects = context["objects"].as_array().cloned().unwrap_or_else(|| vec![context.clone()]);
        let pair = |o: &Value| {
            let namespace = o["object"]["metadata"]["namespace"].as_str().unwrap().to_owned();
            (namespace, o["filterResult"].as_str().unwrap().to_owned())
        };
        objects.iter().map(pair).collect()
    };
    let pair = |namespace: &str, size: &str| (namespace.to_owned(), size.to_owned());
    let first = contexts(&operator, "watch");
    assert_eq!(found(&first[0]), [pair(east.name(), "1")], "{}", operator.log_end());
    // Of a namespace that is picked from now on what it has is known, and edits are told, as with the peer.
    label(west.name(), &picked);
    let mut size = 10;
    wait_for("an edit there is told of", || {
        size += 1;
        edit(west.name(), "thing", "size", &size.to_string());
        contexts(&operator, "watch").len() > 1
    });
    let told = contexts(&operator, "watch");
    assert!(
        told[1..].iter().all(|c| c["watchEvent"] == "Modified" && found(c)[0].0 == west.name()),
        "{told:#?}"
    );
    // Of one that is no more nothing is told: not that its objects are gone, and no edit.
    label(east.name(), "pick=no");
    let quiet = wait_for("edits there are not told of any more", || {
        size += 1;
        edit(east.name(), "thing", "size", &size.to_string());
        edit(west.name(), "thing", "size", &format!("after-{size}"));
        let after = |c: &Value| found(c)[0] == pair(west.name(), &format!("after-{size}"));
        wait_for("the edit after that one is told of", || contexts(&operator, "watch").iter().any(after));
        !contexts(&operator, "watch")
            .iter()
            .flat_map(found)
            .any(|f| f == pair(east.name(), &size.to_string()))
    });
    println!("a namespace was forgotten after {quiet:?}");
    let told = contexts(&operator, "watch");
    assert!(told.iter().all(|c| c["watchEvent"] != "Deleted"), "{told:#?}");
    operator.stop();
}

#[test]
fn result_files_are_taken_in_their_order_until_one_fails() {
    let ns = control_plane().namespace("results").unwrap();
    let modules = Modules::new();
    edit(ns.name(), "there", "a", "b");
    let all = ["operations", "config", "values", "none"];
    for (number, fails) in all.iter().enumerate() {
        let (operation, object) = match *fails {
            "operations" => ("Create", "there".to_owned()),
            other => ("CreateOrUpdate", format!("made-{other}")),
        };
        let wrong = |file: &str| if *fails == file { "elsewhere" } else { fails };
        let operation = json!({"operation": operation, "object": {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": object, "namespace": ns.name()}}});
        let patch =
            |root: &str, key: &str| json!([{"op": "add", "path": format!("/{root}/{key}"), "value": 5}]);
        let body = format!(
            "echo '{{\"name\":\"taken\",\"set\":1,\"labels\":{{\"fails\":\"{fails}\"}}}}' > \"$METRICS_PATH\"\n\
             echo '{operation}' > \"$KUBERNETES_PATCH_PATH\"\n\
             echo '{}' > \"$CONFIG_VALUES_JSON_PATCH_PATH\"\necho '{}' > \"$VALUES_JSON_PATCH_PATH\"",
            patch(wrong("config"), "config"),
            patch(wrong("values"), "size"),
        );
        let directory = format!("modules/0{number}0-{fails}");
        crate::hooks::shows_size(&modules, &directory);
        modules.hook(&format!("{directory}/hooks/hook"), "configVersion: v1\nbeforeHelm: 1", &body);
    }
    modules.write("modules/values.yaml", &all.map(|name| format!("{name}Enabled: true\n")).concat());
    let operator = start(ns.name(), &modules, &[]);
    operator.wait_converged();
    let metrics = operator.get("/metrics/hooks").unwrap().1;
    let taken = |fails: &str| {
        [
            metrics.lines().any(|l| l.starts_with("taken{") && l.contains(&format!("fails=\"{fails}\""))),
            crate::support::object(control_plane(), ns.name(), "configmap", &format!("made-{fails}"))
                .is_some(),
            data(ns.name(), "addon-operator", fails).as_deref() == Some("config: 5\n"),
            data(ns.name(), fails, "size").as_deref() == Some("5"),
        ]
    };
    let log = operator.log_end();
    assert_eq!(taken("operations"), [true, false, false, false], "{log}");
    assert_eq!(taken("config"), [true, true, false, false], "{log}");
    assert_eq!(taken("values"), [true, true, true, false], "{log}");
    assert_eq!(taken("none"), [true; 4], "{log}");
    operator.stop();
}
