//! Post-renderers: converts manifests and hooks to one stream, and a stream back to manifests and hooks. Also finished documents to
//! manifests and hooks.
//!
//! Owns both forms: Helm 4's, where each document has an annotation with its file's name and hooks are included
//! (`annotateAndMerge`, `splitAndDeannotate`), and Helm 3's, where the manifest is unchanged and hooks are excluded. Executes
//! nothing.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::error::Error;
use super::manifest::{self, Manifest};
use super::{Hook, Rendered};
use crate::chart::Warn;
use crate::kyaml;
use crate::profile::Profile;
use crate::yaml::Room;
use crate::yaml::tree::Node;

/// The annotation with the file's name of a document.
const FILE: &str = "postrenderer.helm.sh/postrender-filename";

impl Rendered {
    /// Documents that are finished, each file with its name: manifests and hooks, in order of kind.
    ///
    /// # Errors
    /// A document that is not YAML or whose head is invalid.
    pub fn from_files(
        files: impl IntoIterator<Item = (String, String)>,
        profile: Profile,
        warn: Warn<'_>,
    ) -> Result<Self, Error> {
        let room = Room::default();
        let read =
            |(source, text): (String, String)| manifest::read(source, text.into_bytes(), profile, &room);
        let (manifests, hooks) = manifest::sort(files.into_iter().map(read).collect(), profile, warn)?;
        Ok(Self { manifests, hooks, ..Self::default() })
    }

    /// The input of a Helm 4 post-renderer: all documents, hooks included, in order of their files, each with its file's name in an
    /// annotation.
    ///
    /// # Errors
    /// A document that is not an object.
    pub fn merged(&self) -> Result<String, Error> {
        let hooks = self.hooks.iter().map(|h: &Hook| &h.manifest);
        let mut all: Vec<&Manifest> = self.manifests.iter().chain(hooks).collect();
        all.sort_by(|a, b| a.source.cmp(&b.source).then(a.number.cmp(&b.number)));
        merge(all.iter().map(|m| (m.source.as_str(), m.text.as_str())))
    }

    /// Replaces the documents by the output of a Helm 4 post-renderer for [`Rendered::merged`]. Documents without
    /// a file's name get one; a list that is the only document is split into its items.
    ///
    /// # Errors
    /// A document that is not YAML or whose head is invalid.
    pub fn split_merged(&mut self, text: &str, profile: Profile, warn: Warn<'_>) -> Result<(), Error> {
        let files = split_stream(text, "")?;
        self.replace_files(files, profile, warn)
    }

    fn replace_files(
        &mut self,
        files: BTreeMap<String, String>,
        profile: Profile,
        warn: Warn<'_>,
    ) -> Result<(), Error> {
        let room = Room::default();
        let read = |(source, text): (String, String)| {
            manifest::read(source, text.into_bytes(), Profile::Helm4, &room)
        };
        (self.manifests, self.hooks) = manifest::sort(files.into_iter().map(read).collect(), profile, warn)?;
        Ok(())
    }

    /// Post-renders in process, as Helm 4 does: `run` converts one stream to another.
    ///
    /// # Errors
    /// A document that is not an object, or the error of `run`, with Helm's text.
    pub fn post_render(
        &mut self,
        strategy: PostRenderStrategy,
        run: &mut dyn FnMut(&str) -> Result<String, String>,
        warn: Warn<'_>,
    ) -> Result<(), String> {
        let mut step = |name: &str, merged: Result<String, Error>| {
            let (all, prefix) = if name.is_empty() { ("manifests", "files") } else { (name, name) };
            let merged = merged.map_err(|e| format!("error merging {all}: {e}"))?;
            let text =
                run(&merged).map_err(|e| format!("error while running post render on {prefix}: {e}"))?;
            let of = if name.is_empty() { String::new() } else { format!(" for {name}") };
            split_stream(&text, name)
                .map_err(|e| format!("error while parsing post rendered output{of}: {e}"))
        };
        let files = if strategy == PostRenderStrategy::Combined {
            step("", self.merged())?
        } else {
            let hooks = join(self.hooks.iter().map(|h| &h.manifest));
            let mut files = match strategy {
                PostRenderStrategy::Separate if !hooks.is_empty() => step("hooks", merge_files(&hooks))?,
                _ => hooks,
            };
            let manifests = join(&self.manifests);
            if !manifests.is_empty() {
                for (source, text) in step("manifests", merge_files(&manifests))? {
                    append(&mut files, source, &text);
                }
            }
            files
        };
        self.replace_files(files, Profile::Helm4, warn).map_err(|e| e.to_string())
    }

