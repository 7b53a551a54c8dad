//! Workloads that follow their configuration, on a real control plane.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_base::redact::{self, SecretScope};
use windlass_cluster::{ClusterError, Gvk, ObjectMeta, ObjectRef, PatchKind};
use windlass_controller::ControllerContext;
use windlass_reload::{COLLECTION_MANAGER, MANAGER, ReloadOptions};
use windlass_testing::wait_until;

use super::LIMIT;
use super::followed_workloads::{Followed, FollowerOptions};

const RECORD: &str = "windlass.dev/configuration-digests";
const DIGEST: &str = "windlass.dev/configuration-digest";
const FROM: &str = "windlass.dev/reloaded-from";
const PAUSED_AT: &str = "deployment.reloader.stakater.com/paused-at";

/// A namespace whose workloads are rolled out.
type Running = Followed<ReloadOptions>;

impl FollowerOptions for ReloadOptions {
    fn run(
        self,
        context: ControllerContext,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = Result<(), ClusterError>> + Send + 'static {
        windlass_reload::run(context, self, stop)
    }
}

impl Running {
    pub(super) async fn prepare() -> Self {
        let options = |namespace: &str| ReloadOptions {
            namespace: Some(namespace.to_owned()),
            foreign_namespaces: BTreeSet::from([namespace.to_owned()]),
            ..ReloadOptions::default()
        };
        Self::new("reload", options).await
    }

    fn config_map(&self, name: &str, value: &str, annotations: &Value) {
        self.apply(&json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "annotations": annotations}, "data": {"a": value},
        }));
    }

    /// A workload that uses ConfigMap `app`.
    fn workload(&self, (api_version, kind): (&str, &str), name: &str, annotations: &Value) {
        let pod = json!({
            "containers": [{"name": "main", "image": "web:1", "envFrom": [{"configMapRef": {"name": "app", "optional": true}}],
                "volumeMounts": [{"name": "keys", "mountPath": "/keys"}]}],
            "volumes": [{"name": "keys", "secret": {"secretName": "keys", "optional": true}}],
        });
        let labels = json!({"app": name});
        let template = json!({"metadata": {"labels": labels}, "spec": pod});
        let mut once = template.clone();
        once["spec"]["restartPolicy"] = "Never".into();
        let spec = match kind {
            "CronJob" => json!({"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": once}}}),
            "Job" => json!({"template": once}),
            _ => json!({"selector": {"matchLabels": labels}, "template": template}),
        };
        self.apply(&json!({
            "apiVersion": api_version, "kind": kind, "metadata": {"name": name, "annotations": annotations}, "spec": spec,
        }));
    }

    fn deployment(&self, name: &str, annotations: &Value) {
        self.workload(("apps/v1", "Deployment"), name, annotations);
    }

    /// Waits until the digests of a workload are recorded.
    fn recorded(&self, kind: &str, name: &str) -> Value {
        self.until(kind, name, "has a record", |found| ObjectMeta::of(found).annotation(RECORD).is_some())
    }

    /// Waits until a workload was rolled out for these.
    fn reloaded(&self, kind: &str, name: &str, from: &str) -> Value {
        self.until(kind, name, "is rolled out", |found| template_annotation(found, FROM) == Some(from))
    }

    async fn edit(&self, value: &str) {
        let app = ObjectRef::new(Gvk::new("v1", "ConfigMap"), Some(self.ns.name()), "app");
        let patch = json!({"data": {"a": value}});
        self.client.patch_subresource(&app, "", PatchKind::Merge, &patch, "test").await.unwrap();
    }
}

fn template_annotation<'o>(workload: &'o Value, name: &str) -> Option<&'o str> {
    workload["spec"]["template"]["metadata"]["annotations"][name].as_str()
}

