//! ConfigMapSources: files of a Git repository as ConfigMaps, from the first commit to the deletion; and what a tenant tries with them.

use std::path::Path;

use serde_json::{Value, json};
use windlass_configmaps::ConfigMapSourceOptions;
use windlass_controller::AccountName;
use windlass_testing::wait_until;

use super::sources::{Files, git, publish_repository, source};
use super::support::{LIMIT, Running, condition};

const KIND: &str = "configmapsource";

fn object(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "windlass.dev/v1alpha1", "kind": "ConfigMapSource", "metadata": {"name": name}, "spec": spec})
}

/// Waits until the present generation was observed and Ready has this state, reason and text.
fn wait_ready(running: &Running, name: &str, state: &str, text: &str) -> Value {
    let done = || {
        let object = running.get(KIND, name);
        let message = super::sources::message(&object, "Ready");
        let observed = object["status"]["observedGeneration"] == object["metadata"]["generation"];
        let holds = observed && condition(&object, "Ready") == state && message.contains(text);
        Ok(holds.then_some(object))
    };
    wait_until(&format!("{name}: {state}"), LIMIT, done)
        .unwrap_or_else(|e| panic!("{e}: {:#}", running.get(KIND, name)["status"]))
}

/// The ConfigMaps with a label, each with its keys.
fn config_maps(running: &Running) -> Vec<String> {
    let all = running.cp.list(&["configmap", "-n", running.ns.name(), "-l", "of=conf"]).unwrap();
    let keys = |field: &Value| {
        let keys = field.as_object().into_iter().flatten().map(|(key, _)| key.clone());
        keys.collect::<Vec<_>>()
    };
    let shown = |map: &Value| {
        let mut keys = [keys(&map["data"]), keys(&map["binaryData"])].concat();
        keys.sort();
        format!("{}: {}", map["metadata"]["name"].as_str().unwrap(), keys.join(" "))
    };
    let mut all: Vec<String> = all.iter().map(shown).collect();
    all.sort();
    all
}

fn wait_config_maps(running: &Running, expected: &[&str]) {
    let done = || Ok((config_maps(running) == expected).then_some(()));
    wait_until("ConfigMaps", LIMIT, done).unwrap_or_else(|e| panic!("{e}: {:?}", config_maps(running)));
}

fn write(root: &Path, path: &str, content: &[u8]) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

