//! `Chart.yaml`: reading with Helm's coercions, and its rules (`chart.Metadata`).

use super::error::Error;
use crate::data::{Data, Map};
use crate::go::{semver, strconv, unicode};
use crate::profile::Profile;

/// The content of `Chart.yaml`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// The chart's name.
    pub name: String,
    /// Home page.
    pub home: String,
    /// Where its sources are.
    pub sources: Vec<String>,
    /// Its version, lenient semver.
    pub version: String,
    /// One line about it.
    pub description: String,
    /// Words to find it by.
    pub keywords: Vec<String>,
    /// Who keeps it.
    pub maintainers: Vec<Maintainer>,
    /// URL of a picture.
    pub icon: String,
    /// `v1` or `v2`.
    pub api_version: String,
    /// Condition (historic, unused by Helm at the root).
    pub condition: String,
    /// Tags (historic, unused by Helm at the root).
    pub tags: String,
    /// The version of what it installs.
    pub app_version: String,
    /// Whether users should leave it.
    pub deprecated: bool,
    /// Free annotations, in order of key; `None` if the file has no map of them.
    pub annotations: Option<Vec<(String, String)>>,
    /// Range of Kubernetes versions it works with.
    pub kube_version: String,
    /// Its subcharts as declared; `None` when the key is absent, which switches dependency processing off.
    pub dependencies: Option<Vec<Dependency>>,
    /// `application`, `library` or empty.
    pub kind: String,
}

/// One maintainer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maintainer {
    /// Name.
    pub name: String,
    /// Mail address.
    pub email: String,
    /// Page.
    pub url: String,
}

/// One declared subchart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dependency {
    /// The subchart's name; its alias once processed.
    pub name: String,
    /// Range of versions.
    pub version: String,
    /// Where to fetch it from.
    pub repository: String,
    /// Comma-separated values paths that switch it.
    pub condition: String,
    /// Tags that switch it.
    pub tags: Vec<String>,
    /// Whether it takes part; set by processing.
    pub enabled: bool,
    /// What it hands to the parent: names or `{child, parent}` maps.
    pub import_values: Vec<Data>,
    /// Another name for it.
    pub alias: String,
}

/// What begins a complaint of [`Metadata::read`] that Helm makes when it checks its rules.
pub(super) const RULE: &str = "validation: ";

/// How Go's JSON names a kind in its complaints.
pub(super) fn json_kind(d: &Data) -> &'static str {
    match d {
        Data::Null => "null",
        Data::Bool(_) => "bool",
        Data::Int(_) | Data::Float(_) => "number",
        Data::String(_) => "string",
        Data::List(_) => "array",
        Data::Map(_) => "object",
    }
}

struct Fields<'d> {
    map: &'d Map,
    path: &'d str,
}

impl Fields<'_> {
    /// The entry of a field; keys match without regard to case, an exact one first (`encoding/json`).
    fn get(&self, key: &str) -> Option<&Data> {
        self.map
            .get(key)
            .or_else(|| self.map.iter().find(|(k, _)| k.eq_ignore_ascii_case(key)).map(|(_, v)| v))
    }

    fn wrong(&self, key: &str, got: &Data, want: &str) -> String {
        format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go struct field {}.{key} of type {want}",
            json_kind(got),
            self.path
        )
    }

    fn string(&self, key: &str) -> Result<String, String> {
        match self.get(key) {
            None | Some(Data::Null) => Ok(String::new()),
            Some(d) => scalar(d).ok_or_else(|| self.wrong(key, d, "string")),
        }
    }

    fn bool(&self, key: &str) -> Result<bool, String> {
        match self.get(key) {
            None | Some(Data::Null) => Ok(false),
            Some(Data::Bool(b)) => Ok(*b),
            Some(d) => Err(self.wrong(key, d, "bool")),
        }
    }

    fn list(&self, key: &str, of: &str) -> Result<Option<&[Data]>, String> {
        match self.get(key) {
            None | Some(Data::Null) => Ok(None),
            Some(Data::List(l)) => Ok(Some(l)),
            Some(d) => Err(self.wrong(key, d, of)),
        }
    }

    fn strings(&self, key: &str) -> Result<Vec<String>, String> {
        let items = self.list(key, "[]string")?.unwrap_or_default();
        items
            .iter()
            .map(|d| match d {
                Data::Null => Ok(String::new()),
                d => scalar(d).ok_or_else(|| self.wrong(key, d, "string")),
            })
            .collect()
    }

    fn structs<T>(
        &self,
        key: &str,
        of: &str,
        read: impl Fn(&Fields<'_>) -> Result<T, String>,
    ) -> Result<Option<Vec<T>>, String> {
        let Some(items) = self.list(key, of)? else { return Ok(None) };
        let path = format!("{}.{key}", self.path);
        let read_one = |d: &Data| match d {
            Data::Map(map) => read(&Fields { map, path: &path }),
            Data::Null => Err(format!("{RULE}{key} must not contain empty or null nodes")),
            d => Err(self.wrong(key, d, of)),
        };
        items.iter().map(read_one).collect::<Result<_, _>>().map(Some)
    }
}