fn auto() -> Value {
    json!({"reloader.stakater.com/auto": "true"})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_edits_rolls_out_each_kind_once() {
    let mut own = Running::prepare().await;
    own.config_map("app", "0", &Value::Null);
    let templates = [("apps/v1", "Deployment"), ("apps/v1", "StatefulSet"), ("apps/v1", "DaemonSet")];
    for kind in templates.into_iter().chain([("batch/v1", "CronJob"), ("batch/v1", "Job")]) {
        own.workload(kind, "web", &auto());
    }
    own.start();
    let before = templates.map(|(_, kind)| own.recorded(kind, "web"));
    let job = own.recorded("Job", "web");
    own.recorded("CronJob", "web");
    for edit in 0..100 {
        own.edit(&edit.to_string()).await;
    }
    for ((_, kind), before) in templates.into_iter().zip(before) {
        assert_eq!(template_annotation(&before, DIGEST), None, "{kind}: a baseline rolls nothing out");
        let after = own.reloaded(kind, "web", "ConfigMap/app");
        // Of a Deployment annotations count, too: record and rollout are one write.
        let generation = |object: &Value| ObjectMeta::of(object).generation();
        assert_eq!(generation(&after), generation(&before) + 1, "{kind}");
        let managers = after["metadata"]["managedFields"].to_string();
        assert!(managers.contains(MANAGER), "{managers}");
    }
    let why = own.run("why deployment/web");
    assert!(why.contains("last change of its Pods: configuration: ConfigMap/app has changed"), "{why}");
    own.until("Job", "web", "is made again", |found| found["metadata"]["uid"] != job["metadata"]["uid"]);
    let jobs = || own.cp.kubectl(["get", "jobs", "-n", own.ns.name(), "-o", "name"]).unwrap();
    let jobs =
        wait_until(
            "the CronJob has run",
            LIMIT,
            || Ok(Some(jobs()).filter(|jobs| jobs.lines().count() == 2)),
        )
        .unwrap();
    assert!(jobs.lines().any(|name| name.starts_with("job.batch/web-")), "{jobs}");
    let events = wait_until("the Event is there", LIMIT, || {
        let events = own.cp.kubectl([
            "get",
            "events",
            "-n",
            own.ns.name(),
            "-o",
            "jsonpath={range .items[?(@.reason=='Reloaded')]}{.involvedObject.kind}: {.message}{'\\n'}{end}",
        ])?;
        Ok(Some(events).filter(|events| events.lines().count() >= 5))
    })
    .unwrap();
    assert!(events.contains("Deployment: rolled out, because of a change of ConfigMap/app"), "{events}");
    own.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_while_no_operator_runs_is_rolled_out_by_the_next_one() {
    let mut own = Running::prepare().await;
    own.config_map("app", "0", &Value::Null);
    own.deployment("web", &auto());
    // More than are written at a time, with nothing to write after the restart: they hold up nobody.
    for number in 0..12 {
        own.deployment(&format!("a{number:02}"), &json!({"secret.reloader.stakater.com/auto": "true"}));
    }
    own.start();
    let before = own.recorded("Deployment", "web");
    for number in 0..12 {
        own.recorded("Deployment", &format!("a{number:02}"));
    }
    own.stop().await;
    own.edit("1").await;
    own.start();
    let after = own.reloaded("Deployment", "web", "ConfigMap/app");
    assert_eq!(ObjectMeta::of(&after).generation(), ObjectMeta::of(&before).generation() + 1);
    own.stop().await;
    // Another start changes nothing; the later workload shows that it has begun. Neither does an edit that leaves the data.
    own.config_map("app", "1", &json!({"note": "edited"}));
    own.deployment("later", &auto());
    own.start();
    own.recorded("Deployment", "later");
    own.cp
        .kubectl(["create", "secret", "generic", "keys", "-n", own.ns.name(), "--from-literal=a=b"])
        .unwrap();
    own.until("Deployment", "later", "has a record of the Secret", |found| {
        ObjectMeta::of(found)
            .annotation(RECORD)
            .is_some_and(|record| !record.contains("\"Secret/keys\":\"\""))
    });
    assert_eq!(own.get("Deployment", "web")["spec"], after["spec"]);
    let patch = r#"{"stringData":{"a":"c"}}"#;
    own.cp.kubectl(["patch", "secret", "keys", "-n", own.ns.name(), "--type=merge", "-p", patch]).unwrap();
    own.reloaded("Deployment", "web", "Secret/keys");
    own.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn annotations_choose_who_is_rolled_out() {
    let mut own = Running::prepare().await;
    own.config_map("app", "0", &json!({"reloader.stakater.com/match": "true"}));
    own.config_map("other", "0", &Value::Null);
    let named = |names: &str| json!({"configmap.reloader.stakater.com/reload": names});
    let excluded = json!({"reloader.stakater.com/auto": "true", "configmaps.exclude.reloader.stakater.com/reload": "app"});
    for (name, annotations) in [
        ("silent", json!({})),
        ("excluded", excluded),
        ("secrets", json!({"secret.reloader.stakater.com/auto": "true"})),
        ("search", json!({"reloader.stakater.com/search": "true"})),
        ("named", named("app")),
        ("unused", named("oth.*")),
        ("broken", named("a(")),
    ] {
        own.deployment(name, &annotations);
    }
    own.start();
    for name in ["excluded", "secrets", "search", "named", "unused"] {
        own.recorded("Deployment", name);
    }
    own.edit("1").await;
    own.reloaded("Deployment", "search", "ConfigMap/app");
    own.reloaded("Deployment", "named", "ConfigMap/app");
    own.config_map("other", "1", &Value::Null);
    own.reloaded("Deployment", "unused", "ConfigMap/other");
    // What is made again with other data has changed, also for a workload that only searches.
    let digest = |object: &Value| template_annotation(object, DIGEST).map(str::to_owned);
    let before = own.get("Deployment", "search");
    own.cp.kubectl(["delete", "configmap", "app", "-n", own.ns.name()]).unwrap();
    let unused = own.get("Deployment", "unused");
    own.config_map("other", "2", &Value::Null);
    own.until("Deployment", "unused", "is rolled out", |found| digest(found) != digest(&unused));
    own.config_map("app", "2", &json!({"reloader.stakater.com/match": "true"}));
    own.until("Deployment", "search", "is rolled out", |found| digest(found) != digest(&before));
    for name in ["silent", "excluded", "secrets", "broken"] {
        assert_eq!(template_annotation(&own.get("Deployment", name), FROM), None, "{name}");
    }
    let events = own
        .cp
        .kubectl([
            "get",
            "events",
            "-n",
            own.ns.name(),
            "-o",
            "jsonpath={range .items[*]}{.reason} {.involvedObject.name}: {.message}{'\\n'}{end}",
        ])
        .unwrap();
    assert!(
        events.contains("InvalidReloadAnnotation broken: configmap.reloader.stakater.com/reload: \"a(\""),
        "{events}"
    );
    own.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_collects_changes_and_ends_by_itself() {
    let mut own = Running::prepare().await;
    own.config_map("app", "0", &Value::Null);
    let mut annotations = auto();
    annotations["deployment.reloader.stakater.com/pause-period"] = "1h".into();
    own.deployment("web", &annotations);
    own.start();
    own.recorded("Deployment", "web");
    own.edit("1").await;
    let paused = own.reloaded("Deployment", "web", "ConfigMap/app");
    assert_eq!(paused["spec"]["paused"], true);
    assert!(ObjectMeta::of(&paused).annotation(PAUSED_AT).is_some(), "{paused}");
    own.edit("2").await;
    let digest = |object: &Value| template_annotation(object, DIGEST).map(str::to_owned);
    own.until("Deployment", "web", "has the second change", |found| digest(found) != digest(&paused));
    // A shorter period has passed already.
    annotations["deployment.reloader.stakater.com/pause-period"] = "1ms".into();
    own.apply(&json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "annotations": annotations},
        "spec": own.get("Deployment", "web")["spec"].clone()}));
    let resumed = own.until("Deployment", "web", "goes on", |found| found["spec"]["paused"] != true);
    assert_eq!(ObjectMeta::of(&resumed).annotation(PAUSED_AT), None);
    own.stop().await;
}

/// With `--auto-reload-all` a chart that rolls out its own workloads is left to do so, and workloads of no release where nobody asked.
#[tokio::test(flavor = "multi_thread")]
async fn releases_with_checksums_roll_themselves_out() {
    let mut own = Running::prepare().await;
    own.options.foreign_namespaces.clear();
    own.options.auto_reload_all = true;
    let release =
        json!({"meta.helm.sh/release-name": "one", "meta.helm.sh/release-namespace": own.ns.name()});
    let labels = json!({"app.kubernetes.io/managed-by": "Helm"});
    own.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app", "annotations": release, "labels": labels}, "data": {"a": "0"}}));
    for (name, checksum) in [("checked", true), ("plain", false)] {
        own.deployment(name, &release);
        let mut patch = json!({"metadata": {"labels": labels}});
        if checksum {
            patch["spec"]["template"]["metadata"]["annotations"]["checksum/config"] = "1".into();
        }
        own.cp
            .kubectl([
                "patch",
                "deployment",
                name,
                "-n",
                own.ns.name(),
                "--type=merge",
                "-p",
                &patch.to_string(),
            ])
            .unwrap();
    }
    own.deployment("foreign", &auto());
    own.start();
    own.recorded("Deployment", "plain");
    own.recorded("Deployment", "checked");
    own.edit("1").await;
    own.reloaded("Deployment", "plain", "ConfigMap/app");
    for name in ["checked", "foreign"] {
        assert_eq!(template_annotation(&own.get("Deployment", name), FROM), None, "{name}");
    }
    own.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn collected_configuration_is_mounted_where_it_is_asked_for() {
    let mut own = Running::prepare().await;
    let drop_in = json!({"windlass.dev/collection": "drop-ins"});
    own.config_map("b", "0", &drop_in);
    own.config_map("app", "0", &Value::Null);
    let mut annotations = auto();
    annotations["windlass.dev/collected-configuration"] = "drop-ins=/config/configDropins".into();
    own.deployment("web", &annotations);
    own.workload(("batch/v1", "CronJob"), "night", &annotations);
    own.deployment("wrong", &json!({"windlass.dev/collected-configuration": "drop-ins=config"}));
    own.start();

    let sources = |object: &Value| {
        let spec = &object["spec"];
        let template = if spec["jobTemplate"].is_null() { spec } else { &spec["jobTemplate"]["spec"] };
        let volumes = template["template"]["spec"]["volumes"].as_array().cloned().unwrap_or_default();
        let volume = volumes.into_iter().find(|volume| volume["name"] == "windlass-collected-drop-ins")?;
        let sources = volume["projected"]["sources"].as_array().cloned().unwrap_or_default();
        let name = |source: &Value| {
            source["configMap"]["name"].as_str().or(source["secret"]["name"].as_str()).map(str::to_owned)
        };
        Some(sources.iter().filter_map(name).collect::<Vec<_>>())
    };
    let has = |kind: &str, name: &str, expected: &[&str]| {
        own.until(kind, name, &format!("has {expected:?}"), |found| {
            sources(found).is_some_and(|sources| sources == expected)
        })
    };
    let web = has("Deployment", "web", &["b"]);
    has("CronJob", "night", &["b"]);
    let mounts = web["spec"]["template"]["spec"]["containers"][0]["volumeMounts"].to_string();
    assert!(mounts.contains("/config/configDropins") && mounts.contains("/keys"), "{mounts}");

    // What comes is mounted in one rollout, and a change of it is one as of any other configuration.
    own.config_map("a", "0", &drop_in);
    let patch = r#"{"metadata":{"annotations":{"windlass.dev/collection":"drop-ins"}}}"#;
    own.cp.kubectl(["create", "secret", "generic", "s", "-n", own.ns.name(), "--from-literal=k=v"]).unwrap();
    own.cp.kubectl(["patch", "secret", "s", "-n", own.ns.name(), "--type=merge", "-p", patch]).unwrap();
    has("Deployment", "web", &["a", "b", "s"]);
    own.until("Deployment", "web", "follows a", |found| {
        ObjectMeta::of(found).annotation(RECORD).is_some_and(|record| record.contains("ConfigMap/a"))
    });
    own.config_map("a", "1", &drop_in);
    own.reloaded("Deployment", "web", "ConfigMap/a");

    // A release that is applied again leaves the volume; what goes is unmounted.
    own.deployment("web", &annotations);
    own.cp.kubectl(["delete", "configmap", "b", "-n", own.ns.name()]).unwrap();
    own.config_map("a", "1", &Value::Null);
    has("Deployment", "web", &["s"]);
    own.deployment("web", &auto());
    let without = own.until("Deployment", "web", "has no volume", |found| sources(found).is_none());
    let mounts = without["spec"]["template"]["spec"]["containers"][0]["volumeMounts"].to_string();
    assert!(!mounts.contains("/config/configDropins") && mounts.contains("/keys"), "{mounts}");
    let managers = own.get("CronJob", "night")["metadata"]["managedFields"].to_string();
    assert!(managers.contains(COLLECTION_MANAGER), "{managers}");

    let events = own
        .cp
        .kubectl([
            "get",
            "events",
            "-n",
            own.ns.name(),
            "-o",
            "jsonpath={range .items[*]}{.reason} {.involvedObject.name}: {.message}{'\\n'}{end}",
        ])
        .unwrap();
    for expected in [
        "Collected web: its collections have ConfigMap/a, ConfigMap/b, Secret/s",
        "InvalidReloadAnnotation wrong: windlass.dev/collected-configuration: \"drop-ins=config\": the directory is an absolute path",
    ] {
        assert!(events.contains(expected), "{expected}\n{events}");
    }
    own.stop().await;
}

/// What the process knows, whosever it is, masks no text of a workload: a guess would be confirmed by its mask.
#[tokio::test(flavor = "multi_thread")]
async fn guesses_in_annotations_are_quoted_as_they_are() {
    let mut own = Running::prepare().await;
    let guesses = "dbPassword: correct-horse-8, victim-slack-token-77, correct-horse-9";
    redact::add("victim-slack-token-77");
    SecretScope::own().run(|| redact::add("correct-horse-8"));
    own.deployment("guess", &json!({"windlass.dev/collected-configuration": guesses}));
    own.start();
    own.wait_event("guess InvalidReloadAnnotation: ");
    let events = own.events();
    for guess in guesses.split(", ") {
        assert!(events.contains(guess), "{guess}: {events}");
    }
    own.stop().await;
}
