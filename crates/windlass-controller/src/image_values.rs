//! Images that the values of a release name, and newer ones that are set over them.
//!
//! Owns the annotations of a release's object that say where the values name images and which are set over them, keel's block of values,
//! and when an override counts: as long as the values without it name the image that it was decided on. Knows no registry and no policy:
//! who follows images decides, and every front end composes its values with [`ImageAnnotations::apply`] as the last layer. Pure.

use std::collections::{BTreeMap, BTreeSet};

use chart_compat::chart::coalesce_values;
use chart_compat::data::{Data, Map};
use chart_compat::render::CompiledChart;
use serde::{Deserialize, Serialize};
use windlass_cluster::ObjectMeta;

use super::error::ReconcileError;
use super::keel_block::KeelBlock;

/// Annotation of a release's object: where its values name images, as [`ImagePaths::list`] reads it.
pub const IMAGE_VALUES: &str = "windlass.dev/image-values";
/// Annotation of a release's object: the images that are set over its values, as JSON.
pub const IMAGE_OVERRIDES: &str = "windlass.dev/image-overrides";
/// The most images of a release.
pub const MAX_IMAGES: usize = 10;
/// The longest annotation, in bytes.
const MAX_ANNOTATION: usize = 16 << 10;
/// The longest annotation with images that are set, in bytes: more than ten of them with long paths.
const MAX_OVERRIDES: usize = 64 << 10;
/// The longest path, in bytes, and its most keys.
const MAX_PATH: usize = 256;
const MAX_KEYS: usize = 20;
/// The key with the name of an image beside its tag, and the one with its registry beside that.
const REPOSITORY: &str = "repository";
const REGISTRY: &str = "registry";

/// Where values name an image, as dotted paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImagePaths {
    /// The tag; without a repository the whole image.
    pub tag: String,
    /// The name of the image, without its tag.
    pub repository: Option<String>,
    /// The digest.
    pub digest: Option<String>,
}

impl ImagePaths {
    /// Reads `TAG[=REPOSITORY][@DIGEST], …`. A tag that is called `tag` has its `repository` beside it; any other path without a
    /// repository has the whole image.
    ///
    /// # Errors
    /// An entry is no such paths, or there are too many; the text names it.
    pub fn list(text: &str) -> Result<Vec<Self>, String> {
        if text.len() > MAX_ANNOTATION {
            return Err(format!("{} bytes, more than {MAX_ANNOTATION}", text.len()));
        }
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let list = entries.map(Self::entry).collect::<Result<Vec<_>, _>>()?;
        let tags: BTreeSet<&str> = list.iter().map(|paths| paths.tag.as_str()).collect();
        if tags.len() < list.len() {
            return Err("it names the same path twice".to_owned());
        }
        match list.len() {
            0 => Err("it names no path: write the paths of tags in values, such as image.tag".to_owned()),
            1..=MAX_IMAGES => Ok(list),
            number => Err(format!("{number} images, more than {MAX_IMAGES}")),
        }
    }

    fn entry(text: &str) -> Result<Self, String> {
        let (names, digest) = match text.split_once('@') {
            Some((names, digest)) => (names.trim(), Some(path(digest)?)),
            None => (text, None),
        };
        let (tag, repository) = match names.split_once('=') {
            Some((tag, repository)) => (path(tag)?, Some(path(repository)?)),
            None => {
                let tag = path(names)?;
                let repository = (tag.rsplit('.').next() == Some("tag")).then(|| sibling(&tag, REPOSITORY));
                (tag, repository)
            }
        };
        Ok(Self { tag, repository, digest })
    }

    /// Whether the digest of an image can be written.
    #[must_use]
    pub fn has_digest(&self) -> bool {
        self.repository.is_none() || self.digest.is_some()
    }

    /// The image that values name. `app_version`: that of the chart, which charts take for an empty tag.
    ///
    /// # Errors
    /// They name none; the text says at which path.
    fn image(&self, values: &Map, app_version: &str) -> Result<String, String> {
        let named = |path: &str| {
            text_at(values, path)?
                .ok_or_else(|| format!("the values name no image: {path} is empty or absent"))
        };
        let Some(repository) = &self.repository else { return named(&self.tag) };
        let name = named(repository)?;
        let registry = match repository.rsplit('.').next() {
            Some(REPOSITORY) => text_at(values, &sibling(repository, REGISTRY))?,
            _ => None,
        };
        let name = registry.map_or_else(|| name.clone(), |registry| format!("{registry}/{name}"));
        let tag = text_at(values, &self.tag)?.unwrap_or_else(|| app_version.to_owned());
        if tag.is_empty() {
            return Err(format!(
                "the values name no image: {} is empty, and the chart has no appVersion",
                self.tag
            ));
        }
        let digest = self.digest.as_deref().map(|path| text_at(values, path)).transpose()?.flatten();
        let digest = digest.map(|digest| format!("@{digest}")).unwrap_or_default();
        Ok(format!("{name}:{tag}{digest}"))
    }
}

