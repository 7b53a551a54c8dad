//! A module on disk as its author looks at it: rendered, its schema cases, its settings. Without a cluster.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::Modules;

fn windlass(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.current_dir(directory).args(arguments).env("KUBECONFIG", "/nonexistent").output().unwrap()
}

fn printed(directory: &Path, arguments: &[&str]) -> String {
    let done = windlass(directory, arguments);
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

fn refused(directory: &Path, arguments: &[&str]) -> String {
    let done = windlass(directory, arguments);
    assert_eq!(done.status.code(), Some(1), "{arguments:?}: {}", String::from_utf8_lossy(&done.stdout));
    String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr)
}

fn module() -> Modules {
    let modules = Modules::new();
    modules
        .write("020-web-site/values.yaml", "webSite: {color: red}\n")
        .write(
            "020-web-site/templates/a.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata:\n  size: {{ .Values.webSite.size | quote }}\n  ca: {{ \
             .Values.webSite.internal.ca }}\n  zone: {{ .Values.global.zone | default \"none\" }}\n  kube: {{ .Capabilities.KubeVersion.Minor | quote }}\n",
        )
        .write(
            "020-web-site/openapi/config-values.yaml",
            "properties: {size: {type: integer, default: 2, maximum: 99}, limit: {type: integer, default: 1}, color: {type: string}}\n",
        )
        .write(
            "020-web-site/openapi/values.yaml",
            "x-extend: {schema: config-values.yaml}\nproperties:\n  internal: {default: {}, x-required-for-helm: [ca], properties: {ca: {type: \
             string, x-examples: [PEM, other]}}}\n",
        );
    modules
}

#[test]
fn a_chart_is_rendered_with_defaults_examples_and_files() {
    let modules = module();
    let here = modules.path();
    let render = |more: &[&str]| printed(here, &[&["module", "template", "020-web-site"], more].concat());
    let text = render(&[]);
    assert!(text.starts_with("---\n# Source: web-site/templates/a.yaml\n"), "{text}");
    for part in ["name: web-site", "size: \"2\"", "ca: PEM", "zone: none"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    modules.write("mine.txt", "global: {zone: west}\nwebSite: {size: 7}\n");
    let more = ["-f", "mine.txt", "--set", "webSite.internal.ca=own", "--kube-version", "1.33.0"];
    let text = render(&more);
    for part in ["size: \"7\"", "ca: own", "zone: west", "kube: \"33\""] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(render(&["--example", "1"]).contains("ca: other"));
    // From within the directory, and under another name.
    let inside = here.join("020-web-site");
    assert!(printed(&inside, &["module", "template", "."]).contains("name: web-site"));
    let error = refused(here, &["module", "template", "020-web-site", "--no-examples"]);
    assert!(error.contains("Error: webSite.internal: missing property 'ca'"), "{error}");
    let error = refused(here, &["module", "template", "020-web-site", "--set", "webSite.size=100"]);
    assert!(error.contains("webSite.size: maximum: got 100, want 99"), "{error}");
    let error = refused(here, &["module", "template", "gone"]);
    assert!(error.contains("gone: No such file"), "{error}");
    modules.write("020-web-site/templates/b.yaml", "{{ fail \"not so\" }}\n");
    let error = refused(here, &["module", "template", "020-web-site"]);
    assert!(error.contains("web-site/templates/b.yaml") && error.contains("not so"), "{error}");
}

#[test]
fn cases_of_schemas_are_run() {
    let modules = module();
    let here = modules.path();
    let text = printed(here, &["module", "test", "020-web-site"]);
    assert!(text.contains("openapi-case-tests.yaml: there is no such file, so there are no cases"), "{text}");
    assert!(text.ends_with("020-web-site: 0 of 0 cases passed\n"), "{text}");
    let cases = "020-web-site/openapi/openapi-case-tests.yaml";
    modules.write(cases, "positive: {configValues: [{size: 5}], values: [{internal: {}}]}\nnegative: {configValues: [{size: x}], helmValues: [{internal: {}}]}\n");
    assert_eq!(printed(here, &["module", "test", "020-web-site"]), "020-web-site: 4 of 4 cases passed\n");
    modules.write(cases, "positive: {configValues: [{size: 500}]}\nnegative: {configValues: [{size: 1}]}\n");
    let error = refused(here, &["module", "test", "020-web-site"]);
    assert!(error.contains("020-web-site: FAIL positive.configValues[0]: webSite.size: maximum"), "{error}");
    assert!(
        error.contains("FAIL negative.configValues[0]: {\"size\":1} is taken, and should not be"),
        "{error}"
    );
    assert!(error.ends_with("Error: 2 case(s) failed\n"), "{error}");
}

#[test]
fn settings_are_checked_by_schema_and_program() {
    let modules = module();
    let here = modules.path();
    let check = ["module", "check", "020-web-site", "--values", "mine.txt"];
    modules.write("mine.txt", "limit: 12\n");
    assert_eq!(printed(here, &check), "the settings are valid (no program of the module checks settings)\n");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/hooks/batch/program");
    fs::create_dir(here.join("020-web-site/hooks")).unwrap();
    fs::copy(program, here.join("020-web-site/hooks/program")).unwrap();
    let error = refused(here, &check);
    assert_eq!(error, "Error: webSite: limit must be at most 9 (by hook check, hooks/program)\n");
    modules.write("mine.txt", "webSite: {limit: 8}\n");
    let done = windlass(here, &check);
    assert_eq!(String::from_utf8_lossy(&done.stderr), "warning: limit 8 is deprecated\n");
    assert_eq!(String::from_utf8_lossy(&done.stdout), "the settings are valid (checked by hooks/program)\n");
    assert!(done.status.success());
    modules.write("mine.txt", "webSite: {size: 100}\n");
    let error = refused(here, &check);
    assert!(error.contains("webSite.size: maximum: got 100, want 99"), "{error}");
    modules.write("mine.txt", "{}\n").write("020-web-site/hooks/program", "#!/bin/sh\nexit 1\n");
    let error = refused(here, &check);
    assert!(error.contains("hook hooks/program: hook config: exit status 1"), "{error}");
}

#[test]
fn programs_are_listed_and_definitions_printed() {
    let modules = module();
    let here = modules.path();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/hooks/batch/program");
    fs::create_dir(here.join("020-web-site/hooks")).unwrap();
    fs::copy(program, here.join("020-web-site/hooks/program")).unwrap();
    let text = printed(here, &["doctor", "modules", "."]);
    let line = text
        .lines()
        .find(|line| line.starts_with("holds: module web-site: "))
        .unwrap_or_else(|| panic!("{text}"));
    for part in [
        "020-web-site/hooks/program:startup:0 (onStartup 1)",
        "program:watch:1 (kubernetes watched)",
        "program:tick:3 (schedule tick)",
        "a readiness probe, a check of settings",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    let own = printed(here, &["crds", "modules"]);
    assert!(own.contains("name: modules.windlass.dev"), "{own}");
    let theirs = printed(here, &["crds", "modules", "--group", "deckhouse.io"]);
    assert!(theirs.contains("name: modules.deckhouse.io") && theirs.contains("scope: Cluster"), "{theirs}");
    let rights = printed(here, &["rbac", ".", "--module-status=deckhouse.io"]);
    assert!(rights.contains("deckhouse.io") && rights.contains("modules/status"), "{rights}");
}
