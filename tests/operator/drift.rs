//! What users see of drift, and of why a module was released.

use crate::support::{Modules, Operator, control_plane, object, wait_for};
use std::process::Command;

const PATCH: &str = r#"{"data":{"size":"9"}}"#;

#[test]
fn fields_and_culprits_are_named() {
    let cp = control_plane();
    let ns = cp.namespace("culprit").unwrap();
    let n = ns.name();
    let modules = Modules::new();
    modules.small("001-alpha").small("002-beta").enable(&["alpha", "beta"]);
    modules.write(
        "002-beta/Chart.yaml",
        "apiVersion: v2\nname: beta\nversion: 0.1.0\nannotations: {windlass.dev/drift: report}\n",
    );
    let (operator, _) = Operator::converged(cp, n, modules.path());
    let patch = |name: &str| {
        cp.kubectl(["patch", "configmap", name, "-n", n, "--field-manager=somebody", "-p", PATCH]).unwrap();
    };
    let size = |name: &str| object(cp, n, "configmap", name).unwrap()["data"]["size"].clone();
    patch("alpha");
    wait_for("alpha is put right", || size("alpha") == "1");
    patch("beta");
    let events = |name: &str| {
        let about = format!("involvedObject.name={name},involvedObject.kind=ConfigMap");
        let path = "jsonpath={range .items[*]}{.reason}: {.message}{\"\\n\"}{end}";
        cp.kubectl(["get", "events", "-n", n, "--field-selector", &about, "-o", path]).unwrap()
    };
    let changed = |name: &str| format!("ConfigMap {n}/{name}: data.size is 9 instead of 1, by \"somebody\"");
    let wanted = format!("DriftCorrected: {}: corrected\n", changed("alpha"));
    wait_for("an Event at alpha", || events("alpha") == wanted);
    let wanted = format!("DriftDetected: {}: not corrected\n", changed("beta"));
    wait_for("an Event at beta", || events("beta") == wanted);
    assert_eq!(size("beta"), "9");
    let metrics = operator.get("/metrics").unwrap().1;
    let line = |module: &str, corrected: bool| {
        format!(
            "windlass_drift_total{{module=\"{module}\",kind=\"ConfigMap\",field=\"data.size\",manager=\"somebody\",\
             corrected=\"{corrected}\"}} 1\n"
        )
    };
    assert!(metrics.contains(&line("alpha", true)) && metrics.contains(&line("beta", false)), "{metrics}");
    assert!(metrics.contains("windlass_drifted_objects{module=\"beta\"} 1\n"), "{metrics}");

    // The next revision is the chart's, and says what brought it about.
    let config = |size: u32| {
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"addon-operator"}},"data":{{"beta":"size: {size}\n"}}}}"#
        )
    };
    let args = ["apply", "--server-side", "--field-manager=admin", "-n", n, "-f", "-"];
    cp.kubectl_with(args, &config(2)).unwrap();
    wait_for("beta is upgraded", || size("beta") == "2");
    cp.kubectl_with(args, &config(3)).unwrap();
    wait_for("beta is upgraded again", || size("beta") == "3");
    let why = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        let out = command.args(["why", "beta", "-n", n]).env("KUBECONFIG", cp.kubeconfig()).output().unwrap();
        String::from_utf8(out.stdout).unwrap()
    };
    let causes = why();
    for cause in
        ["the operator started", "ConfigMap key beta.size 1 → 2, by field manager admin", "beta.size 2 → 3"]
    {
        assert!(causes.contains(cause), "{causes}");
    }
    operator.stop();
}
