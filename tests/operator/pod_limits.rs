//! What hostile inputs cost an operator in a Pod of 128 MiB: each object that brings one has an error in its condition,
//! the others go on, and the process lives. All front ends run in the one process.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, Once};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use windlass_helmfile::resource::definition;
use windlass_testing::{ControlPlane, wait_until};

use crate::memory_limit::MemoryLimit;
use crate::support::{LIMIT, Modules, Operator, control_plane, object};

/// The memory of the operator and of all that it starts, in bytes.
pub(crate) const MEMORY: u64 = 128 << 20;
/// What the kernel lets each process write to where there is no cgroup to be had, in KiB.
pub(crate) const DATA_SEGMENT_KIB: u64 = 384 << 10;

const FLUX: &str = "source.toolkit.fluxcd.io/v1";

/// Serves files by name, each as often as it is asked for.
#[derive(Clone, Default)]
pub(crate) struct Files(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

impl Files {
    pub(crate) fn serve(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let files = self.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let files = files.clone();
                std::thread::spawn(move || {
                    let mut head = Vec::new();
                    let mut byte = [0];
                    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                        head.push(byte[0]);
                    }
                    let head = String::from_utf8_lossy(&head).into_owned();
                    let path = head.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
                    let found =
                        files.0.lock().unwrap().get(path.split('?').next().unwrap_or_default()).cloned();
                    let (status, body) = found.map_or(("404 Not Found", Vec::new()), |body| ("200 OK", body));
                    let head = format!(
                        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                        body.len()
                    );
                    // The client may have seen enough.
                    drop(stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)));
                });
            }
        });
        address
    }

    pub(crate) fn put(&self, name: &str, bytes: Vec<u8>) {
        self.0.lock().unwrap().insert(name.to_owned(), bytes);
    }
}

/// A `tar.gz` of files below a directory.
pub(crate) fn packed(directory: &str, files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, format!("{directory}{path}"), &text[..]).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

/// The files of a chart of one ConfigMap, with others over them.
pub(crate) fn chart(name: &str, more: &[(&str, Vec<u8>)]) -> Vec<(String, Vec<u8>)> {
    let config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}\"}\n";
    let own = [
        ("Chart.yaml", format!("apiVersion: v2\nname: {name}\nversion: 1.0.0\n").into_bytes()),
        ("values.yaml", b"size: 1\n".to_vec()),
        ("templates/config.yaml", config.as_bytes().to_vec()),
    ];
    let mut files: BTreeMap<String, Vec<u8>> =
        own.into_iter().map(|(path, text)| (path.to_owned(), text)).collect();
    files.extend(more.iter().map(|(path, text)| ((*path).to_owned(), text.clone())));
    files.into_iter().collect()
}

/// A GNU entry that says that the next name is as long as this.
fn long_name(bytes: usize) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::GNULongName);
    header.set_size(bytes as u64);
    header.set_path("././@LongLink").unwrap();
    header.set_cksum();
    zeros(header.as_bytes(), bytes)
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

/// Some bytes with very many others after them, compressed.
fn zeros(first: &[u8], many: usize) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(first).unwrap();
    let block = vec![b'x'; 1 << 20];
    (0..many >> 20).for_each(|_| gzip.write_all(&block).unwrap());
    gzip.finish().unwrap()
}

/// Texts that are small and become large, or deep, or never end: by what they do, for any reader of YAML.
fn documents() -> Vec<(&'static str, String)> {
    let text = "x".repeat(50_000);
    vec![
        ("aliases", format!("a: &a \"{text}\"\nb: [{}]\n", vec!["*a"; 20_000].join(", "))),
        ("doubled", {
            let levels: String =
                (1..40).map(|at| format!("a{at}: &a{at} [*a{}, *a{}]\n", at - 1, at - 1)).collect();
            format!("a0: &a0 x\n{levels}")
        }),
        ("maps", format!("a: [{}]\n", "{b},".repeat(300_000))),
        ("deep", format!("a: {}{}\n", "[".repeat(100_000), "]".repeat(100_000))),
    ]
}

/// Templates of charts and of state files.
pub(crate) const TEMPLATES: [(&str, &str); 3] = [
    ("text", "{{ repeat 1073741824 \"x\" }}"),
    (
        "tree",
        "{{ $d := dict \"a\" \"x\" }}{{ range 64 }}{{ $d = dict \"a\" $d \"b\" $d }}{{ end }}{{ toYaml $d }}",
    ),
    ("yaml", "{{ fromYaml (printf \"a: &a %s\\nb: [%s]\" (repeat 50000 \"x\") (repeat 20000 \"*a,\")) }}"),
];

