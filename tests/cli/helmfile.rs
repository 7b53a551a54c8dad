//! `windlass helmfile diff`, `apply`, `sync` and `destroy` on a real control plane.

use std::process::{Command, Output};

use serde_json::Value;
use windlass_testing::write_file;

use super::control_plane;

/// A folder with a helmfile, a chart, manifests and a kustomization.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(helmfile: &str) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.write("chart/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.2.3\n");
        folder.write("chart/values.yaml", "size: 1\n");
        folder.write(
            "chart/templates/cm.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\n  annotations: {revision: \"{{ .Release.Revision }}\"}\ndata: {size: \"{{ .Values.size }}\"}\n",
        );
        folder.write("raw/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: raw}\ndata: {text: \"{{ not a template }}\"}\n");
        folder.write("kust/kustomization.yaml", "resources: [a.yaml]\n");
        folder.write("kust/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: k}\n");
        folder.write("helmfile.yaml.gotmpl", helmfile);
        folder
    }

    fn write(&self, path: &str, text: &str) {
        write_file(self.0.path().join(path), text);
    }

    fn run(&self, namespace: &str, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(["helmfile", "--state-values-set", &format!("ns={namespace}")])
            .args(args)
            .current_dir(self.0.path())
            .env("KUBECONFIG", control_plane().kubeconfig())
            .env("LOG", self.log())
            .output()
            .unwrap()
    }

    /// Standard output of a command that ends with a status.
    fn expect(&self, namespace: &str, args: &[&str], status: i32) -> String {
        let out = self.run(namespace, args);
        let text = String::from_utf8(out.stdout).unwrap();
        assert_eq!(
            out.status.code(),
            Some(status),
            "{args:?}\n{text}\n{}",
            String::from_utf8_lossy(&out.stderr)
        );
        text
    }

    fn log(&self) -> String {
        self.0.path().join("log").display().to_string()
    }
}

const RELEASES: &str = r#"
helmfiles:
- path: child.yaml.gotmpl
  values: [{ns: {{ .Values.ns }}}]
releases:
- name: web
  namespace: {{ .Values.ns }}
  chart: ./chart
  values: [{size: {{ .Values | get "size" 2 }}}]
  needs: [raw]
  hooks:
  - events: [presync, postsync, postuninstall]
    command: sh
    args: [-c, 'echo {{`{{ .Event.Name }} {{ .Release.Name }}`}} >> $LOG']
- name: raw
  namespace: {{ .Values.ns }}
  chart: ./raw
- name: kust
  namespace: {{ .Values.ns }}
  chart: ./kust
  values: [{namePrefix: pre-}]
- name: gone
  namespace: {{ .Values.ns }}
  chart: ./chart
  installed: {{ .Values | get "gone" true }}
"#;

/// A nested file: its release needs one of the parent, and is patched after the real render.
const CHILD: &str = r#"
releases:
- name: patched
  namespace: {{ .Values.ns }}
  chart: ./chart
  needs: [{{ .Values.ns }}/web]
  strategicMergePatches:
  - apiVersion: v1
    kind: ConfigMap
    metadata: {name: patched}
    data: {patched: "yes"}
"#;

fn data(namespace: &str, name: &str) -> Value {
    control_plane().get(&format!("/api/v1/namespaces/{namespace}/configmaps/{name}")).unwrap()
}

/// Names and revisions of the releases, as Helm sees them.
fn releases(namespace: &str) -> Vec<String> {
    let list = control_plane().helm4(["list", "-n", namespace, "-o", "json"]).unwrap();
    let list: Value = serde_json::from_str(&list).unwrap();
    let text = |one: &Value, key: &str| one[key].as_str().map_or_else(|| one[key].to_string(), str::to_owned);
    list.as_array()
        .unwrap()
        .iter()
        .map(|one| format!("{} {}", text(one, "name"), text(one, "revision")))
        .collect()
}

