//! Helmfiles on a real control plane: from a push to a Git repository to the releases, and back.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Once};
use std::time::Duration;

use axum::extract::{Request, State as Shared};
use axum::http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::watch;
use windlass_cluster::{Cluster, ClusterError, ConnectOptions};
use windlass_controller::serve::State;
use windlass_controller::{AccountName, ContextOptions, ControllerContext, ControllerOptions};
use windlass_fetch::oci::packed_artifact::PackedArtifact;
use windlass_helmfile::bundle::MEDIA_TYPES;
use windlass_helmfile::bundle::opened_bundle::OpenedBundle;
use windlass_helmfile::resource::{
    CustomKind, DefaultBundle, HelmfileOptions, Helmfiles, KindsFile, definition,
};
use windlass_render::RenderBounds;
use windlass_testing::{AuditEvent, ControlPlane, Namespace, shared, wait_until};

use super::{chart, write};

pub(crate) const LIMIT: Duration = Duration::from_secs(60);
pub(crate) const HELMFILES: &str = "helmfiles.apps.mumoshu.github.io";

/// The shared control plane, with the kind.
fn control_plane() -> &'static ControlPlane {
    static KIND: Once = Once::new();
    let cp = shared().expect("a control plane");
    KIND.call_once(|| {
        cp.kubectl_with(["apply", "-f", "-"], &definition::crd().to_string()).unwrap();
        cp.kubectl(["wait", "--for=condition=Established", &format!("crd/{HELMFILES}")]).unwrap();
    });
    cp
}

/// A repository with a chart of one ConfigMap in `web/`, on an HTTP server.
pub(crate) struct Repository {
    pub(crate) root: tempfile::TempDir,
    pub(crate) url: String,
}

impl Repository {
    pub(crate) async fn new(helmfile: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        chart(&root.path().join("web"), "web");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/r.git", listener.local_addr().unwrap());
        async fn answer(Shared(root): Shared<PathBuf>, request: Request) -> Result<Vec<u8>, StatusCode> {
            let path = request.uri().path().trim_start_matches("/r.git/");
            std::fs::read(root.join(path)).map_err(|_| StatusCode::NOT_FOUND)
        }
        let router = axum::Router::new().fallback(answer).with_state(root.path().join(".git"));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let own = Self { root, url };
        own.git(&["init", "--quiet", "-b", "main"]);
        own.push(helmfile);
        own
    }

    fn git(&self, args: &[&str]) -> String {
        let names = ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"];
        let output = Command::new("git")
            .args(args)
            .current_dir(self.root.path())
            .envs(names.map(|name| (name, "me")))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Commits a helmfile, and returns the commit.
    pub(crate) fn push(&self, helmfile: &str) -> String {
        write(self.root.path(), "helmfile.yaml.gotmpl", helmfile);
        self.git(&["add", "-A"]);
        self.git(&["commit", "--quiet", "--allow-empty", "-m", "change"]);
        self.git(&["update-server-info"]);
        self.git(&["rev-parse", "HEAD"])
    }

    pub(crate) fn source(&self) -> String {
        format!("git::{}@helmfile.yaml.gotmpl?ref=main", self.url)
    }
}

/// A namespace with a running front end of Helmfiles.
pub(crate) struct Running {
    pub(crate) cp: &'static ControlPlane,
    pub(crate) ns: Namespace<'static>,
    cache: tempfile::TempDir,
    bundle: Option<DefaultBundle>,
    /// The operator's --default-service-account.
    account: Option<AccountName>,
    process: Option<Process>,
    /// What it shares with other controllers of the process, while it runs.
    pub(crate) context: Option<ControllerContext>,
}

struct Process {
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<Result<(), ClusterError>>,
}

impl Running {
    pub(crate) async fn start() -> Self {
        Self::start_with(None).await
    }

    /// Starts with a default account.
    pub(crate) async fn start_with(account: Option<AccountName>) -> Self {
        let cp = control_plane();
        let ns = cp.namespace("helmfile").unwrap();
        let cache = tempfile::tempdir().unwrap();
        let mut own = Self { cp, ns, cache, bundle: None, account, process: None, context: None };
        own.resume(None, false).await;
        own
    }

