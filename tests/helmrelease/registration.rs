//! The kind on a cluster that does not have it yet: registered if rights allow it, and never overwritten.

use std::path::PathBuf;

use windlass::runtime::register_flux_kinds;
use windlass_cluster::{Cluster, ClusterError, ConnectOptions};
use windlass_testing::ControlPlane;

const CRD: &str = "crd/helmreleases.helm.toolkit.fluxcd.io";

async fn register(cluster: &Cluster) -> Result<(), ClusterError> {
    register_flux_kinds(cluster, &["HelmRelease"], "leave helmreleases out of --controllers").await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kind_is_registered_where_it_is_absent() {
    // The other tests' control plane has the kind.
    let cp = tokio::task::spawn_blocking(ControlPlane::start).await.unwrap().unwrap();
    let connect = async |kubeconfig: PathBuf| {
        let options = ConnectOptions { kubeconfig: Some(kubeconfig), ..ConnectOptions::default() };
        Cluster::connect(&options).await.unwrap()
    };
    let nobody = connect(cp.kubeconfig_as("nobody", &["system:authenticated"]).unwrap()).await;
    let admin = connect(cp.kubeconfig().to_owned()).await;

    let error = register(&nobody).await.unwrap_err().to_string();
    assert!(error.contains("windlass crds flux HelmRelease | kubectl apply -f -"), "{error}");
    assert!(error.contains("cannot create resource \"customresourcedefinitions\""), "{error}");
    assert_eq!(cp.kubectl(["get", "crd", "-o", "name"]).unwrap(), "");

    register(&admin).await.unwrap();
    assert_eq!(cp.kubectl(["get", "hr", "-A", "-o", "name"]).unwrap(), "");
    // Who may not register it has it now.
    register(&nobody).await.unwrap();

    // Another one's definition: with a description of its own, and without our texts.
    let patch = r#"[{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/description", "value": "theirs"}]"#;
    cp.kubectl(["patch", CRD, "--type=json", "-p", patch]).unwrap();
    let spec = ["get", CRD, "-o", "jsonpath={.metadata.generation} {.spec}"];
    let before = cp.kubectl(spec).unwrap();
    register(&admin).await.unwrap();
    register(&connect(cp.kubeconfig().to_owned()).await).await.unwrap();
    assert_eq!(cp.kubectl(spec).unwrap(), before);
}
