//! Waits: by an object's own terms, within a deadline, and with reasons for those who watch.

use crate::support::*;
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use windlass_engine::{OperationProgress, ReleaseRequest, Wait};

fn waiting(mut wanted: ReleaseRequest, seconds: u64) -> ReleaseRequest {
    wanted.options.wait = Wait::Ready;
    wanted.options.timeout = Duration::from_secs(seconds);
    wanted
}

fn stuck() -> Value {
    let mut stuck = deployment("stuck", "x:1");
    stuck["spec"]["template"]["spec"]["nodeSelector"] = json!({"no": "such-node"});
    stuck
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_may_say_when_they_are_ready() {
    let namespace = control_plane().namespace("terms").unwrap();
    let ns = namespace.name();
    let mut map = config_map("m", "1");
    map["metadata"]["annotations"] = json!({"windlass.dev/ready-when": "jsonpath={.data.done}=yes"});
    let wanted = waiting(request(ns, "web", std::slice::from_ref(&map), vec![]), 60);
    let engine = engine().await;
    let home = ns.to_owned();
    let helper = tokio::task::spawn_blocking(move || {
        windlass_testing::wait_until("the ConfigMap is there", Duration::from_secs(20), || {
            Ok(value(&home, "m").map(|_| ()))
        })
        .unwrap();
        let args = ["patch", "configmap", "m", "-n", &home, "-p", r#"{"data":{"done":"yes"}}"#];
        control_plane().kubectl(args).unwrap();
    });
    engine.reconcile(&wanted).await.unwrap();
    helper.await.unwrap();
    let mut other = map;
    other["metadata"]["annotations"]["windlass.dev/ready-when"] = json!("jsonpath={.data.more}");
    let error = engine.reconcile(&waiting(request(ns, "web", &[other], vec![]), 1)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "resource ConfigMap/{ns}/m not ready. status: InProgress, message: not yet: jsonpath={{.data.more}}\n\
             context deadline exceeded"
        )
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_bounds_the_whole() {
    let namespace = control_plane().namespace("deadline").unwrap();
    let ns = namespace.name();
    let mut wanted = waiting(request(ns, "web", &[stuck()], vec![]), 600);
    wanted.options.deadline = Some(Duration::from_secs(1));
    let error = engine().await.reconcile(&wanted).await.unwrap_err();
    assert_eq!(error.to_string(), "the operation was not done within its deadline of 1s");
    assert_eq!(history(ns, "web"), ["1:failed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_watch_are_told_why() {
    let namespace = control_plane().namespace("reasons").unwrap();
    let ns = namespace.name();
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&told);
    let listener = Arc::new(move |_: &_, step: &OperationProgress<'_>| match step {
        OperationProgress::Waiting { object, reason } => {
            sink.lock().unwrap().push(format!("{object}: {reason}"));
        }
        OperationProgress::Diagnosis { object, lines } => {
            sink.lock().unwrap().extend(lines.iter().map(|line| format!("{object}: {line}")));
        }
        _ => {}
    });
    let engine = engine().await.with_progress(listener, true);
    engine.reconcile(&waiting(request(ns, "web", &[stuck()], vec![]), 3)).await.unwrap_err();
    let told = told.lock().unwrap().join("\n");
    assert!(told.contains(&format!("Deployment {ns}/stuck: Available: 0/2")), "{told}");
    assert!(told.contains("Unschedulable: 0/") && told.contains("Pod stuck-"), "{told}");
    assert!(!told.contains("FailedScheduling"), "the scheduler's warning says the same: {told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_failed_upgrade_made_goes_also_where_it_ran_out_of_time() {
    let namespace = control_plane().namespace("cleanup").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    engine.reconcile(&request(ns, "web", &[config_map("a", "1")], vec![])).await.unwrap();
    let mut late = config_map("late", "1");
    late["metadata"]["annotations"] = json!({"windlass.dev/depends-on": "Deployment/stuck"});
    let objects = [config_map("a", "2"), config_map("new", "1"), stuck(), late];
    let mut wanted = request(ns, "web", &objects, vec![]);
    wanted.options.failure.cleanup = true;
    wanted.options.deadline = Some(Duration::from_secs(3));
    let error = engine.reconcile(&wanted).await.unwrap_err();
    assert!(error.to_string().contains("its deadline of 3s"), "{error}");
    assert_eq!(history(ns, "web"), ["1:deployed", "2:failed"]);
    let there = |name: &str| value(ns, name).is_some();
    assert_eq!((there("a"), there("new"), there("late")), (true, false, false));
    assert!(get(ns, "deployment", "stuck").is_none_or(|d| !d["metadata"]["deletionTimestamp"].is_null()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_bounds_what_comes_before_the_first_write_too() {
    let namespace = control_plane().namespace("early").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    // The lock of someone who may be dead is watched for seconds.
    let at = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(9);
    let at = at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "windlass-web", "namespace": ns}, "spec": {"holderIdentity": "x/elsewhere.1.1/1/1/a",
            "leaseDurationSeconds": 15, "acquireTime": at, "renewTime": at}});
    control_plane().kubectl_with(["apply", "-f", "-"], &lease.to_string()).unwrap();
    let mut wanted = request(ns, "web", &[config_map("a", "1")], vec![]);
    wanted.options.deadline = Some(Duration::from_secs(1));
    let error = engine.reconcile(&wanted).await.unwrap_err();
    assert_eq!(error.to_string(), "the operation was not done within its deadline of 1s");
    assert!(history(ns, "web").is_empty() && value(ns, "a").is_none());
}