/// Charts, by what is wrong with them: packed, with the directory that Helm wants.
pub(crate) fn charts() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for (name, text) in documents() {
        all.push((
            format!("values-{name}"),
            packed("chart/", &chart("demo", &[("values.yaml", text.clone().into_bytes())])),
        ));
        all.push((
            format!("metadata-{name}"),
            packed("chart/", &chart("demo", &[("Chart.yaml", text.into_bytes())])),
        ));
    }
    for (name, text) in TEMPLATES {
        all.push((
            format!("template-{name}"),
            packed("chart/", &chart("demo", &[("templates/a.yaml", text.into())])),
        ));
    }
    let many =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: many}\nx:\n{{ range 1200000 }}- a\n{{ end }}";
    all.push(("objects".to_owned(), packed("chart/", &chart("demo", &[("templates/a.yaml", many.into())]))));
    // Each of these takes little; a post-renderer reads them all.
    let split = "{{ range 23 }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: m{{ . }}}\nx: [{{ repeat 85000 \"a,\" }}]\n{{ end }}";
    all.push((
        "documents".to_owned(),
        packed("chart/", &chart("demo", &[("templates/a.yaml", split.into())])),
    ));
    let references: String =
        (0..40_000).map(|at| format!("\"d{at}\": {{\"$ref\": \"#/d{}\"}},", at + 1)).collect();
    let schema = format!("{{{references}\"d40000\": {{}}, \"$ref\": \"#/d0\"}}");
    all.push((
        "schema".to_owned(),
        packed("chart/", &chart("demo", &[("values.schema.json", schema.into_bytes())])),
    ));
    all.push(("file".to_owned(), packed("chart/", &chart("demo", &[("files/zeros", vec![0; 90 << 20])]))));
    all.push(("name".to_owned(), long_name(150 << 20)));
    all.push(("no-archive".to_owned(), zeros(b"", 300 << 20)));
    all.push(("large".to_owned(), vec![0x1f; 80 << 20]));
    all
}

/// The files of a state, by their paths.
type StateFiles = Vec<(String, Vec<u8>)>;

