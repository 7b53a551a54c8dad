//! Manifests on their way through a post-renderer: to one stream, and from one stream back to manifests and hooks.
//!
//! Owns both forms: Helm 4's, where each document carries the name of its file and hooks take part
//! (`annotateAndMerge`, `splitAndDeannotate`), and Helm 3's, where the manifest goes as it is and hooks stay at home. Runs
//! nothing itself.

use std::collections::BTreeMap;

use super::error::Error;
use super::manifest::{self, Manifest};
use super::{Hook, Rendered};
use crate::chart::Warn;
use crate::data::{Data, Map};
use crate::profile::Profile;
use crate::yaml;

/// The annotation by which a document finds back to its file.
const FILE: &str = "postrenderer.helm.sh/postrender-filename";
/// What stands between documents.
const BORDER: &str = "---\n";

impl Rendered {
    /// All documents, hooks included, in order of their files, each with its file's name in an annotation: what a
    /// post-renderer of Helm 4 gets. Documents are written anew, without their comments.
    ///
    /// # Errors
    /// A document that is not YAML or no object.
    pub fn merged(&self) -> Result<String, Error> {
        let hooks = self.hooks.iter().map(|h: &Hook| &h.manifest);
        let mut all: Vec<&Manifest> = self.manifests.iter().chain(hooks).collect();
        all.sort_by(|a, b| a.source.cmp(&b.source));
        let mut out = Vec::new();
        for Manifest { source, text, .. } in all {
            let base = source.rsplit('/').next().unwrap_or(source);
            if base.starts_with('_') {
                continue;
            }
            match parse(source, text)? {
                Data::Null => {}
                Data::Map(mut object) => {
                    let mut metadata = take(&mut object, "metadata");
                    let mut annotations = take(&mut metadata, "annotations");
                    annotations.insert(FILE.to_owned(), Data::String(source.clone()));
                    metadata.insert("annotations".to_owned(), Data::Map(annotations));
                    object.insert("metadata".to_owned(), Data::Map(metadata));
                    out.push(write(source, &Data::Map(object))?);
                }
                _ => return Err(Error::manifest(source, text, "the document is no object".to_owned())),
            }
        }
        Ok(out.join(BORDER))
    }

    /// The same render with the documents that a post-renderer of Helm 4 made of [`Rendered::merged`]. Documents without
    /// a file's name get one, and lists are taken apart.
    ///
    /// # Errors
    /// A document that is not YAML.
    pub fn split_merged(&mut self, text: &str, profile: Profile, warn: Warn<'_>) -> Result<(), Error> {
        let mut documents = Vec::new();
        for part in manifest::split(text, Profile::Helm4) {
            match parse("post-renderer", part)? {
                Data::Null => {}
                Data::Map(mut list) if list.get("kind") == Some(&Data::String("List".to_owned())) => {
                    if let Some(Data::List(items)) = list.remove("items") {
                        documents.extend(items);
                    }
                }
                other => documents.push(other),
            }
        }
        let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (number, mut document) in documents.into_iter().enumerate() {
            let file = match &mut document {
                Data::Map(object) => take_file(object),
                _ => None,
            };
            let file = file.unwrap_or_else(|| format!("generated-by-postrender-{number}.yaml"));
            let text = write(&file, &document)?;
            files.entry(file).or_default().push(text);
        }
        let read = |(source, texts): (String, Vec<String>)| {
            manifest::read(source, texts.join(BORDER), Profile::Helm4)
        };
        let files = files.into_iter().map(read).collect();
        (self.manifests, self.hooks) = manifest::sort(files, profile, warn)?;
        Ok(())
    }

    /// The same render with a manifest that a post-renderer of Helm 3 made; hooks stay as they are.
    ///
    /// # Errors
    /// A document whose head is not YAML.
    pub fn replace_manifest(&mut self, text: &str, profile: Profile, warn: Warn<'_>) -> Result<(), Error> {
        let mut files = Vec::new();
        for part in manifest::split(text, profile) {
            let source = part.lines().find_map(|l| l.strip_prefix("# Source: ")).unwrap_or("post-renderer");
            files.push(manifest::read(source.trim().to_owned(), part.to_owned(), profile));
        }
        (self.manifests, _) = manifest::sort(files, profile, warn)?;
        Ok(())
    }
}

