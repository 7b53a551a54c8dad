//! What the debug socket and the commands over it answer.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::support::{Modules, Operator, control_plane, object, wait_for};

fn ask(socket: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(arguments)
        .env("DEBUG_UNIX_SOCKET", socket)
        .output()
        .expect("windlass")
}

fn told(socket: &Path, arguments: &[&str]) -> String {
    let done = ask(socket, arguments);
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

fn read(socket: &Path, arguments: &[&str]) -> Value {
    let mut arguments = arguments.to_vec();
    arguments.extend(["-o", "json"]);
    serde_json::from_str(&told(socket, &arguments)).unwrap()
}

fn modules(namespace: &str) -> Modules {
    let modules = Modules::new();
    modules.small("001-alpha").small("002-beta").small("003-gamma").enable(&["alpha", "beta"]);
    let watched = format!(
        "configVersion: v1\nkubernetes: [{{name: maps, kind: ConfigMap, nameSelector: {{matchNames: [watched]}}, namespace: \
         {{nameSelector: {{matchNames: [{namespace}]}}}}, jqFilter: .data.a, queue: own}}]"
    );
    let patch = r#"echo '[{"op":"add","path":"/alpha/added","value":"by a hook"}]' > "$VALUES_JSON_PATCH_PATH"
echo seen; echo told >&2"#;
    modules.hook("001-alpha/hooks/sub/watch", &watched, patch);
    let global = r#"echo '[{"op":"add","path":"/global/zone","value":"west"}]' > "$VALUES_JSON_PATCH_PATH""#;
    modules.hook("global/first", "configVersion: v1\nonStartup: 1", global);
    modules
}

#[test]
fn every_question_has_its_answer() {
    let cp = control_plane();
    let ns = cp.namespace("debug").unwrap();
    cp.kubectl(["create", "configmap", "watched", "-n", ns.name(), "--from-literal=a=b"]).unwrap();
    cp.kubectl(["create", "configmap", "addon-operator", "-n", ns.name(), "--from-literal=alpha=size: 7"])
        .unwrap();
    let modules = modules(ns.name());
    let global = modules.path().join("global");
    let scratch = tempfile::tempdir().unwrap();
    let socket = scratch.path().join("deep/er/debug.socket");
    let arguments =
        ["--debug-unix-socket", socket.to_str().unwrap(), "--global-hooks-dir", global.to_str().unwrap()];
    let operator = Operator::start_with(cp, ns.name(), modules.path(), &arguments);
    operator.wait_converged();
    assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);

    assert_eq!(told(&socket, &["raw"]), "debug endpoint is alive\n");
    assert_eq!(read(&socket, &["module", "list"]), json!({"enabledModules": ["alpha", "beta"]}));
    assert_eq!(told(&socket, &["module", "list"]), "enabledModules:\n- alpha\n- beta\n");
    assert_eq!(read(&socket, &["global", "list"]), json!({"globalHooks": ["first"]}));
    assert_eq!(read(&socket, &["global", "values"]), json!({"zone": "west"}));
    assert_eq!(read(&socket, &["global", "config"]), json!({}));
    let patches = json!([{"op": "add", "path": "/global/zone", "value": "west"}]);
    assert_eq!(read(&socket, &["global", "patches"]), patches);
    assert_eq!(read(&socket, &["global", "snapshots"]), json!({"first": {}}));
    let own = json!({"size": 7, "added": "by a hook"});
    assert_eq!(read(&socket, &["module", "values", "alpha"]), own);
    assert_eq!(
        read(&socket, &["module", "values", "alpha", "-g"]),
        json!({"global": {"zone": "west"}, "alpha": own})
    );
    assert_eq!(read(&socket, &["module", "config", "alpha"]), json!({"size": 7}));
    assert_eq!(read(&socket, &["module", "patches", "alpha"])[0]["path"], "/alpha/added");
    let hook = "001-alpha/hooks/sub/watch";
    assert_eq!(read(&socket, &["hook", "list"]), json!(["first", hook]));
    let snapshot = read(&socket, &["hook", "snapshot", hook]);
    assert_eq!(snapshot["maps"]["snapshot"][0]["filterResult"], "b");
    assert_eq!(snapshot["maps"]["snapshot"][0]["object"]["metadata"]["name"], "watched");
    assert_eq!(snapshot["maps"]["operations"]["sinceStart"]["added"], 1);
    assert_eq!(read(&socket, &["module", "snapshots", "alpha"])[hook], snapshot);
    let runs = read(&socket, &["hook", "runs", hook]);
    let run = &runs[0];
    let facts =
        json!([run["state"], run["exitStatus"], run["bindings"], run["queue"], run["stdout"], run["stderr"]]);
    assert_eq!(facts, json!(["succeeded", 0, ["maps"], "own", "seen\n", "told\n"]), "{runs}");
    assert!(run["maxRssBytes"].as_u64() > Some(0) && run["userCpuSeconds"].is_f64(), "{runs}");
    let text = told(&socket, &["hook", "runs", hook]);
    assert!(text.contains(" succeeded after ") && text.contains(": maps in queue own\n"), "{text}");
    assert!(text.contains("  stdout: seen\n  stderr: told\n") && text.contains(" MiB of memory"), "{text}");
    assert!(told(&socket, &["hook", "runs", "first", "-o", "yaml"]).contains("state: succeeded"));
    let monitors = read(&socket, &["module", "resource-monitor"]);
    assert_eq!(monitors["beta"].as_array().unwrap().len(), 3, "{monitors}");
    assert!(told(&socket, &["raw", "/graph"]).contains("\"order 1\" -> \"alpha\";"));

    let main = read(&socket, &["queue", "main"]);
    assert_eq!(main, json!({"name": "main", "tasksCount": 0, "status": "waiting for task"}));
    let queues = read(&socket, &["queue", "list", "-e"]);
    assert_eq!(queues["summary"]["totalTasks"], 0);
    assert!(queues["empty"].to_string().contains("alpha/own"), "{queues}");
    let text = told(&socket, &["queue", "list"]);
    assert!(text.starts_with("Summary:\n- 'main' queue: empty.\n"), "{text}");

    let render = told(&socket, &["module", "render", "alpha"]);
    assert!(
        render.contains("# Source: alpha/templates/configmap.yaml") && render.contains("size: \"7\""),
        "{render}"
    );
    assert_eq!(told(&socket, &["module", "render", "alpha", "--diff"]), "No diff found\n");
    let version =
        || object(cp, ns.name(), "configmap", "alpha").unwrap()["metadata"]["resourceVersion"].clone();
    let before = version();
    told(&socket, &["module", "render", "alpha", "--diff", "--debug"]);
    assert_eq!(version(), before, "a look writes nothing");
    // A module that is off can be looked at, too.
    let diff = told(&socket, &["module", "render", "gamma", "--diff"]);
    assert!(diff.contains("+ Deployment") && diff.contains("3 create"), "{diff}");
    assert!(object(cp, ns.name(), "deployment", "gamma").is_none());

    for (arguments, part) in [
        (&["module", "values", "nobody"][..], "module \"nobody\" not found"),
        (&["hook", "snapshot", "nobody"], "hook 'nobody' does not exist"),
        (&["hook", "runs", "nobody"], "hook 'nobody' does not exist"),
        (&["raw", "/nowhere"], "404"),
        (&["raw", "nowhere"], "is not a path"),
        (&["config", "set", "x", "y"], "unknown runtime parameter \"x\""),
        (&["config", "set", "log.level", "loud"], "\"loud\" is not a level"),
        (&["config", "set", "log.level", "info", "soon"], "parse duration \"soon\" failed"),
    ] {
        let done = ask(&socket, arguments);
        let error = String::from_utf8(done.stderr).unwrap();
        assert!(!done.status.success() && error.contains(part), "{arguments:?}: {error}");
    }
    let (status, routes) = operator.get("/discovery").unwrap();
    assert!(status == 200 && routes.contains("GET /status/converge\n"), "{routes}");
    for path in ["/debug/pprof", "/debug/pprof/", "/debug/pprof/profile?seconds=1"] {
        let (status, text) = operator.get(path).unwrap();
        assert!(
            status == 404 && text.contains("There are no pprof profiles") && text.contains("GET /metrics"),
            "{text}"
        );
    }
    let path = operator.stop();
    drop(path);
    assert!(!socket.exists(), "it goes with the operator");
    let nobody = ask(&socket, &["queue", "main"]);
    let error = String::from_utf8(nobody.stderr).unwrap();
    assert!(!nobody.status.success() && error.contains("no operator listens at"), "{error}");
}

