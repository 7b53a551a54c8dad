//! Module directories that appear, change and vanish under a running operator.

use std::fs;

use crate::support::{Modules, Operator, control_plane, history, object, wait_for};

fn data(namespace: &str, name: &str, key: &str) -> Option<String> {
    object(control_plane(), namespace, "configmap", name)?["data"][key].as_str().map(str::to_owned)
}

#[test]
fn modules_come_change_and_go() {
    let cp = control_plane();
    let ns = cp.namespace("reload").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").small("002-beta").enable(&["alpha", "beta", "gamma"]);
    modules.write(
        "002-beta/templates/zone.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: zone}\ndata: {zone: {{ .Values.global.a | default \"none\" }}}\n",
    );
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());

    // A template and a value: only this module runs again.
    modules.write(
        "001-alpha/templates/configmap.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: alpha}\ndata: {size: {{ .Values.alpha.size | quote }}, new: 'yes'}\n",
    );
    let took = wait_for("the new template is in use", || data(ns.name(), "alpha", "new").is_some());
    println!("a template changed to applied: {took:?}, the looking included");
    modules.write("001-alpha/values.yaml", "alpha: {size: 5}\n");
    wait_for("the new value is in use", || data(ns.name(), "alpha", "size").as_deref() == Some("5"));
    // A schema with a default.
    modules.write(
        "001-alpha/openapi/values.yaml",
        "type: object\nproperties: {size: {type: integer}, color: {type: string, default: red}}\n",
    );
    modules.write(
        "001-alpha/templates/color.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: color}\ndata: {color: {{ .Values.alpha.color }}}\n",
    );
    wait_for("the default is in use", || data(ns.name(), "color", "color").as_deref() == Some("red"));
    assert_eq!(history(cp, ns.name(), "beta").len(), 1, "nobody else runs again");

    // A module appears, all of it at once as an unpacked archive would.
    let aside = Modules::new();
    aside.small("003-gamma");
    fs::rename(aside.path().join("003-gamma"), modules.path().join("003-gamma")).unwrap_or_else(|_| {
        modules.small("003-gamma");
    });
    wait_for("the new module is released", || object(cp, ns.name(), "deployment", "gamma").is_some());
    // The ConfigMap's keys of it count from then on.
    let create = ["create", "configmap", "addon-operator", "-n", ns.name(), "--from-literal=gamma=size: 8"];
    cp.kubectl(create).unwrap();
    wait_for("its section counts", || data(ns.name(), "gamma", "size").as_deref() == Some("8"));
    modules
        .write("values.yaml", "alphaEnabled: true\nbetaEnabled: true\ngammaEnabled: true\nglobal: {a: b}\n");
    wait_for("global values reach every module", || data(ns.name(), "zone", "zone").as_deref() == Some("b"));

    fs::remove_dir_all(modules.path().join("002-beta")).unwrap();
    wait_for("the module that is gone is uninstalled", || {
        object(cp, ns.name(), "deployment", "beta").is_none()
    });
    wait_for("its release is gone", || !cp.helm4(["list", "-n", ns.name(), "-q"]).unwrap().contains("beta"));
    modules.small("002-beta");
    wait_for("it is back", || object(cp, ns.name(), "deployment", "beta").is_some());
    operator.stop();
}

#[test]
fn what_is_half_written_leaves_the_last_good() {
    let cp = control_plane();
    let ns = cp.namespace("reload-broken").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").small("002-beta").enable(&["alpha", "beta"]);
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    modules.write("001-alpha/Chart.yaml", "apiVersion: [\n");
    operator.wait_log(&["\"module\":\"alpha\"", "the previous ones stay in use", "Chart.yaml"]);
    let kind = "modules.windlass.dev";
    let condition = ["wait", &format!("{kind}/alpha"), "-n", ns.name(), "--timeout=60s"];
    wait_for("it is told", || {
        cp.kubectl(condition.iter().chain(&["--for=condition=FilesLoaded=false"])).is_ok()
    });
    // What is in use goes on: values, repairs, other modules.
    let create = ["create", "configmap", "addon-operator", "-n", ns.name(), "--from-literal=alpha=size: 4"];
    cp.kubectl(create).unwrap();
    wait_for("the last good chart is rendered", || data(ns.name(), "alpha", "size").as_deref() == Some("4"));
    cp.kubectl(["delete", "service", "alpha", "-n", ns.name()]).unwrap();
    wait_for("a deleted object is back", || object(cp, ns.name(), "service", "alpha").is_some());
    modules.write("values.yaml", "alphaEnabled: [\n");
    operator.wait_log(&["\"level\":\"ERROR\"", "values.yaml"]);
    modules
        .write("001-alpha/templates/more.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\n");
    modules.write("001-alpha/Chart.yaml", "apiVersion: v2\nname: alpha\nversion: 9.0.0\n");
    modules.enable(&["alpha", "beta"]);
    wait_for("the mended chart is in use", || {
        let list = cp.helm4(["list", "-n", ns.name(), "-o", "json"]).unwrap();
        list.contains("alpha-9.0.0")
    });
    wait_for("that is told", || cp.kubectl(condition.iter().chain(&["--for=condition=FilesLoaded"])).is_ok());
    assert!(object(cp, ns.name(), "deployment", "beta").is_some());
    assert_eq!(history(cp, ns.name(), "beta").len(), 1);
    operator.stop();
}