/// A path of keys that are joined by dots.
///
/// # Errors
/// It is none.
pub(super) fn path(text: &str) -> Result<String, String> {
    let text = text.trim();
    let is_key = |key: &str| {
        !key.is_empty()
            && !key.contains(|c: char| c.is_whitespace() || c.is_control() || "=@,[]\\\"".contains(c))
    };
    let keys = text.split('.').count();
    match text.len() <= MAX_PATH && keys <= MAX_KEYS && text.split('.').all(is_key) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "{:?} is not a path of keys in values, such as image.tag",
            text.chars().take(60).collect::<String>()
        )),
    }
}

/// The path of another key of the same map.
fn sibling(path: &str, key: &str) -> String {
    match path.rsplit_once('.') {
        Some((above, _)) => format!("{above}.{key}"),
        None => key.to_owned(),
    }
}

/// The value at a path; `None` if it is absent or null.
fn value_at<'v>(values: &'v Map, path: &str) -> Option<&'v Data> {
    let (above, key) = match path.rsplit_once('.') {
        Some((above, key)) => (value_at(values, above)?.as_map()?, key),
        None => (values, path),
    };
    above.get(key).filter(|value| **value != Data::Null)
}

/// The text of a scalar at a path; `None` if it is absent or empty.
fn text_at(values: &Map, path: &str) -> Result<Option<String>, String> {
    let Some(value) = value_at(values, path) else { return Ok(None) };
    let text =
        scalar_text(value).ok_or_else(|| format!("the value {path} is neither a text nor a number"))?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// A scalar as a template prints it.
pub(super) fn scalar_text(value: &Data) -> Option<String> {
    match value {
        Data::String(text) => Some(text.clone()),
        Data::Int(number) => Some(number.to_string()),
        Data::Float(number) => Some(number.to_string()),
        Data::Bool(switch) => Some(switch.to_string()),
        Data::Null | Data::List(_) | Data::Map(_) => None,
    }
}

/// Sets a text at a path. Replaces a value on the way that is not a map: the computed values have a map there.
fn set_at(values: &mut Map, path: &str, text: &str) {
    let Some((key, rest)) = path.split_once('.') else {
        values.insert(path.to_owned(), Data::String(text.to_owned()));
        return;
    };
    let below = values.entry(key.to_owned()).or_insert_with(|| Data::Map(Map::new()));
    if !matches!(below, Data::Map(_)) {
        *below = Data::Map(Map::new());
    }
    if let Data::Map(below) = below {
        set_at(below, rest, text);
    }
}

/// An image that is set over the values of a release, in place of the one that they name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageOverride {
    /// The path of the image's name; absent: the path of the tag has the whole image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The path of its digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The image that the values name without the override. With another one it does not count.
    pub base: String,
    /// What is set, by path: those of the tag and of the digest.
    pub set: BTreeMap<String, String>,
}

impl ImageOverride {
    /// An override with an image of another tag and digest. `name`: the image without both.
    #[must_use]
    pub fn new(paths: &ImagePaths, base: &str, (name, tag, digest): (&str, &str, &str)) -> Self {
        let ImagePaths { tag: tag_path, repository, digest: digest_path } = paths.clone();
        let pinned = if digest.is_empty() { String::new() } else { format!("@{digest}") };
        let tag = match repository {
            Some(_) => tag.to_owned(),
            None => format!("{name}:{tag}{pinned}"),
        };
        let mut set = BTreeMap::from([(tag_path, tag)]);
        set.extend(digest_path.clone().map(|path| (path, digest.to_owned())));
        Self { repository, digest: digest_path, base: base.to_owned(), set }
    }

    /// Where the values name the image. `tag`: the path of the tag, by which the override is found.
    #[must_use]
    pub fn paths(&self, tag: &str) -> ImagePaths {
        ImagePaths { tag: tag.to_owned(), repository: self.repository.clone(), digest: self.digest.clone() }
    }

    fn check(&self, tag: &str) -> Result<(), String> {
        let all = [Some(tag), self.repository.as_deref(), self.digest.as_deref()];
        all.into_iter().flatten().try_for_each(|text| path(text).map(drop))?;
        match self.set.keys().find(|key| *key != tag && Some(*key) != self.digest.as_ref()) {
            Some(other) => {
                Err(format!("{tag}: set: {other:?} is neither the path of the tag nor of the digest"))
            }
            None => Ok(()),
        }
    }
}

/// The images that are set over the values of a release, by the path of the tag.
pub type ImageOverrides = BTreeMap<String, ImageOverride>;

/// An image that the values of a release name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageValue {
    /// Where they name it.
    pub paths: ImagePaths,
    /// A Secret with a login for its registry, as the block `keel` names it.
    pub pull_secret: Option<String>,
    /// The image without an override.
    pub base: String,
    /// The image.
    pub image: String,
}