#[test]
fn a_job_that_hangs_or_fails_is_seen_while_others_go_on() {
    let cp = control_plane();
    let ns = cp.namespace("debug-queue").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").small("002-broken").enable(&["alpha", "broken"]);
    modules.hook("001-alpha/hooks/slow", "configVersion: v1\nbeforeHelm: 1", "note began; sleep 600 & wait");
    modules.write("002-broken/templates/bad.yaml", "{{ fail \"not today\" }}");
    let scratch = tempfile::tempdir().unwrap();
    let socket = scratch.path().join("socket");
    let operator = Operator::start_with(
        cp,
        ns.name(),
        modules.path(),
        &["--debug-unix-socket", socket.to_str().unwrap()],
    );
    operator.wait_note("slow began");
    let runs = read(&socket, &["hook", "runs", "001-alpha/hooks/slow"]);
    assert_eq!((&runs[0]["state"], &runs[0]["exitStatus"]), (&json!("running"), &Value::Null), "{runs}");
    let main = read(&socket, &["queue", "main"]);
    assert_eq!(main["status"], "run first task");
    let first = main["tasks"][0]["description"].as_str().unwrap().to_owned();
    assert!(first.starts_with("ModuleRun:main:alpha:"), "{main}");
    let (_, converge) = operator.get("/status/converge").unwrap();
    assert!(converge.starts_with("STARTUP_CONVERGE_IN_PROGRESS: "), "{converge}");
    let json: Value = serde_json::from_str(&operator.get("/status/converge?output=json").unwrap().1).unwrap();
    assert_eq!(json["STARTUP_CONVERGE_DONE"], false);
    // The hook is killed by its operator's end; until then the socket answers.
    drop(operator);

    modules.hook("001-alpha/hooks/slow", "configVersion: v1\nbeforeHelm: 1", "");
    // What a killed operator left is replaced.
    assert!(socket.exists());
    let operator = Operator::start_with(
        cp,
        ns.name(),
        modules.path(),
        &["--debug-unix-socket", socket.to_str().unwrap()],
    );
    operator.wait_converged();
    let main = read(&socket, &["queue", "main"]);
    assert_eq!(main["tasksCount"], 1, "{main}");
    let failed = main["tasks"][0]["description"].as_str().unwrap();
    assert!(failed.contains("ModuleRun:main:broken:") && failed.contains("not today"), "{failed}");
    let text = ask(&socket, &["module", "render", "broken"]);
    assert!(String::from_utf8(text.stderr).unwrap().contains("not today"));
    let (_, converge) = operator.get("/status/converge").unwrap();
    assert_eq!(converge, "STARTUP_CONVERGE_DONE\nCONVERGE_WAIT_TASK\n");
    operator.stop();
}