/// State files with all that they need, by what is wrong with them.
fn helmfiles() -> Vec<(String, StateFiles)> {
    let with = |state: &str, more: &[(&str, String)]| {
        let mut files = vec![("helmfile.yaml.gotmpl".to_owned(), state.as_bytes().to_vec())];
        files.extend(more.iter().map(|(path, text)| ((*path).to_owned(), text.clone().into_bytes())));
        files
    };
    let release = "releases: [{name: NAME, chart: ./web}]\n";
    let hcl = |text: String| {
        with(&format!("environments: {{default: {{values: [a.hcl]}}}}\n---\n{release}"), &[("a.hcl", text)])
    };
    let kustomized = |text: &str, more: &[(&str, String)]| {
        let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {x: {y: z}}\n".to_owned();
        let own =
            [("web/kustomization.yaml", format!("resources: [o.yaml]\n{text}")), ("web/o.yaml", object)];
        with(release, &[&own[..], more].concat())
    };
    let mut all = Vec::new();
    for (name, text) in documents() {
        all.push((format!("state-{name}"), with(&format!("{text}---\n{release}"), &[])));
        all.push((
            format!("values-{name}"),
            with(
                "releases: [{name: NAME, chart: ./web, values: [v.yaml]}]\n",
                &[
                    ("v.yaml", text.clone()),
                    ("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n".to_owned()),
                ],
            ),
        ));
        all.push((
            format!("environment-{name}"),
            with(
                &format!("environments: {{default: {{values: [v.yaml]}}}}\n---\n{release}"),
                &[("v.yaml", text.clone())],
            ),
        ));
        all.push((format!("kustomization-{name}"), kustomized(&text, &[])));
        all.push((
            format!("object-{name}"),
            kustomized(
                "",
                &[("web/o.yaml", format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\n{text}"))],
            ),
        ));
    }
    for (name, text) in TEMPLATES {
        all.push((format!("template-{name}"), with(&format!("{text}\n---\n{release}"), &[])));
    }
    let path = vec!["a"; 20_000].join("/");
    let many: String = (0..1_000)
        .map(|at| format!("---\napiVersion: v1\nkind: Secret\nmetadata: {{name: s{at}}}\n"))
        .collect();
    let long = "x".repeat(1 << 20);
    for (name, text) in [
        ("splats", format!("values {{\n v = local.a{}\n}}\nlocals {{\n a = [1]\n}}\n", "[*]".repeat(10_000))),
        ("brackets", format!("values {{\n v = {}{}\n}}\n", "[".repeat(10_000), "]".repeat(10_000))),
        (
            "copies",
            format!("locals {{\n a = join(\"{}\", range(100000))\n}}\nvalues {{\n v = [{}]\n}}\n", "0123456789".repeat(4), vec!["local.a"; 1000].join(", ")),
        ),
        ("loops", "locals {\n a = range(100000)\n}\nvalues {\n v = [for x in local.a : [for y in local.a : y]]\n}\n".to_owned()),
        ("sets", "values {\n v = setproduct(range(10000), range(10000))\n}\n".to_owned()),
    ] {
        all.push((format!("hcl-{name}"), hcl(text)));
    }
    all.push((
        "labels-deep".to_owned(),
        kustomized(
            &format!("labels: [{{pairs: {{l: v}}, fields: [{{path: {path}, create: true}}]}}]\n"),
            &[],
        ),
    ));
    for (name, field) in
        [("prefix", format!("namePrefix: {long}\n")), ("label", format!("commonLabels: {{a: {long}}}\n"))]
    {
        all.push((format!("{name}-large"), kustomized(&field, &[("web/o.yaml", many.clone())])));
    }
    all
}

/// Objects that bring what is hostile by themselves: what a ConfigMap or a Secret may hold.
pub(crate) fn texts() -> Vec<(String, String)> {
    documents()
        .into_iter()
        .map(|(name, text)| (name.to_owned(), text))
        .filter(|(_, text)| text.len() < 900_000)
        .collect()
}

/// The kinds of Flux and of Helmfiles.
fn install(cp: &ControlPlane) {
    static KINDS: Once = Once::new();
    KINDS.call_once(|| {
        for crd in flux_api::crds::all().into_iter().chain([definition::crd()]) {
            cp.establish(&crd).unwrap();
        }
    });
}

/// A HelmRelease, by default of the good chart.
fn helm_release(name: &str, spec: &Value) -> Value {
    let mut whole =
        json!({"chartRef": {"kind": "OCIRepository", "name": "good"}, "interval": "1h", "timeout": "20s"});
    for (key, value) in spec.as_object().unwrap() {
        whole[key] = value.clone();
    }
    json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": {"name": name}, "spec": whole})
}

pub(crate) struct Namespace<'c> {
    pub(crate) cp: &'c ControlPlane,
    pub(crate) name: &'c str,
}

impl Namespace<'_> {
    pub(crate) fn apply(&self, object: &Value) {
        // The last-applied annotation of a large object would be larger than annotations may be.
        self.cp
            .kubectl_with(["apply", "--server-side", "-n", self.name, "-f", "-"], &object.to_string())
            .unwrap();
    }

    /// Publishes a chart as the artifact of a source, as source-controller does.
    fn publish(&self, files: &Files, address: SocketAddr, name: &str, bytes: Vec<u8>) {
        let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let file = format!("chart-{name}.tgz");
        files.put(&file, bytes);
        self.apply(&json!({
            "apiVersion": FLUX, "kind": "OCIRepository", "metadata": {"name": name},
            "spec": {"url": "oci://registry/demo", "interval": "1h"},
        }));
        let status = json!({"status": {"observedGeneration": 1, "artifact": {
            "url": format!("http://{address}/{file}"), "digest": format!("sha256:{digest}"), "revision": "1.0.0", "path": file,
            "lastUpdateTime": "2026-01-01T00:00:00Z",
        }}});
        let patch =
            ["patch", "ocirepository", name, "-n", self.name, "--subresource=status", "--type=merge", "-p"];
        self.cp.kubectl([&patch[..], &[&status.to_string()]].concat()).unwrap();
    }

    /// Asks for the deletion of all objects of these resources, and waits for none.
    pub(crate) fn delete_all(&self, resources: &str) {
        self.cp.kubectl(["delete", resources, "--all", "-n", self.name, "--wait=false"]).unwrap();
    }

    /// Status, reason and message of the condition Ready of an object.
    fn ready(&self, kind: &str, name: &str) -> String {
        let object = object(self.cp, self.name, kind, name).unwrap_or_default();
        let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = all.iter().find(|condition| condition["type"] == "Ready");
        let text = |condition: &Value, key: &str| condition[key].as_str().unwrap_or_default().to_owned();
        found.map_or_else(String::new, |c| {
            format!("{} {}: {}", text(c, "status"), text(c, "reason"), text(c, "message"))
        })
    }

    /// Waits for the condition Ready of all of these.
    pub(crate) fn wait_all(&self, operator: &Operator, kind: &str, names: &[String], status: &str) {
        for name in names {
            let found = || Ok(self.ready(kind, name).starts_with(status).then_some(()));
            if let Err(error) = wait_until(&format!("{kind} {name}: {status}"), 3 * LIMIT, found) {
                panic!("{error}: {}\n{}", self.ready(kind, name), operator.log_end());
            }
            println!("{kind} {name}: {}", self.ready(kind, name).chars().take(300).collect::<String>());
        }
    }
}

