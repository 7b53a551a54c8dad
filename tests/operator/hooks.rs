//! Hooks, global and of modules, as their authors see them.

use crate::support::{Modules, Operator, control_plane, history, object, wait_for};

/// A module with one ConfigMap that shows the value `size`, and hooks beside it.
pub(crate) fn shows_size(modules: &Modules, directory: &str) {
    let name = directory.split_once('-').unwrap().1;
    modules.write(&format!("{directory}/values.yaml"), &format!("{name}: {{size: 1}}\n"));
    let data = format!("{{{{ .Values.{name}.size | toString | quote }}}}");
    let global = "{{ .Values.global.zone | default \"none\" | quote }}";
    modules.write(
        &format!("{directory}/templates/shown.yaml"),
        &format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{size: {data}, zone: {global}}}\n"),
    );
}

pub(crate) fn start(namespace: &str, modules: &Modules, more: &[&str]) -> Operator {
    let hooks = modules.path().join("global-hooks");
    let mut arguments = more.to_vec();
    if hooks.is_dir() {
        arguments.extend(["--global-hooks-dir", hooks.to_str().unwrap()]);
    }
    Operator::start_with(control_plane(), namespace, &modules.path().join("modules"), &arguments)
}

pub(crate) fn data(namespace: &str, name: &str, key: &str) -> Option<String> {
    let object = object(control_plane(), namespace, "configmap", name)?;
    object["data"][key].as_str().map(str::to_owned)
}

pub(crate) fn edit(namespace: &str, name: &str, key: &str, value: &str) {
    let cp = control_plane();
    let literal = format!("--from-literal={key}={value}");
    let text = cp.kubectl([
        "create",
        "configmap",
        name,
        "-n",
        namespace,
        &literal,
        "--dry-run=client",
        "-o",
        "json",
    ]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text.unwrap()).unwrap();
    let path = file.path().to_str().unwrap();
    cp.kubectl(["apply", "-n", namespace, "--server-side", "--force-conflicts", "-f", path]).unwrap();
}

#[test]
fn all_moments_in_their_order() {
    let ns = control_plane().namespace("moments").unwrap();
    let modules = Modules::new();
    let v1 = |rest: &str| format!("configVersion: v1\n{rest}");
    let tell = "note \"$(grep -o '\"binding\":\"[a-zA-Z]*\"' \"$BINDING_CONTEXT_PATH\" | cut -d'\"' -f4 | tr '\\n' ' ' | sed 's/ $//')\"";
    let namespaces = format!("namespace: {{nameSelector: {{matchNames: [{}]}}}}", ns.name());
    modules
        .hook("global-hooks/hooks/2-second", &v1("onStartup: 2\nafterAll: 1"), tell)
        .hook("global-hooks/hooks/9-first", &v1("onStartup: 1\nbeforeAll: 1"), tell)
        .hook(
            "global-hooks/hooks/watch",
            &v1(&format!(
                "kubernetes: [{{name: maps, kind: ConfigMap, {namespaces}, executeHookOnEvent: []}}]"
            )),
            tell,
        );
    shows_size(&modules, "modules/010-alpha");
    modules
        .hook(
            "modules/010-alpha/hooks/all",
            &v1(&format!(
                "onStartup: 1\nbeforeHelm: 1\nafterHelm: 1\nbeforeDeleteHelm: 1\nafterDeleteHelm: 1\nkubernetes: [{{name: own, \
                 kind: cm, {namespaces}, executeHookOnEvent: []}}]"
            )),
            tell,
        )
        .write("modules/values.yaml", "alphaEnabled: true\n");
    let operator = start(ns.name(), &modules, &[]);
    operator.wait_converged();
    let all = [
        "9-first onStartup",
        "2-second onStartup",
        "watch maps",
        "9-first beforeAll",
        "all onStartup",
        "all own",
        "all beforeHelm",
        "all afterHelm",
        "2-second afterAll",
    ];
    assert_eq!(operator.notes(), all, "{}", operator.log_end());
    edit(ns.name(), "addon-operator", "alphaEnabled", "false");
    operator.wait_note("all afterDeleteHelm");
    wait_for("all is done again", || operator.notes().len() == 13);
    let mut after = operator.notes().split_off(9);
    // The end of the deletion and the hooks after all modules.
    after.sort();
    assert_eq!(
        after,
        ["2-second afterAll", "9-first beforeAll", "all afterDeleteHelm", "all beforeDeleteHelm"]
    );
    assert!(object(control_plane(), ns.name(), "configmap", "alpha").is_none());
    operator.stop();
}

