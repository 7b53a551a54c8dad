//! The rights that an account lacks for a release, and the command that grants them, on a real API server.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use chart_compat::data::Map;
use chart_compat::profile::Profile;
use windlass_cluster::{Cluster, ConnectOptions};
use windlass_controller::{
    ChartArguments, MissingRights, ReleaseActor, ReleaseRunner, ReleaseSpec, ReleaseTarget,
    ServiceAccountRef, crd_files,
};
use windlass_engine::{Engine, EngineOptions, ReleaseId, ReleaseOptions};
use windlass_render::{RenderBounds, parse_manifest};
use windlass_testing::shared;

#[tokio::test(flavor = "multi_thread")]
async fn an_account_learns_all_rights_that_it_lacks_and_how_to_get_them() {
    let cp = shared().unwrap();
    let ns = cp.namespace("lacks").unwrap();
    let n = ns.name();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/chart-resources/liberty");
    let chart = Arc::new(windlass_fetch::load(&path, Profile::Helm4).unwrap().compile(Profile::Helm4));
    let kubeconfig = Some(cp.kubeconfig().to_owned());
    let client = Cluster::connect(&ConnectOptions { kubeconfig, ..ConnectOptions::default() }).await.unwrap();
    let engine = Engine::new(client, parse_manifest, EngineOptions::once("test"));
    let account = ServiceAccountRef { namespace: Some(n.to_owned()), name: "deployer".to_owned() };
    let target = ReleaseTarget { namespace: None, actor: ReleaseActor::Account(account) };
    let runner = ReleaseRunner::new(engine, RenderBounds::default(), false).acting_for(&target, n).unwrap();
    let spec = ReleaseSpec {
        id: ReleaseId::new(n, "plants"),
        crds: crd_files(&chart.chart().crds(), &[], &BTreeMap::new()).unwrap(),
        chart,
        values: Arc::new(Map::new()),
        skip_schema_validation: false,
        owner: "test".to_owned(),
        cause: "test".to_owned(),
        description: None,
        record_labels: BTreeMap::new(),
        checksum_label: None,
        post_render: None,
        options: ReleaseOptions::default(),
    };
    cp.kubectl(["create", "serviceaccount", "deployer", "-n", n]).unwrap();
    let lacks = |role: &str, verbs: &str, resource: &str| {
        let (verbs, resource) = (format!("--verb={verbs}"), format!("--resource={resource}"));
        cp.kubectl(["create", "role", role, &verbs, &resource, "-n", n]).unwrap();
        let account = format!("--serviceaccount={n}:deployer");
        cp.kubectl(["create", "rolebinding", role, &format!("--role={role}"), &account, "-n", n]).unwrap();
    };
    // Some rights are there.
    lacks("some", "get,list,watch,create,update,patch,delete", "services");
    lacks("few", "get,list", "deployments.apps");
    let missing = runner.missing_rights(spec.clone()).await.unwrap();
    let chart_path = path.to_str().unwrap();
    let arguments = ChartArguments { chart: chart_path.to_owned(), ..ChartArguments::default() };
    let message = MissingRights {
        missing: &missing,
        account: (n, "deployer"),
        operator_kind: None,
        chart: &arguments,
        namespace: n,
        pull_secrets: false,
    };
    let text = message.to_string();
    assert!(!text.contains(" services in"), "{text}");
    for expected in [
        format!("create, delete, patch, update, watch deployments.apps in namespace {n}"),
        format!("create, delete, get, list, patch, update, watch secrets in namespace {n}"),
        format!("get, list, watch endpointslices.discovery.k8s.io in namespace {n}"),
    ] {
        assert!(text.contains(&expected), "{expected}: {text}");
    }
    // What the message tells to run grants them all.
    let command = message.command();
    let words: Vec<&str> =
        command.strip_prefix("windlass ").unwrap().split(" | ").next().unwrap().split(' ').collect();
    let out = Command::new(env!("CARGO_BIN_EXE_windlass")).args(words).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    cp.kubectl_with(["apply", "-f", "-"], &String::from_utf8(out.stdout).unwrap()).unwrap();
    let missing = runner.missing_rights(spec).await.unwrap();
    assert!(missing.is_empty(), "{missing:?}");
}