#[test]
fn hooks_are_loaded_anew() {
    let cp = control_plane();
    let ns = cp.namespace("reload-hooks").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").enable(&["alpha"]);
    let config = |jq: &str| {
        format!(
            "configVersion: v1\nschedule: [{{crontab: '@every 1s'}}]\nkubernetes: [{{name: maps, kind: ConfigMap, nameSelector: \
             {{matchNames: [watched]}}, namespace: {{nameSelector: {{matchNames: [{}]}}}}, jqFilter: {jq}}}]",
            ns.name()
        )
    };
    cp.kubectl([
        "create",
        "configmap",
        "watched",
        "-n",
        ns.name(),
        "--from-literal=a=1",
        "--from-literal=b=2",
    ])
    .unwrap();
    let body = |name: &str| {
        format!(
            "if context Synchronization; then note {name} $(grep -o '\"filterResult\":\"[0-9]\"' \"$BINDING_CONTEXT_PATH\"); fi\nif context Schedule; then note {name} tick; fi"
        )
    };
    modules.hook("001-alpha/hooks/one", &config(".data.a"), &body("first"));
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    operator.wait_note("one first \"filterResult\":\"1\"");
    operator.wait_note("one first tick");
    // A hook that says nothing that can be used leaves the old ones at work.
    modules.hook("001-alpha/hooks/one", "configVersion: v1\nschedul: []", "note never");
    operator.wait_log(&["\"module\":\"alpha\"", "schedul: no such key"]);
    modules.hook("001-alpha/hooks/one", &config(".data.b"), &body("second"));
    operator.wait_log(&["\"module\":\"alpha\"", "hooks reloaded"]);
    operator.wait_note("one second \"filterResult\":\"2\"");
    operator.wait_note("one second tick");
    // Another one beside it, and the first one goes.
    fs::rename(modules.path().join("001-alpha/hooks/one"), modules.path().join("001-alpha/hooks/two"))
        .unwrap();
    operator.wait_note("two second tick");
    let ticks = |hook: &str| operator.notes().iter().filter(|n| n.starts_with(hook)).count();
    let (gone, new) = (ticks("one "), ticks("two "));
    wait_for("the new one ticks on", || ticks("two ") >= new + 3);
    assert_eq!(ticks("one "), gone, "the old one does not");
    assert_eq!(history(cp, ns.name(), "alpha").len(), 1, "the chart is as it was");
    operator.stop();
}

#[test]
fn a_directory_that_vanishes_takes_its_delete_hooks_with_it_and_that_is_told() {
    let cp = control_plane();
    let ns = cp.namespace("reload-lost").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").small("002-beta").small("003-gamma").enable(&["alpha", "beta", "gamma"]);
    modules.hook("002-beta/hooks/clean", "configVersion: v1\nafterDeleteHelm: 1", "note cleaned");
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    fs::remove_dir_all(modules.path().join("002-beta")).unwrap();
    operator.wait_log(&[
        "\"level\":\"WARN\"",
        "\"module\":\"beta\"",
        "the hooks 002-beta/hooks/clean went with its directory",
    ]);
    wait_for("its release is gone", || object(cp, ns.name(), "deployment", "beta").is_none());
    let events = || cp.kubectl(["get", "events", "-n", ns.name(), "-o", "json"]).unwrap();
    wait_for("an Event says so", || {
        let events = events();
        events.contains("\"DeleteHooksLost\"") && events.contains("002-beta/hooks/clean")
    });
    assert!(!operator.notes().iter().any(|n| n.contains("cleaned")));
    // A module without such hooks goes without a word of warning.
    fs::remove_dir_all(modules.path().join("003-gamma")).unwrap();
    wait_for("its release is gone", || object(cp, ns.name(), "deployment", "gamma").is_none());
    assert!(!operator.log().lines().any(|l| l.contains("\"module\":\"gamma\"") && l.contains("WARN")));
    operator.stop();
    // While nobody looked: what hooks there were, nobody knows.
    fs::remove_dir_all(modules.path().join("001-alpha")).unwrap();
    let operator = Operator::start(cp, ns.name(), modules.path());
    operator.wait_log(&[
        "\"level\":\"WARN\"",
        "\"module\":\"alpha\"",
        "hooks, if it had any, went with its directory",
    ]);
    wait_for("its release is gone", || object(cp, ns.name(), "deployment", "alpha").is_none());
    operator.stop();
}

