//! The ConfigMaps of files. Pure.
//!
//! Owns their names, their keys, and what is text. Source of the rules for names, keys and sizes: the API server's validation of ConfigMaps.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::config_map_source_api::{ConfigMapsSpec, FilesTogether};
use windlass_artifacts::ArchivedFile;

/// The most bytes of all values of a ConfigMap.
pub(crate) const MAX_CONFIG_MAP: usize = 1 << 20;
/// The longest name and the longest key, in bytes.
const MAX_NAME: usize = 253;
/// Annotations that mean something else in a release: those of chart hooks, and those that say whose an object is.
const RESERVED: [&str; 2] = ["helm.sh/hook", "meta.helm.sh/"];

/// Which ConfigMaps are made.
pub(crate) struct ConfigMapPlan<'p> {
    pub(crate) spec: &'p ConfigMapsSpec,
    /// Namespace and name of the object.
    pub(crate) namespace: &'p str,
    pub(crate) object: &'p str,
    /// The directory of the files, for errors.
    pub(crate) directory: &'p str,
}

/// A ConfigMap that is being filled.
#[derive(Default)]
struct ConfigMap {
    /// The directory or file that it is of; empty: the directory of all.
    of: String,
    /// File of each key.
    files: BTreeMap<String, String>,
    data: Map<String, Value>,
    binary_data: Map<String, Value>,
    bytes: usize,
}

impl ConfigMapPlan<'_> {
    /// The ConfigMaps of files, by name.
    ///
    /// # Errors
    /// A name or key is not one that Kubernetes accepts, two files have one key of a ConfigMap, or one is too large. The text names the file.
    pub(crate) fn config_maps(&self, files: Vec<ArchivedFile>) -> Result<Vec<Value>, String> {
        self.check_metadata()?;
        let mut all: BTreeMap<String, ConfigMap> = BTreeMap::new();
        for ArchivedFile { path, content } in files {
            let (directory, key) = path.rsplit_once('/').unwrap_or(("", path.as_str()));
            if !is_key(key) {
                return Err(format!(
                    "{}: {key:?} is not a key of a ConfigMap: letters, digits, '-', '_' and '.' only: rename or exclude the file",
                    self.source_path(&path)
                ));
            }
            let of = match self.spec.per {
                FilesTogether::All => "",
                FilesTogether::Directory => directory,
                FilesTogether::File => path.as_str(),
            };
            let name = self.name_of(of)?;
            let map = all
                .entry(name.clone())
                .or_insert_with(|| ConfigMap { of: of.to_owned(), ..ConfigMap::default() });
            if map.of != of {
                return Err(format!(
                    "{} and {}: both are ConfigMap {name:?}: rename one",
                    self.source_path(&map.of),
                    self.source_path(of)
                ));
            }
            if let Some(other) = map.files.insert(key.to_owned(), path.clone()) {
                return Err(format!(
                    "{} and {}: both are key {key:?} of ConfigMap {name:?}: rename one, or set spec.configMaps.per to Directory",
                    self.source_path(&other),
                    self.source_path(&path)
                ));
            }
            map.bytes += content.len();
            if map.bytes > MAX_CONFIG_MAP {
                return Err(format!(
                    "{}: ConfigMap {name:?} has more than {MAX_CONFIG_MAP} bytes with it: exclude files, or set spec.configMaps.per to File",
                    self.source_path(&path)
                ));
            }
            match text_of(content) {
                Ok(text) => drop(map.data.insert(key.to_owned(), text.into())),
                Err(bytes) => drop(map.binary_data.insert(key.to_owned(), STANDARD.encode(bytes).into())),
            }
        }
        Ok(all.into_iter().map(|(name, map)| self.object_of(&name, map)).collect())
    }

    fn check_metadata(&self) -> Result<(), String> {
        let reserved = |key: &&String| RESERVED.iter().any(|reserved| key.starts_with(reserved));
        match self.spec.annotations.keys().find(reserved) {
            Some(key) => Err(format!(
                "spec.configMaps.annotations: {key:?} is not possible: the ConfigMaps are objects of a release, and no hooks"
            )),
            None => Ok(()),
        }
    }

    /// The name of the ConfigMap of a directory or file.
    fn name_of(&self, of: &str) -> Result<String, String> {
        let own = Some(self.spec.name.as_str()).filter(|name| !name.is_empty()).unwrap_or(self.object);
        if !is_name(own) {
            return Err(format!(
                "spec.configMaps.name: {own:?} is not a name of a ConfigMap: lower-case letters, digits, '-' and '.', at most {MAX_NAME}"
            ));
        }
        if of.is_empty() {
            return Ok(own.to_owned());
        }
        let name = format!("{own}-{}", of.replace('/', "-"));
        match is_name(&name) {
            true => Ok(name),
            false => Err(format!(
                "{}: {name:?} is not a name of a ConfigMap: lower-case letters, digits, '-' and '.', at most {MAX_NAME}: rename or exclude \
                 it, or set spec.configMaps.per to All",
                self.source_path(of)
            )),
        }
    }

    /// A path as the source has it.
    fn source_path(&self, path: &str) -> String {
        match (self.directory, path) {
            ("", "") => ".".to_owned(),
            (directory, "") => directory.to_owned(),
            ("", path) => path.to_owned(),
            (directory, path) => format!("{directory}/{path}"),
        }
    }

    fn object_of(&self, name: &str, map: ConfigMap) -> Value {
        let ConfigMapsSpec { labels, annotations, .. } = self.spec;
        let mut metadata = json!({"name": name, "namespace": self.namespace});
        if !labels.is_empty() {
            metadata["labels"] = json!(labels);
        }
        if !annotations.is_empty() {
            metadata["annotations"] = json!(annotations);
        }
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        if !map.data.is_empty() {
            object["data"] = map.data.into();
        }
        if !map.binary_data.is_empty() {
            object["binaryData"] = map.binary_data.into();
        }
        object
    }
}

