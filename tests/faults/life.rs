//! A release that goes through its life, and what must be true after each step of it whatever went wrong on the way.

use serde_json::Value;
use std::path::Path;
use windlass_testing::{ControlPlane, Namespace, control_plane};

use crate::proxy::Proxy;

/// Where a release goes through its life: in a namespace of its own, from charts on disk, with a proxy before the API server.
pub(crate) struct Scene {
    pub(crate) plane: &'static ControlPlane,
    pub(crate) proxy: Proxy,
    pub(crate) namespace: Namespace<'static>,
    pub(crate) charts: tempfile::TempDir,
}

impl Scene {
    pub(crate) fn new(prefix: &str) -> Self {
        let plane = control_plane();
        let proxy = Proxy::start(plane.kubeconfig(), plane.directory());
        let namespace = plane.namespace(prefix).unwrap();
        let charts = tempfile::tempdir().unwrap();
        write_charts(charts.path());
        Self { plane, proxy, namespace, charts }
    }
}

/// Install, upgrade, rollback, uninstall.
pub(crate) const STEPS: usize = 4;

const HOOK: &str = r#"
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: life-hook
  annotations:
    helm.sh/hook: pre-install,pre-upgrade,pre-rollback,pre-delete
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
"#;

/// The template of a Job, which needs a controller to come to its end.
pub(crate) const JOB_FILE: &str = "job.yaml";

const JOB: &str = r#"
apiVersion: batch/v1
kind: Job
metadata:
  name: life-job
  annotations:
    helm.sh/hook: post-upgrade
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: x}]
"#;

/// Writes the two states of the chart into `v1` and `v2` below a directory.
pub(crate) fn write_charts(directory: &Path) {
    for (version, others) in [(1, ["first", "both"]), (2, ["second", "both"])] {
        let chart = directory.join(format!("v{version}"));
        std::fs::create_dir_all(chart.join("templates")).unwrap();
        std::fs::write(
            chart.join("Chart.yaml"),
            format!("apiVersion: v2\nname: life\nversion: 1.0.{version}\n"),
        )
        .unwrap();
        let object = |name: &str| {
            format!(
                "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: life-{name}}}\ndata: {{version: \"{version}\"}}\n"
            )
        };
        let service =
            "---\napiVersion: v1\nkind: Service\nmetadata: {name: life-web}\nspec: {ports: [{port: 80}]}\n";
        let labels = "{app: life}";
        let app = format!(
            "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: life-app}}\nspec:\n  selector: {{matchLabels: {labels}}}\n  \
             template:\n    metadata: {{labels: {labels}}}\n    spec: {{containers: [{{name: main, image: \"x:{version}\"}}]}}\n"
        );
        let all: String = others.iter().map(|name| object(name)).collect();
        std::fs::write(chart.join("templates/all.yaml"), all + service + &app + HOOK).unwrap();
        std::fs::write(chart.join("templates").join(JOB_FILE), JOB).unwrap();
    }
}

/// The command of a step.
pub(crate) fn command(step: usize, charts: &Path, namespace: &str) -> Vec<String> {
    let chart = |n: usize| charts.join(format!("v{n}")).to_str().unwrap().to_owned();
    let mut words: Vec<String> = match step {
        0 => vec!["install".into(), "life".into(), chart(1)],
        1 => vec!["upgrade".into(), "life".into(), chart(2), "--skip-unchanged".into()],
        2 => vec!["rollback".into(), "life".into(), "1".into()],
        _ => vec!["uninstall".into(), "life".into()],
    };
    words.extend(["-n".to_owned(), namespace.to_owned()]);
    words
}

/// What a step leaves in the cluster: objects with their version.
fn wanted(step: usize) -> &'static [&'static str] {
    match step {
        0 | 2 => &[
            "ConfigMap/life-both 1",
            "ConfigMap/life-first 1",
            "Deployment/life-app x:1",
            "Service/life-web",
        ],
        1 => &[
            "ConfigMap/life-both 2",
            "ConfigMap/life-second 2",
            "Deployment/life-app x:2",
            "Service/life-web",
        ],
        _ => &[],
    }
}

/// A release as the cluster has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Life {
    /// `revision:status`, oldest first.
    pub(crate) history: Vec<String>,
    pub(crate) objects: Vec<String>,
    pub(crate) leases: usize,
}

pub(crate) fn look(plane: &ControlPlane, namespace: &str) -> Life {
    let text = plane
        .kubectl([
            "get",
            "secrets,leases,configmaps,services,jobs,deployments",
            "-n",
            namespace,
            "-o",
            "json",
        ])
        .unwrap();
    let list: Value = serde_json::from_str(&text).unwrap();
    let (mut history, mut objects, mut leases) = (Vec::new(), Vec::new(), 0);
    for item in list["items"].as_array().unwrap() {
        let text = |pointer: &str| item.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (kind, name) = (text("/kind"), text("/metadata/name"));
        match kind {
            "Secret" => {
                let revision: u64 = text("/metadata/labels/version").parse().unwrap();
                history.push((revision, format!("{revision}:{}", text("/metadata/labels/status"))));
            }
            "Lease" => leases += 1,
            _ if name.starts_with("life") => {
                let version =
                    text("/data/version").to_owned() + text("/spec/template/spec/containers/0/image");
                let version = if kind == "Job" { String::new() } else { version };
                objects.push(format!("{kind}/{name} {version}").trim_end().to_owned());
            }
            _ => {}
        }
    }
    history.sort();
    objects.sort();
    Life { history: history.into_iter().map(|(_, row)| row).collect(), objects, leases }
}

impl Life {
    /// Whether the state of a step is deployed: nothing was left to do but to let the lock go.
    pub(crate) fn is_done(&self, step: usize) -> bool {
        let deployed = |row: &String| row.ends_with(":deployed");
        let one = self.history.iter().filter(|row| deployed(row)).count() == 1;
        let last = one && self.history.last().is_some_and(deployed);
        if step + 1 == STEPS { self.history.is_empty() } else { last && self.objects == wanted(step) }
    }

    /// What is wrong after a step failed and was undone: the state before it is to be there. `more`: as below.
    pub(crate) fn wrong_undone(&self, step: usize, before: usize, more: usize) -> Option<String> {
        let back = step.checked_sub(1).unwrap_or(STEPS - 1);
        self.wrong(back, before, more).map(|wrong| format!("undone: {wrong}"))
    }

    /// What is wrong after a step was repeated to its end. `more`: how many revisions it may have made besides its own.
    pub(crate) fn wrong(&self, step: usize, before: usize, more: usize) -> Option<String> {
        let unfinished = |row: &&String| row.contains("pending") || row.contains("uninstalling");
        let deployed = self.history.iter().filter(|row| row.ends_with(":deployed")).count();
        let last = step + 1 == STEPS;
        let most = if last { 0 } else { before + 1 + more };
        let complaint = if self.objects != wanted(step) {
            "objects"
        } else if self.history.iter().any(|row| unfinished(&row)) {
            "an unfinished revision"
        } else if deployed != usize::from(!last) {
            "not one deployed revision"
        } else if self.history.len() > most {
            "too many revisions"
        } else {
            return None;
        };
        Some(format!("{complaint} after step {step}: {self:?}"))
    }
}
