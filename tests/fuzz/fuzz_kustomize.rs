//! Nothing in a kustomization, its files and its patches makes the builder panic, hang or eat the machine.

use std::collections::BTreeMap;

use chart_compat::data::Data;
use kustomize_compat::build::Kustomization;
use kustomize_compat::fieldspec::Config;
use kustomize_compat::format::to_yaml;
use kustomize_compat::kustomization::KustomizationFile;
use kustomize_compat::load::{Place, Repository, World, join};
use kustomize_compat::patch::Patch;
use kustomize_compat::patch::json6902::JsonPatch;
use kustomize_compat::patch::strategic_merge::merge;
use kustomize_compat::resource::{from_data, read, to_data};
use kustomize_compat::schema::Schemas;
use kustomize_compat::selector::Selector;
use kustomize_compat::selector::labels::LabelSelector;
use kustomize_compat::target::{Options, build};
use windlass_differential::Family;

use super::{fuzz, texts};

/// Between the parts of a text that is several inputs.
const PART: &str = "\n=====\n";

/// The files of a case in memory.
pub(super) struct Memory(BTreeMap<String, Vec<u8>>);

impl Memory {
    /// A case: each file follows its name between `--`.
    fn read(text: &str) -> Self {
        Self::read_as(text, "/kustomization.yaml")
    }

    /// A case whose first file may do without a name.
    pub(super) fn read_as(text: &str, first: &str) -> Self {
        let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let mut name = first.to_owned();
        for line in text.split_inclusive('\n') {
            match line.trim_end().strip_prefix("-- ").and_then(|rest| rest.strip_suffix(" --")) {
                Some(header) => name = join("/", header.split(' ').next().unwrap_or_default()),
                None => files.entry(name.clone()).or_default().extend_from_slice(line.as_bytes()),
            }
        }
        Self(files)
    }

    pub(super) fn files(&self) -> impl Iterator<Item = (&String, &Vec<u8>)> {
        self.0.iter()
    }

    pub(super) fn file(&self, path: &str) -> Option<Vec<u8>> {
        self.0.get(path).cloned()
    }

    /// The entries of a directory, and which of them are directories.
    pub(super) fn entries(&self, path: &str) -> BTreeMap<String, bool> {
        let below = |file: &String| {
            let rest = file.strip_prefix(path.trim_end_matches('/'))?.strip_prefix('/')?.to_owned();
            let (name, is_dir) =
                rest.split_once('/').map_or((rest.as_str(), false), |(name, _)| (name, true));
            Some((name.to_owned(), is_dir))
        };
        self.0.keys().filter_map(below).collect()
    }

    pub(super) fn is_directory(&self, path: &str) -> bool {
        path == "/"
            || self.0.keys().any(|file| file.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')))
    }
}

impl World for Memory {
    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        self.0.get(path).cloned().ok_or_else(|| format!("open {path}: no such file or directory"))
    }

    fn resolve(&self, path: &str) -> Result<Place, String> {
        let path = join(path, ".");
        if self.is_directory(&path) {
            return Ok(Place::Directory(path));
        }
        match path.rsplit_once('/').filter(|_| self.0.contains_key(&path)) {
            Some((directory, name)) => {
                Ok(Place::File { directory: directory.to_owned(), name: name.to_owned() })
            }
            None => Err(format!("lstat {path}: no such file or directory")),
        }
    }
}

fn cases() -> Vec<Vec<u8>> {
    texts("kustomize", &|path| path.ends_with("files.txt"))
}

#[test]
fn kustomizations() {
    fuzz("kustomization", &cases(), &[], |text| {
        let memory = Memory::read(&String::from_utf8_lossy(text));
        let directories: Vec<String> = memory
            .0
            .keys()
            .filter_map(|file| file.strip_suffix("/kustomization.yaml"))
            .map(|d| format!("/{d}"))
            .collect();
        for directory in directories.iter().rev().take(2) {
            let Ok(output) = build(&memory, &join("/", directory), &Options::default()) else { continue };
            // What is printed is a stream of objects again, but for quirks of kustomize's that are in the ledger.
            drop(read(&output));
        }
    });
}

