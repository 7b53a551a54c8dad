//! A hostile chart costs its module an error; the operator stays within the memory that it may take, and the others converge.

use std::process::Command;

use crate::support::{Modules, Operator, control_plane, object};

/// What the kernel lets the operator take (`ulimit -d`), in KiB: the limit of our chart's Pod.
const MEMORY_KIB: u64 = 256 << 10;

#[test]
fn hostile_charts_cost_their_module_an_error_and_no_more() {
    let cp = control_plane();
    let ns = cp.namespace("hostile").unwrap();
    let modules = Modules::new();
    // Each is stopped for its own reason.
    let hostile = [
        // Memory.
        (
            "list",
            "{{ $all := list }}{{ range 10000000 }}{{ $all = append $all . }}{{ end }}",
            "its values take more than",
        ),
        ("text", "{{ repeat 1073741824 \"x\" }}", "its values take more than"),
        (
            "tree",
            "{{ $d := dict \"a\" \"x\" }}{{ range 64 }}{{ $d = dict \"a\" $d \"b\" $d }}{{ end }}{{ toYaml $d }}",
            "its values take more than",
        ),
        (
            "cycle",
            "{{ $d := dict }}{{ $_ := set $d \"a\" $d }}{{ $_ = set $d \"b\" $d }}{{ toJson $d }}",
            "its values take more than",
        ),
        (
            "syntax",
            "{{ range $i := until 1000000 }}{{ tpl (printf \"{{ %d }}\" $i) $ }}{{ end }}",
            "its values take more than",
        ),
        (
            "copies",
            "{{ regexReplaceAll \"(.+)\" (repeat 1000000 \"x\") (repeat 10000 \"$1\") }}",
            "its values take more than",
        ),
        // Text.
        ("output", "{{ range 1048576 }}{{ repeat 1024 \"x\" }}{{ end }}", "its text is longer than"),
        // Time.
        (
            "scrypt",
            "{{ range until 1000000 }}{{ derivePassword 1 \"long\" \"p\" \"u\" \"s\" }}{{ end }}",
            "render stopped: it",
        ),
        ("loops", "{{ range 1000000 }}{{ range 1000000 }}{{ end }}{{ end }}", "render stopped: it"),
    ];
    let names: Vec<String> =
        (0..).zip(&hostile).map(|(n, (name, ..))| format!("{:03}-{name}", 10 + n)).collect();
    for (directory, (_, template, _)) in names.iter().zip(&hostile) {
        modules.small(directory).write(&format!("{directory}/templates/hostile.yaml"), template);
    }
    modules.small("001-first").small("099-last");
    let keys: Vec<&str> =
        hostile.iter().map(|(name, ..)| *name).chain(["first", "last", "objects"]).collect();
    // Within the bounds of templates, and far beyond what an object may be: what is parsed of it stays within the limit, too.
    modules.small("050-objects").write(
        "050-objects/templates/many.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: many}\nx:\n{{ range 1200000 }}- a\n{{ end }}",
    );
    modules.enable(&keys);

    let mut command = Command::new("sh");
    let limited = format!("ulimit -d {MEMORY_KIB} && exec \"$0\" \"$@\"");
    command.args(["-c", &limited, env!("CARGO_BIN_EXE_windlass")]);
    let kubeconfig = cp.kubeconfig().to_string_lossy().into_owned();
    let path = std::env::var("PATH").unwrap_or_default();
    // Longer than a debug build takes to the other bounds beside other tests.
    let arguments = ["--render-timeout", "15s"];
    let operator =
        Operator::spawn_by(command, &kubeconfig, ns.name(), modules.path(), &arguments, &[("PATH", &path)]);
    operator.wait_converged();
    for good in ["first", "last"] {
        assert!(object(cp, ns.name(), "deployment", good).is_some(), "{good}\n{}", operator.log_end());
    }
    for (name, _, why) in &hostile {
        operator.wait_log(&[
            &format!("\"module\":\"{name}\""),
            &format!("{name}/templates/hostile.yaml"),
            why,
        ]);
    }
    operator.wait_log(&[
        "\"module\":\"objects\"",
        "the objects of all manifests take more than 64 MiB",
        "many.yaml",
    ]);
    let peak = operator.peak_memory_kib();
    assert!(peak < MEMORY_KIB, "{peak} KiB");
    operator.stop();
}