#[test]
fn global_hooks_are_loaded_anew() {
    let cp = control_plane();
    let ns = cp.namespace("reload-global").unwrap();
    let modules = Modules::new();
    modules.small("modules/001-alpha").write("modules/values.yaml", "alphaEnabled: true\n");
    modules.write(
        "modules/001-alpha/templates/zone.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: zone}\ndata: {zone: {{ .Values.global.zone | default \"none\" }}, other: {{ .Values.global.other | default \"none\" }}}\n",
    );
    let set = |path: &str, value: &str| {
        format!(
            "note up {value}; echo '[{{\"op\":\"add\",\"path\":\"/global/{path}\",\"value\":\"{value}\"}}]' > \"$VALUES_JSON_PATCH_PATH\""
        )
    };
    let config = "configVersion: v1\nonStartup: 1\nschedule: [{crontab: '* * * * * *', queue: ticks}]";
    let body = |path: &str, value: &str| {
        format!("if context onStartup; then {}; else note tick {value}; fi", set(path, value))
    };
    modules.hook("global/hooks/one", config, &body("other", "a"));
    let global = modules.path().join("global").display().to_string();
    let operator = Operator::start_with(
        cp,
        ns.name(),
        &modules.path().join("modules"),
        &["--global-hooks-dir", &global],
    );
    operator.wait_converged();
    operator.wait_note("one tick a");
    assert_eq!(data(ns.name(), "zone", "other").as_deref(), Some("a"));
    // One that says nothing that can be used leaves those before at work.
    modules.hook("global/hooks/two", "configVersion: v1\nschedul: []", "");
    operator.wait_log(&["\"level\":\"ERROR\"", "the previous ones stay in use", "schedul: no such key"]);
    let ticks = |note: &str| operator.notes().iter().filter(|n| *n == note).count();
    let so_far = ticks("one tick a");
    wait_for("it goes on", || ticks("one tick a") > so_far);
    fs::remove_file(modules.path().join("global/hooks/two")).unwrap();
    // Another one: it starts as at a start, what the one before has set is gone, and modules follow.
    modules.hook("global/hooks/one", config, &body("zone", "b"));
    operator.wait_note("one up b");
    wait_for("modules have the new value", || data(ns.name(), "zone", "zone").as_deref() == Some("b"));
    assert_eq!(data(ns.name(), "zone", "other").as_deref(), Some("none"), "the patch went with its hook");
    operator.wait_note("one tick b");
    let (old, new) = (ticks("one tick a"), ticks("one tick b"));
    wait_for("the new one ticks on", || ticks("one tick b") >= new + 3);
    assert_eq!(ticks("one tick a"), old, "the old one does not");
    // A hook that fails for ever holds all modules; its mended form is taken in all the same.
    modules.hook("global/hooks/stuck", "configVersion: v1\nonStartup: 0", "note stuck; exit 1");
    operator.wait_note("stuck stuck");
    modules.hook("global/hooks/stuck", "configVersion: v1\nonStartup: 0", "note mended");
    operator.wait_note("stuck mended");
    modules.write("modules/001-alpha/values.yaml", "alpha: {size: 9}\n");
    wait_for("modules go on", || data(ns.name(), "alpha", "size").as_deref() == Some("9"));
    // None at all.
    fs::remove_dir_all(modules.path().join("global/hooks")).unwrap();
    wait_for("what the hooks set is gone", || data(ns.name(), "zone", "zone").as_deref() == Some("none"));
    operator.stop();
}