/// A scalar put into a string field, with the 32-bit float formatting of sigs.k8s.io/yaml.
fn scalar(d: &Data) -> Option<String> {
    Some(match d {
        Data::String(s) => s.clone(),
        Data::Bool(b) => b.to_string(),
        Data::Int(i) => i.to_string(),
        Data::Float(f) => strconv::format_float_32(*f),
        Data::Null | Data::List(_) | Data::Map(_) => return None,
    })
}

fn dependency(f: &Fields<'_>) -> Result<Dependency, String> {
    Ok(Dependency {
        name: f.string("name")?,
        version: f.string("version")?,
        repository: f.string("repository")?,
        condition: f.string("condition")?,
        tags: f.strings("tags")?,
        enabled: f.bool("enabled")?,
        import_values: f.list("import-values", "[]interface {}")?.unwrap_or_default().to_vec(),
        alias: f.string("alias")?,
    })
}

impl Metadata {
    /// The keys of `Chart.yaml`, in the order of the fields of Go's `chart.Metadata`: what Helm's JSON of it is in.
    pub const KEYS: [&'static str; 17] = [
        "name",
        "home",
        "sources",
        "version",
        "description",
        "keywords",
        "maintainers",
        "icon",
        "apiVersion",
        "condition",
        "tags",
        "appVersion",
        "deprecated",
        "annotations",
        "kubeVersion",
        "dependencies",
        "type",
    ];

