//! `Chart.yaml`: decoding with Helm's coercions, and validation (`chart.Metadata`).

use std::collections::HashSet;

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
    /// URLs of its sources. This and other lists are `None` if the file has none: templates of Helm 3 can tell that from an empty one.
    pub sources: Option<Vec<String>>,
    /// Its version, lenient semver.
    pub version: String,
    /// A description in one line.
    pub description: String,
    /// Keywords for searches.
    pub keywords: Option<Vec<String>>,
    /// The chart's maintainers.
    pub maintainers: Option<Vec<Maintainer>>,
    /// URL of an icon.
    pub icon: String,
    /// `v1` or `v2`.
    pub api_version: String,
    /// Condition (historic, unused by Helm at the root).
    pub condition: String,
    /// Tags (historic, unused by Helm at the root).
    pub tags: String,
    /// The version of the application that it installs.
    pub app_version: String,
    /// Whether the chart is deprecated.
    pub deprecated: bool,
    /// Annotations, in order of key; `None` if the file has no map of them.
    pub annotations: Option<Vec<(String, String)>>,
    /// Range of compatible Kubernetes versions.
    pub kube_version: String,
    /// The declared dependencies; `None` when the key is absent, which switches dependency processing off.
    pub dependencies: Option<Vec<Dependency>>,
    /// `application`, `library` or empty.
    pub kind: String,
}

/// One maintainer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maintainer {
    /// Name.
    pub name: String,
    /// Email address.
    pub email: String,
    /// URL.
    pub url: String,
    /// Whether the entry of the list is null, which [`Metadata::validate`] refuses.
    pub is_null: bool,
}

/// A declared dependency.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dependency {
    /// The subchart's name; its alias after dependency processing.
    pub name: String,
    /// Range of versions.
    pub version: String,
    /// URL of its repository.
    pub repository: String,
    /// Comma-separated paths of values that enable it.
    pub condition: String,
    /// Tags that enable it.
    pub tags: Option<Vec<String>>,
    /// Whether it is enabled; set by dependency processing.
    pub enabled: bool,
    /// The values that the parent imports: names or `{child, parent}` maps.
    pub import_values: Option<Vec<Data>>,
    /// The name that replaces the subchart's own.
    pub alias: String,
    /// Whether the entry of the list is null, which [`Metadata::validate`] refuses.
    pub is_null: bool,
}

/// The name of a kind in errors of Go's JSON decoder.
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

/// Decodes into fields as `encoding/json` does: keys match in any letter case, in their order; null changes no scalar; the first
/// value of a wrong type is reported at the end.
struct Reader {
    package: &'static str,
    wrong: Option<String>,
}

impl Reader {
    fn wrong(&mut self, field: &str, got: &Data, want: &str) {
        self.wrong.get_or_insert_with(|| {
            let got = json_kind(got);
            format!(
                "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {got} into Go struct field {field} of type {want}"
            )
        });
    }

    fn string(&mut self, field: &str, to: &mut String, from: &Data) {
        match scalar(from) {
            Some(text) => *to = text,
            None if *from == Data::Null => {}
            None => self.wrong(field, from, "string"),
        }
    }

    fn bool(&mut self, field: &str, to: &mut bool, from: &Data) {
        match from {
            Data::Bool(b) => *to = *b,
            Data::Null => {}
            _ => self.wrong(field, from, "bool"),
        }
    }

    /// Decodes a list, each item over the existing item at its index.
    fn list<T: Default>(
        &mut self,
        field: &str,
        to: &mut Option<Vec<T>>,
        from: &Data,
        of: &str,
        mut item: impl FnMut(&mut Self, &mut T, &Data),
    ) {
        match from {
            Data::List(items) => {
                let to = to.get_or_insert_default();
                to.resize_with(items.len(), T::default);
                to.iter_mut().zip(items).for_each(|(to, from)| item(self, to, from));
            }
            Data::Null => *to = None,
            _ => self.wrong(field, from, of),
        }
    }