#[test]
fn releases_of_all_files_are_applied_in_one_order() {
    let ns = control_plane().namespace("helmfile").unwrap();
    let n = ns.name();
    let folder = Folder::new(RELEASES);
    folder.write("child.yaml.gotmpl", CHILD);

    let told = folder.expect(n, &["diff", "--detailed-exitcode"], 2);
    assert!(told.starts_with("RELEASE  NAMESPACE") && told.contains("install"), "{told}");
    assert_eq!(releases(n), Vec::<String>::new(), "a diff writes nothing");
    let told = folder.expect(n, &["apply"], 0);
    let order: Vec<&str> = told.lines().filter(|line| line.starts_with("release \"")).collect();
    let at = |name: &str| order.iter().position(|line| line.contains(&format!("{name:?}"))).unwrap();
    assert!(at("raw") < at("web") && at("web") < at("patched"), "{order:?}");
    assert_eq!(releases(n), ["gone 1", "kust 1", "patched 1", "raw 1", "web 1"]);
    assert_eq!(data(n, "web")["data"]["size"], "2");
    assert_eq!(data(n, "raw")["data"]["text"], "{{ not a template }}");
    assert_eq!(data(n, "pre-k")["metadata"]["name"], "pre-k");
    let patched = data(n, "patched");
    assert_eq!((&patched["data"]["patched"], &patched["data"]["size"]), (&"yes".into(), &"1".into()));
    assert_eq!(std::fs::read_to_string(folder.log()).unwrap(), "presync web\npostsync web\n");

    assert_eq!(folder.expect(n, &["diff", "--detailed-exitcode"], 0), "No release would change.\n");
    folder.expect(n, &["apply"], 0);
    assert_eq!(releases(n), ["gone 1", "kust 1", "patched 1", "raw 1", "web 1"]);

    // Only what differs is upgraded, and what is to go is uninstalled.
    let set = ["--state-values-set", "size=3,gone=false"];
    let told = folder.expect(n, &[&set[..], &["apply"]].concat(), 0);
    assert_eq!(releases(n), ["kust 1", "patched 1", "raw 1", "web 2"], "{told}");
    assert_eq!(data(n, "web")["metadata"]["annotations"]["revision"], "2");
    // `sync` upgrades whether something differs or not.
    folder.expect(n, &[&set[..], &["-l", "name=web", "sync"]].concat(), 0);
    assert_eq!(releases(n), ["kust 1", "patched 1", "raw 1", "web 3"]);

    folder.expect(n, &["destroy"], 0);
    assert_eq!(releases(n), Vec::<String>::new());
    assert!(std::fs::read_to_string(folder.log()).unwrap().ends_with("postuninstall web\n"));
}

#[test]
fn a_bundle_is_deployed_as_its_sources_are() {
    let ns = control_plane().namespace("helmfile-bundle").unwrap();
    let n = ns.name();
    let folder = Folder::new(RELEASES);
    folder.write("child.yaml.gotmpl", CHILD);
    let bundle = folder.0.path().join("bundle.tar").display().to_string();
    let out = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["bundle", "--state-values-set", &format!("ns={n}"), "-o", &bundle])
        .current_dir(folder.0.path())
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    for name in ["chart", "raw", "kust", "helmfile.yaml.gotmpl", "child.yaml.gotmpl"] {
        std::fs::rename(folder.0.path().join(name), folder.0.path().join(format!("gone-{name}"))).unwrap();
    }
    folder.expect(n, &["--bundle", &bundle, "apply"], 0);
    assert_eq!(releases(n), ["gone 1", "kust 1", "patched 1", "raw 1", "web 1"]);
    assert_eq!(data(n, "patched")["data"]["patched"], "yes");
    folder.expect(n, &["--bundle", &bundle, "diff", "--detailed-exitcode"], 0);
    folder.expect(n, &["--bundle", &bundle, "destroy"], 0);
    assert_eq!(releases(n), Vec::<String>::new());
}

#[test]
fn a_failed_release_stops_what_needs_it() {
    let ns = control_plane().namespace("helmfile-fails").unwrap();
    let n = ns.name();
    let folder = Folder::new(
        "releases:\n- {name: bad, namespace: {{ .Values.ns }}, chart: ./bad}\n- {name: web, namespace: {{ .Values.ns }}, chart: ./chart, needs: [bad]}\n",
    );
    folder.write("bad/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not_A_Name}\n");
    let out = folder.run(n, &["sync"]);
    let told = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{told}");
    assert!(told.contains("release \"bad\" failed: ") && told.contains("1 release(s) failed: bad"), "{told}");
    assert!(!releases(n).iter().any(|line| line.starts_with("web ")));

    let circle = Folder::new(
        "releases:\n- {name: a, chart: ./chart, needs: [b]}\n- {name: b, chart: ./chart, needs: [a]}\n",
    );
    let out = circle.run(n, &["apply"]);
    assert!(String::from_utf8_lossy(&out.stderr).contains("cycle detected: "));
}

/// A release with a ConfigMap of its name that cannot be changed, and fields that the state's values choose.
const FIELDS: &str = r#"
releases:
- name: web
  namespace: {{ .Values.ns }}
  chart: ./chart
  values: [{{ .Values | get "values" dict | toJson }}]
{{- range $field, $value := .Values | get "fields" dict }}
  {{ $field }}: {{ $value | toJson }}
{{- end }}
"#;

