//! Windlass installed by itself from its own chart, and run under the rights that it asked for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Modules, ON_LOOPBACK, Operator, as_service_account, control_plane, object, wait_for};

pub(crate) fn windlass(kubeconfig: &Path, arguments: &[&str]) -> String {
    let done = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .output()
        .expect("windlass");
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// A directory to be the whole PATH: `cat` is real, and other programs only note that they were called.
struct Programs(tempfile::TempDir);

impl Programs {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let found = std::env::var_os("PATH").unwrap();
        let cat = std::env::split_paths(&found).map(|d| d.join("cat")).find(|p| p.is_file()).expect("cat");
        std::os::unix::fs::symlink(cat, directory.path().join("cat")).unwrap();
        for name in ["helm", "helm3", "kubectl", "kustomize", "git", "jq", "sh", "bash"] {
            let path = directory.path().join(name);
            std::fs::write(&path, "#!/bin/bash\necho \"$0 $*\" >> \"${0%/*}/called\"\n").unwrap();
            executable(&path);
        }
        Self(directory)
    }

    /// Which of those that only note it were called.
    fn called(&self) -> String {
        std::fs::read_to_string(self.0.path().join("called")).unwrap_or_default()
    }
}

fn executable(path: &Path) {
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

/// The operator's program with each start of a program written to a file; `None` where processes cannot be traced.
fn traced(file: &Path) -> Option<Command> {
    let found = std::env::var_os("PATH")?;
    let strace = std::env::split_paths(&found).map(|d| d.join("strace")).find(|p| p.is_file())?;
    let by = |program: &str| {
        let mut command = Command::new(&strace);
        // The tracer stands aside: whoever starts this starts the program itself.
        command.args(["-D", "-f", "-e", "trace=execve,execveat", "-o"]).arg(file).arg(program);
        command
    };
    by("/bin/true").status().is_ok_and(|s| s.success()).then(|| by(env!("CARGO_BIN_EXE_windlass")))
}

/// The programs of a trace; waits for its end.
fn started(file: &Path) -> BTreeSet<PathBuf> {
    let read = || std::fs::read_to_string(file).unwrap_or_default();
    wait_for("the trace ends", || {
        let text = read();
        let first = text.split(' ').next().unwrap_or_default();
        text.lines().any(|l| l.starts_with(&format!("{first} ")) && l.contains("+++ exited"))
    });
    let text = read();
    let programs = text.lines().filter(|l| l.contains("execve"));
    let programs = programs.filter_map(|l| l.split('"').nth(1));
    programs.map(|p| std::fs::canonicalize(p).unwrap_or_else(|_| p.into())).collect()
}

#[test]
fn it_runs_under_the_rights_that_it_asked_for() {
    let cp = control_plane();
    let ns = cp.namespace("deploy").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").small("002-beta").enable(&["alpha", "beta"]);
    modules.write(
        "002-beta/templates/rights.yaml",
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: beta}\nrules: [{apiGroups: [''], resources: [pods], verbs: [get]}]\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: beta}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: beta}\nsubjects: [{kind: ServiceAccount, name: default}]\n",
    );
    modules.write(
        "002-beta/templates/wide.yaml",
        &format!(
            "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: {}-beta}}\nvalue: 10\n",
            ns.name()
        ),
    );
    // Without anything on PATH this is all that a shell can do.
    let binding = format!(
        r#"{{"name":"c.hooks.test","namespace":{{"labelSelector":{{"matchLabels":{{"kubernetes.io/metadata.name":"{}"}}}}}},"rules":[{{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["services"]}}]}}"#,
        ns.name()
    );
    let hook = format!(
        "#!/bin/bash\nif [[ \"${{1:-}}\" == --config ]]; then echo '{{\"configVersion\":\"v1\",\"kubernetesValidating\":[{binding}]}}'\n\
         else echo '{{\"allowed\":true}}' > \"$ADMISSION_RESPONSE_PATH\"; fi\n"
    );
    modules.write("003-gamma/hooks/check", &hook).enable(&["alpha", "beta", "gamma"]);
    modules.write("001-alpha/enabled", "#!/bin/bash\necho true > \"$MODULE_ENABLED_RESULT\"\n");
    for script in ["003-gamma/hooks/check", "001-alpha/enabled"] {
        executable(&modules.path().join(script));
    }
    // One that calls a program itself.
    modules.hook("003-gamma/hooks/start", "configVersion: v1\nonStartup: 1", "");
    let directory = modules.path().to_str().unwrap();
    let rights = modules.path().join("rights.txt");
    let values = windlass(cp.kubeconfig(), &["rbac", directory, "--values", "-n", ns.name()]);
    std::fs::write(&rights, values).unwrap();
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/chart");
    let chart = chart.to_str().unwrap();
    let file = rights.to_str().unwrap();
    let install = [
        "install",
        "windlass",
        chart,
        "-n",
        ns.name(),
        "-f",
        file,
        "--wait",
        "--set",
        "webhooks.enabled=true",
    ];
    let told = windlass(cp.kubeconfig(), &install);
    assert!(told.contains("runs in namespace"), "{told}");
    assert!(object(cp, ns.name(), "deployment", "windlass").is_some());
    let service = object(cp, ns.name(), "service", "windlass-webhooks").expect("a Service for webhooks");
    assert_eq!(service["spec"]["ports"][0]["targetPort"], "webhooks");
    // The operator itself, with the token of its ServiceAccount and nothing on PATH.
    let kubeconfig = as_service_account(ns.name(), &modules);
    let mark = cp.audit_mark().unwrap();
    let (programs, trace) = (Programs::new(), tempfile::NamedTempFile::new().unwrap());
    let command = traced(trace.path());
    let is_traced = command.is_some();
    let operator = Operator::spawn_by(
        command.unwrap_or_else(|| Command::new(env!("CARGO_BIN_EXE_windlass"))),
        kubeconfig.to_str().unwrap(),
        ns.name(),
        modules.path(),
        &ON_LOOPBACK,
        &[("PATH", programs.0.path().to_str().unwrap())],
    );
    operator.wait_converged();
    let configuration = format!("windlass-{}-hooks", ns.name());
    assert!(object(cp, "default", "validatingwebhookconfiguration", &configuration).is_some());
    for name in ["alpha", "beta"] {
        wait_for("the module is released", || object(cp, ns.name(), "deployment", name).is_some());
    }
    cp.kubectl(["delete", "service", "alpha", "-n", ns.name()]).unwrap();
    wait_for("a deleted object is back", || object(cp, ns.name(), "service", "alpha").is_some());
    let config =
        ["create", "configmap", "addon-operator", "-n", ns.name(), "--from-literal=betaEnabled=false"];
    cp.kubectl(config).unwrap();
    wait_for("the module goes", || object(cp, ns.name(), "role", "beta").is_none());
    let log = operator.log();
    let troubles: Vec<&str> = log
        .lines()
        .filter(|l| l.contains("\"level\":\"WARN\"") || l.contains("\"level\":\"ERROR\""))
        .filter(|l| !l.contains("drift: Service"))
        .collect();
    assert!(troubles.is_empty(), "{troubles:#?}");
    operator.stop();
    assert_eq!(programs.called(), "", "it calls no program by its name");
    if is_traced {
        let scripts = ["001-alpha/enabled", "003-gamma/hooks/check", "003-gamma/hooks/start"];
        let scripts = scripts.map(|s| modules.path().join(s));
        let others = [
            env!("CARGO_BIN_EXE_windlass").into(),
            // The hook's own doing.
            programs.0.path().join("cat"),
        ];
        let expected = scripts.into_iter().chain(others).map(|p| std::fs::canonicalize(p).unwrap());
        assert_eq!(started(trace.path()), expected.collect(), "it starts hooks and nothing else");
    } else {
        println!(
            "skipped: processes cannot be traced here, so that only programs called by name were looked for"
        );
    }
    cp.kubectl(["delete", "validatingwebhookconfiguration", &configuration]).unwrap();
    let account = format!("system:serviceaccount:{}:windlass", ns.name());
    let events = cp.audit_since(mark).unwrap();
    let own: Vec<_> = events.iter().filter(|e| e.user == account).collect();
    assert!(!own.is_empty(), "it ran as its ServiceAccount");
    // Its ConfigMap, records, webhooks and the definitions of kinds, and what its modules have; the kind of module statuses is only written.
    let watched: BTreeSet<&str> =
        own.iter().filter(|e| e.verb == "watch").map(|e| e.resource.as_str()).collect();
    let own_kinds = [
        "apiservices",
        "configmaps",
        "customresourcedefinitions",
        "secrets",
        "validatingwebhookconfigurations",
    ];
    let theirs = ["deployments", "priorityclasses", "rolebindings", "roles", "services"];
    let wanted: BTreeSet<&str> = own_kinds.into_iter().chain(theirs).collect();
    assert_eq!(watched, wanted, "it watches nothing that it need not");
    let asked: BTreeSet<&str> = own.iter().map(|e| e.resource.as_str()).collect();
    for never in ["endpoints", "endpointslices", "pods", "nodes", "namespaces"] {
        assert!(!asked.contains(never), "{never}: {asked:?}");
    }
}