    fn strings(&mut self, field: &str, to: &mut Option<Vec<String>>, from: &Data) {
        self.list(field, to, from, "[]string", |r, to, from| r.string(field, to, from));
    }

    fn annotations(&mut self, field: &str, to: &mut Option<Vec<(String, String)>>, from: &Data) {
        match from {
            Data::Map(map) => {
                let all = to.get_or_insert_default();
                for (key, value) in map {
                    let mut text = String::new();
                    self.string(field, &mut text, value);
                    match all.iter_mut().find(|(k, _)| k == key) {
                        Some(entry) => entry.1 = text,
                        None => all.push((key.clone(), text)),
                    }
                }
                all.sort();
            }
            Data::Null => *to = None,
            _ => self.wrong(field, from, "map[string]string"),
        }
    }

    fn maintainer(&mut self, to: &mut Maintainer, from: &Data) {
        match from {
            Data::Map(map) => {
                to.is_null = false;
                for (key, value) in map {
                    match key.to_ascii_lowercase().as_str() {
                        "name" => self.string("Metadata.maintainers.name", &mut to.name, value),
                        "email" => self.string("Metadata.maintainers.email", &mut to.email, value),
                        "url" => self.string("Metadata.maintainers.url", &mut to.url, value),
                        _ => {}
                    }
                }
            }
            Data::Null => *to = Maintainer { is_null: true, ..Maintainer::default() },
            _ => self.wrong("Metadata.maintainers", from, &format!("{}.Maintainer", self.package)),
        }
    }

    fn dependency(&mut self, to: &mut Dependency, from: &Data) {
        match from {
            Data::Map(map) => {
                to.is_null = false;
                for (key, value) in map {
                    match key.to_ascii_lowercase().as_str() {
                        "name" => self.string("Metadata.dependencies.name", &mut to.name, value),
                        "version" => self.string("Metadata.dependencies.version", &mut to.version, value),
                        "repository" => {
                            self.string("Metadata.dependencies.repository", &mut to.repository, value);
                        }
                        "condition" => {
                            self.string("Metadata.dependencies.condition", &mut to.condition, value);
                        }
                        "tags" => self.strings("Metadata.dependencies.tags", &mut to.tags, value),
                        "enabled" => self.bool("Metadata.dependencies.enabled", &mut to.enabled, value),
                        "import-values" => {
                            let field = "Metadata.dependencies.import-values";
                            let to = &mut to.import_values;
                            self.list(field, to, value, "[]interface {}", |_, to, from| *to = from.clone());
                        }
                        "alias" => self.string("Metadata.dependencies.alias", &mut to.alias, value),
                        _ => {}
                    }
                }
            }
            Data::Null => *to = Dependency { is_null: true, ..Dependency::default() },
            _ => self.wrong("Metadata.dependencies", from, &format!("{}.Dependency", self.package)),
        }
    }

    fn metadata(&mut self, to: &mut Metadata, map: &Map) {
        for (key, value) in map {
            match key.to_ascii_lowercase().as_str() {
                "name" => self.string("Metadata.name", &mut to.name, value),
                "home" => self.string("Metadata.home", &mut to.home, value),
                "sources" => self.strings("Metadata.sources", &mut to.sources, value),
                "version" => self.string("Metadata.version", &mut to.version, value),
                "description" => self.string("Metadata.description", &mut to.description, value),
                "keywords" => self.strings("Metadata.keywords", &mut to.keywords, value),
                "maintainers" => {
                    let (of, to) = (format!("[]*{}.Maintainer", self.package), &mut to.maintainers);
                    self.list("Metadata.maintainers", to, value, &of, Self::maintainer);
                }
                "icon" => self.string("Metadata.icon", &mut to.icon, value),
                "apiversion" => self.string("Metadata.apiVersion", &mut to.api_version, value),
                "condition" => self.string("Metadata.condition", &mut to.condition, value),
                "tags" => self.string("Metadata.tags", &mut to.tags, value),
                "appversion" => self.string("Metadata.appVersion", &mut to.app_version, value),
                "deprecated" => self.bool("Metadata.deprecated", &mut to.deprecated, value),
                "annotations" => self.annotations("Metadata.annotations", &mut to.annotations, value),
                "kubeversion" => self.string("Metadata.kubeVersion", &mut to.kube_version, value),
                "dependencies" => {
                    let (of, to) = (format!("[]*{}.Dependency", self.package), &mut to.dependencies);
                    self.list("Metadata.dependencies", to, value, &of, Self::dependency);
                }
                "type" => self.string("Metadata.type", &mut to.kind, value),
                _ => {}
            }
        }
    }
}