#[test]
fn fields_and_flags_about_helms_upgrade_count_while_deploying() {
    let ns = control_plane().namespace("helmfile-fields").unwrap();
    let n = ns.name();
    let folder = Folder::new(FIELDS);
    folder.write(
        "chart/templates/cm.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\nimmutable: true\n\
         data: {size: \"{{ .Values.size }}\", more: \"{{ .Values.more }}\"}\n",
    );
    let apply = |sets: &[&str], flags: &[&str]| {
        let sets = sets.iter().flat_map(|set| ["--state-values-set", set]);
        let args: Vec<&str> = sets.chain(["apply"]).chain(flags.iter().copied()).collect();
        let out = folder.run(n, &args);
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let done = (Some(0), String::new());
    let found = || {
        let map = data(n, "web");
        ["size", "more"].map(|key| map["data"][key].as_str().unwrap_or_default().to_owned())
    };

    // Somebody else's object.
    control_plane().kubectl(["create", "configmap", "web", "-n", n, "--from-literal=old=0"]).unwrap();
    let (status, told) = apply(&[], &[]);
    assert!(status == Some(1) && told.contains("invalid ownership metadata"), "{told}");
    let (status, told) = apply(&["fields.adopt[0]=Secret/web"], &[]);
    assert!(status == Some(1) && told.contains("invalid ownership metadata"), "{told}");
    let (status, told) = apply(&["fields.adopt[0]=web"], &[]);
    assert!(status == Some(1) && told.contains("adopt: \"web\" is not KIND/NAME"), "{told}");
    assert_eq!(apply(&["fields.adopt[0]=configmap/web", "values.size=5"], &[]), done);
    assert_eq!(found(), ["5", ""]);

    // An immutable object.
    let more = ["values.size=5", "values.more=yes"];
    let (status, told) = apply(&more, &[]);
    assert!(status == Some(1) && told.contains("immutable"), "{told}");
    let uid = || data(n, "web")["metadata"]["uid"].clone();
    let before = uid();
    let force = "fields.force=true";
    assert_eq!(apply(&[&more[..], &[force]].concat(), &[]), done);
    assert_eq!(found(), ["5", "yes"]);
    assert_ne!(uid(), before, "it was created again");

    let strategy = "fields.updateStrategy=reinstallIfForbidden";
    assert_eq!(apply(&["values.size=5", "values.more=again", strategy], &[]), done);
    assert_eq!(found(), ["5", "again"]);

    // Values of the deployed revision: those of a failed upgrade are not reused.
    let reuse = "fields.reuseValues=true";
    let (status, told) = apply(&[reuse, "values.size=9", "values.more=wrong"], &[]);
    assert!(status == Some(1) && told.contains("immutable"), "{told}");
    assert_eq!(apply(&[force, reuse, "values.more=no"], &[]), done);
    assert_eq!(found(), ["5", "no"]);
    assert_eq!(apply(&[force, "values.size=6"], &["--reuse-values"]), done);
    assert_eq!(found(), ["6", "no"]);
    assert_eq!(apply(&[force, reuse], &["--reset-values"]), done);
    assert_eq!(found(), ["1", ""]);

    for (fields, words) in [
        (&["fields.recreatePods=true"][..], "recreatePods: Helm has removed it"),
        (&[force, "fields.forceConflicts=true"], "exclude each other"),
    ] {
        let (status, told) = apply(fields, &[]);
        assert!(status == Some(1) && told.contains(words), "{told}");
    }

    // Flags over the fields of all releases.
    folder.expect(n, &["destroy", "--deleteWait", "--cascade", "foreground"], 0);
    control_plane().kubectl(["create", "configmap", "web", "-n", n, "--from-literal=old=0"]).unwrap();
    let flags = [
        "--take-ownership",
        "--wait",
        "--timeout",
        "60",
        "--description",
        "by hand",
        "--args",
        "--set more=x",
    ];
    assert_eq!(apply(&[force], &flags), done);
    assert_eq!(found(), ["1", "x"]);
    // The kubeconfig of the command line counts, not that of the environment.
    let kubeconfig = control_plane().kubeconfig().display().to_string();
    let mut diff = Command::new(env!("CARGO_BIN_EXE_windlass"));
    diff.args([
        "helmfile",
        "--state-values-set",
        &format!("ns={n}"),
        "diff",
        "--detailed-exitcode",
        "--kubeconfig",
    ]);
    diff.args([&kubeconfig, "--args", "--set more=x"])
        .current_dir(folder.0.path())
        .env("KUBECONFIG", "/none");
    let diff = diff.output().unwrap();
    assert_eq!(diff.status.code(), Some(0), "{}", String::from_utf8_lossy(&diff.stderr));
    let history = control_plane().helm4(["history", "web", "-n", n, "-o", "json"]).unwrap();
    assert!(history.contains("by hand"), "{history}");
}

#[test]
fn documents_of_schemas_count_while_deploying() {
    let ns = control_plane().namespace("helmfile-schema").unwrap();
    let n = ns.name();
    let folder = Folder::new(FIELDS);
    folder.write("size.json", "{\"maximum\": 5}");
    let reference = folder.0.path().join("size.json").display().to_string();
    let schema = format!("{{\"properties\": {{\"size\": {{\"$ref\": \"file://{reference}\"}}}}}}");
    folder.write("chart/values.schema.json", &schema);
    folder.expect(n, &["--state-values-set", "values.size=3", "apply"], 0);
    let out = folder.run(n, &["--state-values-set", "values.size=6", "apply"]);
    let told = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(1) && told.contains("maximum"), "{told}");
    assert_eq!(data(n, "web")["data"]["size"], "3");
}