#[test]
fn levels_of_logs_change_at_run_time() {
    let cp = control_plane();
    let ns = cp.namespace("debug-params").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").enable(&["alpha"]);
    let scratch = tempfile::tempdir().unwrap();
    let socket = scratch.path().join("socket");
    let arguments = ["--debug-unix-socket", socket.to_str().unwrap(), "--debug-http-addr", "127.0.0.1:0"];
    let operator = Operator::start_with(cp, ns.name(), modules.path(), &arguments);
    operator.wait_converged();
    operator.wait_log(&["serving the debug endpoint"]);
    let debug = || operator.log().lines().filter(|l| l.contains("\"level\":\"DEBUG\"")).count();
    assert_eq!(debug(), 0);
    told(&socket, &["config", "set", "log.level", "Debug"]);
    let list = read(&socket, &["config", "list"]);
    let level = list.as_array().unwrap().iter().find(|p| p["name"] == "log.level").unwrap();
    assert_eq!((&level["value"], &level["default"]), (&json!("Debug"), &json!("info")));
    assert!(level["expireAt"].is_string(), "{level}");
    told(&socket, &["config", "set", "log.configmap.events", "true"]);
    let create = ["create", "configmap", "addon-operator", "-n", ns.name()];
    let literals = ["--from-literal=alphaEnabled=true", "--from-literal=alpha=secret: hunter2"];
    cp.kubectl(create.iter().chain(&literals)).unwrap();
    operator.wait_log(&["event of the ConfigMap", "alphaEnabled"]);
    wait_for("lines of the new level", || debug() > 0);
    assert!(!operator.log().contains("hunter2"), "values are not logged");
    assert!(told(&socket, &["config", "list"]).starts_with("NAME "));
    operator.stop();
}