#[test]
fn files_of_kustomizations() {
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for case in cases() {
        seeds.extend(Memory::read(&String::from_utf8_lossy(&case)).0.into_values());
    }
    fuzz("kustomization files", &seeds, &[Family::Yaml, Family::Manifests], |text| {
        drop(KustomizationFile::parse(text, "/"));
        drop(Config::parse(text));
        drop(Schemas::default().choose(None, Some(text)));
        let told = String::from_utf8_lossy(text);
        drop(read(&told).and_then(|objects| to_yaml(&objects)));
        drop(LabelSelector::parse(&told));
        drop(Repository::parse(&told));
        let pattern = || told.clone().into_owned();
        drop(Selector { kind: pattern(), name: pattern(), ..Selector::default() }.compile());
    });
}

#[test]
fn strategic_merge_patches() {
    let object = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  template:\n    spec:\n      containers:\n      - name: a\n        \
                  image: x\n        ports: [{containerPort: 80}, {containerPort: 80, protocol: UDP}]\n        env: [{name: A, value: b}]\n      - {name: \
                  b}\n      volumes: [{name: v, emptyDir: {}}]\n";
    let patches = [
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 3\n  template:\n    spec:\n      containers:\n      - {name: a, \
         env: [{name: A, $patch: delete}, {name: C}], ports: [{containerPort: 80, protocol: UDP, name: u}]}\n",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {template: {spec: {volumes: [{$patch: replace}, {name: w}], containers: null}}}\n",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n$patch: delete\n",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, annotations: &a {x: y}, labels: *a}\nspec: {template: &t {spec: {a: 1}}, other: *t}\n",
    ];
    let seeds: Vec<Vec<u8>> =
        patches.iter().map(|patch| format!("{object}{PART}{patch}").into_bytes()).collect();
    fuzz("strategic merge", &seeds, &[], |text| {
        let text = String::from_utf8_lossy(text);
        let (object, patch) = text.split_once(PART).unwrap_or((object, &text));
        for target in [None, Some(Selector::default())] {
            let patches = vec![Patch { text: patch.to_owned(), target }];
            let kustomization = Kustomization { file: "a.yaml".to_owned(), patches, images: Vec::new() };
            drop(kustomization.build(object));
        }
        let schemas = Schemas::default();
        let (Ok(objects), Ok(patches)) = (read(object), read(patch)) else { return };
        for (object, patch) in objects.iter().zip(&patches) {
            drop(merge(&object.node, &patch.node, &schemas));
        }
    });
}

#[test]
fn json_patches() {
    let object = "a: {b: [1, {c: d}], \"e/f\": g, \"~\": h}\n";
    let patches = [
        r#"[{"op":"add","path":"/a/b/-","value":{"x":[]}},{"op":"test","path":"/a/b/0","value":1}]"#,
        r#"[{"op":"move","from":"/a/b","path":"/a/c"},{"op":"copy","from":"/a","path":"/a/d"},{"op":"remove","path":"/a/e~1f"}]"#,
        "- op: replace\n  path: /a/~0\n  value: &v {x: 1}\n- {op: add, path: /a/b/01, value: *v}\n",
    ];
    let seeds: Vec<Vec<u8>> =
        patches.iter().map(|patch| format!("{object}{PART}{patch}").into_bytes()).collect();
    fuzz("json patch", &seeds, &[], |text| {
        let text = String::from_utf8_lossy(text);
        let (object, patch) = text.split_once(PART).unwrap_or((object, &text));
        let Some(patch) = JsonPatch::parse(patch) else { return };
        let data = read(&format!("kind: A\nmetadata: {{name: a}}\n{object}"));
        let Some(mut data) = data.ok().and_then(|objects| to_data(&objects.first()?.node).ok()) else {
            return;
        };
        if patch.apply(&mut data).is_ok() && matches!(data, Data::Map(_)) {
            drop(to_data(&from_data(&data)));
        }
    });
}
