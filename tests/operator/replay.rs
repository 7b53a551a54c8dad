//! Values that templates make by chance stay, and what templates look up is watched.

use crate::support::{Modules, Operator, control_plane, history, object, wait_for};

const SECRET: &str = "apiVersion: v1
kind: Secret
metadata: {name: vault}
stringData:
  password: {{ randAlphaNum 24 }}
  made: {{ now | unixEpoch | quote }}
  size: {{ .Values.vault.size | toString | quote }}
  found: {{ dig \"data\" \"x\" \"nothing\" (lookup \"v1\" \"ConfigMap\" .Release.Namespace \"source\") }}
  cert: {{ (genSelfSignedCert \"vault\" nil nil 30).Cert | b64enc }}
";

#[test]
fn chance_is_remembered_and_lookups_are_watched() {
    let cp = control_plane();
    let ns = cp.namespace("replay").unwrap();
    let modules = Modules::new();
    modules
        .write("001-vault/Chart.yaml", "apiVersion: v2\nname: vault\nversion: 0.1.0\n")
        .write("001-vault/values.yaml", "vault:\n  size: 1\n")
        .write("001-vault/templates/secret.yaml", SECRET)
        .enable(&["vault"]);
    let data = |key: &str| object(cp, ns.name(), "secret", "vault").unwrap()["data"][key].clone();
    let chance = || (data("password"), data("cert"));
    let size = |wanted: &str| {
        let encoded = base64_of(wanted);
        wait_for("the new value is applied", || data("size") == encoded.as_str());
    };

    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    let (first, made) = (chance(), data("made"));
    operator.stop();
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    assert_eq!((chance(), data("made")), (first.clone(), made), "a restart makes nothing anew");
    assert_eq!(history(cp, ns.name(), "vault").len(), 1);

    let edit = ["create", "configmap", "addon-operator", "-n", ns.name(), "--from-literal=vault=size: 2"];
    cp.kubectl(edit).unwrap();
    size("2");
    assert_eq!(chance(), first, "other values keep what was made by chance");

    cp.kubectl(["create", "configmap", "source", "-n", ns.name(), "--from-literal=x=something"]).unwrap();
    wait_for("what was looked up is seen", || data("found") == base64_of("something").as_str());
    assert_eq!(chance(), first);
    wait_for("the revision is deployed", || history(cp, ns.name(), "vault").len() == 3);

    let off = r#"{"data":{"vaultEnabled":"false"}}"#;
    cp.kubectl(["patch", "configmap", "addon-operator", "-n", ns.name(), "--type=merge", "-p", off]).unwrap();
    wait_for("the memory goes with the release", || {
        object(cp, ns.name(), "secret", "windlass.replay.vault").is_none()
    });
    operator.stop();
}

fn base64_of(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}