/// The status of a request to an address, by its head.
fn status_of(address: &str, head: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.split(' ').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn browsers_get_nothing_from_the_debug_address() {
    let cp = control_plane();
    let ns = cp.namespace("debug-origin").unwrap();
    let modules = Modules::new();
    let operator = Operator::start_with(cp, ns.name(), modules.path(), &["--debug-http-addr", "127.0.0.1:0"]);
    operator.wait_converged();
    operator.wait_log(&["serving the debug endpoint"]);
    let log = operator.log();
    let line = log.lines().find(|l| l.contains("serving the debug endpoint")).unwrap();
    let address = serde_json::from_str::<Value>(line).unwrap()["address"].as_str().unwrap().to_owned();
    let form = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n\r\nname=none";
    let table = [
        (format!("GET / HTTP/1.1\r\nHost: {address}\r\n"), "\r\n", "200"),
        ("GET / HTTP/1.1\r\nHost: localhost:9\r\n".to_owned(), "\r\n", "200"),
        ("GET / HTTP/1.1\r\nHost: rebound.test\r\n".to_owned(), "\r\n", "403"),
        ("GET / HTTP/1.1\r\n".to_owned(), "\r\n", "403"),
        ("GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n".to_owned(), "\r\n", "403"),
        ("POST /config/set HTTP/1.1\r\nHost: localhost\r\n".to_owned(), form, "400"),
        (
            "POST /config/set HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n".to_owned(),
            "Content-Length: 9\r\n\r\nname=none",
            "415",
        ),
    ];
    for (head, rest, expected) in table {
        assert_eq!(status_of(&address, &format!("{head}Connection: close\r\n{rest}")), expected, "{head}");
    }
    operator.stop();
}

#[test]
fn a_socket_that_cannot_be_made_is_told_and_no_more() {
    let cp = control_plane();
    let ns = cp.namespace("debug-none").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").enable(&["alpha"]);
    let file = modules.path().join("a-file");
    std::fs::write(&file, "precious").unwrap();
    let operator =
        Operator::start_with(cp, ns.name(), modules.path(), &["--debug-unix-socket", file.to_str().unwrap()]);
    operator.wait_log(&["\"level\":\"WARN\"", "no debug socket", "--debug-unix-socket"]);
    operator.wait_converged();
    operator.stop();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
}