    /// Replaces the manifest by the output of a Helm 3 post-renderer; hooks do not change.
    ///
    /// # Errors
    /// A document whose head is not valid YAML.
    pub fn replace_manifest(&mut self, text: &str, profile: Profile, warn: Warn<'_>) -> Result<(), Error> {
        let mut files = Vec::new();
        let room = Room::default();
        for part in manifest::split(text, profile) {
            let source = part.lines().find_map(|l| l.strip_prefix("# Source: ")).unwrap_or("post-renderer");
            files.push(manifest::read(source.trim().to_owned(), part.as_bytes().to_vec(), profile, &room));
        }
        (self.manifests, _) = manifest::sort(files, profile, warn)?;
        Ok(())
    }
}

/// The documents that a post-renderer receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PostRenderStrategy {
    /// Only manifests; hooks do not change.
    NoHooks,
    /// Manifests and hooks in one stream.
    #[default]
    Combined,
    /// Hooks in one stream, then manifests in another.
    Separate,
}

/// Appends a text to that of a file.
fn append(files: &mut BTreeMap<String, String>, source: String, text: &str) {
    match files.entry(source) {
        Entry::Occupied(mut entry) => {
            entry.get_mut().push_str("\n---\n");
            entry.get_mut().push_str(text);
        }
        Entry::Vacant(entry) => drop(entry.insert(text.to_owned())),
    }
}

/// Joins the texts of manifests by file.
fn join<'m>(manifests: impl IntoIterator<Item = &'m Manifest>) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for Manifest { source, text, .. } in manifests {
        append(&mut files, source.clone(), text);
    }
    files
}

/// Merges all documents of files, as [`merge`].
fn merge_files(files: &BTreeMap<String, String>) -> Result<String, Error> {
    let documents =
        |(source, text)| manifest::split(text, Profile::Helm4).into_iter().map(move |doc| (source, doc));
    merge(files.iter().map(|(source, text)| (source.as_str(), text.as_str())).flat_map(documents))
}

/// Merges documents into one stream, each with its file's name in an annotation (`annotateAndMerge`).
fn merge<'d>(documents: impl Iterator<Item = (&'d str, &'d str)>) -> Result<String, Error> {
    let (mut nodes, room) = (Vec::new(), Room::default());
    for (source, text) in documents {
        let base = source.rsplit('/').next().unwrap_or(source);
        if base.starts_with('_') || text.trim().is_empty() {
            continue;
        }
        let failed =
            |what: &str, e: kyaml::Error| Error::manifest(source, text, format!("{what} {source}: {e}"));
        for mut node in kyaml::read_numbered(text, &room).map_err(|e| failed("parsing", e))? {
            kyaml::annotate(&mut node, FILE, source).map_err(|e| failed("annotating", e))?;
            nodes.push(node);
        }
    }
    kyaml::write(&nodes).map_err(|e| Error::manifest("", "", format!("writing merged docs: {e}")))
}