#[test]
fn with_several_replicas_the_service_of_webhooks_selects_nobody() {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/chart");
    let shown = |replicas: &str| {
        let set = format!("webhooks.enabled=true,replicas={replicas}");
        let words = ["template", "windlass", chart.to_str().unwrap(), "-n", "ns", "--set", &set];
        windlass(Path::new("/nonexistent"), &words)
    };
    let service = |text: &str| {
        let at = text.find("name: windlass-webhooks").unwrap();
        text[at..].split("---").next().unwrap().to_owned()
    };
    let (one, two) = (shown("1"), shown("2"));
    assert!(service(&one).contains("selector:") && !one.contains("endpointslices"));
    assert!(!service(&two).contains("selector:\n"), "{}", service(&two));
    assert!(two.contains("resources: [endpointslices]") && two.contains("--leader-election"));
    assert!(two.contains("fieldPath: status.podIP"));
}

#[test]
fn a_network_policy_and_an_authority_guard_the_ports() {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/chart");
    let shown = |set: &str| {
        let words = ["template", "windlass", chart.to_str().unwrap(), "-n", "ns", "--set", set];
        windlass(Path::new("/nonexistent"), &words)
    };
    let policy = |text: &str| {
        let found = text.split("---").find(|d| d.contains("kind: NetworkPolicy"));
        found.map(|d| d.split_once("ingress:").unwrap().1.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let plain = shown("replicas=1");
    assert_eq!(policy(&plain).unwrap(), "- ports: [{port: http}] from: - namespaceSelector: {}");
    assert!(!plain.contains("CLIENT_CA"));
    assert_eq!(policy(&shown("networkPolicy.enabled=false")), None);
    let guarded = shown(
        "webhooks.enabled=true,webhooks.clientCASecret=api,networkPolicy.webhooksFrom[0].ipBlock.cidr=10.0.0.1/32,\
         networkPolicy.metricsFrom[0].podSelector.matchLabels.app=prometheus",
    );
    assert_eq!(
        policy(&guarded).unwrap(),
        "- ports: [{port: http}] from: - podSelector: matchLabels: app: prometheus - ports: [{port: webhooks}] from: - ipBlock: \
         cidr: 10.0.0.1/32"
    );
    let flag = "{name: VALIDATING_WEBHOOK_CLIENT_CA, value: /webhook-client-ca/ca.crt}";
    assert!(guarded.contains(flag) && guarded.contains("secretName: \"api\""), "{guarded}");
}

#[test]
fn with_a_read_only_root_the_socket_has_its_place_and_hooks_find_jq() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
    let chart = root.join("chart");
    let words = ["template", "windlass", chart.to_str().unwrap(), "-n", "ns"];
    let shown = windlass(Path::new("/nonexistent"), &words);
    assert!(shown.contains("readOnlyRootFilesystem: true") && shown.contains("mountPath: /tmp}"), "{shown}");
    assert!(shown.contains("{name: DEBUG_UNIX_SOCKET, value: /tmp/debug.socket}"), "{shown}");
    let file = std::fs::read_to_string(root.join("Containerfile")).unwrap();
    let wrapper =
        "printf '#!/bin/sh\\nexec windlass jq \"$@\"\\n' > /usr/local/bin/jq && chmod 0755 /usr/local/bin/jq";
    assert!(file.contains(wrapper), "{file}");
    // The wrapper itself, in a place of ours and with this windlass.
    let scratch = tempfile::tempdir().unwrap();
    let jq = scratch.path().join("jq");
    let made = wrapper.replace("/usr/local/bin/jq", jq.to_str().unwrap());
    let done = Command::new("sh").args(["-c", &made]).status().unwrap();
    assert!(done.success());
    let binary = Path::new(env!("CARGO_BIN_EXE_windlass")).parent().unwrap();
    let search = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let out = Command::new(&jq).args(["-n", "-r", "\"a b\""]).env("PATH", search).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stdout), "a b\n", "{out:?}");
}