#[test]
fn values_that_hooks_patch_reach_charts() {
    let ns = control_plane().namespace("patches").unwrap();
    let modules = Modules::new();
    let patch = |op: &str| format!("echo '{op}' > \"$VALUES_JSON_PATCH_PATH\"");
    modules.hook(
        "global-hooks/zone",
        "configVersion: v1\nbeforeAll: 1",
        &patch(r#"[{"op":"add","path":"/global/zone","value":"west"},{"op":"add","path":"/betaEnabled","value":true}]"#),
    );
    shows_size(&modules, "modules/010-alpha");
    shows_size(&modules, "modules/020-beta");
    let watched = format!(
        "configVersion: v1\nkubernetes:\n- name: source\n  kind: ConfigMap\n  nameSelector: {{matchNames: [source]}}\n  \
         namespace: {{nameSelector: {{matchNames: [{}]}}}}\n  jqFilter: .data.size\n",
        ns.name()
    );
    modules
        .hook(
            "modules/010-alpha/hooks/before",
            "configVersion: v1\nbeforeHelm: 1",
            "grep -q '\"zone\":\"west\"' \"$VALUES_PATH\"; grep -q '\"enabledModules\":\\[\"alpha\",\"beta\"\\]' \"$VALUES_PATH\"; note before",
        )
        .hook(
            "modules/020-beta/hooks/source",
            &watched,
            "size=$(grep -o '\"filterResult\":\"[0-9]*\"' \"$BINDING_CONTEXT_PATH\" | tail -1 | cut -d'\"' -f4 || true)\nnote \"size $size\"\n\
             if [[ -n $size ]]; then echo \"{\\\"op\\\":\\\"add\\\",\\\"path\\\":\\\"/beta/size\\\",\\\"value\\\":$size}\" > \"$VALUES_JSON_PATCH_PATH\"; fi",
        )
        .write("modules/values.yaml", "alphaEnabled: true\n");
    let operator = start(ns.name(), &modules, &[]);
    operator.wait_converged();
    assert_eq!(data(ns.name(), "alpha", "zone").as_deref(), Some("west"), "{}", operator.log_end());
    assert_eq!(data(ns.name(), "beta", "size").as_deref(), Some("1"), "a hook has switched it on");
    edit(ns.name(), "source", "size", "7");
    let took = wait_for("the new size arrives", || data(ns.name(), "beta", "size").as_deref() == Some("7"));
    println!("object changed to module applied: {took:?}, the looking included");
    edit(ns.name(), "source", "other", "x");
    operator.wait_note("source size ");
    assert_eq!(history(control_plane(), ns.name(), "beta").len(), 2);
    assert_eq!(
        operator.notes().iter().filter(|n| *n == "before before").count(),
        1,
        "alpha has not run again"
    );
    operator.stop();
}

#[test]
fn config_values_are_written_back_without_an_echo() {
    let ns = control_plane().namespace("write-back").unwrap();
    let modules = Modules::new();
    shows_size(&modules, "modules/010-alpha");
    modules
        .hook(
            "modules/010-alpha/hooks/config",
            "configVersion: v1\nbeforeHelm: 1",
            "note \"$(cat \"$CONFIG_VALUES_PATH\")\"\nif ! grep -q '\"size\":5' \"$CONFIG_VALUES_PATH\"; then\n  \
             echo '[{\"op\":\"add\",\"path\":\"/alpha/size\",\"value\":5}]' > \"$CONFIG_VALUES_JSON_PATCH_PATH\"\nfi",
        )
        .write("modules/values.yaml", "alphaEnabled: true\n");
    let operator = start(ns.name(), &modules, &[]);
    operator.wait_converged();
    assert_eq!(data(ns.name(), "alpha", "size").as_deref(), Some("5"), "{}", operator.log_end());
    assert_eq!(data(ns.name(), "addon-operator", "alpha").as_deref(), Some("size: 5\n"));
    // An edit of another key runs no hook of this module; one of its own does, and the hook has the last word.
    edit(ns.name(), "addon-operator", "betaEnabled", "true");
    operator.wait_log(&["belongs to no module"]);
    assert_eq!(operator.notes().len(), 1, "{:?}", operator.notes());
    let patch = ["patch", "configmap", "addon-operator", "-n", ns.name(), "--type=merge", "-p"];
    control_plane().kubectl(patch.iter().chain([&r#"{"data":{"alpha":"size: 6"}}"#])).unwrap();
    wait_for("the hook runs again", || operator.notes().len() == 2);
    wait_for("it is written back again", || {
        data(ns.name(), "addon-operator", "alpha").as_deref() == Some("size: 5\n")
    });
    assert_eq!(history(control_plane(), ns.name(), "alpha").len(), 1, "the values are as before");
    operator.stop();
}

#[test]
fn a_hook_that_fails_or_hangs_holds_up_nobody_else() {
    let ns = control_plane().namespace("faults").unwrap();
    let modules = Modules::new();
    let before = "configVersion: v1\nbeforeHelm: 1";
    for (directory, body) in [
        ("modules/010-failing", "echo told >&2; exit 3"),
        ("modules/020-hanging", "sleep 600 & wait"),
        ("modules/040-half", "printf '{\"op\":\"add\",' > \"$VALUES_JSON_PATCH_PATH\""),
    ] {
        shows_size(&modules, directory);
        modules.hook(&format!("{directory}/hooks/hook"), before, body);
    }
    let flood = "head -c 30000000 /dev/zero | tr '\\0' x | fold -w 1000; kill -9 $$";
    let patient = format!("{before}\nsettings: {{timeout: 50s}}");
    shows_size(&modules, "modules/030-flooding");
    modules.hook("modules/030-flooding/hooks/hook", &patient, flood);
    shows_size(&modules, "modules/050-good");
    modules.hook("modules/060-broken/hooks/hook", "configVersion: v1\nbeforHelm: 1", "");
    let flags =
        ["failing", "hanging", "flooding", "half", "good", "broken"].map(|m| format!("{m}Enabled: true\n"));
    modules.write("modules/values.yaml", &flags.concat());
    let operator = start(ns.name(), &modules, &["--hook-timeout", "1s"]);
    operator.wait_converged();
    assert_eq!(data(ns.name(), "good", "size").as_deref(), Some("1"), "{}", operator.log_end());
    for (module, part) in [
        ("failing", "hook 010-failing/hooks/hook: exit status 3: told"),
        ("hanging", "killed after 1s, its timeout"),
        ("flooding", "ended by signal 9"),
        ("half", "hook 040-half/hooks/hook: "),
        ("broken", "--config: beforHelm: no such key"),
    ] {
        operator.wait_log(&[&format!("\"module\":\"{module}\""), part]);
    }
    // Someone mends it: the next try works.
    modules.hook("modules/010-failing/hooks/hook", before, "note mended");
    operator.wait_note("hook mended");
    wait_for("its release is there", || data(ns.name(), "failing", "size").is_some());
    operator.stop();
}

#[test]
fn schedules_metrics_and_operations_on_objects() {
    let ns = control_plane().namespace("answers").unwrap();
    let modules = Modules::new();
    let object = format!(
        r#"{{"operation":"CreateOrUpdate","object":{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"made","namespace":"{}"}},"data":{{"by":"hook"}}}}}}"#,
        ns.name()
    );
    let target = format!(r#""apiVersion":"v1","kind":"ConfigMap","namespace":"{}","name":"made""#, ns.name());
    let jq = format!(r#"{{"operation":"JQPatch",{target},"jqFilter":".metadata.labels.ticked = \"yes\""}}"#);
    let missing = r#"{"operation":"MergePatch","apiVersion":"v1","kind":"ConfigMap","namespace":"default","name":"nowhere","mergePatch":{"data":{"a":"b"}},"ignoreMissingObject":true}"#;
    modules.hook(
        "global-hooks/tick",
        "configVersion: v1\nonStartup: 1\nschedule: [{name: often, crontab: '@every 1s', group: g}]",
        &format!(
            "echo '{{\"level\":\"warn\",\"msg\":\"told\",\"answer\":42}}'\necho '{{\"name\":\"ticks_total\",\"add\":1}}' > \"$METRICS_PATH\"\necho '{object}{jq}{missing}' > \"$KUBERNETES_PATCH_PATH\"\n\
             if context '\"groupName\":\"g\"'; then note ticked; fi"
        ),
    );
    modules.write("modules/values.yaml", "");
    let operator = start(ns.name(), &modules, &[]);
    operator.wait_note("tick ticked");
    let told = ["\"level\":\"WARN\"", "\"message\":\"told\"", "\"hook_answer\":42"];
    operator.wait_log(
        &[told.as_slice(), &["\"hook.type\":\"global\"", "\"task.id\":", "\"event.id\":"]].concat(),
    );
    assert_eq!(data(ns.name(), "made", "by").as_deref(), Some("hook"));
    let labels = object_labels(ns.name(), "made");
    assert_eq!(labels["ticked"], "yes", "labels that were not there are made");
    let metric = || operator.get("/metrics/hooks").unwrap().1;
    wait_for("the counter counts on", || {
        metric().lines().any(|l| {
            l.strip_prefix("ticks_total{hook=\"tick\"} ").is_some_and(|n| n.parse::<f64>().unwrap() >= 3.0)
        })
    });
    let own = operator.get("/metrics").unwrap().1;
    for part in [
        "addon_operator_global_hook_run_success_total{hook=\"tick\",binding=\"often\",queue=\"main\",activation=\"",
        "addon_operator_global_hook_run_seconds_count{hook=\"tick\",binding=\"onStartup\"",
        "addon_operator_global_hook_run_max_rss_bytes{",
    ] {
        assert!(own.contains(part), "{part}\n{own}");
    }
    operator.stop();
}

#[test]
fn ticks_count_when_the_first_converge_is_done() {
    let ns = control_plane().namespace("ticks").unwrap();
    let modules = Modules::new();
    let often = "schedule: [{name: often, crontab: '@every 1s', queue: ticks, includeSnapshotsFrom: [maps]}]";
    let maps = format!(
        "kubernetes: [{{name: maps, kind: ConfigMap, executeHookOnEvent: [], executeHookOnSynchronization: false, nameSelector: \
         {{matchNames: [alpha]}}, namespace: {{nameSelector: {{matchNames: [{}]}}}}}}]",
        ns.name()
    );
    let config = format!("configVersion: v1\n{maps}\n{often}");
    let body = "if context '\"name\":\"alpha\"'; then note whole; else note empty; fi";
    modules.hook("global-hooks/tick", &config, body).hook("modules/010-alpha/hooks/tock", &config, body);
    shows_size(&modules, "modules/010-alpha");
    shows_size(&modules, "modules/020-failing");
    modules
        .hook("modules/020-failing/hooks/fails", "configVersion: v1\nbeforeHelm: 1", "note try; exit 1")
        .write("modules/values.yaml", "alphaEnabled: true\nfailingEnabled: true\n");
    shows_size(&modules, "modules/030-last");
    let operator = start(ns.name(), &modules, &["--strict-order"]);
    // Its pauses are of 1, 2 and 4 s: time enough for ticks.
    wait_for("the failing hook runs four times", || operator.notes().len() >= 4);
    assert!(operator.notes().iter().all(|n| n == "fails try"), "{:?}", operator.notes());
    modules.hook("modules/020-failing/hooks/fails", "configVersion: v1\nbeforeHelm: 1", "");
    operator.wait_note("tick whole");
    operator.wait_note("tock whole");
    assert!(operator.notes().iter().all(|n| !n.ends_with("empty")), "{:?}", operator.notes());
    operator.stop();
}

fn object_labels(namespace: &str, name: &str) -> serde_json::Value {
    object(control_plane(), namespace, "configmap", name).unwrap()["metadata"]["labels"].clone()
}

#[test]
fn a_kind_that_comes_later_is_watched_then() {
    let cp = control_plane();
    let ns = cp.namespace("later").unwrap();
    let modules = Modules::new();
    let group = format!("{}.example.com", ns.name());
    modules
        .hook(
            "modules/010-alpha/hooks/watch",
            &format!("configVersion: v1\nkubernetes: [{{name: late, apiVersion: {group}/v1, kind: Late, jqFilter: .spec.size}}]"),
            "if context Synchronization; then note synchronized; fi\nif context '\"watchEvent\":\"Added\"'; then note added; fi",
        )
        .write("modules/values.yaml", "alphaEnabled: true\n");
    let operator = start(ns.name(), &modules, &[]);
    operator.wait_converged();
    operator.wait_note("watch synchronized");
    let crd = format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: lates.{group}}}\nspec:\n  group: {group}\n  \
         scope: Namespaced\n  names: {{kind: Late, plural: lates, singular: late}}\n  versions:\n  - name: v1\n    served: true\n    storage: true\n    \
         schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}\n"
    );
    modules.write("crd.yaml", &crd);
    modules.write(
        "late.yaml",
        &format!("apiVersion: {group}/v1\nkind: Late\nmetadata: {{name: x}}\nspec: {{size: 1}}\n"),
    );
    let file = |name: &str| modules.path().join(name).to_str().unwrap().to_owned();
    cp.kubectl(["apply", "-f", &file("crd.yaml")]).unwrap();
    cp.kubectl(["wait", "--for=condition=Established", &format!("crd/lates.{group}")]).unwrap();
    cp.kubectl(["apply", "-n", ns.name(), "-f", &file("late.yaml")]).unwrap();
    operator.wait_note("watch added");
    operator.stop();
    cp.kubectl(["delete", &format!("crd/lates.{group}"), "--wait=false"]).unwrap();
}

#[test]
fn a_module_switched_off_while_nobody_looked_runs_its_delete_hooks() {
    let ns = control_plane().namespace("off-while-down").unwrap();
    let modules = Modules::new();
    shows_size(&modules, "modules/010-alpha");
    let config = format!(
        "configVersion: v1\nbeforeDeleteHelm: 1\nafterDeleteHelm: 1\nkubernetes: [{{name: maps, kind: ConfigMap, nameSelector: \
         {{matchNames: [alpha]}}, namespace: {{nameSelector: {{matchNames: [{}]}}}}, executeHookOnSynchronization: false, jqFilter: .data.size}}]",
        ns.name()
    );
    let body = "if context '\"snapshots\":{\"maps\":[{'; then note seen; else note unseen; fi";
    modules.hook("modules/010-alpha/hooks/delete", &config, body);
    modules.write("modules/values.yaml", "alphaEnabled: true\n");
    let operator = start(ns.name(), &modules, &[]);
    operator.wait_converged();
    operator.stop();
    modules.write("modules/values.yaml", "alphaEnabled: false\n");
    let operator = start(ns.name(), &modules, &[]);
    operator.wait_converged();
    assert_eq!(operator.notes().first().map(String::as_str), Some("delete seen"), "{}", operator.log_end());
    assert_eq!(operator.notes().len(), 2);
    assert!(object(control_plane(), ns.name(), "configmap", "alpha").is_none());
    operator.stop();
}
