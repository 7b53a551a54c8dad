//! Post-renderers in process: kustomize's patches and images, metadata of all objects, labels of the origin.
//!
//! Owns their order (Flux's) and applies them to what a chart rendered, before it is parsed. Does not know custom resources: a front end fills
//! [`PostRenderers`]. `chart_compat::render` joins manifests and hooks to one stream and splits it again, as Helm does.
//!
//! An object that loses the name of its file in a patch gets a file named by its number in the stream. In a file that has
//! several kinds of objects that number is counted in install order here, in the order of the file by Helm.

use std::collections::BTreeMap;

use chart_compat::render::{Manifest, PostRenderStrategy, Rendered};
use chart_compat::yaml::Head;
use kustomize_compat::Error;
use kustomize_compat::build::{Kustomization, add_metadata};
pub use kustomize_compat::patch::Patch;
use kustomize_compat::resource::Steps;
pub use kustomize_compat::selector::Selector;
pub use kustomize_compat::selector::labels::LabelSelector;
pub use kustomize_compat::transform::images::Image;

/// The name of the manifests' file in error messages, as helm-controller has it.
const FILE: &str = "helm-output.yaml";

/// A kustomization of the rendered manifests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KustomizePostRenderer {
    /// Strategic merge patches and JSON patches.
    pub patches: Vec<Patch>,
    /// Changes of images.
    pub images: Vec<Image>,
}

/// Labels and annotations of all objects; `None` is not the same as an empty map, with which manifests are serialized anew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommonMetadata {
    /// Labels; they replace those of the chart.
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations; they replace those of the chart.
    pub annotations: Option<BTreeMap<String, String>>,
}

/// All post-renderers of a release, in the order in which they run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PostRenderers {
    /// Kustomizations, each applied to the result of the one before.
    pub kustomize: Vec<KustomizePostRenderer>,
    /// Metadata of all objects.
    pub common_metadata: Option<CommonMetadata>,
    /// Labels with the origin of a release; they replace common ones.
    pub origin_labels: Option<BTreeMap<String, String>>,
    /// Whether manifests and hooks are post-rendered.
    pub strategy: PostRenderStrategy,
}

impl PostRenderers {
    fn is_empty(&self) -> bool {
        self.kustomize.is_empty() && self.common_metadata.is_none() && self.origin_labels.is_none()
    }

    /// Post-renders a stream of manifests. All post-renderers share the bound of the steps of one kustomization.
    ///
    /// # Errors
    /// A manifest that is not an object, or a post-renderer that does not apply, with kustomize's text.
    pub fn run(&self, stream: &str) -> Result<String, Error> {
        let _steps = Steps::begin();
        let none = BTreeMap::new();
        let mut stream = stream.to_owned();
        for KustomizePostRenderer { patches, images } in &self.kustomize {
            let (patches, images) = (patches.clone(), images.clone());
            stream = Kustomization { file: FILE.to_owned(), patches, images }.build(&stream)?;
        }
        if let Some(CommonMetadata { labels, annotations }) = &self.common_metadata
            && (labels.is_some() || annotations.is_some())
        {
            let or_none = |map: &Option<BTreeMap<_, _>>| map.clone().unwrap_or_default();
            stream = add_metadata(&stream, &or_none(labels), &or_none(annotations))?;
        }
        if let Some(labels) = &self.origin_labels {
            stream = add_metadata(&stream, labels, &none)?;
        }
        Ok(stream)
    }

    /// Post-renders what a chart rendered: manifests and hooks.
    ///
    /// # Errors
    /// As [`Self::run`], with Helm's text.
    pub fn apply(&self, rendered: &mut Rendered) -> Result<(), PostRenderError> {
        if self.is_empty() {
            return Ok(());
        }
        let mut warn = |line: String| tracing::warn!("{line}");
        let mut cause = None;
        let mut run = |stream: &str| self.run(stream).map_err(|error| cause.insert(error).to_string());
        rendered.post_render(self.strategy, &mut run, &mut warn).map_err(|text| PostRenderError {
            text,
            hint: cause.and_then(|cause| self.hint(&cause, rendered)),
        })
    }
}

/// Why a release cannot be post-rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostRenderError {
    /// Helm's or kustomize's text.
    pub text: String,
    /// What that leaves out.
    pub hint: Option<PostRenderHint>,
}

/// What explains a failed post-render.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PostRenderHint {
    /// This object is both a hook and a manifest, and both are post-rendered as one stream.
    HookAndManifest(String),
    /// A sentence.
    Text(String),
}

impl PostRenderers {
    /// What an error of kustomize leaves out: the hint of the build, or the object that it is about.
    fn hint(&self, error: &Error, rendered: &Rendered) -> Option<PostRenderHint> {
        match error.hint() {
            Some(hint) => Some(PostRenderHint::Text(hint.to_owned())),
            None if error.any_root(|e| matches!(e, Error::Duplicate(_))) => {
                in_both(rendered).map(PostRenderHint::HookAndManifest)
            }
            None => self.unreadable(rendered).map(PostRenderHint::Text),
        }
    }

    /// The first object that kustomize cannot read, and its template.
    fn unreadable(&self, rendered: &Rendered) -> Option<String> {
        let steps = Steps::begin();
        let hooks = rendered.hooks.iter().map(|hook| &hook.manifest);
        let mut manifests = rendered.manifests.iter().chain(hooks).take_while(|_| !steps.exceeded());
        manifests.find_map(|Manifest { source, text, head, .. }| {
            let (error, name) = (self.run(text).err()?, name_of(head));
            if error.any_root(|e| matches!(e, Error::DuplicateKeys(_))) {
                return Some(format!(
                    "{name} of {source} sets a key twice: Helm takes the last value, post-renderers refuse the object"
                ));
            }
            error
                .any_root(|e| matches!(e, Error::Malformed(_) | Error::Yaml(_)))
                .then(|| format!("the object is {name} of {source}"))
        })
    }
}

/// Kind and name of an object.
fn name_of(head: &Head) -> String {
    format!("{} {:?}", head.kind, head.name)
}

/// The first object that is both a hook and a manifest.
fn in_both(rendered: &Rendered) -> Option<String> {
    let same = |a: &Head, b: &Head| {
        (&a.api_version, &a.kind, &a.namespace, &a.name) == (&b.api_version, &b.kind, &b.namespace, &b.name)
    };
    let is_manifest = |head: &Head| rendered.manifests.iter().any(|manifest| same(&manifest.head, head));
    let hook = rendered.hooks.iter().find(|hook| is_manifest(&hook.manifest.head))?;
    Some(name_of(&hook.manifest.head))
}

#[cfg(test)]
mod tests;