/// What the values of a release say of its images.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageValues {
    /// The images that are followed, by the path of the tag.
    pub images: BTreeMap<String, ImageValue>,
    /// Settings of the block `keel`, under the names of keel's annotations.
    pub settings: BTreeMap<String, String>,
    /// What cannot be used, for people.
    pub errors: Vec<String>,
}

impl ImageValues {
    /// Whether nothing is followed and nothing is wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.images.is_empty() && self.errors.is_empty()
    }
}

/// What the annotations of a release's object say of the images in its values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageAnnotations {
    values: Option<String>,
    overrides: Option<String>,
}

/// Reads the images that are set over the values of a release.
///
/// # Errors
/// The annotation is not what is written there; the text says so.
fn read_overrides(text: &str) -> Result<ImageOverrides, String> {
    if text.len() > MAX_OVERRIDES {
        return Err(format!("{} bytes, more than {MAX_OVERRIDES}", text.len()));
    }
    let all: ImageOverrides = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if all.len() > MAX_IMAGES {
        return Err(format!("{} images, more than {MAX_IMAGES}", all.len()));
    }
    all.iter().try_for_each(|(tag, one)| one.check(tag))?;
    Ok(all)
}

impl ImageAnnotations {
    /// Those of an object.
    #[must_use]
    pub fn of(meta: ObjectMeta<'_>) -> Self {
        let text = |name: &str| meta.annotation(name).map(str::to_owned);
        Self { values: text(IMAGE_VALUES), overrides: text(IMAGE_OVERRIDES) }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What is said of the images in values that nothing is set over: an error where the object names some. `why`: why nothing is, and what
    /// to do.
    #[must_use]
    pub fn refused(&self, why: &str) -> ImageValues {
        let errors = self.values.iter().map(|_| format!("{IMAGE_VALUES}: {why}")).collect();
        ImageValues { errors, ..ImageValues::default() }
    }

    /// Changes when the annotations do, for memos of front ends.
    #[must_use]
    pub fn memo(&self) -> serde_json::Value {
        serde_json::json!([self.values, self.overrides])
    }

    /// The images that are set over the values.
    ///
    /// # Errors
    /// The annotation cannot be read; the text names it and what to do.
    pub fn overrides(&self) -> Result<ImageOverrides, ReconcileError> {
        let Some(text) = &self.overrides else { return Ok(ImageOverrides::new()) };
        read_overrides(text).map_err(|error| {
            ReconcileError::Config(format!(
                "annotation {IMAGE_OVERRIDES}: {error}: remove it, and images are followed anew"
            ))
        })
    }

    /// Sets images over composed values, as their last layer. Returns what the values say of images.
    ///
    /// # Errors
    /// The overrides cannot be read, or the values do not fit the chart.
    pub fn apply(&self, values: &mut Map, chart: &CompiledChart) -> Result<ImageValues, ReconcileError> {
        let overrides = self.overrides()?;
        let has_block = KeelBlock::may_be_in(values) || KeelBlock::may_be_in(&chart.chart().values);
        if self.values.is_none() && overrides.is_empty() && !has_block {
            return Ok(ImageValues::default());
        }
        let app_version = &chart.chart().metadata.app_version;
        let before = computed(values, chart)?;
        let mut is_set = false;
        for (tag, one) in &overrides {
            if one.paths(tag).image(&before, app_version).is_ok_and(|image| image == one.base) {
                one.set.iter().for_each(|(path, text)| set_at(values, path, text));
                is_set = true;
            }
        }
        let after = if is_set { computed(values, chart)? } else { before.clone() };
        let KeelBlock { settings, images: of_block, mut errors } = KeelBlock::of(&before);
        let mut images = BTreeMap::new();
        let own = self
            .values
            .as_deref()
            .map(|text| ImagePaths::list(text).map_err(|error| format!("{IMAGE_VALUES}: {error}")));
        let own = own.transpose().map_err(|error| errors.push(error)).ok().flatten().unwrap_or_default();
        let all = own.into_iter().map(|paths| (paths, None)).chain(of_block);
        for (paths, pull_secret) in all.take(MAX_IMAGES) {
            let read = |values: &Map| paths.image(values, app_version);
            match read(&before).and_then(|base| Ok((base, read(&after)?))) {
                Ok((base, image)) => {
                    let value = ImageValue { paths: paths.clone(), pull_secret, base, image };
                    images.entry(paths.tag.clone()).or_insert(value);
                }
                Err(error) => errors.push(format!("{}: {error}", paths.tag)),
            }
        }
        Ok(ImageValues { images, settings, errors })
    }
}

/// The values that the templates of a chart get, without the imports of subcharts.
fn computed(values: &Map, chart: &CompiledChart) -> Result<Map, ReconcileError> {
    coalesce_values(chart.chart(), values, chart.profile(), &mut |_| {})
        .map_err(|error| ReconcileError::Values(error.to_string()))
}

#[cfg(test)]
mod tests;