#[test]
fn what_prometheus_and_grafana_are_given_fits_what_is_measured() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let chart = root.join("deploy/chart");
    let set = "serviceMonitor.enabled=true,dashboard.enabled=true";
    let shown = windlass(
        Path::new("/nonexistent"),
        &[
            "template",
            "windlass",
            chart.to_str().unwrap(),
            "-n",
            "ns",
            "--set",
            set,
            "-a",
            "monitoring.coreos.com/v1",
        ],
    );
    let monitor = shown.split("---").find(|d| d.contains("kind: ServiceMonitor")).expect("a ServiceMonitor");
    let paths: Vec<&str> =
        monitor.lines().filter_map(|l| l.split("path: ").nth(1)?.split(',').next()).collect();
    assert!(paths == ["/metrics", "/metrics/hooks"] && monitor.contains("port: http"), "{monitor}");
    assert!(shown.contains("grafana_dashboard: \"1\""));
    let dashboard = std::fs::read_to_string(chart.join("dashboard.json")).unwrap();
    serde_json::from_str::<serde_json::Value>(&dashboard).unwrap();
    // Whoever measures something names it in a text of its own.
    let mut sources = String::new();
    let mut left = vec![root.join("src"), root.join("crates")];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(std::fs::read_dir(path).unwrap().map(|e| e.unwrap().path()));
        } else {
            sources.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
    let names = dashboard.split(|c: char| !c.is_ascii_lowercase() && c != '_');
    let names: std::collections::BTreeSet<&str> = names.filter(|n| n.starts_with("windlass_")).collect();
    assert!(names.len() > 3, "{names:?}");
    for name in names {
        assert!(sources.contains(&format!("\"{name}\"")), "{name} is not measured");
    }
}
