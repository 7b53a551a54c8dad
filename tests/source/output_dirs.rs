//! `template --output-dir` beside both Helms: what is told, and every file.

use std::fs;
use std::path::Path;

use windlass_testing::Tool;

use super::support::{User, helm4, ours};

/// A chart with CRDs, several documents of one template, and hooks, one of them beside a manifest.
fn chart(user: &User) {
    user.write("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
    user.write("web/crds/things.yaml", "kind: CustomResourceDefinition\nmetadata: {name: things}\n");
    user.write("web/templates/maps.yaml", "kind: ConfigMap\nmetadata: {name: a}\n---\nkind: Secret\n");
    let hook = "kind: Job\nmetadata:\n  name: before\n  annotations: {helm.sh/hook: pre-install}\n";
    user.write("web/templates/jobs/before.yaml", hook);
    user.write("web/templates/mixed.yaml", &format!("kind: Service\n---\n{hook}"));
    user.write("web/templates/tests/test.yaml", &hook.replace("pre-install", "test"));
}

/// The files below a directory with their texts.
fn texts(user: &User, directory: &str) -> Vec<(String, String)> {
    let read = |name: String| (name.clone(), fs::read_to_string(user.path(directory).join(name)).unwrap());
    user.files(directory).into_iter().map(read).collect()
}

#[test]
fn files_are_those_that_both_helms_write() {
    let helm3 = Tool::Helm3.path().unwrap();
    for (helm, profile) in [(helm4(), "helm4"), (&*helm3, "helm3")] {
        for flags in [
            &["--output-dir", "out"][..],
            &["--output-dir", "out/", "--include-crds"],
            &["--output-dir", "./out//deep", "--release-name", "--include-crds"],
            &["--output-dir", "out", "--no-hooks"],
            &["--output-dir", "out", "--skip-tests", "--release-name"],
            &["--output-dir", "out", "-s", "templates/maps.yaml"],
            &["--output-dir", "web/Chart.yaml"],
            &["--output-dir", ""],
        ] {
            let run = |program: &Path, args: &[&str]| {
                let user = User::new();
                chart(&user);
                // Into what is there already, too.
                let said = [(); 2].map(|()| user.command(program, args).output().unwrap());
                let said = said.map(|o| (o.status.code(), o.stdout, String::from_utf8(o.stderr).unwrap()));
                (said, texts(&user, "out"))
            };
            let args = [&["template", "demo", "web"], flags].concat();
            let own = run(ours(), &[&["--compat", profile], &args[..]].concat());
            assert_eq!(own, run(helm, &args), "{profile} {flags:?}");
        }
    }
}
