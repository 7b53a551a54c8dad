//! Values that the ConfigMap takes from Secrets.

use crate::support::{Modules, Operator, control_plane, history, object, wait_for};

#[test]
fn values_come_from_secrets_and_follow_them() {
    let cp = control_plane();
    let ns = cp.namespace("referred").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").small("002-beta").enable(&["alpha", "beta"]);
    let secret = |word: &str| {
        let set = format!("--from-literal=word={word}");
        let made = cp.kubectl([
            "create",
            "secret",
            "generic",
            "db",
            "-n",
            ns.name(),
            &set,
            "--dry-run=client",
            "-o",
            "json",
        ]);
        let file = modules.path().join("secret.txt");
        std::fs::write(&file, made.unwrap()).unwrap();
        cp.kubectl(["apply", "-n", ns.name(), "-f", file.to_str().unwrap()]).unwrap();
    };
    let from = "alphaValuesFrom=[{kind: Secret, name: db, valuesKey: word, targetPath: size}]";
    let literal = format!("--from-literal={from}");
    cp.kubectl(["create", "configmap", "addon-operator", "-n", ns.name(), &literal]).unwrap();
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    // A Secret that is missing keeps its module from running, not the others, and is told.
    operator.wait_log(&["alphaValuesFrom", "Secret db is missing"]);
    assert!(object(cp, ns.name(), "configmap", "alpha").is_none());
    assert!(object(cp, ns.name(), "configmap", "beta").is_some());
    let size = || object(cp, ns.name(), "configmap", "alpha").map(|o| o["data"]["size"].clone());
    secret("s3cret-one");
    wait_for("the module runs with what the Secret says", || size().is_some_and(|s| s == "s3cret-one"));
    secret("s3cret-two");
    wait_for("the module follows the Secret", || size().is_some_and(|s| s == "s3cret-two"));
    wait_for("it is released", || history(cp, ns.name(), "alpha").len() == 2);
    assert_eq!(history(cp, ns.name(), "beta").len(), 1);
    let log = operator.log();
    assert!(!log.contains("s3cret"), "what a Secret holds is not told");
    operator.stop();
    let why = std::process::Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["why", "alpha", "-n", ns.name()])
        .env("KUBECONFIG", cp.kubeconfig())
        .output()
        .unwrap();
    let why = String::from_utf8(why.stdout).unwrap();
    assert!(why.contains("values that it refers to changed"), "{why}");
}