/// An operator under a limit, and its directory for sources of helmfiles.
pub(crate) fn start(
    limit: &MemoryLimit,
    own: &Namespace<'_>,
    modules: &Modules,
    controllers: &str,
) -> (Operator, TempDir) {
    let command = limit.command(env!("CARGO_BIN_EXE_windlass"));
    let storage = tempfile::tempdir().unwrap();
    let controllers = format!("--controllers={controllers}");
    let arguments = [
        controllers.as_str(),
        "--sources=flux",
        "--notifications=flux",
        "--watch-all-namespaces=false",
        "--helm-controller-namespace=none-such",
        "--allow-local-sources",
        "--render-timeout=5s",
        "--helmfile-cache",
        storage.path().to_str().unwrap(),
    ];
    let kubeconfig = own.cp.kubeconfig().to_string_lossy().into_owned();
    let path = std::env::var("PATH").unwrap_or_default();
    let variables = [("PATH", path.as_str()), ("RUNTIME_NAMESPACE", own.name)];
    (Operator::spawn_by(command, &kubeconfig, own.name, modules.path(), &arguments, &variables), storage)
}

#[test]
fn hostile_inputs_cost_their_object_an_error_at_the_memory_of_our_pod() {
    let cp = control_plane();
    install(cp);
    let ns = cp.namespace("pod").unwrap();
    let (own, files) = (Namespace { cp, name: ns.name() }, Files::default());
    let address = files.serve();

    // The good ones, of which some come first and some last.
    let good = packed("chart/", &chart("demo", &[]));
    own.publish(&files, address, "good", good);
    files.put("good.tar.gz", packed("", &helmfile_with_chart("helmfile-good")));

    // Modules on disk.
    let modules = Modules::new();
    modules.small("001-first").small("999-last");
    let mut keys = vec!["first".to_owned(), "last".to_owned()];
    let mut hostile_modules = Vec::new();
    let texts_of_charts =
        documents().into_iter().map(|(name, text)| (format!("values{name}"), "values.yaml", text));
    let templates = TEMPLATES
        .iter()
        .map(|(name, text)| (format!("template{name}"), "templates/a.yaml", (*text).to_owned()));
    for (at, (name, file, text)) in (10..).zip(texts_of_charts.chain(templates)) {
        modules.small(&format!("{at:03}-{name}")).write(&format!("{at:03}-{name}/{file}"), &text);
        keys.push(name.clone());
        hostile_modules.push(name);
    }
    modules.enable(&keys.iter().map(String::as_str).collect::<Vec<_>>());

    let limit = MemoryLimit::new(MEMORY, DATA_SEGMENT_KIB);
    let (operator, _storage) = start(&limit, &own, &modules, "modules,helmreleases,helmfiles");

    // HelmReleases: charts, and values of objects.
    own.apply(&helm_release("good-first", &json!({})));
    own.wait_all(&operator, "helmrelease", &["good-first".to_owned()], "True");
    let started = operator.peak_memory_kib();
    let mut releases = Vec::new();
    for (name, bytes) in charts() {
        let name = format!("chart-{name}");
        own.publish(&files, address, &name, bytes);
        own.apply(&helm_release(&name, &json!({"chartRef": {"kind": "OCIRepository", "name": name}})));
        releases.push(name);
    }
    for (name, text) in texts() {
        own.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"values.yaml": text}}));
        own.apply(&helm_release(
            &format!("from-{name}"),
            &json!({"valuesFrom": [{"kind": "ConfigMap", "name": name}]}),
        ));
        own.apply(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"value": text}}));
        own.apply(&helm_release(
            &format!("remote-{name}"),
            &json!({"kubeConfig": {"secretRef": {"name": name}}}),
        ));
        let patch = json!([{"kustomize": {"patches": [{"target": {"kind": "ConfigMap"}, "patch": text}]}}]);
        own.apply(&helm_release(&format!("patched-{name}"), &json!({"postRenderers": patch})));
        releases.extend(["from", "remote", "patched"].map(|kind| format!("{kind}-{name}")));
    }
    // Records that somebody else wrote.
    let maps = format!("[{}0]", "{\"a\":1},".repeat(4_000_000));
    for (name, json) in [
        ("text", gzipped(format!("{{\"name\":\"{}", "x".repeat(100 << 20)).as_bytes())),
        ("maps", gzipped(maps.as_bytes())),
    ] {
        let (name, payload) = (format!("recorded-{name}"), STANDARD.encode(json));
        let labels = json!({"owner": "helm", "name": name, "status": "deployed", "version": "1"});
        own.apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1", "data": {"release": STANDARD.encode(payload)},
            "metadata": {"name": format!("sh.helm.release.v1.{name}.v1"), "labels": labels},
        }));
        own.apply(&helm_release(&name, &json!({})));
        releases.push(name);
    }
    own.wait_all(&operator, "helmrelease", &releases, "False");

    // Helmfiles.
    let helmfile = |name: &str, archive: &str| {
        own.apply(&json!({
            "apiVersion": "apps.mumoshu.github.io/v1alpha1", "kind": "Helmfile", "metadata": {"name": name},
            "spec": {"source": format!("http::http://{address}/{archive}@helmfile.yaml.gotmpl"), "interval": "1h"},
        }));
    };
    let mut all = Vec::new();
    for (name, content) in helmfiles() {
        let name = format!("h-{name}");
        let content: Vec<_> = content.into_iter().map(|(path, text)| (path, named(text, &name))).collect();
        files.put(&format!("{name}.tar.gz"), packed("", &content));
        helmfile(&name, &format!("{name}.tar.gz"));
        all.push(name);
    }
    for (name, bytes) in
        [("zeros", zeros(b"", 300 << 20)), ("name", long_name(150 << 20)), ("large", vec![0x1f; 80 << 20])]
    {
        files.put(&format!("archive-{name}.tar.gz"), bytes);
        helmfile(&format!("archive-{name}"), &format!("archive-{name}.tar.gz"));
        all.push(format!("archive-{name}"));
    }
    own.wait_all(&operator, "helmfiles.apps.mumoshu.github.io", &all, "False");

    // Modules have had their turn meanwhile; and what is good still works in all front ends.
    for name in &hostile_modules {
        operator.wait_log(&[&format!("\"module\":\"{name}\""), "\"level\":\"ERROR\""]);
    }
    for good in ["first", "last"] {
        let there = || Ok(object(cp, own.name, "deployment", good).map(drop));
        wait_until(good, LIMIT, there).unwrap_or_else(|error| panic!("{error}\n{}", operator.log_end()));
    }
    own.apply(&helm_release("good-last", &json!({})));
    own.wait_all(&operator, "helmrelease", &["good-last".to_owned()], "True");
    helmfile("helmfile-good", "good.tar.gz");
    own.wait_all(&operator, "helmfiles.apps.mumoshu.github.io", &["helmfile-good".to_owned()], "True");
    let (peak, kept) = (operator.peak_memory_kib(), operator.heap_kib());
    println!(
        "{} inputs, {started} KiB at first, {peak} KiB at most, code included; {kept} KiB of memory of its own at the end",
        releases.len() + all.len() + hostile_modules.len()
    );
    assert!(kept << 10 < MEMORY / 4 * 3, "{kept} KiB are kept of what hostile inputs took");
    own.delete_all("helmreleases,helmfiles.apps.mumoshu.github.io");
    operator.stop();
    drop(limit);
}

/// A state file of one release of a good chart.
fn helmfile_with_chart(release: &str) -> Vec<(String, Vec<u8>)> {
    let state = format!("releases: [{{name: {release}, chart: ./web}}]\n");
    let mut files = vec![("helmfile.yaml.gotmpl".to_owned(), state.into_bytes())];
    files.extend(chart("web", &[]).into_iter().map(|(path, text)| (format!("web/{path}"), text)));
    files
}

/// A text with the name of its release.
fn named(text: Vec<u8>, name: &str) -> Vec<u8> {
    match String::from_utf8(text) {
        Ok(text) => text.replace("name: NAME", &format!("name: {name}")).into_bytes(),
        Err(error) => error.into_bytes(),
    }
}