/// The `apiVersion` of a chart whose form is not known yet (`loader.chartBase`).
pub(super) fn form(map: &Map) -> Result<String, String> {
    let mut reader = Reader { package: "loader", wrong: None };
    let mut version = String::new();
    for (_, value) in map.iter().filter(|(key, _)| key.eq_ignore_ascii_case("apiVersion")) {
        reader.string("chartBase.apiVersion", &mut version, value);
    }
    reader.wrong.map_or(Ok(version), Err)
}

/// A scalar decoded into a string field, with the 32-bit float formatting of sigs.k8s.io/yaml.
fn scalar(d: &Data) -> Option<String> {
    Some(match d {
        Data::String(s) => s.clone(),
        Data::Bool(b) => b.to_string(),
        Data::Int(i) => i.to_string(),
        Data::Float(f) => strconv::format_float_32(*f),
        Data::Null | Data::List(_) | Data::Map(_) => return None,
    })
}

impl Metadata {
    /// The keys of `Chart.yaml`, in the order of the fields of Go's `chart.Metadata`, which Helm's JSON has.
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

    /// Decodes a YAML map over this metadata: changes only the fields whose keys the map has (`yaml.Unmarshal` into the same struct).
    ///
    /// # Errors
    /// A value of the wrong kind, with Go's text.
    pub fn read(&mut self, map: &Map, profile: Profile) -> Result<(), String> {
        let package = match profile {
            Profile::Helm4 => "v2",
            Profile::Helm3 => "chart",
        };
        let mut reader = Reader { package, wrong: None };
        reader.metadata(self, map);
        reader.wrong.map_or(Ok(()), Err)
    }

    /// Sanitizes the texts and checks Helm's rules (`Metadata.Validate`, `Chart.Validate`).
    ///
    /// # Errors
    /// The first violated rule.
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
        [&mut self.sources, &mut self.keywords].into_iter().flatten().flatten().for_each(sanitize);
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
        for m in self.maintainers.iter_mut().flatten() {
            if m.is_null {
                return broken("maintainers must not contain empty or null nodes".to_owned());
            }
            [&mut m.name, &mut m.email, &mut m.url].into_iter().for_each(sanitize);
        }
        let mut seen = HashSet::new();
        for d in self.dependencies.iter_mut().flatten() {
            if d.is_null {
                return broken("dependencies must not contain empty or null nodes".to_owned());
            }
            [&mut d.name, &mut d.version, &mut d.repository, &mut d.condition]
                .into_iter()
                .chain(d.tags.iter_mut().flatten())
                .for_each(sanitize);
            if !d.alias.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-')) {
                return broken(format!(
                    "dependency {} has disallowed characters in the alias",
                    quoted(&d.name)
                ));
            }
            let key = if d.alias.is_empty() { &d.name } else { &d.alias };
            if !seen.insert(key.as_str()) {
                return Err(Error::DuplicateDependency(quoted(key)));
            }
        }
        Ok(())
    }

    /// Whether this is a library chart.
    #[must_use]
    pub fn is_library(&self) -> bool {
        self.kind.eq_ignore_ascii_case("library")
    }
}

/// Replaces white space with spaces and removes unprintable characters (`sanitizeString`).
fn sanitize(text: &mut String) {
    if text.bytes().all(|c| (0x20..0x7f).contains(&c)) {
        return;
    }
    *text = text
        .chars()
        .filter_map(|c| if c.is_whitespace() { Some(' ') } else { unicode::is_print(c).then_some(c) })
        .collect();
}