    pub(crate) async fn resume(&mut self, kind: Option<CustomKind>, once: bool) {
        let kubeconfig = Some(self.cp.kubeconfig().to_owned());
        let connected = Cluster::connect(&ConnectOptions { kubeconfig, ..ConnectOptions::default() }).await;
        let state = Arc::new(State::new("test_"));
        let context = ControllerContext::new(connected.unwrap(), &ContextOptions::default(), state);
        self.context = Some(context.clone());
        let stop = watch::Sender::new(false);
        let mut stopped = stop.subscribe();
        let options = HelmfileOptions {
            default_service_account: self.account.clone(),
            allow_local_addresses: true,
            cache: self.cache.path().to_owned(),
            bundle: self.bundle.clone(),
        };
        let front_end = match kind {
            Some(kind) => Helmfiles::of_kind(options, kind, RenderBounds::default()),
            None => Helmfiles::new(options),
        };
        let namespace = Some(self.ns.name().to_owned());
        let options = ControllerOptions { namespace, concurrency: 4, once, ..ControllerOptions::default() };
        let stopped = async move { drop(stopped.wait_for(|stop| *stop).await) };
        let task = tokio::spawn(windlass_controller::run(front_end, context, options, stopped));
        self.process = Some(Process { stop, task });
    }

    pub(crate) async fn pause(&mut self) {
        let Process { stop, task } = self.process.take().unwrap();
        stop.send_replace(true);
        task.await.unwrap().unwrap();
    }

    pub(crate) fn apply(&self, name: &str, spec: &Value) {
        let object = json!({
            "apiVersion": "apps.mumoshu.github.io/v1alpha1", "kind": "Helmfile",
            "metadata": {"name": name, "namespace": self.ns.name()}, "spec": spec,
        });
        self.cp
            .kubectl_with(["replace", "--force=false", "-f", "-"], &object.to_string())
            .or_else(|_| self.cp.kubectl_with(["create", "-f", "-"], &object.to_string()))
            .unwrap();
    }

    fn get(&self, kind: &str, name: &str, path: &str) -> String {
        let path = format!("jsonpath={path}");
        let mut args = vec!["get", kind, "-n", self.ns.name(), "--ignore-not-found", "-o", &path];
        args.extend((!name.is_empty()).then_some(name));
        self.cp.kubectl(args).unwrap()
    }

    pub(crate) fn status(&self, name: &str) -> Value {
        serde_json::from_str(&self.get(HELMFILES, name, "{.status}")).unwrap_or_default()
    }

    fn wait(&self, what: &str, holds: impl Fn() -> bool) {
        if let Err(error) = wait_until(what, LIMIT, || Ok(holds().then_some(()))) {
            panic!("{error}: {}", self.get(HELMFILES, "", "{.items[*].status}"));
        }
    }

    /// Waits for `STATUS REASON` of the condition Ready of this generation, and returns its message.
    pub(crate) fn ready(&self, name: &str, expected: &str) -> String {
        let found = || {
            let text = self.get(HELMFILES, name, "{}");
            let object: Value = serde_json::from_str(&text).unwrap_or_default();
            let ready =
                object["status"]["conditions"].as_array()?.iter().find(|c| c["type"] == "Ready")?.clone();
            let now = format!("{} {}", ready["status"].as_str()?, ready["reason"].as_str()?);
            let observed = ready["observedGeneration"] == object["metadata"]["generation"];
            (now == expected && observed).then(|| ready["message"].as_str().unwrap_or_default().to_owned())
        };
        match wait_until(&format!("{name} is {expected}"), LIMIT, || Ok(found())) {
            Ok(message) => message,
            Err(error) => panic!("{error}: {}", self.status(name)),
        }
    }