/// Splits a stream into files: by the names in the annotations, or a new file for a document without one
/// (`splitAndDeannotate`).
fn split_stream(text: &str, group: &str) -> Result<BTreeMap<String, String>, Error> {
    const SOURCE: &str = "post-renderer";
    let failed = |reason: String| Error::manifest(SOURCE, text, reason);
    let nodes = kyaml::read_numbered(text, &Room::default());
    let nodes = nodes.map_err(|e| failed(format!("error parsing YAML: {e}")))?;
    let mut files: BTreeMap<String, Vec<Node>> = BTreeMap::new();
    let group = if group.is_empty() { String::new() } else { format!("{group}-") };
    for (number, mut node) in nodes.into_iter().enumerate() {
        if !kyaml::has_head(&node) {
            return Err(failed("getting metadata: missing Resource metadata".to_owned()));
        }
        let file = kyaml::annotation(&node, FILE).filter(|file| !file.is_empty()).map(str::to_owned);
        let file = file.unwrap_or_else(|| format!("generated-by-postrender-{group}{number}.yaml"));
        kyaml::clear_annotation(&mut node, FILE)
            .map_err(|e| failed(format!("clearing filename annotation: {e}")))?;
        files.entry(file).or_default().push(node);
    }
    let write = |(source, nodes): (String, Vec<Node>)| {
        let text = kyaml::write(&nodes).map_err(|e| failed(format!("re-writing {source}: {e}")))?;
        Ok((source, text))
    };
    files.into_iter().map(write).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(files: &[(&str, &str)]) -> Rendered {
        let files = files.iter().map(|(s, t)| {
            manifest::read((*s).to_owned(), t.as_bytes().to_vec(), Profile::Helm4, &Room::default())
        });
        let (manifests, hooks) = manifest::sort(files.collect(), Profile::Helm4, &mut |_| {}).unwrap();
        Rendered { manifests, hooks, ..Rendered::default() }
    }

    #[test]
    fn finished_documents_are_sorted_and_hooks_are_apart() {
        let files = [
            ("w.yaml", "kind: Deployment\n"),
            ("n.yaml", "kind: Namespace\n---\nkind: ConfigMap\n"),
            ("h.yaml", "kind: Job\nmetadata: {annotations: {helm.sh/hook: post-install}}\n"),
        ];
        let files = files.map(|(source, text)| (source.to_owned(), text.to_owned()));
        let made = Rendered::from_files(files, Profile::Helm4, &mut |_| {}).unwrap();
        let kinds: Vec<&str> = made.manifests.iter().map(|m| m.head.kind.as_str()).collect();
        assert_eq!(kinds, ["Namespace", "ConfigMap", "Deployment"]);
        assert_eq!(made.hooks[0].events, ["post-install"]);
        let bad = [("b.yaml".to_owned(), "a: [".to_owned())];
        assert!(Rendered::from_files(bad, Profile::Helm4, &mut |_| {}).is_err());
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
        let names: Vec<&str> =
            merged.split(FILE).skip(1).filter_map(|rest| rest.split('\'').nth(1)).collect();
        assert_eq!(names, ["c/templates/a.yaml", "c/templates/b.yaml", "c/templates/h.yaml"]);
        let more = "apiVersion: v1\nkind: List\nitems:\n- {kind: Secret, metadata: {name: x}}\n";
        r.split_merged(&format!("{merged}---\n{more}"), Profile::Helm4, &mut |_| {}).unwrap();
        let shown: Vec<(&str, &str)> =
            r.manifests.iter().map(|m| (m.source.as_str(), m.head.kind.as_str())).collect();
        let want = [
            ("c/templates/a.yaml", "ConfigMap"),
            ("c/templates/b.yaml", "Service"),
            ("generated-by-postrender-3.yaml", "List"),
        ];
        assert_eq!(shown, want);
        assert_eq!(r.manifests[0].text, "kind: ConfigMap\ndata: {x: 9007199254740993, s: \"1e3\"}\n");
        assert_eq!(r.hooks.len(), 1);
        assert!(r.hooks[0].manifest.text.contains("helm.sh/hook: pre-install"));
        assert!(!r.hooks[0].manifest.text.contains(FILE));
        // A list that is the only document is split.
        r.split_merged(more, Profile::Helm4, &mut |_| {}).unwrap();
        let shown: Vec<&str> = r.manifests.iter().map(|m| m.head.kind.as_str()).collect();
        assert_eq!(shown, ["Secret"]);
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
