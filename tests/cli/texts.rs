//! Texts at the end of a manifest have the line breaks that they have when Helm applies it.

use super::{control_plane, run, windlass};
use std::collections::BTreeMap;
use windlass_testing::write_file;

/// Ends of a template: with and without a line break, in each of YAML's forms of a text.
const ENDS: [(&str, &str); 7] = [
    ("clip", "|\n    a"),
    ("clip-end", "|\n    a\n"),
    ("keep", "|+\n    a"),
    ("keep-end", "|+\n    a\n\n"),
    ("strip", "|-\n    a\n"),
    ("folded", ">\n    a\n    b"),
    ("first", "|+\n    a\n\n---\n# nothing else\n"),
];

#[test]
fn block_texts_end_as_helm_ends_them() {
    let cp = control_plane();
    let ns = cp.namespace("texts").unwrap();
    let n = ns.name();
    let dir = tempfile::tempdir().unwrap();
    let write = |path: String, text: String| write_file(dir.path().join(path), text);
    write("Chart.yaml".into(), "apiVersion: v2\nname: texts\nversion: 1.0.0\n".into());
    for (name, end) in ENDS {
        for (what, note) in [("", ""), ("-hook", "\n  annotations: {helm.sh/hook: pre-install}")] {
            let head =
                format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}{what}{note}\ndata:\n");
            write(format!("templates/{name}{what}.yaml"), format!("{head}  text: {end}"));
        }
    }
    let path = dir.path().to_str().unwrap();
    let texts = || -> BTreeMap<String, String> {
        let list = cp.get(&format!("/api/v1/namespaces/{n}/configmaps")).unwrap();
        let of = |o: &serde_json::Value| {
            Some((o["metadata"]["name"].as_str()?.to_owned(), o["data"]["text"].as_str()?.to_owned()))
        };
        list["items"].as_array().unwrap().iter().filter_map(of).collect()
    };
    for (compat, helm3) in [("helm4", false), ("helm3", true)] {
        let args = ["install", "one", path, "-n", n];
        if helm3 { cp.helm3(args) } else { cp.helm4(args) }.unwrap();
        let theirs = texts();
        assert_eq!(theirs.len(), 2 * ENDS.len());
        // Nor is there anything to change in what Helm made.
        let plan = ["plan", "one", path, "-n", n, "--compat", compat, "--detailed-exitcode"];
        let plan = run(&plan);
        assert!(plan.status.success(), "{}", String::from_utf8_lossy(&plan.stdout));
        windlass(&["uninstall", "one", "-n", n, "--delete-hooks"]);
        assert!(texts().is_empty());
        windlass(&["install", "one", path, "-n", n, "--compat", compat]);
        assert_eq!(texts(), theirs, "{compat}");
        let again = windlass(&["upgrade", "one", path, "-n", n, "--compat", compat, "--skip-unchanged"]);
        assert!(again.contains("is unchanged"), "{again}");
        windlass(&["uninstall", "one", "-n", n, "--delete-hooks"]);
    }
}
