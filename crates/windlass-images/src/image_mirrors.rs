//! Mirrors of registries: where an image is asked for first. Pure.
//!
//! Owns the form of the setting. The name of an image that is written is always that of its registry.

use std::collections::BTreeMap;

use windlass_fetch::oci::artifact_reference::OciReference;

/// The most mirrors.
const MAX_MIRRORS: usize = 100;

/// A registry with the same images, under a path.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mirror {
    host: String,
    /// What comes before the path of a repository; empty or with a slash at its end.
    prefix: String,
}

/// Mirrors, by registry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageMirrors(BTreeMap<String, Mirror>);

impl ImageMirrors {
    /// Reads `REGISTRY=HOST[/PREFIX]`, separated by commas.
    ///
    /// # Errors
    /// An entry is none, or a registry has two; the text names it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut all = BTreeMap::new();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let wrong = || format!("{entry:?} is not a mirror: write REGISTRY=HOST or REGISTRY=HOST/PREFIX");
            let (registry, mirror) = entry.split_once('=').ok_or_else(wrong)?;
            let (host, prefix) = mirror.split_once('/').unwrap_or((mirror, ""));
            let prefix = prefix.trim_end_matches('/');
            let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
            let is_valid = |host: &str, path: &str| {
                let read = OciReference::parse(&format!("{host}/{path}web"));
                read.is_ok_and(|read| read.registry == host && read.tag.is_none())
            };
            if !(is_valid(registry, "") && is_valid(host, &prefix)) || registry == host {
                return Err(wrong());
            }
            let mirror = Mirror { host: host.to_owned(), prefix };
            if all.insert(registry.to_owned(), mirror).is_some() {
                return Err(format!("{registry:?} has two mirrors: name one"));
            }
        }
        match all.len() <= MAX_MIRRORS {
            true => Ok(Self(all)),
            false => Err(format!("{} mirrors, more than {MAX_MIRRORS}", all.len())),
        }
    }

    /// The same image at the mirror of its registry, if there is one.
    pub(crate) fn of(&self, image: &OciReference) -> Option<OciReference> {
        let Mirror { host, prefix } = self.0.get(&image.registry)?;
        let repository = format!("{prefix}{}", image.repository);
        Some(OciReference { registry: host.clone(), repository, ..image.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_at_the_mirror_of_its_registry() {
        let text = "docker.io=mirror.example.com/hub, r.example.com:5000=m.example.com:5001,";
        let mirrors = ImageMirrors::parse(text).unwrap();
        for (image, expected) in [
            ("docker.io/library/nginx:1", Some(("mirror.example.com", "hub/library/nginx"))),
            ("r.example.com:5000/a/b:1", Some(("m.example.com:5001", "a/b"))),
            ("r.example.com/a/b:1", None),
        ] {
            let found = mirrors.of(&OciReference::parse(image).unwrap());
            let found = found.as_ref();
            assert!(found.is_none_or(|found| found.tag.as_deref() == Some("1")));
            let place = found.map(|found| (found.registry.as_str(), found.repository.as_str()));
            assert_eq!(place, expected, "{image}");
        }
        assert_eq!(ImageMirrors::parse(" ").unwrap(), ImageMirrors::default());
        for (text, part) in [
            ("docker.io", "is not a mirror: write REGISTRY=HOST"),
            ("docker.io=", "is not a mirror"),
            ("=m.test", "is not a mirror"),
            ("a.test/x=m.test", "is not a mirror"),
            ("a.test=m.test/Hub", "is not a mirror"),
            ("a.test=https://m.test", "is not a mirror"),
            ("a.test=a.test", "is not a mirror"),
            ("a.test=m.test/x:1", "is not a mirror"),
            ("a.test=m.test, a.test=n.test", "\"a.test\" has two mirrors"),
        ] {
            let error = ImageMirrors::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
