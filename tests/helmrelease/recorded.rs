//! What HelmReleases end with, beside what Flux's helm-controller ended with (`fixtures/helm-controller`, `make fixtures-helm-controller`):
//! conditions, counters, history, records, objects and what a deletion leaves.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::{Map, Value, json};
use windlass_testing::{Namespace, wait_until};

use super::support::{LIMIT, Running, package};

/// Cases that run at a time.
const AT_ONCE: usize = 4;
/// Zeros in place of a registry's digest.
const DIGEST: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/helm-controller").join(name)
}

fn read(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(fixture(name)).unwrap()).unwrap()
}

/// The chart of all cases, in a version.
fn chart(version: &str) -> Vec<u8> {
    let mut files = vec![("Chart.yaml", format!("apiVersion: v2\nname: demo\nversion: {version}\n"))];
    for path in ["values.yaml", "templates/config.yaml", "templates/pod.yaml", "templates/test.yaml"] {
        files.push((path, std::fs::read_to_string(fixture("chart").join(path)).unwrap()));
    }
    package(&files)
}

/// A text with the names of the namespaces as the fixture has them.
fn plain(text: &str, target: &str, own: &str) -> Value {
    serde_json::from_str(&text.replace(target, "TARGET").replace(own, "NAMESPACE")).unwrap()
}

/// Names of the ConfigMaps and Pods of a namespace.
fn objects(running: &Running, namespace: &str) -> Vec<String> {
    let names = running
        .cp
        .kubectl([
            "get",
            "configmaps,pods",
            "-n",
            namespace,
            "-o",
            "jsonpath={range .items[*]}{.kind}/{.metadata.name} {end}",
        ])
        .unwrap();
    let own = names.split_whitespace().filter(|name| *name != "ConfigMap/kube-root-ca.crt");
    own.map(str::to_owned).collect()
}

fn records(running: &Running) -> Vec<Value> {
    let args = ["get", "secrets", "-n", running.ns.name(), "-l", "owner=helm", "-o", "json"];
    let list: Value = serde_json::from_str(&running.cp.kubectl(args).unwrap()).unwrap();
    let mut records: Vec<Value> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|secret| {
            let record = windlass_engine::record::decode_secret(secret).unwrap();
            json!({
                "version": record.version, "namespace": record.namespace, "status": record.info.status.to_string(),
                "applyMethod": record.apply_method, "chartVersion": record.chart["metadata"]["version"],
                "config": record.config.as_object().cloned().unwrap_or_default(),
            })
        })
        .collect();
    records.sort_by_key(|record| record["version"].as_u64());
    records
}

/// `STATUS REASON` of each condition, by its type.
fn plain_conditions(all: &Value) -> Map<String, Value> {
    let plain = |c: &Value| {
        let text = |field: &str| c[field].as_str().unwrap().to_owned();
        (text("type"), format!("{} {}", text("status"), text("reason")).into())
    };
    all.as_array().map_or(&[][..], Vec::as_slice).iter().map(plain).collect()
}

/// As the recorder observes it.
fn observed(running: &Running, target: &Namespace<'_>) -> Value {
    let object = running.get("helmrelease", "web");
    let status = &object["status"];
    let shot = |shot: &Value| {
        let mut shot = shot.as_object().unwrap().clone();
        for time in ["firstDeployed", "lastDeployed", "deleted", "digest"] {
            shot.remove(time);
        }
        if let Some(Value::Object(hooks)) = shot.get_mut("testHooks") {
            for hook in hooks.values_mut() {
                *hook = hook["phase"].as_str().unwrap_or_default().into();
            }
        }
        Value::Object(shot)
    };
    let all = |field: &Value| field.as_array().cloned().unwrap_or_default();
    let conditions = plain_conditions(&status["conditions"]);
    let mut inventory: Vec<String> = all(&status["inventory"]["entries"])
        .iter()
        .map(|entry| entry["id"].as_str().unwrap().to_owned())
        .collect();
    inventory.sort();
    let counter = |name: &str| status[name].as_i64().unwrap_or_default();
    let text = |name: &str| status[name].as_str().unwrap_or_default();
    let found = json!({
        "conditions": conditions,
        "counters": {
            "failures": counter("failures"), "installFailures": counter("installFailures"),
            "upgradeFailures": counter("upgradeFailures"),
        },
        "history": all(&status["history"]).iter().map(shot).collect::<Vec<_>>(),
        "records": records(running),
        "objects": {
            "NAMESPACE": objects(running, running.ns.name()), "TARGET": objects(running, target.name()),
        },
        "observed": status["observedGeneration"] == object["metadata"]["generation"],
        "inventory": inventory,
        "lastAttemptedReleaseAction": text("lastAttemptedReleaseAction"),
        "lastAttemptedRevision": text("lastAttemptedRevision"),
        "lastAttemptedRevisionDigest": text("lastAttemptedRevisionDigest"),
        "lastAttemptedConfigDigest": text("lastAttemptedConfigDigest"),
        "storageNamespace": text("storageNamespace"),
    });
    plain(&found.to_string(), target.name(), running.ns.name())
}

