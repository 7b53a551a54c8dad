//! Secrets in messages: modules that fail in every way that quotes a value, and a search for the values in all that the operator
//! says.

use std::process::Command;

use serde_json::Value;

use crate::support::{MODULES, Modules, Operator, control_plane, status, wait_for};

/// Values that no message may show, one for each way to fail.
const IN_CONFIG: &str = "Marker-Of-Config";
const IN_RULE: &str = "marker-of-rule";
const IN_LOOKUP: &str = "marker-of-lookup";
const IN_PATCH: &str = "Marker-Of-Patch";
/// A number where a Secret wants a text: the API server quotes it.
const IN_MANIFEST: &str = "731731731731";

fn modules() -> Modules {
    let modules = Modules::new();
    for directory in ["001-schema", "002-rule", "003-template", "004-hook", "005-manifest"] {
        let name = directory.split_once('-').unwrap().1;
        let chart = format!("apiVersion: v2\nname: {name}\nversion: 0.1.0\n");
        modules.write(&format!("{directory}/Chart.yaml"), &chart);
    }
    modules.enable(&["schema", "rule", "template", "hook", "manifest"]);
    let password =
        "type: object\nproperties: {password: {type: string, pattern: '^[a-z]*$', x-sensitive: true}}\n";
    modules.write("001-schema/openapi/config-values.yaml", password);
    let rule = "type: object\nx-deckhouse-validations: [{expression: 'self.token + 1 > 2', message: wrong}]\n\
                properties: {token: {type: string, writeOnly: true}}\n";
    modules.write("002-rule/openapi/config-values.yaml", rule);
    modules.write(
        "003-template/templates/a.yaml",
        "{{ $s := lookup \"v1\" \"Secret\" .Release.Namespace \"existing\" }}{{ fail (printf \"wrong password %s\" ($s.data.password | b64dec)) }}",
    );
    modules.write("004-hook/openapi/values.yaml", password);
    modules.hook(
        "004-hook/hooks/patch",
        "configVersion: v1\nbeforeHelm: 1",
        &format!(
            "echo '[{{\"op\":\"add\",\"path\":\"/hook/password\",\"value\":\"{IN_PATCH}\"}}]' > \"$VALUES_JSON_PATCH_PATH\""
        ),
    );
    modules.write("005-manifest/templates/a.yaml", SECRET);
    modules
}

const SECRET: &str =
    "apiVersion: v1\nkind: Secret\nmetadata: {name: quoted}\nstringData: {password: 731731731731}\n";

#[test]
fn no_message_of_the_operator_shows_a_secret() {
    let cp = control_plane();
    let ns = cp.namespace("secrets").unwrap();
    let secret = ["create", "secret", "generic", "existing", "-n", ns.name()];
    let literal = format!("--from-literal=password={IN_LOOKUP}");
    cp.kubectl(secret.iter().copied().chain([literal.as_str()])).unwrap();
    let config = ["create", "configmap", "addon-operator", "-n", ns.name()];
    let literals = [
        format!("--from-literal=schema=password: {IN_CONFIG}"),
        format!("--from-literal=rule=token: {IN_RULE}"),
    ];
    cp.kubectl(config.iter().copied().chain(literals.iter().map(String::as_str))).unwrap();
    let modules = modules();
    let scratch = tempfile::tempdir().unwrap();
    let socket = scratch.path().join("socket");
    let arguments = ["--debug-unix-socket", socket.to_str().unwrap(), "--log-level", "debug"];
    let operator = Operator::start_with(cp, ns.name(), modules.path(), &arguments);
    // Each of them has failed as it should, and says so without the value.
    for (module, text) in [
        ("schema", "'***' does not match pattern"),
        ("rule", "self.token + 1 > 2"),
        ("template", "wrong password ***"),
        ("hook", "'***' does not match pattern"),
        ("manifest", "***"),
    ] {
        operator.wait_log(&[module, text]);
    }
    for module in ["template", "hook", "manifest"] {
        wait_for("its status says so", || {
            let error = status(ns.name(), module)["lastError"].as_str().map(str::to_owned);
            error.is_some_and(|text| text.contains("***"))
        });
    }
    let mut said = vec![
        ("log", operator.log()),
        ("statuses", cp.kubectl(["get", MODULES, "-n", ns.name(), "-o", "json"]).unwrap()),
    ];
    wait_for("Events tell of them", || {
        let events = cp.kubectl(["get", "events", "-n", ns.name(), "-o", "json"]).unwrap();
        let all: Value = serde_json::from_str(&events).unwrap();
        let reasons: Vec<&str> =
            all["items"].as_array().unwrap().iter().filter_map(|e| e["reason"].as_str()).collect();
        said.push(("events", events));
        ["InvalidConfigKey", "RenderFailed", "HookFailed", "ReleaseFailed"]
            .iter()
            .all(|r| reasons.contains(r))
    });
    for words in [
        &["queue", "main"][..],
        &["queue", "list", "-o", "json"],
        &["hook", "runs", "004-hook/hooks/patch"],
        &["module", "render", "template"],
        &["module", "render", "manifest", "--diff"],
        &["module", "list"],
        &["config", "list"],
    ] {
        let out = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(words)
            .env("DEBUG_UNIX_SOCKET", &socket)
            .output()
            .unwrap();
        let text = [out.stdout, out.stderr].concat();
        said.push(("debug socket", String::from_utf8(text).unwrap()));
    }
    said.push(("metrics", operator.get("/metrics").unwrap().1));
    said.push(("progress", operator.get("/status/converge").unwrap().1));
    assert!(said.iter().any(|(from, text)| *from == "debug socket" && text.contains("wrong password ***")));
    operator.stop();
    for (from, text) in said {
        for marker in [IN_CONFIG, IN_RULE, IN_LOOKUP, IN_PATCH, IN_MANIFEST] {
            let line = text.lines().find(|l| l.contains(marker));
            assert!(line.is_none(), "{from}: {marker}: {}", line.unwrap_or_default());
        }
    }
}

#[test]
fn errors_of_commands_do_not_quote_secrets() {
    let cp = control_plane();
    let ns = cp.namespace("secrets-cli").unwrap();
    let chart = tempfile::tempdir().unwrap();
    std::fs::create_dir(chart.path().join("templates")).unwrap();
    std::fs::write(chart.path().join("Chart.yaml"), "apiVersion: v2\nname: c\nversion: 0.1.0\n").unwrap();
    std::fs::write(chart.path().join("templates/a.yaml"), SECRET).unwrap();
    let path = chart.path().to_str().unwrap();
    for (words, fails) in [
        (&["install", "c", path][..], true),
        (&["upgrade", "--install", "c", path], true),
        (&["plan", "c", path], true),
        (&["history", "c"], false),
        (&["status", "c"], false),
    ] {
        let out = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(words)
            .args(["-n", ns.name()])
            .env("KUBECONFIG", cp.kubeconfig())
            .output()
            .unwrap();
        let text = String::from_utf8([out.stdout, out.stderr].concat()).unwrap();
        assert!(fails != out.status.success(), "{words:?}: {text}");
        assert!(!text.contains(IN_MANIFEST), "{words:?}: {text}");
        assert!(text.contains("***"), "{words:?}: {text}");
    }
}
