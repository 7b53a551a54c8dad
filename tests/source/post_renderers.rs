//! Post-renderers: plugins of Helm 4 by their names, and programs as Helm 3 runs them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::support::{User, chart};

/// A plugin with a script, in the user's directory of plugins.
fn plugin(user: &User, name: &str, script: &str) {
    let directory = format!(".local/share/helm/plugins/{name}");
    let metadata = format!(
        "apiVersion: v1\nname: {name}\nversion: 1.0.0\ntype: postrenderer/v1\nruntime: subprocess\nconfig: {{}}\nruntimeConfig:\n\
         \x20 platformCommand:\n  - command: ${{HELM_PLUGIN_DIR}}/run\n    args: [\"$HELM_PLUGIN_NAME\"]\n"
    );
    user.write(&format!("{directory}/plugin.yaml"), &metadata);
    user.write(&format!("{directory}/run"), &format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(user.path(&format!("{directory}/run")), fs::Permissions::from_mode(0o755)).unwrap();
}

fn user() -> User {
    let user = User::new();
    chart(&user.path("web"), "web", "1.0.0", "");
    fs::remove_dir_all(user.path("web/crds")).unwrap();
    user.write(
        "web/templates/hook.yaml",
        "# why\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: hook\n  annotations:\n    helm.sh/hook: pre-install\n    \
         helm.sh/hook-weight: \"2\"\nspec: {template: {spec: {restartPolicy: Never, containers: []}}}\n",
    );
    user.write(
        "web/templates/many.yaml",
        "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n---\n# of the secret\napiVersion: v1\nkind: Secret\nmetadata: {name: t}\n\
         stringData: {number: \"1e3\", yes: \"yes\", port: \"0777\", big: \"9007199254740993\"}\n---\nkind: Namespace\n\
         metadata:\n    name: n # its name\n    annotations:\n      # above\n      on: 'off'\n\n    # below\napiVersion: v1\n",
    );
    plugin(&user, "rename", "sed 's/name: hook/name: other/; s/kind: Service/kind: Endpoints/'");
    plugin(
        &user,
        "arguments",
        "cat; printf -- '---\\napiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: args}\\ndata: {all: \"%s\"}\\n' \"$*\"",
    );
    plugin(&user, "silent", "cat >/dev/null");
    plugin(&user, "failing", "echo broken >&2; exit 3");
    plugin(&user, "nonsense", "echo 'a: [b'");
    user
}

#[test]
fn plugins_change_what_helm_lets_them_change() {
    let user = user();
    for more in [
        &["--post-renderer", "rename"][..],
        &["--post-renderer", "arguments", "--post-renderer-args", "one", "--post-renderer-args", "--two=2"],
        &["--post-renderer", "rename", "--no-hooks"],
        &["--post-renderer", "rename", "--show-only", "templates/many.yaml"],
    ] {
        let args: Vec<&str> = ["template", "web"].iter().chain(more).copied().collect();
        assert_eq!(user.ok(&args), user.helm_ok(&args), "{more:?}");
    }
    let dry = user.ok(&["install", "x", "web", "--dry-run=client", "--post-renderer", "rename"]);
    let (hooks, manifest) = dry.split_once("MANIFEST:").unwrap();
    assert!(hooks.contains("name: other") && manifest.contains("kind: Endpoints"), "{dry}");
    assert!(!dry.contains("postrender-filename"), "{dry}");
}

#[test]
fn plugins_that_fail_are_told() {
    let user = user();
    for (name, want) in [
        ("silent", "post-renderer \"silent\" produced empty output"),
        (
            "failing",
            "failed to invoke post-renderer plugin \"failing\": plugin \"failing\" exited with error",
        ),
        ("nonsense", "error while parsing post rendered output: "),
        (
            "nowhere",
            "invalid argument \"nowhere\" for \"--post-renderer\" flag: plugin: {Name:nowhere Type:postrenderer/v1} not found",
        ),
    ] {
        let args = ["template", "web", "--post-renderer", name];
        let theirs = user.helm(&args);
        assert!(!theirs.ok && theirs.err.contains(want), "{}", theirs.err);
        let error = user.fails(&args);
        assert!(error.contains(want), "{error}");
        if name == "failing" {
            assert!(error.contains("exit status 3: broken"), "{error}");
        }
    }
    plugin(&user, "wasm", "");
    let path = ".local/share/helm/plugins/wasm/plugin.yaml";
    let text = user.read(path).replace("runtime: subprocess", "runtime: extism/v1");
    user.write(path, &text);
    let error = user.fails(&["template", "web", "--post-renderer", "wasm"]);
    assert!(error.contains("its runtime is \"extism/v1\""), "{error}");
}

#[test]
fn programs_see_the_manifest_and_no_hooks() {
    let user = user();
    user.write("up", "#!/bin/sh\nsed 's/kind: Service/kind: Endpoints/; s/name: hook/name: no/'\n");
    fs::set_permissions(user.path("up"), fs::Permissions::from_mode(0o755)).unwrap();
    let args = ["install", "x", "web", "--dry-run=client", "--post-renderer", "./up"];
    let (hooks, manifest) =
        user.ok(&args).split_once("MANIFEST:").map(|(h, m)| (h.to_owned(), m.to_owned())).unwrap();
    assert!(hooks.contains("name: hook") && manifest.contains("kind: Endpoints"), "{hooks}{manifest}");
    // To the byte what the program printed.
    assert!(manifest.contains("stringData: {number: \"1e3\""), "{manifest}");
}