    /// Names of the releases in the cluster.
    fn releases(&self) -> Vec<String> {
        let text = self.cp.helm4(["list", "-n", self.ns.name(), "-q"]).unwrap();
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn revisions(&self, name: &str) -> usize {
        let text = self.cp.helm4(["history", name, "-n", self.ns.name(), "-o", "json"]).unwrap();
        serde_json::from_str::<Vec<Value>>(&text).unwrap().len()
    }

    pub(crate) fn size(&self, name: &str) -> String {
        self.get("configmap", name, "{.data.size}")
    }

    pub(crate) fn delete(&self, name: &str) {
        let deleted = self.cp.kubectl(["delete", HELMFILES, name, "-n", self.ns.name(), "--timeout=60s"]);
        if let Err(error) = deleted {
            panic!("{error}: {}", self.status(name));
        }
    }
}

const TWO: &str = "
releases:
- name: web
  chart: ./web
  needs: [db]
  values: [{size: {{ .Values.size }}}]
- name: db
  chart: ./web
";

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_failed_to_render_is_repeated_when_what_it_looked_up_changes() {
    let running = Running::start().await;
    let repository = Repository::new("releases: [{name: web, chart: ./web}]").await;
    let template = "{{ if not (lookup \"v1\" \"ConfigMap\" .Release.Namespace \"wanted\") }}{{ fail \"wanted is missing\" }}{{ end }}";
    write(repository.root.path(), "web/templates/check.yaml", template);
    repository.push("releases: [{name: web, chart: ./web}]");
    running.apply("stack", &json!({"source": repository.source(), "interval": "1h"}));
    let message = running.ready("stack", "False ReleaseFailed");
    assert!(message.contains("wanted is missing"), "{message}");
    running.cp.kubectl(["create", "configmap", "wanted", "-n", running.ns.name()]).unwrap();
    running.ready("stack", "True Deployed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_is_deployed_drift_is_corrected_and_deletion_uninstalls() {
    let mut running = Running::start().await;
    let repository = Repository::new(TWO).await;
    let spec = json!({"source": repository.source(), "values": {"size": 2}, "interval": "1s"});
    running.apply("stack", &spec);
    assert_eq!(running.ready("stack", "True Deployed"), "2 releases are deployed");
    assert_eq!((running.size("web"), running.size("db")), ("2".to_owned(), "1".to_owned()));
    let status = running.status("stack");
    let commit = repository.git(&["rev-parse", "HEAD"]);
    assert_eq!(status["resolvedRevision"], format!("{}@sha1:{commit}", repository.url));
    assert_eq!(status["lastAppliedDigest"], status["lastAttemptedDigest"]);
    let shown: Vec<String> = status["releases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| format!("{} {} {} {}", one["name"], one["revision"], one["chart"], one["status"]))
        .collect();
    assert_eq!(shown, [r#""db" 1 "web" "deployed""#, r#""web" 1 "web" "deployed""#]);

    running.cp.kubectl(["delete", "configmap", "web", "-n", running.ns.name()]).unwrap();
    running.wait("the deleted object is back", || running.size("web") == "2");
    assert_eq!(running.revisions("web"), 1);

    let commit = repository.push(&TWO.replace("name: db\n", "name: db\n  values: [{size: 5}]\n"));
    running.wait("the push is deployed", || running.size("db") == "5");
    running.wait("the status has the commit", || {
        running.status("stack")["resolvedRevision"].as_str().is_some_and(|text| text.ends_with(&commit))
    });
    assert_eq!((running.revisions("web"), running.revisions("db")), (1, 2));

    // An edit of the object is deployed at once.
    running.apply("stack", &json!({"source": repository.source(), "values": {"size": 3}, "interval": "1h"}));
    running.wait("the edit is deployed", || running.size("web") == "3");
    running.ready("stack", "True Deployed");

    // A restart with nothing to do writes nothing.
    running.pause().await;
    let mark = running.cp.audit_mark().unwrap();
    running.resume(None, true).await;
    running.process.take().unwrap().task.await.unwrap().unwrap();
    let ours = |e: &&AuditEvent| {
        e.namespace == running.ns.name() && !["leases", "events"].contains(&e.resource.as_str())
    };
    let writes = running.cp.writes_since(mark).unwrap();
    let named: Vec<String> =
        writes.iter().filter(ours).map(|e| format!("{} {}/{}", e.verb, e.resource, e.name)).collect();
    assert_eq!(named, [""; 0]);

    running.resume(None, false).await;
    running.delete("stack");
    assert_eq!(running.releases(), [""; 0]);
    running.pause().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_file_leaves_the_last_good_state() {
    let mut running = Running::start().await;
    let repository = Repository::new(TWO).await;
    running.apply("stack", &json!({"source": repository.source(), "values": {"size": 2}, "interval": "1s"}));
    running.ready("stack", "True Deployed");
    repository.push("releases: [{name: web, chart: ./web, colour: red}]");
    let message = running.ready("stack", "False EvaluationFailed");
    assert!(message.contains("colour"), "{message}");
    running.cp.kubectl(["delete", "configmap", "db", "-n", running.ns.name()]).unwrap();
    running.wait("drift of the last good state is corrected", || running.size("db") == "1");
    assert_eq!(running.releases(), ["db", "web"]);

    // The server of the source is away; then the file is good again.
    let away = repository.root.path().join("away");
    std::fs::rename(repository.root.path().join(".git"), &away).unwrap();
    running.wait("the outage is reported", || {
        let conditions = running.status("stack")["conditions"].to_string();
        conditions.contains("ls-remote")
    });
    std::fs::rename(&away, repository.root.path().join(".git")).unwrap();
    repository.push(&TWO.replace("{{ .Values.size }}", "7"));
    running.wait("the corrected file is deployed", || running.size("web") == "7");
    running.ready("stack", "True Deployed");
    running.pause().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn releases_that_leave_the_file_are_pruned_and_an_empty_file_needs_consent() {
    let mut running = Running::start().await;
    let repository = Repository::new(TWO).await;
    let spec = json!({"source": repository.source(), "values": {"size": 2}, "interval": "1s"});
    running.apply("stack", &spec);
    running.ready("stack", "True Deployed");
    repository.push(
        "releases: [{name: db, chart: ./web, condition: db.enabled}]\nvalues: [{db: {enabled: false}}]",
    );
    running.wait("the dropped release is pruned", || running.releases() == ["db"]);
    running.wait("one whose condition does not hold stays", || {
        running.status("stack")["releases"].as_array().is_some_and(|all| all.len() == 1)
    });
    repository.push("releases: []");
    let message = running.ready("stack", "False PruneBlocked");
    assert!(message.contains("spec.allowEmpty"), "{message}");
    assert_eq!(running.releases(), ["db"]);
    let mut consenting = spec.clone();
    consenting["allowEmpty"] = true.into();
    running.apply("stack", &consenting);
    running.wait("with consent the last one is pruned", || running.releases().is_empty());
    assert_eq!(running.ready("stack", "True Deployed"), "0 releases are deployed");
    running.pause().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_adopted_by_name_and_values_of_the_deployed_revision_are_reused() {
    let mut running = Running::start().await;
    let ns = running.ns.name().to_owned();
    running.cp.kubectl(["create", "configmap", "web", "-n", &ns, "--from-literal=old=0"]).unwrap();
    let repository = Repository::new("releases: [{name: web, chart: ./web, values: [{size: 5}]}]").await;
    running.apply("stack", &json!({"source": repository.source(), "interval": "1s"}));
    let message = running.ready("stack", "False ReleaseFailed");
    assert!(message.contains("invalid ownership metadata"), "{message}");
    repository.push("releases: [{name: web, chart: ./web, values: [{size: 5}], adopt: [ConfigMap/web]}]");
    running.wait("the object is adopted", || running.size("web") == "5");
    running.ready("stack", "True Deployed");
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {size: \"{{ .Values.size }}-{{ .Values.more }}\"}\n\
        {{- with .Values.port }}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: {{ . }}}]}\n{{- end }}\n";
    write(repository.root.path(), "web/templates/config.yaml", object);
    repository.push("releases: [{name: web, chart: ./web, values: [{more: 1}], reuseValues: true}]");
    running.wait("the size is that of the deployed revision", || running.size("web") == "5-1");
    running.ready("stack", "True Deployed");
    repository.push("releases: [{name: web, chart: ./web, values: [{size: 7, port: 700000}]}]");
    running.ready("stack", "False ReleaseFailed");
    repository.push("releases: [{name: web, chart: ./web, values: [{more: 2}], reuseValues: true}]");
    running.wait("the size is not that of the failed revision", || running.size("web") == "5-2");
    running.ready("stack", "True Deployed");
    let values = running.cp.helm4(["get", "values", "web", "-n", &ns, "-o", "json"]).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&values).unwrap(), json!({"size": 5, "more": 2}));
    repository.push("releases: [{name: web, chart: ./web, recreatePods: true}]");
    running.wait("what Helm has removed is refused", || {
        running.status("stack")["conditions"].to_string().contains("recreatePods: Helm has removed it")
    });
    running.pause().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn suspension_dry_runs_orphans_and_uninstallation() {
    let mut running = Running::start().await;
    let state = |chart: &str| format!("releases: [{{name: raw, chart: '{chart}'}}]");
    let repository = Repository::new(TWO).await;
    let chart = format!("git::{}@web?ref=main", repository.url);
    let spec = json!({"state": state(&chart), "suspend": true, "deletionPolicy": "orphan"});
    running.apply("own", &spec);
    running.ready("own", "Unknown Suspended");
    let mut dry = json!({"state": state(&chart), "dryRun": true, "deletionPolicy": "orphan"});
    running.apply("own", &dry);
    let message = running.ready("own", "True DryRun");
    assert!(message.starts_with("dry run: 1 releases would change: 1 objects created"), "{message}");
    assert_eq!(running.releases(), [""; 0]);
    dry["dryRun"] = false.into();
    running.apply("own", &dry);
    running.ready("own", "True Deployed");
    running.delete("own");
    assert_eq!(running.releases(), ["raw"], "an orphan stays");
    // Its record is of an object that is gone: another one may have it.
    running.apply(
        "heir",
        &json!({"state": state(&chart).replace("name: raw,", "name: raw, installed: false,")}),
    );
    running.ready("heir", "True Deployed");
    assert_eq!(running.releases(), [""; 0]);
    running.pause().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_has_one_owner_also_after_a_restart() {
    let mut running = Running::start().await;
    let repository = Repository::new("releases: [{name: web, chart: ./web}]").await;
    let spec = json!({"source": repository.source()});
    running.apply("first", &spec);
    running.ready("first", "True Deployed");
    running.pause().await;
    running.apply("before", &spec);
    running.resume(None, false).await;
    let message = running.ready("before", "False ReleaseFailed");
    assert!(message.contains("belongs to") && message.contains("/first already"), "{message}");
    running.ready("first", "True Deployed");
    running.delete("before");
    assert_eq!(running.releases(), ["web"]);
    running.delete("first");
    assert_eq!(running.releases(), [""; 0]);
    running.pause().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_releases_survive_a_restart_in_the_midst() {
    let mut running = Running::start().await;
    let one = |n: usize| match n {
        0 => "- {name: r0, chart: ./web}\n".to_owned(),
        n => format!("- {{name: r{n}, chart: ./web, needs: [r{}]}}\n", (n - 1) / 2),
    };
    let repository = Repository::new(&format!("releases:\n{}", (0..50).map(one).collect::<String>())).await;
    running.apply("stack", &json!({"source": repository.source()}));
    running.wait("some are deployed", || running.releases().len() > 5);
    running.pause().await;
    running.resume(None, false).await;
    assert_eq!(running.ready("stack", "True Deployed"), "50 releases are deployed");
    let text = running.cp.helm4(["list", "-n", running.ns.name(), "-o", "json"]).unwrap();
    let listed: Vec<Value> = serde_json::from_str(&text).unwrap();
    let again: Vec<&Value> = listed.iter().filter(|one| one["revision"] != "1").collect();
    assert_eq!((listed.len(), again), (50, Vec::<&Value>::new()));
    running.delete("stack");
    assert_eq!(running.releases(), [""; 0]);
    running.pause().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_release_holds_up_only_what_needs_it() {
    let mut running = Running::start().await;
    let file = "
releases:
- {name: bad, chart: ./gone}
- {name: after, chart: ./web, needs: [bad]}
- {name: good, chart: ./web}
";
    let repository = Repository::new(file).await;
    running.apply("stack", &json!({"source": repository.source()}));
    let message = running.ready("stack", "False ReleaseFailed");
    assert!(message.contains("/bad: "), "{message}");
    assert_eq!(running.releases(), ["good"]);
    let status = running.status("stack");
    let of = |name: &str| {
        let all = status["releases"].as_array().unwrap();
        all.iter().find(|one| one["name"] == name).unwrap().clone()
    };
    assert_eq!(
        (of("after")["status"].as_str(), of("bad")["status"].as_str()),
        (Some("waiting"), Some("failed"))
    );
    running.pause().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn state_files_see_nothing_of_the_operator() {
    let mut running = Running::start().await;
    let repository = Repository::new(TWO).await;
    let secret = tempfile::tempdir().unwrap();
    write(secret.path(), "token", "hunter2");
    chart(&secret.path().join("chart"), "stolen");
    let outside = secret.path().display();
    let chart_of =
        |home: &str| format!("helmGlobals: {home}\nhelmCharts: [{{name: chart, releaseName: x}}]\n");
    let root = repository.root.path();
    let home = chart_of(&format!("{{chartHome: {outside}}}"));
    write(root, "charts-of-elsewhere/kustomization.yaml", &home);
    write(root, "configured/kustomization.yaml", &chart_of(&format!("{{configHome: {outside}}}")));
    let release = |more: &str| format!("releases: [{{name: x, chart: ./web{more}}}]");
    for (file, part) in [
        (format!("values: [{{x: '{{{{ readFile \"{outside}/token\" }}}}'}}]"), "outside of the source"),
        ("values: [{x: '{{ exec \"sh\" (list \"-c\" \"id\") }}'}]".to_owned(), "runs no programs"),
        ("values: [{x: '{{ requiredEnv \"PATH\" }}'}]".to_owned(), "PATH"),
        (format!("bases: [{outside}/token]"), "outside of the source"),
        (format!("helmfiles: [{{path: {outside}/token}}]"), "token"),
        (release(", values: [../../../../../../../../etc/passwd]"), "passwd"),
        (format!("releases: [{{name: x, chart: {outside}/chart}}]"), "outside of the source"),
        (format!("releases: [{{name: x, chart: 'git+file://{outside}/chart?ref=main'}}]"), "not from Git"),
        ("releases: [{name: x, chart: 's3://bucket/x-1.0.0.tgz'}]".to_owned(), "not from Git and buckets"),
        (
            format!(
                "repositories: [{{name: r, url: 'https://127.0.0.1:1', keyFile: ../../../../../../../../..{outside}/token}}]\nreleases: [{{name: x, chart: r/web}}]"
            ),
            "outside of the source",
        ),
        ("releases: [{name: x, chart: ./charts-of-elsewhere}]".to_owned(), "outside of the source"),
        ("releases: [{name: x, chart: ./configured}]".to_owned(), "configHome"),
        (release(", hooks: [{events: [presync], command: id}]"), "runs no hooks"),
        (release(", postRenderer: ./x"), "runs no programs"),
        (release(", kubeContext: other"), "kubeContext"),
        (format!("releases: [{{name: x, chart: 'git::file://{outside}@chart'}}]"), "operator's disk"),
    ] {
        repository.push(&file);
        running.apply(
            "stack",
            &json!({"source": repository.source(), "envvars": {"N": repository.git(&["rev-parse", "HEAD"])}}),
        );
        running.wait(&format!("{part}: {file}"), || {
            let told = running.status("stack").to_string();
            assert!(!told.contains("hunter2") && !told.contains("root:x"), "{told}");
            told.contains(part)
        });
        assert_eq!(running.releases(), [""; 0], "{file}");
    }
    running.pause().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kustomizations_manifests_and_encrypted_values_come_from_the_source() {
    let mut running = Running::start().await;
    let file = "
releases:
- {name: kust, chart: ./kust}
- {name: raw, chart: ./raw}
- {name: web, chart: ./web, values: [{size: 'ref+sops://encrypted.yaml#/port'}]}
- {name: db, chart: ./web, values: [{size: '{{ env \"SIZE\" }}'}]}
- {name: own, chart: ./web, values: [{size: ref+env://SIZE}]}
";
    let repository = Repository::new("releases: []").await;
    let root = repository.root.path();
    write(root, "kust/kustomization.yaml", "resources: [a.yaml]\nnamePrefix: k-\n");
    write(root, "kust/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {size: k}\n");
    write(root, "raw/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: raw}\ndata: {size: r}\n");
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/sops");
    std::fs::copy(fixtures.join("encrypted/values.yaml"), root.join("encrypted.yaml")).unwrap();
    repository.push(file);
    let ns = running.ns.name();
    let keys = format!("--from-file=own.agekey={}", fixtures.join("keys/age.txt").display());
    running.cp.kubectl(["create", "secret", "generic", "keys", &keys, "-n", ns]).unwrap();
    running.cp.kubectl(["create", "secret", "generic", "env", "--from-literal=SIZE=9", "-n", ns]).unwrap();
    let without = json!({"source": repository.source(), "secretRefs": {"env": "env"}});
    running.apply("stack", &without);
    let message = running.ready("stack", "False ReleaseFailed");
    assert!(message.contains("/web: ") && message.contains("no identity of age"), "{message}");
    let mut spec = without.clone();
    spec["secretRefs"]["sops"] = "keys".into();
    running.apply("stack", &spec);
    running.ready("stack", "True Deployed");
    let sizes = ["k-a", "raw", "web", "db", "own"].map(|name| running.size(name));
    assert_eq!(sizes, ["k", "r", "5432", "9", "9"]);
    // A changed Secret is deployed at once. The status tells nobody whether a guess at its value is right.
    let digest = running.status("stack")["lastAppliedDigest"].clone();
    let patch = r#"{"stringData":{"SIZE":"10"}}"#;
    running.cp.kubectl(["patch", "secret", "env", "-n", ns, "-p", patch]).unwrap();
    running.wait("the changed variable is deployed", || running.size("db") == "10");
    running.ready("stack", "True Deployed");
    assert_eq!(running.status("stack")["lastAppliedDigest"], digest);

    // The operator's identity is nobody's.
    repository.push(
        "releases: [{name: web, chart: ./web, values: [{size: 'ref+k8s://v1/Secret/kube-system/x/y'}]}]",
    );
    spec["interval"] = "1s".into();
    running.apply("stack", &spec);
    let message = running.ready("stack", "False ReleaseFailed");
    assert!(message.contains("operator's rights"), "{message}");
    running.pause().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helmfile_without_a_source_stands_for_the_bundle_of_the_operator() {
    let mut running = Running::start().await;
    running.apply("stack", &json!({"values": {"size": 4}}));
    let message = running.ready("stack", "False EvaluationFailed");
    assert!(message.contains("--bundle"), "{message}");
    running.pause().await;
    let sources = tempfile::tempdir().unwrap();
    chart(&sources.path().join("web"), "web");
    write(sources.path(), "kust/kustomization.yaml", "resources: [a.yaml]\n");
    write(
        sources.path(),
        "kust/a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {size: k}\n",
    );
    let file = "values: [{size: 1}]\n---\nreleases:\n- {name: web, chart: ./web, values: [{size: {{ .Values.size }}}]}\n- {name: kust, chart: ./kust}\n";
    write(sources.path(), "helmfile.yaml.gotmpl", file);
    let bundle = running.cache.path().join("bundle.tar");
    let made = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["bundle", "-o", bundle.to_str().unwrap()])
        .current_dir(sources.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    drop(sources);
    let artifact = PackedArtifact::from_layout(std::fs::File::open(&bundle).unwrap(), MEDIA_TYPES).unwrap();
    let opened = Arc::new(OpenedBundle::open(&artifact.config, &artifact.layer).unwrap());
    let digest = artifact.digest(MEDIA_TYPES).unwrap();
    running.bundle = Some(DefaultBundle { opened, digest: digest.clone() });
    running.resume(None, true).await;
    running.process.take().unwrap().task.await.unwrap().unwrap();
    assert_eq!((running.size("web"), running.size("a")), ("4".to_owned(), "k".to_owned()));
    assert_eq!(running.status("stack")["resolvedRevision"], format!("bundle@{digest}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_account_bounds_what_is_deployed() {
    let mut running = Running::start().await;
    let other = running.cp.namespace("other").unwrap();
    let ns = running.ns.name();
    running.cp.kubectl(["create", "serviceaccount", "deployer", "-n", ns]).unwrap();
    running
        .cp
        .kubectl([
            "create",
            "rolebinding",
            "deployer",
            "--clusterrole=edit",
            &format!("--serviceaccount={ns}:deployer"),
            "-n",
            ns,
        ])
        .unwrap();
    let file = format!(
        "releases:\n- {{name: own, chart: ./web}}\n- {{name: foreign, namespace: {}, chart: ./web}}\n",
        other.name()
    );
    let repository = Repository::new(&file).await;
    running.apply("stack", &json!({"source": repository.source(), "serviceAccountName": "deployer"}));
    let message = running.ready("stack", "False ReleaseFailed");
    assert!(message.contains("/foreign: ") && message.contains("orbidden"), "{message}");
    assert_eq!(running.releases(), ["own"]);
    assert_eq!(running.cp.helm4(["list", "-n", other.name(), "-q"]).unwrap().trim(), "");
    // What was never there does not keep the object.
    running.delete("stack");
    assert_eq!(running.releases(), [""; 0]);
    running.pause().await;
}

/// Defines a kind of users in the group test.windlass.dev. `scope`: Namespaced or Cluster.
fn define_kind(cp: &ControlPlane, kind: &str, scope: &str) {
    let singular = kind.to_lowercase();
    let name = format!("{singular}s.test.windlass.dev");
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": "test.windlass.dev", "scope": scope,
            "names": {"kind": kind, "plural": format!("{singular}s"), "singular": singular},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    cp.kubectl_with(["apply", "-f", "-"], &crd.to_string()).unwrap();
    cp.kubectl(["wait", "--for=condition=Established", &format!("crd/{name}")]).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_of_users_stands_for_helmfiles() {
    let cp = control_plane();
    define_kind(cp, "Appliance", "Namespaced");
    let mut running = Running::start().await;
    running.pause().await;
    let repository = Repository::new("releases: [{name: '{{ .Values.name }}', chart: ./web}]").await;
    let file = format!(
        "resources:\n- group: test.windlass.dev\n  version: v1\n  kind: Appliance\n  helmfile:\n    source: {}\n    values: {{name: '{{{{ .Object.metadata.name }}}}'}}\n",
        repository.source()
    );
    let object = json!({
        "apiVersion": "test.windlass.dev/v1", "kind": "Appliance",
        "metadata": {"name": "fridge", "namespace": running.ns.name()},
    });
    cp.kubectl_with(["apply", "-f", "-"], &object.to_string()).unwrap();
    let kind = KindsFile::parse(&file).unwrap().kinds.remove(0);
    running.resume(Some(kind), true).await;
    running.process.take().unwrap().task.await.unwrap().unwrap();
    assert_eq!(running.releases(), ["fridge"]);
    assert_eq!(running.get("appliance", "fridge", "{.status.releases[0].status}"), "deployed");
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_scoped_kinds_are_refused() {
    let cp = control_plane();
    define_kind(cp, "Planet", "Cluster");
    let object =
        json!({"apiVersion": "test.windlass.dev/v1", "kind": "Planet", "metadata": {"name": "mars"}});
    cp.kubectl_with(["apply", "-f", "-"], &object.to_string()).unwrap();
    let file = "resources: [{group: test.windlass.dev, version: v1, kind: Planet, helmfile: {state: 'releases: []'}}]";
    let mut running = Running::start().await;
    running.pause().await;
    running.resume(Some(KindsFile::parse(file).unwrap().kinds.remove(0)), true).await;
    running.process.take().unwrap().task.await.unwrap().unwrap_err();
    let told =
        cp.kubectl(["get", "planet", "mars", "-o", "jsonpath={.status.conditions[0].message}"]).unwrap();
    assert!(told.starts_with("Planet is cluster-scoped"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_run_fails_if_an_object_is_not_ready() {
    let mut running = Running::start().await;
    running.pause().await;
    running.apply("bad", &json!({"state": "releases: [{name: x, chart: ./gone}]"}));
    running.resume(None, true).await;
    let error = running.process.take().unwrap().task.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("1 of 1 object is not ready") && error.contains("/bad"), "{error}");
}

/// The definition is served, and refuses what has no meaning.
#[test]
fn the_definition_refuses_source_and_state_together() {
    let cp = control_plane();
    let ns = cp.namespace("definition").unwrap();
    let object = |spec: Value| {
        let whole = json!({
            "apiVersion": "apps.mumoshu.github.io/v1alpha1", "kind": "Helmfile",
            "metadata": {"name": "x", "namespace": ns.name()}, "spec": spec,
        });
        cp.kubectl_with(["create", "--dry-run=server", "-f", "-"], &whole.to_string())
    };
    let both = object(json!({"source": "git::https://h/r@f", "state": "releases: []"})).unwrap_err();
    assert!(both.to_string().contains("set one of source and state"), "{both}");
    // helmfile-operator's own example.
    let example = json!({
        "source": "git::https://h/o/r//pkg/examplecontroller@assets?ref=master",
        "image": {"repository": "example", "tag": "v1.2.3"},
        "values": {"foo": "FOO"}, "envvars": {"bar": "BAR"},
    });
    object(example).unwrap();
    let policy = object(json!({"state": "releases: []", "deletionPolicy": "maybe"})).unwrap_err();
    assert!(policy.to_string().contains("deletionPolicy"), "{policy}");
}
