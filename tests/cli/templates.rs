//! Go templates over a release, and post-renderers of what is installed, beside real Helm.

use super::{chart, control_plane, windlass};
use std::os::unix::fs::PermissionsExt as _;

#[test]
fn a_release_is_told_by_the_users_template() {
    let cp = control_plane();
    let namespace = cp.namespace("told").unwrap();
    let (dir, ns) = (chart(), namespace.name());
    let hook = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hook, annotations: {helm.sh/hook: post-install}}\n";
    std::fs::write(dir.path().join("templates/hook.yaml"), hook).unwrap();
    windlass(&[
        "install",
        "x",
        dir.path().to_str().unwrap(),
        "-n",
        ns,
        "--set",
        "size=3,more.deep=yes",
        "--labels",
        "a=b",
    ]);
    for template in [
        "{{.Release.Name}} {{.Release.Namespace}} {{.Release.Version}} {{.Release.Info.Status}} {{.Release.ApplyMethod}}",
        "{{.Release.Info.LastDeployed}} {{.Release.Info.Description}}|{{.Release.Info.Notes}}",
        "{{with .Release.Chart}}{{.Metadata.Name}} {{.Metadata.Version}} {{.Metadata.AppVersion}} {{.Metadata.APIVersion}} {{.Values.size}}{{end}}",
        "{{.Release.Manifest}}",
        "{{range .Release.Hooks}}{{.Name}} {{.Kind}} {{.Path}}{{\"\\n\"}}{{.Manifest}}{{end}}",
        "{{.Release.Config.size}} {{.Release.Config.more}} {{len .Release.Labels}}",
        "{{printf \"%q\" .Release.Name}}{{if eq .Release.Version 1}} first{{end}}",
    ] {
        let args = ["get", "all", "x", "-n", ns, "--template", template];
        assert_eq!(windlass(&args), cp.helm4(args).unwrap(), "{template}");
    }
}

#[test]
fn what_a_post_renderer_makes_is_installed_recorded_and_taken_back() {
    let cp = control_plane();
    let namespace = cp.namespace("post").unwrap();
    let (dir, ns) = (chart(), namespace.name());
    let chart = dir.path().to_str().unwrap();
    let program = dir.path().join("change");
    std::fs::write(&program, "#!/bin/sh\nsed 's/size: \"/size: \"changed-/'\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = program.to_str().unwrap();
    let size = || cp.kubectl(["get", "configmap", "x", "-n", ns, "-o", "jsonpath={.data.size}"]).unwrap();
    windlass(&["install", "x", chart, "-n", ns, "--post-renderer", program]);
    assert_eq!(size(), "changed-1");
    let manifest = cp.helm4(["get", "manifest", "x", "-n", ns]).unwrap();
    assert!(
        manifest.contains("# Source: demo/templates/all.yaml") && manifest.contains("changed-1"),
        "{manifest}"
    );
    // Planned as it is done.
    let plan = windlass(&["plan", "x", chart, "-n", ns, "--set", "size=2", "--post-renderer", program]);
    assert!(plan.contains("changed-2"), "{plan}");
    windlass(&["upgrade", "x", chart, "-n", ns, "--set", "size=2", "--post-renderer", program]);
    assert_eq!(size(), "changed-2");
    cp.helm4(["rollback", "x", "1", "-n", ns]).unwrap();
    assert_eq!(size(), "changed-1");
    windlass(&["upgrade", "x", chart, "-n", ns]);
    assert_eq!(size(), "1");
}