/// The text of a file, or its bytes if it is none: not UTF-8, or with control characters, which tools for YAML do not leave as they are.
fn text_of(content: Vec<u8>) -> Result<String, Vec<u8>> {
    let text = String::from_utf8(content).map_err(std::string::FromUtf8Error::into_bytes)?;
    let is_control = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    let is_odd = |c: char| is_control(c) || matches!(c, '\u{feff}' | '\u{fffe}' | '\u{ffff}');
    if text.contains(is_odd) { Err(text.into_bytes()) } else { Ok(text) }
}

/// Whether a text is a key of a ConfigMap.
fn is_key(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    !text.is_empty()
        && text.len() <= MAX_NAME
        && text.bytes().all(inner)
        && text != "."
        && !text.starts_with("..")
}

/// Whether a text is a DNS subdomain, as names of ConfigMaps are.
fn is_name(text: &str) -> bool {
    let is_outer = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        is_outer(bytes.first())
            && is_outer(bytes.last())
            && bytes.iter().all(|b| is_outer(Some(b)) || *b == b'-')
    };
    text.len() <= MAX_NAME && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chart_compat::profile::Profile;
    use windlass_render::{RenderBounds, finished_release, object_data};

    fn spec(per: FilesTogether, name: &str) -> ConfigMapsSpec {
        ConfigMapsSpec { per, name: name.to_owned(), ..ConfigMapsSpec::default() }
    }

    fn made(spec: &ConfigMapsSpec, files: &[(&str, &[u8])]) -> Result<Vec<Value>, String> {
        let plan = ConfigMapPlan { spec, namespace: "shop", object: "web", directory: "conf" };
        let file = |(path, content): &(&str, &[u8])| ArchivedFile {
            path: (*path).to_owned(),
            content: content.to_vec(),
        };
        plan.config_maps(files.iter().map(file).collect())
    }

    #[test]
    fn files_become_config_maps_by_directory_by_file_or_together() {
        let files: [(&str, &[u8]); 4] =
            [("a.xml", b"1"), ("apps/b.xml", b"2"), ("apps/c.bin", b"\xff"), ("apps/x/d", b"")];
        let shown = |per, name: &str| {
            let all = made(&spec(per, name), &files).unwrap();
            let keys = |field: &Value| {
                field.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect::<Vec<_>>()
            };
            all.iter()
                .map(|map| {
                    let name = map["metadata"]["name"].as_str().unwrap();
                    format!(
                        "{name}: {} | {}",
                        keys(&map["data"]).join(" "),
                        keys(&map["binaryData"]).join(" ")
                    )
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(
            shown(FilesTogether::Directory, ""),
            ["web: a.xml | ", "web-apps: b.xml | c.bin", "web-apps-x: d | "]
        );
        assert_eq!(shown(FilesTogether::All, "all"), ["all: a.xml b.xml d | c.bin"]);
        assert_eq!(
            shown(FilesTogether::File, "f"),
            ["f-a.xml: a.xml | ", "f-apps-b.xml: b.xml | ", "f-apps-c.bin:  | c.bin", "f-apps-x-d: d | "]
        );
        let map = &made(&spec(FilesTogether::All, ""), &files).unwrap()[0];
        assert_eq!(
            (&map["metadata"]["namespace"], &map["binaryData"]["c.bin"]),
            (&json!("shop"), &json!("/w=="))
        );
        assert_eq!((&map["data"]["d"], &map["kind"]), (&json!(""), &json!("ConfigMap")));
    }

    #[test]
    fn what_kubernetes_does_not_accept_names_the_file() {
        let long = "a".repeat(254);
        let large = vec![b'x'; MAX_CONFIG_MAP];
        for (per, name, files, part) in [
            (
                FilesTogether::All,
                "",
                vec![("a b", &b""[..])],
                "conf/a b: \"a b\" is not a key of a ConfigMap",
            ),
            (FilesTogether::All, "", vec![("x/..a", &b""[..])], "conf/x/..a: \"..a\" is not a key"),
            (FilesTogether::All, "", vec![("ü.xml", &b""[..])], "conf/ü.xml: \"ü.xml\" is not a key"),
            (FilesTogether::All, "", vec![(long.as_str(), &b""[..])], "conf/aaa"),
            (FilesTogether::All, "Web", vec![("a", &b""[..])], "spec.configMaps.name: \"Web\" is not a name"),
            (
                FilesTogether::All,
                "../b",
                vec![("a", &b""[..])],
                "spec.configMaps.name: \"../b\" is not a name",
            ),
            (
                FilesTogether::Directory,
                "",
                vec![("Apps/a", &b""[..])],
                "conf/Apps: \"web-Apps\" is not a name",
            ),
            (
                FilesTogether::File,
                "",
                vec![("a_b.xml", &b""[..])],
                "conf/a_b.xml: \"web-a_b.xml\" is not a name",
            ),
            (
                FilesTogether::Directory,
                "",
                vec![("a-b/x", &b""[..]), ("a/b/x", &b""[..])],
                "conf/a-b and conf/a/b: both are ConfigMap \"web-a-b\"",
            ),
            (
                FilesTogether::All,
                "",
                vec![("a/x", &b""[..]), ("b/x", &b""[..])],
                "conf/a/x and conf/b/x: both are key \"x\" of ConfigMap \"web\"",
            ),
            (
                FilesTogether::All,
                "",
                vec![("a", &large[..]), ("b", &b"1"[..])],
                "conf/b: ConfigMap \"web\" has more than 1048576 bytes with it",
            ),
        ] {
            let error = made(&spec(per, name), &files).unwrap_err();
            assert!(error.starts_with(part), "{error}");
        }
        for key in ["helm.sh/hook", "helm.sh/hook-weight", "meta.helm.sh/release-name"] {
            let mut spec = spec(FilesTogether::All, "");
            spec.annotations.insert(key.to_owned(), "pre-install".to_owned());
            let error = made(&spec, &[("a", b"")]).unwrap_err();
            assert!(error.starts_with(&format!("spec.configMaps.annotations: {key:?}")), "{error}");
        }
        assert!(is_name("a.b-1") && is_name(&"a".repeat(253)));
        assert!(!["", ".", "a.", "-a", "a-", "a..b", &long].into_iter().any(is_name));
    }

    /// What a revision records is read again when it is compared, pruned and rolled back.
    #[test]
    fn texts_are_the_same_in_the_record() {
        let texts = [
            "",
            "\n",
            " a",
            "a \n",
            "a\r\nb\r\n",
            "\t- x",
            "---\na: 1\n",
            "# c",
            "{{ x }}",
            "a\n\n\n",
            "'\"\\",
            "null",
            "1e3",
            "ü\u{2028}\u{1f600}",
            "key: |\n  x\n",
            "\n\n  indented\n",
            "\u{a0}",
            "~",
            "? x",
            "!!binary x",
            "%YAML 1.1\n",
            "...\n",
        ];
        let files: Vec<(String, &[u8])> =
            texts.iter().enumerate().map(|(at, text)| (format!("f{at}"), text.as_bytes())).collect();
        let files: Vec<(&str, &[u8])> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
        let map = made(&spec(FilesTogether::All, ""), &files).unwrap().remove(0);
        assert_eq!(map["data"].as_object().unwrap().len(), texts.len());
        let text = chart_compat::yaml::to_string(&object_data(&map)).unwrap();
        let release = finished_release(
            [("configmaps/web.yaml".to_owned(), text)],
            Profile::Helm4,
            &RenderBounds::default(),
            &mut |line| panic!("{line}"),
        );
        assert_eq!(release.unwrap().manifests[0].object, map);
        for odd in ["\u{0}", "\u{feff}a", "a\u{85}b", "\u{7f}", "\u{1b}[0m"] {
            let map = made(&spec(FilesTogether::All, ""), &[("a", odd.as_bytes())]).unwrap().remove(0);
            assert_eq!(map["binaryData"]["a"], STANDARD.encode(odd), "{odd:?}");
        }
    }
}
