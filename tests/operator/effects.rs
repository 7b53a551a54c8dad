//! What a change of values brings about, by who made it.

use crate::hooks::{data, edit, shows_size, start};
use crate::support::{Modules, Operator, control_plane, wait_for};

const BEFORE: &str = "configVersion: v1\nbeforeHelm: 1";

fn patch(path: &str, value: &str) -> String {
    let operation = format!("{{\"op\":\"add\",\"path\":\"{path}\",\"value\":{value}}}");
    format!("echo '{operation}' > \"$VALUES_JSON_PATCH_PATH\"")
}

/// Two modules that show a global value, and note each of their runs.
fn two(modules: &Modules) {
    for directory in ["modules/010-alpha", "modules/020-beta"] {
        shows_size(modules, directory);
        modules.hook(&format!("{directory}/hooks/{}", &directory[12..]), BEFORE, "note ran");
    }
    modules.write("modules/values.yaml", "alphaEnabled: true\nbetaEnabled: true\n");
}

fn zones(namespace: &str) -> [Option<String>; 2] {
    ["alpha", "beta"].map(|name| data(namespace, name, "zone"))
}

fn both(zone: &str) -> [Option<String>; 2] {
    [Some(zone.to_owned()), Some(zone.to_owned())]
}

/// How often both modules have run.
fn runs(operator: &Operator) -> [usize; 2] {
    let notes = operator.notes();
    ["alpha ran", "beta ran"].map(|note| notes.iter().filter(|n| *n == note).count())
}

#[test]
fn global_values_changed_by_an_event_or_a_tick_run_every_module_again() {
    let ns = control_plane().namespace("global-change").unwrap();
    let modules = Modules::new();
    two(&modules);
    let watch = format!(
        "configVersion: v1\nkubernetes: [{{name: source, kind: ConfigMap, nameSelector: {{matchNames: [source]}}, namespace: \
         {{nameSelector: {{matchNames: [{}]}}}}}}]",
        ns.name()
    );
    let event = format!("if context '\"watchEvent\"'; then {}; fi", patch("/global/zone", "\"west\""));
    modules.hook("global-hooks/event", &watch, &event);
    let operator = start(ns.name(), &modules, &[]);
    operator.wait_converged();
    assert_eq!((zones(ns.name()), runs(&operator)), (both("none"), [1, 1]), "{}", operator.log_end());
    edit(ns.name(), "source", "a", "b");
    wait_for("an event's value arrives", || zones(ns.name()) == both("west"));
    assert_eq!(runs(&operator), [2, 2]);
    operator.stop();

    let tick = "configVersion: v1\nschedule: [{crontab: '* * * * * *'}]";
    modules.hook("global-hooks/event", tick, &format!("{}; note ticked", patch("/global/zone", "\"east\"")));
    let operator = start(ns.name(), &modules, &[]);
    operator.wait_converged();
    wait_for("a tick's value arrives", || zones(ns.name()) == both("east"));
    wait_for("three ticks", || operator.notes().iter().filter(|n| *n == "event ticked").count() >= 3);
    assert_eq!(runs(&operator), [2, 2], "those after the first one change nothing");
    operator.stop();
}

#[test]
fn values_changed_after_all_bring_a_new_converge() {
    let ns = control_plane().namespace("after-all").unwrap();
    let modules = Modules::new();
    two(&modules);
    modules
        .hook("global-hooks/after", "configVersion: v1\nafterAll: 1", &patch("/global/zone", "\"west\""))
        .hook("global-hooks/before", "configVersion: v1\nbeforeAll: 1", "note began");
    let operator = start(ns.name(), &modules, &[]);
    wait_for("the value arrives", || zones(ns.name()) == both("west"));
    operator.wait_converged();
    let began = operator.notes().iter().filter(|n| *n == "before began").count();
    assert_eq!((began, runs(&operator)), (2, [2, 2]), "{}", operator.log_end());
    operator.stop();
}

#[test]
fn values_changed_after_the_release_bring_another_run() {
    let ns = control_plane().namespace("after-helm").unwrap();
    let modules = Modules::new();
    two(&modules);
    let after = "configVersion: v1\nafterHelm: 1";
    modules.hook("modules/010-alpha/hooks/size", after, &patch("/alpha/size", "5"));
    let operator = start(ns.name(), &modules, &[]);
    operator.wait_converged();
    assert_eq!(data(ns.name(), "alpha", "size").as_deref(), Some("5"), "{}", operator.log_end());
    assert_eq!(runs(&operator), [2, 1]);
    operator.stop();
}

#[test]
fn global_values_of_the_configmap_reach_charts() {
    let ns = control_plane().namespace("global-section").unwrap();
    let modules = Modules::new();
    two(&modules);
    edit(ns.name(), "addon-operator", "global", "zone: north");
    let operator = start(ns.name(), &modules, &[]);
    operator.wait_converged();
    assert_eq!(zones(ns.name()), both("north"), "{}", operator.log_end());
    edit(ns.name(), "addon-operator", "global", "zone: south");
    wait_for("the edit arrives", || zones(ns.name()) == both("south"));
    assert_eq!(runs(&operator), [2, 2]);
    operator.stop();
}
