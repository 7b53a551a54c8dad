//! The front end of a hundred lines that the examples show, once on a real control plane.

#[path = "../../examples/front_end.rs"]
#[allow(dead_code, unreachable_pub, reason = "the test starts what its main function starts")]
mod example;

use super::{chart, control_plane};
use std::time::Duration;
use windlass::cluster::{Cluster, ConnectOptions};
use windlass_test_cluster::wait_until;

const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn keeps_what_it_released() {
    let cp = control_plane();
    let ns = cp.namespace("example").unwrap();
    let n = ns.name();
    let dir = chart();
    let values = dir.path().join("own.yaml");
    std::fs::write(&values, "size: 4\n").unwrap();
    let kubeconfig = Some(cp.kubeconfig().to_owned());
    let cluster =
        Cluster::connect(&ConnectOptions { kubeconfig, ..ConnectOptions::default() }).await.unwrap();
    assert!(example::keep(cluster.clone(), &[]).await.unwrap_err().to_string().contains("RELEASE CHART"));
    let words =
        ["one", dir.path().to_str().unwrap(), n, values.to_str().unwrap()].map(str::to_owned).to_vec();
    let example = tokio::spawn(async move { example::keep(cluster, &words).await });
    let size = || {
        cp.kubectl(["get", "configmap", "one", "-n", n, "-o", "jsonpath={.data.size}", "--ignore-not-found"])
    };
    let kept = |what: &str| {
        let as_wanted = || Ok((size()? == "4").then_some(()));
        assert!(!example.is_finished(), "{what}");
        wait_until(what, LIMIT, as_wanted).unwrap();
    };
    kept("it is released");
    wait_until("Helm sees it deployed", LIMIT, || {
        Ok(cp.helm4(["list", "-n", n]).ok().filter(|list| list.contains("deployed")))
    })
    .unwrap();
    cp.kubectl(["delete", "configmap", "one", "-n", n]).unwrap();
    kept("what was deleted is back");
    cp.kubectl(["patch", "configmap", "one", "-n", n, "-p", r#"{"data":{"size":"9"}}"#]).unwrap();
    kept("what was changed is back");
    example.abort();
    let history = cp.helm4(["history", "one", "-n", n]).unwrap();
    assert_eq!(history.lines().count(), 2, "no revision was made for that: {history}");
}
