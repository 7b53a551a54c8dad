//! Release records that HelmCharts find: those that k3s' script leaves, and those that lack a part.

use std::io::{Read as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use windlass_testing::ControlPlane;

use super::helmcharts::{Running, chart, content};

/// Changes the stored record of a revision.
pub(super) fn forge(
    (cp, namespace): (&ControlPlane, &str),
    release: &str,
    revision: u64,
    change: impl Fn(&mut Value),
) {
    let name = format!("sh.helm.release.v1.{release}.v{revision}");
    let stored =
        cp.kubectl(["get", "secret", &name, "-n", namespace, "-o", "jsonpath={.data.release}"]).unwrap();
    let outer = STANDARD.decode(stored.trim()).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(&STANDARD.decode(outer).unwrap()[..]).read_to_string(&mut text).unwrap();
    let mut record: Value = serde_json::from_str(&text).unwrap();
    change(&mut record);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(record.to_string().as_bytes()).unwrap();
    let data = STANDARD.encode(STANDARD.encode(gzip.finish().unwrap()));
    let labels = json!({"status": record["info"]["status"]});
    let patch = json!({"metadata": {"labels": labels}, "data": {"release": data}}).to_string();
    cp.kubectl(["patch", "secret", &name, "-n", namespace, "--type=merge", "-p", &patch]).unwrap();
}

/// The statuses of the records of a release, the oldest first.
fn statuses(running: &Running, release: &str) -> String {
    let path = "jsonpath={.items[*].metadata.labels.status}";
    running.kubectl(&format!("get secret -l owner=helm,name={release} --sort-by=.metadata.name -o {path}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn records_in_any_state_are_gone_on_from() {
    let mut running = Running::prepare().await;
    let budget = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: \"{{ .Release.Name }}\"}\nspec: {maxUnavailable: 1, selector: {matchLabels: {a: b}}}\n";
    let package = chart("1.0.0", &[("templates/budget.yaml", budget)]);
    let file = tempfile::Builder::new().suffix(".tgz").tempfile().unwrap();
    std::fs::write(file.path(), &package).unwrap();
    let (path, ns) = (file.path().to_str().unwrap(), running.ns.name().to_owned());
    let states = [
        "superseded",
        "uninstalling",
        "pending-upgrade",
        "pending-install",
        "pending-rollback",
        "failed",
        "deployed",
    ];
    for state in states {
        running.cp.helm3(["install", state, path, "-n", &ns]).unwrap();
        forge((running.cp, &ns), state, 1, |record| {
            record["info"]["status"] = state.into();
            // A pending operation counts as abandoned after a while.
            record["info"]["last_deployed"] = "2026-01-01T00:00:00Z".into();
            // As mapkubeapis: the server does not serve this version any more.
            let manifest = record["manifest"].as_str().unwrap().replace("policy/v1\n", "policy/v1beta1\n");
            assert!(manifest.contains("policy/v1beta1"), "{manifest}");
            record["manifest"] = manifest.into();
        });
        running.chart(state, &json!({"chartContent": content(&package), "set": {"size": "two"}}));
    }
    let uid = running.uid("poddisruptionbudget", "deployed");
    running.start().await;
    for state in states {
        running.wait_revision(state, 2);
        assert_eq!(running.size(state), "two", "{state}");
        let found = statuses(&running, state);
        assert!(["superseded deployed", "failed deployed"].contains(&found.as_str()), "{state}: {found}");
    }
    assert_eq!(running.uid("poddisruptionbudget", "deployed"), uid, "nothing is made anew");
    running.kubectl("delete helmchart --all");
    assert_eq!(running.kubectl("get poddisruptionbudgets,secrets -l owner=helm -o name"), "");
    running.stop().await;
}

/// Names of the Secrets with parts of the records of a release.
fn parts(running: &Running, release: &str) -> Vec<String> {
    let all = running.kubectl("get secrets -o name");
    let names = all.lines().filter_map(|line| line.strip_prefix("secret/"));
    let parts = names.filter(|name| name.contains(&format!(".{release}.v")) && !name.starts_with("sh.helm."));
    parts.map(str::to_owned).collect()
}

fn lose_part(running: &Running, release: &str) {
    let part = parts(running, release).pop().expect("a record in parts");
    running.kubectl(&format!("delete secret {part}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_lacks_a_part_holds_nothing_up() {
    let mut running = Running::started().await;
    let large = "{{ range $n := until 3 }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ $.Release.Name }}-large{{ $n }}\"}\ndata: {text: \"{{ range until 14000 }}{{ sha256sum (print $n \"-\" .) }}{{ end }}\"}\n{{ end }}\n";
    let package = content(&chart("1.0.0", &[("templates/large.yaml", large)]));
    running.chart("web", &json!({"chartContent": package}));
    running.wait_revision("web", 1);
    running.chart("late", &json!({"chartContent": package, "failurePolicy": "retry"}));
    running.wait_revision("late", 1);
    running.stop().await;
    lose_part(&running, "web");
    lose_part(&running, "late");
    let uid = running.uid("configmap", "web");
    running.start().await;
    // `reinstall` makes the release again, and deletes no object of it; `retry` says what is wrong.
    running.wait_event("web", "DeletingRecords: records that cannot be read");
    running.wait("the record is made again", || {
        statuses(&running, "web") == "deployed" && !parts(&running, "web").is_empty()
    });
    running.wait_ready("web", "True Deployed");
    assert_eq!(running.uid("configmap", "web"), uid);
    running.wait("the record is named", || running.message("late").contains("sh.helm.release.v1.late.v1"));
    // Nor does it hold up the deletion of either.
    running.stop().await;
    lose_part(&running, "web");
    running.start().await;
    running.kubectl("delete helmchart web late --wait=false");
    running.wait("both are gone", || running.kubectl("get helmcharts -o name").is_empty());
    for release in ["web", "late"] {
        running.wait_event(release, "DeletingRecords: ");
        assert!(parts(&running, release).is_empty() && statuses(&running, release).is_empty(), "{release}");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_other_releases_are_taken_over_only_where_the_spec_says_so() {
    let mut running = Running::started().await;
    let shared =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {of: \"{{ .Release.Name }}\"}\n";
    let package = content(&chart("1.0.0", &[("templates/shared.yaml", shared)]));
    let owner = || running.get("configmap", "shared", "{.data.of}");
    running.chart("first", &json!({"chartContent": package}));
    running.wait_revision("first", 1);
    running.chart("second", &json!({"chartContent": package}));
    running.wait("the object is refused", || running.condition("second", "Ready").starts_with("False "));
    assert!(running.message("second").contains("shared"), "{}", running.message("second"));
    assert_eq!(owner(), "first");
    // The first one would take it back as drift.
    running.kubectl("annotate helmchart first helmcharts.helm.cattle.io/unmanaged=");
    running.kubectl("delete helmchart first");
    running.chart("second", &json!({"chartContent": package, "takeOwnership": true}));
    running.wait_ready("second", "True Deployed");
    assert_eq!(owner(), "second");
    running.stop().await;
}
