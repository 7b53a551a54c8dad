//! The profiles of `~/.aws`: which one is selected, and its settings.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::super::super::helm_paths::user_home;
use super::super::BucketError;
use super::super::environment::{read, variable};

/// Both files, and the name of the selected profile.
pub(super) struct Profiles {
    config: String,
    credentials: String,
    name: String,
}

impl Profiles {
    /// Reads the files that exist.
    ///
    /// # Errors
    /// A file cannot be read, or the profile that `AWS_PROFILE` names does not exist.
    pub(super) fn load() -> Result<Self, BucketError> {
        let path = |name: &str, default: &str| {
            variable(&[name]).map_or_else(|| user_home().join(".aws").join(default), PathBuf::from)
        };
        let config = path("AWS_CONFIG_FILE", "config");
        let credentials = path("AWS_SHARED_CREDENTIALS_FILE", "credentials");
        let asked = variable(&["AWS_PROFILE", "AWS_DEFAULT_PROFILE"]);
        let out = Self {
            config: read(&config)?.unwrap_or_default(),
            credentials: read(&credentials)?.unwrap_or_default(),
            name: asked.clone().unwrap_or_else(|| "default".to_owned()),
        };
        if let Some(name) = asked
            && !out.has(&name)
        {
            return Err(BucketError::Answer(format!(
                "AWS_PROFILE is {name:?}, which is not a profile of {} or {}",
                config.display(),
                credentials.display()
            )));
        }
        Ok(out)
    }

    pub(super) fn chosen(&self) -> &str {
        &self.name
    }

    /// A profile, merged from both files; empty if neither has it.
    pub(super) fn get(&self, name: &str) -> BTreeMap<String, String> {
        let mut profile = self.in_config(name).unwrap_or_default();
        profile.extend(section(&self.credentials, |s| s == name).unwrap_or_default());
        profile
    }

    /// A login that several profiles share (`sso-session`).
    pub(super) fn sso_session(&self, name: &str) -> BTreeMap<String, String> {
        section(&self.config, |s| s.strip_prefix("sso-session ").map(str::trim) == Some(name))
            .unwrap_or_default()
    }

    /// The region from the environment or the selected profile.
    pub(super) fn region(&self) -> String {
        let given = variable(&["AWS_REGION", "AWS_DEFAULT_REGION"]);
        given.or_else(|| self.own("region")).unwrap_or_else(|| "us-east-1".to_owned())
    }

    /// An endpoint that replaces Amazon's.
    pub(super) fn endpoint(&self) -> Option<String> {
        variable(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]).or_else(|| self.own("endpoint_url"))
    }

    fn own(&self, key: &str) -> Option<String> {
        self.get(&self.name).remove(key).filter(|v| !v.is_empty())
    }

    fn has(&self, name: &str) -> bool {
        self.in_config(name).is_some() || section(&self.credentials, |s| s == name).is_some()
    }

    /// In this file, section names of profiles other than the default have a prefix.
    fn in_config(&self, name: &str) -> Option<BTreeMap<String, String>> {
        section(&self.config, |s| s == name || s.strip_prefix("profile ").map(str::trim) == Some(name))
    }
}

/// The entries of all sections of an INI file with a name.
fn section(text: &str, wanted: impl Fn(&str) -> bool) -> Option<BTreeMap<String, String>> {
    let (mut inside, mut found) = (false, None);
    for line in text.lines() {
        // Indented lines belong to the entry above, such as settings of one service.
        let nested = line.starts_with([' ', '\t']);
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) || nested {
            continue;
        }
        if let Some(name) =
            line.strip_prefix('[').and_then(|l| l.split_once(']')).map(|(name, _)| name.trim())
        {
            inside = wanted(name);
            if inside {
                found.get_or_insert_with(BTreeMap::new);
            }
        } else if let (true, Some((key, value)), Some(map)) = (inside, line.split_once('='), found.as_mut()) {
            let value = value.split(" #").next().unwrap_or_default();
            map.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_sections() {
        let text = "# all\n[default]\nregion = a\n[profile two]\nregion=b # there\ns3 =\n  region = nested\n; no\n[ two ]\nREGION = c\n\
                    output\n[empty]\n";
        let region = |name: &str| {
            section(text, |s| s == name || s.strip_prefix("profile ") == Some(name))
                .map(|s| s.get("region").cloned())
        };
        assert_eq!(region("default"), Some(Some("a".to_owned())));
        assert_eq!(region("two"), Some(Some("c".to_owned())));
        assert_eq!(region("empty"), Some(None));
        assert_eq!(region("none"), None);
    }
}