#[test]
fn charts_of_addresses_overrides_and_contexts_count_while_deploying() {
    let ns = control_plane().namespace("helmfile-charts").unwrap();
    let n = ns.name();
    let file = "environments: {other: {kubeContext: nowhere}, default: {}}\n---\nreleases: [{name: web, namespace: {{ .Values.ns }}, chart: 'git::file://REPOSITORY@chart'}]\n";
    let folder = Folder::new("");
    let root = folder.0.path();
    folder.write("helmfile.yaml.gotmpl", &file.replace("REPOSITORY", &root.display().to_string()));
    for args in [&["init", "-q"][..], &["add", "chart"], &["commit", "-q", "-m", "one"]] {
        let names = ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"];
        let mut git = Command::new("git");
        let done = git.args(args).current_dir(root).envs(names.map(|name| (name, "me"))).status();
        assert!(done.unwrap().success());
    }
    folder.expect(n, &["apply"], 0);
    assert_eq!(data(n, "web")["data"]["size"], "1");
    // `--chart` overrides the chart of every release.
    folder.write("second/Chart.yaml", "apiVersion: v2\nname: second\nversion: 1.0.0\n");
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {size: second}\n";
    folder.write("second/templates/cm.yaml", map);
    folder.expect(n, &["--chart", "./second", "apply"], 0);
    assert_eq!(data(n, "web")["data"]["size"], "second");
    let out = folder.run(n, &["-e", "other", "apply"]);
    let told = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success() && told.contains("nowhere"), "{told}");
}

#[test]
fn statuses_and_tests_are_those_of_each_release() {
    let ns = control_plane().namespace("helmfile-status").unwrap();
    let n = ns.name();
    let folder = Folder::new(RELEASES);
    folder.write("child.yaml.gotmpl", CHILD);
    let test = "{{ if .Values.never }}apiVersion: batch/v1\nkind: Job{{ else }}apiVersion: v1\nkind: ConfigMap{{ end }}\n\
        metadata: {name: \"{{ .Release.Name }}-test\", annotations: {helm.sh/hook: test}}\n\
        {{ if .Values.never }}spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}{{ end }}\n";
    folder.write("chart/templates/test.yaml", test);
    let keep = ["--state-values-set", "gone=false"];
    let words = |more: &[&'static str]| [&keep[..], more].concat();

    // Every release is asked before the error ends the run.
    let out = folder.run(n, &words(&["-l", "name!=patched", "status"]));
    let told = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{told}");
    assert!(
        told.contains("3 release(s) failed: raw, kust, web") && told.contains("release \"kust\": "),
        "{told}"
    );

    folder.expect(n, &words(&["sync"]), 0);
    let told = folder.expect(n, &words(&["status"]), 0);
    let names: Vec<&str> = told.lines().filter_map(|line| line.strip_prefix("NAME: ")).collect();
    assert_eq!(names, ["raw", "kust", "web", "patched"]);
    let own = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["status", "patched", "-n", n])
        .env("KUBECONFIG", control_plane().kubeconfig())
        .output()
        .unwrap();
    // Ages change from one call to the next.
    let without_ages = |text: &str| -> Vec<String> {
        let age =
            |line: &str| line.strip_suffix('s')?.rsplit_once(' ').map(|(row, _)| row.trim_end().to_owned());
        text.lines().map(|line| age(line).unwrap_or_else(|| line.to_owned())).collect()
    };
    let own_lines = without_ages(&String::from_utf8(own.stdout).unwrap());
    assert!(own.status.success() && without_ages(&told).ends_with(&own_lines), "{told}");

    let told = folder.expect(n, &words(&["-l", "name=web", "test", "--logs"]), 0);
    assert!(
        told.contains("TEST SUITE:     web-test\n") && told.contains("Phase:          Succeeded\n"),
        "{told}"
    );
    assert_eq!(data(n, "web-test")["metadata"]["name"], "web-test");
    folder.expect(n, &words(&["-l", "name=web", "sync", "--set", "never=true"]), 0);
    let out = folder.run(n, &words(&["-l", "name=web", "test", "--timeout", "1"]));
    let told = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(1) && told.contains("1 release(s) failed: web"), "{told}");
    folder.expect(n, &["-l", "name=none", "status"], 3);
}