fn commit(root: &Path, files: &Files) {
    git(root, &["add", "-A"]);
    git(root, &["commit", "--quiet", "-m", "change"]);
    publish_repository(root, files);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_git_repository_are_config_maps_from_the_first_commit_to_the_deletion() {
    let mut running = Running::prepare("conf").await;
    let (files, storage, repository) =
        (Files::default(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (address, root) = (files.serve().await, repository.path());
    git(root, &["init", "--quiet", "-b", "main"]);
    write(root, "conf/server.xml", b"<server>\r\n</server>\n");
    write(root, "conf/apps/a.xml", "<a name=\"\u{fc}\"/>".as_bytes());
    write(root, "conf/apps/key.bin", b"\xff\x00");
    write(root, "conf/README.md", b"not taken");
    write(root, "other/x.xml", b"not taken");
    commit(root, &files);
    running.start_with_sources(storage.path()).await;
    // The object may come before its source.
    let spec = json!({
        "sourceRef": {"kind": "GitRepository", "name": "conf"}, "path": "./conf/", "exclude": ["*.md"], "interval": "1h",
        "configMaps": {"labels": {"of": "conf"}, "annotations": {"windlass.dev/collection": "drop-ins"}},
    });
    running.apply(&object("web", &spec));
    wait_ready(&running, "web", "False SourceNotReady", "GitRepository");
    let git_spec = json!({
        "url": format!("http://{address}/repository.git"), "interval": "1h", "ref": {"branch": "main"},
    });
    running.apply(&source("GitRepository", "conf", &git_spec));
    let ready = wait_ready(&running, "web", "True Applied", "2 ConfigMaps of revision main@sha1:");
    assert_eq!(ready["status"]["configMaps"], 2);
    assert_eq!(condition(&ready, "Stalled"), "False Progressing");
    wait_config_maps(&running, &["web-apps: a.xml key.bin", "web: server.xml"]);
    let map = running.get("configmap", "web");
    assert_eq!(map["data"]["server.xml"], "<server>\r\n</server>\n");
    assert_eq!(map["metadata"]["annotations"]["windlass.dev/collection"], "drop-ins");
    let apps = running.get("configmap", "web-apps");
    assert_eq!(
        (&apps["data"]["a.xml"], &apps["binaryData"]["key.bin"]),
        (&json!("<a name=\"\u{fc}\"/>"), &json!("/wA="))
    );
    assert_eq!(running.records(), ["deployed"]);

    // Drift is corrected, without a revision.
    let ns = running.ns.name().to_owned();
    running.cp.kubectl(["delete", "configmap", "web-apps", "-n", &ns]).unwrap();
    let change = r#"{"data": {"server.xml": "changed"}}"#;
    running.cp.kubectl(["patch", "configmap", "web", "-n", &ns, "-p", change]).unwrap();
    wait_config_maps(&running, &["web-apps: a.xml key.bin", "web: server.xml"]);
    let restored = || {
        Ok((running.get("configmap", "web")["data"]["server.xml"] == "<server>\r\n</server>\n").then_some(()))
    };
    wait_until("the text is back", LIMIT, restored).unwrap();
    assert_eq!(running.records(), ["deployed"]);

    // A commit wakes the object; what it removes is pruned.
    std::fs::remove_dir_all(root.join("conf/apps")).unwrap();
    write(root, "conf/db/b.xml", b"<b/>");
    commit(root, &files);
    running.reconcile_source("gitrepository", "conf", "1");
    wait_config_maps(&running, &["web-db: b.xml", "web: server.xml"]);
    let head = git(root, &["rev-parse", "HEAD"]);
    let ready = wait_ready(&running, "web", "True Applied", &head);
    assert_eq!(ready["status"]["lastAppliedRevision"], format!("main@sha1:{head}"));

    // A commit of other files is another revision of the source, and none of the release.
    let before = running.records();
    write(root, "other/x.xml", b"changed");
    commit(root, &files);
    running.reconcile_source("gitrepository", "conf", "2");
    wait_ready(&running, "web", "True Applied", &git(root, &["rev-parse", "HEAD"]));
    assert_eq!(running.records(), before);

    // A process that ended before it wrote the status: the next one finds what there is, and makes no revision.
    running.stop().await;
    running.set_status(KIND, "web", &json!({"lastAppliedRevision": null, "configMaps": null, "conditions": null, "observedGeneration": null}));
    running.start_with_sources(storage.path()).await;
    wait_ready(&running, "web", "True Applied", "2 ConfigMaps");
    assert_eq!(running.records(), before);

    // Nothing happens while it is suspended.
    let mut suspended = spec.clone();
    suspended["suspend"] = true.into();
    suspended["configMaps"]["per"] = "All".into();
    running.apply(&object("web", &suspended));
    wait_ready(&running, "web", "Unknown Suspended", "spec.suspend");
    assert_eq!(config_maps(&running), ["web-db: b.xml", "web: server.xml"]);
    suspended["suspend"] = false.into();
    running.apply(&object("web", &suspended));
    wait_config_maps(&running, &["web: b.xml server.xml"]);

    // What is not to be has no effect on what is.
    for (path, part) in [("conf/none", "has no directory"), ("../conf", "leads out of the source")] {
        let mut wrong = suspended.clone();
        wrong["path"] = path.into();
        running.apply(&object("web", &wrong));
        let stalled = wait_ready(&running, "web", "False FilesInvalid", part);
        assert_eq!(condition(&stalled, "Stalled"), "True FilesInvalid");
        assert_eq!(config_maps(&running), ["web: b.xml server.xml"]);
    }

    running.cp.kubectl(["delete", KIND, "web", "-n", &ns, "--timeout=60s"]).unwrap();
    assert_eq!(config_maps(&running), [""; 0]);
    assert_eq!(running.records(), [""; 0]);
    running.end().await;
}

/// An artifact: a `tar.gz` of files and links.
fn packed(entries: &[(&str, &[u8])], link: Option<(&str, &str)>) -> Vec<u8> {
    let mut archive =
        tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for (name, content) in entries {
        let mut header = tar::Header::new_gnu();
        // The library refuses some of the names.
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        archive.append(&header, *content).unwrap();
    }
    if let Some((name, to)) = link {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        archive.append_link(&mut header, name, to).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_tenant_tries_ends_in_a_condition_and_changes_nothing() {
    let mut running = Running::prepare("attempts").await;
    let (cp, victim) = (running.cp, running.cp.namespace("victim").unwrap());
    let ns = running.ns.name().to_owned();
    for account in ["tenant", "deployer"] {
        cp.kubectl(["create", "serviceaccount", account, "-n", &ns]).unwrap();
    }
    let rights = [
        "create",
        "role",
        "configs",
        "-n",
        &ns,
        "--verb=get,list,watch,create,update,patch,delete",
        "--resource=configmaps",
    ];
    cp.kubectl(rights).unwrap();
    let subject = format!("--serviceaccount={ns}:deployer");
    cp.kubectl(["create", "rolebinding", "configs", "-n", &ns, "--role=configs", &subject]).unwrap();
    running.publish("good", "1.0.0", packed(&[("conf/a.xml", b"a")], None));
    let many: Vec<String> = (0..1001).map(|at| format!("conf/f{at}")).collect();
    let many: Vec<(&str, &[u8])> = many.iter().map(|name| (name.as_str(), &b"x"[..])).collect();
    running.publish("many", "1.0.0", packed(&many, None));
    running.publish("large", "1.0.0", packed(&[("conf/a", &vec![b'x'; (1 << 20) + 1])], None));
    let deep = format!("conf/{}a", "d/".repeat(20));
    running.publish("deep", "1.0.0", packed(&[(&deep, b"x")], None));
    running.publish("link", "1.0.0", packed(&[("conf/a", b"x")], Some(("conf/passwd", "/etc/passwd"))));
    running.publish("out", "1.0.0", packed(&[("conf/../../a", b"x")], None));
    running.publish("key", "1.0.0", packed(&[("conf/a b", b"x")], None));
    let cut = packed(&[("conf/a", &[b'x'; 4096])], None);
    running.publish("cut", "1.0.0", cut[..cut.len() / 2].to_vec());
    running.publish("text", "1.0.0", b"no archive".to_vec());
    // The digest of another file.
    running.publish("forged", "1.0.0", b"x".to_vec());
    let mut artifact = running.get("ocirepository", "forged")["status"]["artifact"].clone();
    artifact["digest"] = running.get("ocirepository", "good")["status"]["artifact"]["digest"].clone();
    running.set_status("ocirepository", "forged", &json!({"artifact": artifact}));
    // A source of somebody else, a ConfigMap that others have, and a release of Helm.
    let theirs = source("OCIRepository", "theirs", &json!({"url": "oci://registry/demo", "interval": "1h"}));
    cp.kubectl_with(["apply", "-n", victim.name(), "-f", "-"], &theirs.to_string()).unwrap();
    cp.kubectl(["create", "configmap", "taken", "-n", &ns, "--from-literal=a=theirs"]).unwrap();
    let chart = tempfile::tempdir().unwrap();
    write(chart.path(), "Chart.yaml", b"apiVersion: v2\nname: demo\nversion: 1.0.0\n");
    cp.helm4(["install", "configmaps-helm", chart.path().to_str().unwrap(), "-n", &ns]).unwrap();

    let account = AccountName::parse("deployer");
    let options =
        ConfigMapSourceOptions { default_service_account: account, ..ConfigMapSourceOptions::default() };
    running.start_config_map_sources(options, cp.kubeconfig().to_owned()).await;
    let of = |name: &str| json!({"sourceRef": {"kind": "OCIRepository", "name": name}, "path": "conf"});
    let with = |name: &str, field: &str, value: Value| {
        let mut spec = of(name);
        spec[field] = value;
        spec
    };
    let invalid = "False FilesInvalid";
    let attempts: Vec<(&str, Value, &str, &str)> = vec![
        ("good", of("good"), "True Applied", "1 ConfigMaps"),
        ("many", of("many"), invalid, "more than 1000 files"),
        ("large", of("large"), invalid, "conf/a: the file has 1048577 bytes"),
        ("deep", of("deep"), invalid, "more than 16 directories deep"),
        ("link", of("link"), invalid, "conf/passwd: it is a link"),
        ("out", of("out"), invalid, "is not a path below the artifact's root"),
        ("key", of("key"), invalid, "conf/a b: \"a b\" is not a key"),
        ("cut", of("cut"), invalid, "spec.path: "),
        ("text", of("text"), invalid, "the artifact is not usable"),
        ("forged", of("forged"), "False ArtifactFailed", "the digest of the file is not"),
        ("none", of("none"), "False SourceNotReady", "it does not exist yet"),
        ("path", with("good", "path", "../../etc".into()), invalid, "leads out of the source"),
        ("pattern", with("good", "include", json!([""])), invalid, "spec.include[0]"),
        ("empty", with("good", "include", json!(["*.none"])), invalid, "leave none"),
        (
            "hook",
            with("good", "configMaps", json!({"annotations": {"helm.sh/hook": "pre-install"}})),
            invalid,
            "helm.sh/hook",
        ),
        ("named", with("good", "configMaps", json!({"name": "../taken"})), invalid, "spec.configMaps.name"),
        ("taken", of("good"), "False ReleaseFailed", "taken"),
        ("helm", of("good"), "False ConfigInvalid", "belongs to another tool already"),
        ("weak", with("good", "serviceAccountName", "tenant".into()), "False ReleaseFailed", "cannot"),
        (
            "account",
            with("good", "serviceAccountName", "../x".into()),
            "False ConfigInvalid",
            "is not a name",
        ),
        (
            "theirs",
            json!({"sourceRef": {"kind": "OCIRepository", "name": "theirs", "namespace": victim.name()}}),
            "False AccessDenied",
            "cannot get resource",
        ),
    ];
    for (name, spec, ..) in &attempts {
        running.apply(&object(name, spec));
    }
    for (name, _, state, part) in &attempts {
        wait_ready(&running, name, state, part);
    }
    assert_eq!(running.get("configmap", "good")["data"], json!({"a.xml": "a"}));
    assert_eq!(running.get("configmap", "taken")["data"], json!({"a": "theirs"}));
    for name in [
        "many", "large", "deep", "link", "out", "key", "cut", "text", "forged", "hook", "helm", "weak",
        "theirs",
    ] {
        assert!(running.get("configmap", name).is_null(), "{name}");
    }
    // The API server refuses the rest.
    for (field, value) in [
        ("sourceRef", json!({"kind": "", "name": "x"})),
        ("sourceRef", json!({"kind": "Secret", "name": "x"})),
        ("sourceRef", json!({"kind": "Bucket", "name": ""})),
        ("configMaps", json!({"per": "Node"})),
    ] {
        let text = object("refused", &with("good", field, value)).to_string();
        assert!(cp.kubectl_with(["apply", "-n", &ns, "-f", "-"], &text).is_err(), "{text}");
    }
    // All of them go, and what is not theirs stays.
    cp.kubectl(["delete", KIND, "--all", "-n", &ns, "--timeout=60s"]).unwrap();
    assert!(running.get("configmap", "good").is_null());
    assert_eq!(running.get("configmap", "taken")["data"], json!({"a": "theirs"}));
    assert!(cp.helm4(["status", "configmaps-helm", "-n", &ns]).is_ok());
    running.end().await;
}

/// The record of a first apply that failed goes with its object, also if the spec names no account by then.
#[tokio::test(flavor = "multi_thread")]
async fn a_first_apply_that_failed_leaves_no_record_behind() {
    let mut running = Running::prepare("renamed").await;
    let (cp, ns) = (running.cp, running.ns.name().to_owned());
    cp.kubectl(["create", "serviceaccount", "weak", "-n", &ns]).unwrap();
    cp.kubectl(["create", "role", "reader", "-n", &ns, "--verb=get,list,watch", "--resource=configmaps"])
        .unwrap();
    let subject = format!("--serviceaccount={ns}:weak");
    cp.kubectl(["create", "rolebinding", "reader", "-n", &ns, "--role=reader", &subject]).unwrap();
    running.publish("good", "1.0.0", packed(&[("conf/a.xml", b"a")], None));
    let options = ConfigMapSourceOptions::default;
    running.start_config_map_sources(options(), cp.kubeconfig().to_owned()).await;
    let mut spec = json!({"sourceRef": {"kind": "OCIRepository", "name": "good"}, "path": "conf", "serviceAccountName": "weak"});
    running.apply(&object("web", &spec));
    let failed = wait_ready(&running, "web", "False ReleaseFailed", "cannot");
    assert_eq!(
        (&failed["status"]["release"], running.records()),
        (&json!("configmaps-web"), vec!["failed".to_owned()])
    );
    running.stop().await;
    spec["serviceAccountName"] = "../x".into();
    running.apply(&object("web", &spec));
    running.set_status(KIND, "web", &json!({"conditions": null}));
    cp.kubectl(["delete", KIND, "web", "-n", &ns, "--wait=false"]).unwrap();
    running.start_config_map_sources(options(), cp.kubeconfig().to_owned()).await;
    wait_ready(&running, "web", "False ConfigInvalid", "\"../x\" is not a name");
    assert_eq!(running.records(), ["failed"]);
    spec.as_object_mut().unwrap().remove("serviceAccountName");
    running.apply(&object("web", &spec));
    cp.kubectl(["wait", "--for=delete", KIND, "web", "-n", &ns, "--timeout=60s"]).unwrap();
    assert_eq!(running.records(), [""; 0]);
    running.end().await;
}

/// The rights that `windlass rbac` prints are enough to apply, prune, correct drift and delete.
#[tokio::test(flavor = "multi_thread")]
async fn the_printed_rights_are_enough_for_config_map_sources() {
    let mut running = Running::prepare("rights").await;
    let (cp, ns) = (running.cp, running.ns.name().to_owned());
    let account = format!("configs-{ns}");
    let flags = ["--controllers=configmapsources", "--sources=flux", "--notifications=flux"];
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_windlass"))
        .arg("rbac")
        .args(flags)
        .args(["-n", &ns, "--service-account", &account])
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    cp.kubectl_with(["apply", "-f", "-"], &String::from_utf8(out.stdout).unwrap()).unwrap();
    running.publish("good", "1.0.0", packed(&[("conf/a.xml", b"a"), ("conf/b/c.xml", b"c")], None));
    let user = format!("system:serviceaccount:{ns}:{account}");
    let kubeconfig = cp.kubeconfig_as(&user, &["system:authenticated"]).unwrap();
    running.start_config_map_sources(ConfigMapSourceOptions::default(), kubeconfig).await;
    let spec = |exclude: Value| json!({"sourceRef": {"kind": "OCIRepository", "name": "good"}, "path": "conf", "exclude": exclude, "configMaps": {"labels": {"of": "conf"}}});
    running.apply(&object("web", &spec(json!([]))));
    wait_ready(&running, "web", "True Applied", "2 ConfigMaps of revision 1.0.0");
    cp.kubectl(["delete", "configmap", "web", "-n", &ns]).unwrap();
    wait_config_maps(&running, &["web-b: c.xml", "web: a.xml"]);
    running.apply(&object("web", &spec(json!(["b/"]))));
    wait_config_maps(&running, &["web: a.xml"]);
    cp.kubectl(["delete", KIND, "web", "-n", &ns, "--timeout=60s"]).unwrap();
    assert_eq!(config_maps(&running), [""; 0]);
    running.end().await;
}

/// The operator's program on the namespace; killed when it is dropped.
struct Operator(std::process::Child);

impl Operator {
    fn start(running: &Running, directory: &Path) -> Self {
        let child = std::process::Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(["operator", "--controllers=configmapsources", "--sources=own", "--notifications=flux"])
            .args(["--storage-addr=127.0.0.1:0", "--listen-address=127.0.0.1", "--listen-port=0"])
            .args(["--watch-all-namespaces=false", "--allow-local-sources", "--storage-path"])
            .arg(directory.join("artifacts"))
            .env("KUBECONFIG", running.cp.kubeconfig())
            .env("RUNTIME_NAMESPACE", running.ns.name())
            .env("DEBUG_UNIX_SOCKET", directory.join("debug.socket"))
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The program is killed as soon as a source is fetched, as a ConfigMap is there, as a commit is on its way, and as the object is deleted.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_operator_is_continued_by_the_next() {
    let running = Running::prepare("killed").await;
    let (files, directory, repository) =
        (Files::default(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (address, root, ns) = (files.serve().await, repository.path(), running.ns.name().to_owned());
    git(root, &["init", "--quiet", "-b", "main"]);
    for at in 0..20 {
        write(root, &format!("conf/f{at}"), format!("{at}").as_bytes());
    }
    commit(root, &files);
    let git_spec = json!({
        "url": format!("http://{address}/repository.git"), "interval": "1h", "ref": {"branch": "main"},
    });
    let spec = json!({
        "sourceRef": {"kind": "GitRepository", "name": "conf"}, "path": "conf", "configMaps": {"per": "File", "labels": {"of": "conf"}},
    });
    running.apply(&source("GitRepository", "conf", &git_spec));
    running.apply(&object("web", &spec));
    let until = |what: &str, holds: &dyn Fn() -> bool| {
        wait_until(what, LIMIT, || Ok(holds().then_some(())))
            .unwrap_or_else(|e| panic!("{e}: {:#}", running.get(KIND, "web")));
    };
    let operator = Operator::start(&running, directory.path());
    until("an artifact", &|| !running.get("gitrepository", "conf")["status"]["artifact"].is_null());
    drop(operator);
    let operator = Operator::start(&running, directory.path());
    until("a ConfigMap", &|| !config_maps(&running).is_empty());
    drop(operator);
    let operator = Operator::start(&running, directory.path());
    wait_ready(&running, "web", "True Applied", "20 ConfigMaps");
    // Half of them go, and one changes.
    for at in 0..10 {
        std::fs::remove_file(root.join(format!("conf/f{at}"))).unwrap();
    }
    write(root, "conf/f10", b"changed");
    commit(root, &files);
    running.reconcile_source("gitrepository", "conf", "1");
    drop(operator);
    let operator = Operator::start(&running, directory.path());
    let head = git(root, &["rev-parse", "HEAD"]);
    wait_ready(&running, "web", "True Applied", &format!("10 ConfigMaps of revision main@sha1:{head}"));
    assert_eq!(config_maps(&running).len(), 10);
    assert_eq!(running.get("configmap", "web-f10")["data"]["f10"], "changed");
    running.cp.kubectl(["delete", KIND, "web", "-n", &ns, "--wait=false"]).unwrap();
    drop(operator);
    let _operator = Operator::start(&running, directory.path());
    until("it is gone", &|| running.get(KIND, "web").is_null());
    assert_eq!(config_maps(&running), [""; 0]);
    assert_eq!(running.records(), [""; 0]);
}