    /// Reads a YAML map over this metadata: only the keys that it has change (`yaml.Unmarshal` into the same struct).
    ///
    /// # Errors
    /// A value of the wrong kind, in Go's words.
    pub fn read(&mut self, map: &Map, profile: Profile) -> Result<(), String> {
        let package = match profile {
            Profile::Helm4 => "v2",
            Profile::Helm3 => "chart",
        };
        let f = Fields { map, path: "Metadata" };
        for (key, field) in [
            ("name", &mut self.name),
            ("home", &mut self.home),
            ("version", &mut self.version),
            ("description", &mut self.description),
            ("icon", &mut self.icon),
            ("apiVersion", &mut self.api_version),
            ("condition", &mut self.condition),
            ("tags", &mut self.tags),
            ("appVersion", &mut self.app_version),
            ("kubeVersion", &mut self.kube_version),
            ("type", &mut self.kind),
        ] {
            if f.get(key).is_some_and(|d| *d != Data::Null) {
                *field = f.string(key)?;
            }
        }
        if f.get("sources").is_some() {
            self.sources = f.strings("sources")?;
        }
        if f.get("keywords").is_some() {
            self.keywords = f.strings("keywords")?;
        }
        if f.get("deprecated").is_some() {
            self.deprecated = f.bool("deprecated")?;
        }
        let maintainer = |f: &Fields<'_>| {
            Ok(Maintainer { name: f.string("name")?, email: f.string("email")?, url: f.string("url")? })
        };
        if let Some(list) = f.structs("maintainers", &format!("[]*{package}.Maintainer"), maintainer)? {
            self.maintainers = list;
        }
        if let Some(list) = f.structs("dependencies", &format!("[]*{package}.Dependency"), dependency)? {
            self.dependencies = Some(list);
        }
        match f.get("annotations") {
            None | Some(Data::Null) => {}
            Some(Data::Map(m)) => {
                let annotations = self.annotations.get_or_insert_default();
                for (key, value) in m {
                    let text = match value {
                        Data::Null => String::new(),
                        d => scalar(d).ok_or_else(|| f.wrong("annotations", d, "string"))?,
                    };
                    match annotations.iter_mut().find(|(k, _)| k == key) {
                        Some(entry) => entry.1 = text,
                        None => annotations.push((key.clone(), text)),
                    }
                }
                annotations.sort();
            }
            Some(d) => return Err(f.wrong("annotations", d, "map[string]string")),
        }
        Ok(())
    }

    /// Cleans the texts and checks Helm's rules (`Metadata.Validate`, `Chart.Validate`).
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn validate(&mut self) -> Result<(), Error> {
        for text in [
            &mut self.name,
            &mut self.description,
            &mut self.home,
            &mut self.icon,
            &mut self.condition,
            &mut self.tags,
            &mut self.app_version,
            &mut self.kube_version,
        ] {
            sanitize(text);
        }
        self.sources.iter_mut().chain(&mut self.keywords).for_each(sanitize);
        for m in &mut self.maintainers {
            [&mut m.name, &mut m.email, &mut m.url].into_iter().for_each(sanitize);
        }
        let broken = |text: String| Err(Error::Validation(text));
        let quoted = |s: &str| strconv::quote(s.as_bytes());
        for (field, value) in
            [("apiVersion", &self.api_version), ("name", &self.name), ("version", &self.version)]
        {
            if value.is_empty() {
                return broken(format!("chart.metadata.{field} is required"));
            }
            if field == "name" && matches!(value.as_str(), "." | "..") {
                return broken(format!("chart.metadata.name {} is not allowed", quoted(value)));
            }
            if field == "name" && value.contains('/') {
                return broken(format!("chart.metadata.name {} is invalid", quoted(value)));
            }
        }
        if semver::parse(&self.version).is_err() {
            return broken(format!("chart.metadata.version {} is invalid", quoted(&self.version)));
        }
        if !matches!(self.kind.as_str(), "" | "application" | "library") {
            return broken("chart.metadata.type must be application or library".to_owned());
        }
        let mut seen: Vec<&str> = Vec::new();
        for d in self.dependencies.iter_mut().flatten() {
            [&mut d.name, &mut d.version, &mut d.repository, &mut d.condition]
                .into_iter()
                .chain(&mut d.tags)
                .for_each(sanitize);
            if !d.alias.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-')) {
                return broken(format!(
                    "dependency {} has disallowed characters in the alias",
                    quoted(&d.name)
                ));
            }
        }
        for d in self.dependencies.iter().flatten() {
            let key = if d.alias.is_empty() { &d.name } else { &d.alias };
            if seen.contains(&key.as_str()) {
                return broken(format!("more than one dependency with name or alias {}", quoted(key)));
            }
            seen.push(key);
        }
        Ok(())
    }

    /// Whether this is a library chart.
    #[must_use]
    pub fn is_library(&self) -> bool {
        self.kind.eq_ignore_ascii_case("library")
    }
}

/// White space becomes a space, what cannot be printed goes (`sanitizeString`).
fn sanitize(text: &mut String) {
    if text.bytes().all(|c| (0x20..0x7f).contains(&c)) {
        return;
    }
    *text = text
        .chars()
        .filter_map(|c| if c.is_whitespace() { Some(' ') } else { unicode::is_print(c).then_some(c) })
        .collect();
}