/// The fields of a case that differ, with both values.
fn differences(found: &Value, expected: &Value) -> Vec<String> {
    let fields =
        expected.as_object().unwrap().iter().filter(|(field, value)| found[field.as_str()] != **value);
    fields
        .map(|(field, value)| {
            format!("  {field}:\n    helm-controller {value}\n    windlass        {}", found[field.as_str()])
        })
        .collect()
}

/// Runs a case to its end. Returns how it ends otherwise than with helm-controller.
async fn run(case: &Value, results: &Value) -> Vec<String> {
    let name = case["name"].as_str().unwrap().to_owned();
    let mut running = Running::prepare("rec").await;
    let target = running.cp.namespace("rec-target").unwrap();
    running.start().await;
    let mut wrong = Vec::new();
    for (number, step) in case["steps"].as_array().unwrap().iter().enumerate() {
        if let Some(version) = step["chart"]["version"].as_str() {
            let revision =
                step["revision"].as_str().map_or_else(|| format!("{version}@{DIGEST}"), str::to_owned);
            running.publish("demo", &revision, chart(version));
        }
        running.release(
            "web",
            &serde_json::from_str(&step["spec"].to_string().replace("TARGET", target.name())).unwrap(),
        );
        let mut expected = results["steps"][number].clone();
        if let Some(reconciling) = expected["conditions"].get_mut("Reconciling")
            && *reconciling == "True Progressing"
        {
            // What fails before a release action is tried again, and says so here.
            *reconciling = "True ProgressingWithRetry".into();
        }
        let expected = &expected;
        let matches = || {
            let conditions = plain_conditions(&running.get("helmrelease", "web")["status"]["conditions"]);
            let near = Value::Object(conditions)["Ready"] == expected["conditions"]["Ready"];
            Ok((near && differences(&observed(&running, &target), expected).is_empty()).then_some(()))
        };
        let reached = wait_until(&name, LIMIT, matches).is_ok();
        // Where nothing is to be tried again, another pass changes nothing.
        let retries = !expected["conditions"]["Reconciling"].is_null();
        if reached && !retries {
            let token = format!("again-{number}");
            running.ask("web", &token);
            running.wait(
                "handled",
                |object| object["status"]["lastHandledReconcileAt"] == token.as_str(),
                "web",
            );
        }
        if !reached || (!retries && wait_until(&name, LIMIT, matches).is_err()) {
            let differs = differences(&observed(&running, &target), expected).join("\n");
            wrong.push(format!(
                "{name}, step {number}, {}:\n{differs}",
                if reached { "asked again" } else { "at its end" }
            ));
        }
    }
    running.cp.kubectl(["delete", "helmrelease", "web", "-n", running.ns.name(), "--timeout=60s"]).unwrap();
    let secrets = records(&running)
        .iter()
        .map(|r| format!("Secret/sh.helm.release.v1.web.v{}", r["version"]))
        .collect::<Vec<_>>();
    let left: Vec<String> = [running.ns.name(), target.name()]
        .iter()
        .flat_map(|place| objects(&running, place))
        .chain(secrets)
        .collect();
    if json!(left) != results["left"] {
        wrong.push(format!("{name}: helm-controller leaves {}, windlass {left:?}", results["left"]));
    }
    running.end().await;
    wrong
}

#[test]
fn releases_end_as_helm_controller_recorded() {
    let (cases, results) = (read("cases.json"), read("results.json"));
    // helm-controller refuses a revision without a digest, which no source-controller writes.
    let cases = cases.as_array().unwrap().iter().filter(|case| case["name"] != "tag-alone");
    let only = std::env::var("CASE").unwrap_or_default();
    let left = cases.filter(|case| case["name"].as_str().unwrap().contains(&only));
    let left: Mutex<Vec<&Value>> = Mutex::new(left.collect());
    let wrong = Mutex::new(Vec::new());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let work = || {
        loop {
            let Some(case) = left.lock().unwrap().pop() else { break };
            let ends = runtime.block_on(run(case, &results[case["name"].as_str().unwrap()]));
            wrong.lock().unwrap().extend(ends);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
