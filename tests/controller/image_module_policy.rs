//! A policy in the chart of a module, for the workloads of its release.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tokio::sync::watch;
use windlass_controller::serve::State;
use windlass_controller::{ContextOptions, ControllerContext};
use windlass_modules::addon;

use super::image_registry::ImageRegistry;
use super::images::{FollowedImages, image_of, record};
use super::write;

const DEPLOYMENTS: &str = "{{- range $name, $annotations := .Values.web.workloads }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  annotations: {{ $annotations | toJson }}
spec:
  replicas: 0
  selector: {matchLabels: {app: {{ $name }}}}
  template:
    metadata: {labels: {app: {{ $name }}}}
    spec: {containers: [{name: main, image: {{ $.Values.web.image | quote }}}]}
{{- end }}
";

fn module(root: &Path, image: &str, policy: &str) {
    let chart = json!({"apiVersion": "v2", "name": "web", "version": "1.0.0", "annotations": {"windlass.dev/image-policy": policy}});
    write(root, "001-web/Chart.yaml", &chart.to_string());
    let values =
        json!({"web": {"image": image, "workloads": {"web": {}, "db": {"keel.sh/policy": "never"}}}});
    write(root, "001-web/values.yaml", &values.to_string());
    write(root, "001-web/templates/web.yaml", DEPLOYMENTS);
    write(root, "values.yaml", "webEnabled: true\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_of_a_module_counts_for_its_workloads() {
    let registry = ImageRegistry::start();
    let first = registry.push("1", "one").await;
    let image = registry.image("1");
    let mut own = FollowedImages::prepare(&[registry.host()]).await;
    own.options.foreign_namespaces.clear();
    let modules = tempfile::tempdir().unwrap();
    module(modules.path(), &image, "force");
    let context =
        ControllerContext::new(own.client.clone(), &ContextOptions::default(), Arc::new(State::new("test_")));
    own.context = Some(context.clone());
    let options = addon::Options {
        directories: addon::DirectoryOptions {
            modules: modules.path().to_str().unwrap().to_owned(),
            ..addon::DirectoryOptions::default()
        },
        namespace: own.ns.name().to_owned(),
        module_status: addon::ModuleStatus::Off,
        ..addon::Options::default()
    };
    let stop = watch::Sender::new(false);
    let mut stopped = stop.subscribe();
    let operator = tokio::spawn(addon::run(context, options, async move {
        drop(stopped.wait_for(|stop| *stop).await);
    }));
    own.start();
    own.wait_for_deployment("web");
    own.records("web", &first);
    let second = registry.push("1", "two").await;
    let web = own.rolled_out("web", &format!("{image}@{second}"));
    assert_eq!(record(&web).release_policy, format!("force of Module {}/web", own.ns.name()));
    assert_eq!(image_of(&own.get("deployment", "db")), image, "the workload's own policy comes first");
    own.stop().await;
    stop.send_replace(true);
    operator.await.unwrap().unwrap();
}
