//! The block `keel` in the values of a chart: which images are followed, and how. Pure.
//!
//! Owns keel's names in it (`provider/helm3`). Settings become the annotations of the same meaning; who follows images reads them.

use std::collections::BTreeMap;

use chart_compat::data::{Data, Map};

use super::image_values::{ImagePaths, MAX_IMAGES, path, scalar_text};

/// The key of the block.
const KEEL: &str = "keel";
/// Its settings, with the annotations that mean the same.
const SETTINGS: [(&str, &str); 6] = [
    ("policy", "keel.sh/policy"),
    ("trigger", "keel.sh/trigger"),
    ("pollSchedule", "keel.sh/pollSchedule"),
    ("matchPreRelease", "keel.sh/matchPreRelease"),
    ("approvals", "keel.sh/approvals"),
    ("approvalDeadline", "keel.sh/approvalDeadline"),
];

/// What the block says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct KeelBlock {
    pub(super) settings: BTreeMap<String, String>,
    /// The images, each with the Secret that has a login for it.
    pub(super) images: Vec<(ImagePaths, Option<String>)>,
    /// What cannot be used, for people.
    pub(super) errors: Vec<String>,
}

impl KeelBlock {
    /// Whether values of a user or a chart have one.
    pub(super) fn may_be_in(values: &Map) -> bool {
        values.get(KEEL).is_some_and(|block| matches!(block, Data::Map(_)))
    }

    /// The block of the values that the templates get. Without a policy it says nothing.
    pub(super) fn of(values: &Map) -> Self {
        let Some(Data::Map(block)) = values.get(KEEL) else { return Self::default() };
        let has_policy = block.get("policy").and_then(scalar_text).is_some_and(|text| !text.is_empty());
        if !has_policy {
            return Self::default();
        }
        let mut read = Self::default();
        for (key, annotation) in SETTINGS {
            match block.get(key).map(scalar_text) {
                // keel takes zero for what is not set.
                Some(Some(text)) if text.is_empty() || (key.starts_with("approval") && text == "0") => {}
                Some(Some(text)) => {
                    read.settings.insert(annotation.to_owned(), text);
                }
                Some(None) if block.get(key) == Some(&Data::Null) => {}
                Some(None) => read.errors.push(format!("keel.{key}: it is neither a text nor a number")),
                None => {}
            }
        }
        match block.get("images") {
            None | Some(Data::Null) => {}
            Some(Data::List(images)) if images.len() <= MAX_IMAGES => {
                for (at, image) in images.iter().enumerate() {
                    match entry(image) {
                        Ok(image) => read.images.push(image),
                        Err(error) => read.errors.push(format!("keel.images[{at}]{error}")),
                    }
                }
            }
            Some(Data::List(images)) => {
                read.errors.push(format!("keel.images: {} images, more than {MAX_IMAGES}", images.len()));
            }
            Some(_) => read.errors.push("keel.images: it is not a list".to_owned()),
        }
        read
    }
}

/// An image of the block. Without the path of a tag, that of the repository has the whole image.
fn entry(image: &Data) -> Result<(ImagePaths, Option<String>), String> {
    let Data::Map(image) = image else { return Err(": it is not a map".to_owned()) };
    let text = |key: &str| match image.get(key) {
        None | Some(Data::Null) => Ok(None),
        Some(Data::String(text)) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
        Some(_) => Err(format!(".{key}: it is not a text")),
    };
    let checked = |key: &str| -> Result<Option<String>, String> {
        text(key)?.map(|text| path(&text).map_err(|error| format!(".{key}: {error}"))).transpose()
    };
    let (repository, tag, digest) = (checked("repository")?, checked("tag")?, checked("digest")?);
    let paths = match (repository, tag) {
        (repository, Some(tag)) => ImagePaths { tag, repository, digest },
        (Some(whole), None) => ImagePaths { tag: whole, repository: None, digest: None },
        (None, None) => return Err(": it has neither repository nor tag".to_owned()),
    };
    Ok((paths, text("imagePullSecret")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(text: &str) -> KeelBlock {
        let values = chart_compat::yaml::from_slice_map(text.as_bytes()).unwrap();
        assert!(KeelBlock::may_be_in(&values));
        KeelBlock::of(&values)
    }

    #[test]
    fn a_block_is_read_as_annotations_and_paths() {
        let read = block(
            "keel: {policy: minor, trigger: poll, pollSchedule: '@every 10m', matchPreRelease: false, approvals: 2, \
             approvalDeadline: 48, images: [{repository: image.repository, tag: image.tag, releaseNotes: x, \
             imagePullSecret: login}, {repository: side.image}, {repository: a, tag: b, digest: c}]}",
        );
        let settings: Vec<(&str, &str)> =
            read.settings.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let expected = [
            ("keel.sh/approvalDeadline", "48"),
            ("keel.sh/approvals", "2"),
            ("keel.sh/matchPreRelease", "false"),
            ("keel.sh/policy", "minor"),
            ("keel.sh/pollSchedule", "@every 10m"),
            ("keel.sh/trigger", "poll"),
        ];
        assert_eq!(settings, expected);
        let of = |tag: &str, repository: Option<&str>, digest: Option<&str>| ImagePaths {
            tag: tag.to_owned(),
            repository: repository.map(str::to_owned),
            digest: digest.map(str::to_owned),
        };
        let images = [
            (of("image.tag", Some("image.repository"), None), Some("login".to_owned())),
            (of("side.image", None, None), None),
            (of("b", Some("a"), Some("c")), None),
        ];
        assert_eq!(read.images, images);
        assert!(read.errors.is_empty(), "{:?}", read.errors);
    }

    #[test]
    fn a_block_without_a_policy_says_nothing_and_wrong_ones_are_named() {
        for text in ["keel: {}", "keel: {images: [{repository: a}]}", "keel: {policy: ''}"] {
            assert_eq!(block(text), KeelBlock::default(), "{text}");
        }
        for (text, part) in [
            ("keel: {policy: all, images: 1}", "keel.images: it is not a list"),
            ("keel: {policy: all, images: [x]}", "keel.images[0]: it is not a map"),
            ("keel: {policy: all, images: [{}]}", "keel.images[0]: it has neither repository nor tag"),
            ("keel: {policy: all, images: [{tag: 1}]}", "keel.images[0].tag: it is not a text"),
            ("keel: {policy: all, images: [{tag: 'a[0]'}]}", "keel.images[0].tag: \"a[0]\" is not a path"),
            ("keel: {policy: all, approvals: [1]}", "keel.approvals: it is neither a text nor a number"),
        ] {
            let errors = block(text).errors;
            assert!(errors.len() == 1 && errors[0].starts_with(part), "{text}: {errors:?}");
        }
        let many = format!("keel: {{policy: all, images: [{}]}}", "{repository: a}, ".repeat(11));
        assert_eq!(block(&many).errors, ["keel.images: 11 images, more than 10"]);
    }
}