fn parse(source: &str, text: &str) -> Result<Data, Error> {
    yaml::from_slice(text.as_bytes()).map_err(|e| Error::yaml(source, text, &e))
}

fn write(source: &str, data: &Data) -> Result<String, Error> {
    yaml::to_string(data).map_err(|e| Error::manifest(source, "", e.to_string()))
}

/// Takes the map below a key out; an empty one where there is none.
fn take(map: &mut Map, key: &str) -> Map {
    match map.remove(key) {
        Some(Data::Map(inner)) => inner,
        _ => Map::new(),
    }
}

/// Takes the name of its file off an object.
fn take_file(object: &mut Map) -> Option<String> {
    let Some(Data::Map(metadata)) = object.get_mut("metadata") else { return None };
    let Some(Data::Map(annotations)) = metadata.get_mut("annotations") else { return None };
    let file = annotations.remove(FILE);
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    match file {
        Some(Data::String(file)) if !file.is_empty() => Some(file),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(files: &[(&str, &str)]) -> Rendered {
        let files =
            files.iter().map(|(s, t)| manifest::read((*s).to_owned(), (*t).to_owned(), Profile::Helm4));
        let (manifests, hooks) = manifest::sort(files.collect(), Profile::Helm4, &mut |_| {}).unwrap();
        Rendered { manifests, hooks, ..Rendered::default() }
    }

    #[test]
    fn documents_find_back_to_their_files() {
        let hook = "kind: Job\nmetadata:\n  name: j\n  annotations: {helm.sh/hook: pre-install}\n";
        let mut r = rendered(&[
            ("c/templates/b.yaml", "kind: Service\nmetadata: {name: s}\n---\n# a comment alone\n"),
            ("c/templates/a.yaml", "kind: ConfigMap\ndata: {x: 9007199254740993, s: \"1e3\"}\n"),
            ("c/templates/h.yaml", hook),
        ]);
        let merged = r.merged().unwrap();
        let names: Vec<&str> = merged.lines().filter_map(|l| l.trim().strip_prefix(FILE)).collect();
        assert_eq!(names, [": c/templates/a.yaml", ": c/templates/b.yaml", ": c/templates/h.yaml"]);
        let more = "apiVersion: v1\nkind: List\nitems:\n- {kind: Secret, metadata: {name: x}}\n";
        r.split_merged(&format!("{merged}---\n{more}"), Profile::Helm4, &mut |_| {}).unwrap();
        let shown: Vec<(&str, &str)> =
            r.manifests.iter().map(|m| (m.source.as_str(), m.head.kind.as_str())).collect();
        let want = [
            ("generated-by-postrender-3.yaml", "Secret"),
            ("c/templates/a.yaml", "ConfigMap"),
            ("c/templates/b.yaml", "Service"),
        ];
        assert_eq!(shown, want);
        assert_eq!(
            r.manifests[1].text,
            "data:\n  s: \"1e3\"\n  x: 9007199254740993\nkind: ConfigMap\n\
             metadata: {}\n"
        );
        assert_eq!(r.hooks.len(), 1);
        assert!(r.hooks[0].manifest.text.contains("helm.sh/hook: pre-install"));
        assert!(!r.hooks[0].manifest.text.contains(FILE));
    }

    #[test]
    fn a_manifest_keeps_its_sources_and_hooks_stay() {
        let mut r = rendered(&[
            ("c/a.yaml", "kind: A\n"),
            ("c/h.yaml", "kind: J\nmetadata:\n  annotations:\n    helm.sh/hook: test\n"),
        ]);
        r.replace_manifest("---\n# Source: c/a.yaml\nkind: B\n---\nkind: C\n", Profile::Helm4, &mut |_| {})
            .unwrap();
        let shown: Vec<&str> = r.manifests.iter().map(|m| m.source.as_str()).collect();
        assert_eq!(shown, ["c/a.yaml", "post-renderer"]);
        assert_eq!(r.hooks.len(), 1);
    }
}
