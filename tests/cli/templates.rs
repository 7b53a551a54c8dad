//! Go templates over a release, and post-renderers of what is installed, beside real Helm.

use super::{chart, control_plane, windlass};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use windlass_testing::Tool;

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

#[test]
fn debug_shows_what_failed() {
    let dir = chart();
    let write =
        |name: &str, text: &str| std::fs::write(dir.path().join("templates").join(name), text).unwrap();
    let both = |more: &[&str]| {
        let args = [&["template", "x", dir.path().to_str().unwrap(), "--debug"], more].concat();
        let helm = Tool::Helm4.path().unwrap();
        let [ours, theirs] = [Path::new(env!("CARGO_BIN_EXE_windlass")), &helm].map(|program| {
            let out = Command::new(program).args(&args).output().unwrap();
            // Helm prints the files in no order.
            let text = String::from_utf8(out.stdout).unwrap();
            let mut documents: Vec<String> =
                text.trim().split("---\n").map(|d| d.trim_end().to_owned()).collect();
            documents.sort();
            let errors = String::from_utf8(out.stderr).unwrap();
            let errors: Vec<String> =
                errors.lines().filter(|l| !l.starts_with("level=DEBUG")).map(str::to_owned).collect();
            (out.status.code(), documents, errors)
        });
        assert_eq!(ours, theirs, "{more:?}");
        ours
    };
    assert_eq!(both(&[]).0, Some(0));
    write("bad.yaml", "a: {{ .Values.size }}\n b: c\n");
    let (code, documents, errors) = both(&[]);
    assert_eq!((code, documents.len(), errors.len()), (Some(1), 4, 1), "{documents:?} {errors:?}");
    both(&["--show-only", "templates/all.yaml"]);
    both(&["--show-only", "templates/none.yaml"]);
    write("bad.yaml", "{{ fail \"no\" }}");
    let (code, documents, _) = both(&[]);
    assert_eq!((code, documents), (Some(1), vec![String::new()]));
}

#[test]
fn flags_are_refused_or_taken_as_helm_does() {
    let dir = chart();
    let at = |program: &Path, args: &[&str]| {
        let out =
            Command::new(program).args(args).current_dir(dir.path().parent().unwrap()).output().unwrap();
        (out.status.success(), String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap())
    };
    let name = dir.path().file_name().unwrap().to_str().unwrap();
    let ours = Path::new(env!("CARGO_BIN_EXE_windlass"));
    for (tool, compat) in [(Tool::Helm4, "--compat=helm4"), (Tool::Helm3, "--compat=helm3")] {
        let helm = tool.path().unwrap();
        let both = |args: &[&str]| (at(ours, &[args, &[compat]].concat()), at(&helm, args));
        for flag in ["--labels=a", "--labels=a=b", "--wait=bad", "--wait"] {
            let (ours, theirs) = both(&["template", "x", name, flag]);
            assert_eq!((ours.0, ours.1), (theirs.0, theirs.1), "{flag} {compat}: {}", ours.2);
        }
        let (ours, theirs) = both(&["template", "", name]);
        assert_eq!(ours, theirs, "{compat}");
        // Helm 3 prefers a chart on disk to the repository that it is told.
        let (ours, theirs) = both(&["template", "x", name, "--repo", "http://127.0.0.1:1/"]);
        assert_eq!((ours.0, ours.1), (theirs.0, theirs.1), "{compat}: {}", ours.2);
        assert_eq!(ours.0, tool == Tool::Helm3);
    }
}
