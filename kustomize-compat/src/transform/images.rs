//! Images of containers and volumes: another name, tag or digest.
//!
//! Owns where images are in objects and how their references are split.

use std::sync::Arc;

use chart_compat::go::regexp::{Regexp, compile};
use chart_compat::yaml::tree::{Kind, Node};

use crate::error::Error;
use crate::fieldspec::{FieldSpec, set_scalar, visit_all};
use crate::resource::node::check_kind;
use crate::resource::{Resource, build_steps};

/// A change of images.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// Regular expression of the name that is changed.
    pub name: String,
    /// The name after the change; empty: it stays.
    pub new_name: String,
    /// The tag after the change; without a digest, it replaces the digest too.
    pub new_tag: String,
    /// The digest after the change; without a tag, it replaces the tag too.
    pub digest: String,
}

/// Changes the images of all objects but CustomResourceDefinitions: those of containers, and those in further fields.
///
/// # Errors
/// A name that is not a regular expression, or an object whose containers are of another form.
pub fn set_images(
    objects: &mut [Resource],
    image: &Image,
    tag_suffix: &str,
    fields: &[FieldSpec],
) -> Result<(), Error> {
    let pattern = format!("^{}(:[a-zA-Z0-9_.{{}}-]*)?(@sha256:[a-zA-Z0-9_.{{}}-]*)?$", image.name);
    let refused = |reason| Error::Image { name: image.name.clone(), reason };
    let setter = Setter { image, tag_suffix, pattern: compile(pattern.as_bytes()).map_err(refused)? };
    let is_definition = |object: &Resource| {
        object.node.get("kind").is_some_and(|kind| kind.value == "CustomResourceDefinition")
    };
    for object in objects.iter_mut().filter(|object| !is_definition(object)) {
        setter.containers(&mut object.node)?;
    }
    for object in objects.iter_mut().filter(|object| !is_definition(object)) {
        visit_all(fields, &mut object.node, None, &mut |node| setter.set(node))?;
    }
    Ok(())
}

struct Setter<'i> {
    image: &'i Image,
    tag_suffix: &'i str,
    pattern: Arc<Regexp>,
}

impl Setter<'_> {
    /// Changes the images of all lists `containers` and `initContainers`, wherever they are.
    fn containers(&self, node: &mut Node) -> Result<(), Error> {
        if matches!(node.kind, Kind::Map | Kind::List) {
            build_steps::count(1 + node.content.len() / 16)?;
        }
        match node.kind {
            Kind::List => node.content.iter_mut().try_for_each(|item| self.containers(item)),
            Kind::Map => {
                for pair in node.content.chunks_exact_mut(2) {
                    let [key, value] = pair else { continue };
                    self.containers(value)?;
                    if matches!(key.value.as_str(), "containers" | "initContainers")
                        && value.kind == Kind::List
                    {
                        for item in &mut value.content {
                            check_kind(item, Kind::Map)?;
                            if let Some(image) = item.get_mut("image") {
                                self.set(image)?;
                            }
                        }
                    }
                }
                Ok(())
            }
            Kind::Document | Kind::Scalar | Kind::Alias => Ok(()),
        }
    }

    fn set(&self, node: &mut Node) -> Result<(), Error> {
        check_kind(node, Kind::Scalar)?;
        build_steps::count(4 + build_steps::of_text(&node.value))?;
        if !self.pattern.is_match(node.value.as_bytes()) {
            return Ok(());
        }
        let Image { new_name, new_tag, digest: new_digest, .. } = self.image;
        let (name, tag, mut digest) = split(&node.value);
        let mut tag = tag.to_owned();
        if !new_tag.is_empty() || !new_digest.is_empty() {
            tag.clone_from(new_tag);
            digest = new_digest;
        } else if !self.tag_suffix.is_empty() {
            tag.push_str(self.tag_suffix);
            digest = "";
        }
        let mut text = if new_name.is_empty() { name.to_owned() } else { new_name.clone() };
        for (mark, part) in [(':', tag.as_str()), ('@', digest)] {
            if !part.is_empty() {
                text.push(mark);
                text.push_str(part);
            }
        }
        set_scalar(node, &text, "")
    }
}

/// Splits a reference into name, tag and digest; a colon before the first slash is a port's.
fn split(reference: &str) -> (&str, &str, &str) {
    let slash = reference.find('/').unwrap_or(0);
    let find = |mark: char| reference.get(slash..).and_then(|rest| rest.find(mark)).map(|at| slash + at);
    let part = |from: usize, to: usize| reference.get(from..to).unwrap_or_default();
    let len = reference.len();
    match (find(':'), find('@')) {
        (None, None) => (reference, "", ""),
        (Some(colon), None) => (part(0, colon), part(colon + 1, len), ""),
        (Some(colon), Some(at)) if colon < at => (part(0, colon), part(colon + 1, at), part(at + 1, len)),
        (_, Some(at)) => (part(0, at), "", part(at + 1, len)),
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn references_split_into_name_tag_and_digest() {
        for (reference, parts) in [
            ("nginx", ("nginx", "", "")),
            ("nginx:1.2", ("nginx", "1.2", "")),
            ("host:5000/a/b", ("host:5000/a/b", "", "")),
            ("host:5000/a/b:1@sha256:ab", ("host:5000/a/b", "1", "sha256:ab")),
            ("a@sha256:ab", ("a", "", "sha256:ab")),
        ] {
            assert_eq!(split(reference), parts, "{reference}");
        }
    }
}
