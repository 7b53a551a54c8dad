//! From a path to all state files of a run: lookup, nested helmfiles, selectors.
//!
//! Owns which files are loaded, in which order, and what nested files get from their parents. A file's own evaluation is in
//! `load` and `release`.

use super::environment_values::Environment;
use super::error::Error;
use super::host::{Host, glob};
use super::load::{Given, Loader, Settings, State};
use super::paths;
use super::record::{Merge, Record, Slot};
use super::release;
use super::selector;
use super::state_fields::HELM_DEFAULTS;
use super::value::{Map, Value};
use crate::key;

/// The default state file.
pub const DEFAULT_FILE: &str = "helmfile.yaml";
/// The default folder of state files.
pub const DEFAULT_DIR: &str = "helmfile.d";
/// The maximal nesting of helmfiles.
const MAX_NESTED: usize = 64;
/// Most state files of a run.
const MAX_FILES: usize = 10_000;

/// What a run is about.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// The settings of every file.
    pub settings: Settings,
    /// The path or address of `--file`; empty for the default.
    pub file: String,
    /// `--selector`
    pub selectors: Vec<String>,
    /// `--state-values-file`
    pub values_files: Vec<String>,
    /// `--state-values-set`, assigned.
    pub overrides: Map,
    /// Whether the order is that of an uninstallation: children first, and everything backwards.
    pub reverse: bool,
    /// Whether selectors of nested helmfiles are never inherited implicitly (`HELMFILE_EXPERIMENTAL`).
    pub explicit_selector_inheritance: bool,
}

/// What a nested helmfile gets from its parent.
#[derive(Clone, Debug, Default)]
struct Options {
    selectors: Vec<String>,
    /// The file that `values` are relative to.
    callee: String,
    values: Vec<Value>,
    overrides: Map,
    inherited: Option<Inherited>,
}

/// What `inherits` hands down.
#[derive(Clone, Debug)]
struct Inherited {
    fields: Record,
    wanted: Vec<String>,
    environment: Option<Environment>,
}

/// Evaluates every state file of a run, in the order in which helmfile handles them. `cwd`: absolute.
///
/// # Errors
/// A file cannot be found, loaded or evaluated.
pub fn states(host: &dyn Host, query: &Query, cwd: &str) -> Result<Vec<State>, Error> {
    let mut visit = Visit { host, query, states: Vec::new(), files: 0 };
    let options = Options {
        selectors: query.selectors.clone(),
        values: query.values_files.iter().map(|path| Value::String(path.clone())).collect(),
        overrides: query.overrides.clone(),
        ..Options::default()
    };
    visit.path(&query.file, cwd, &options, 0)?;
    Ok(visit.states)
}

struct Visit<'h> {
    host: &'h dyn Host,
    query: &'h Query,
    states: Vec<State>,
    /// How many files were loaded.
    files: usize,
}

impl Visit<'_> {
    fn path(&mut self, path: &str, cwd: &str, options: &Options, depth: usize) -> Result<(), Error> {
        if depth > MAX_NESTED {
            let path = self.host.without_logins(path);
            return Err(Error::Invalid(format!("{path}: helmfiles are nested more than {MAX_NESTED} times")));
        }
        let files = self.find(path, cwd)?;
        let several = files.len() > 1;
        for file in files {
            let absolute = paths::within(cwd, &file);
            let (dir, name) = (paths::dir(&file), paths::base(&file));
            let place = format!("in {dir}/{name}");
            let own_cwd = paths::dir(&absolute);
            // A single file is handled within its folder: its paths stay relative.
            let base = if several { own_cwd.clone() } else { ".".to_owned() };
            let working_dir = if several { cwd } else { &own_cwd };
            self.file(&own_cwd, working_dir, &base, &name, options, depth)
                .map_err(|error| error.within(&place))?;
        }
        Ok(())
    }

    fn file(
        &mut self,
        cwd: &str,
        working_dir: &str,
        base: &str,
        name: &str,
        options: &Options,
        depth: usize,
    ) -> Result<(), Error> {
        self.files += 1;
        if self.files > MAX_FILES {
            return Err(Error::Invalid(format!("a run loads at most {MAX_FILES} state files")));
        }
        let settings = &self.query.settings;
        let loader = Loader { host: self.host, settings, cwd: cwd.to_owned() };
        let callee = if options.callee.is_empty() { paths::join(cwd, name) } else { options.callee.clone() };
        let given = Given {
            inherited: options.inherited.as_ref().and_then(|inherited| inherited.environment.clone()),
            overriding: self.overriding(&loader, &callee, options)?,
        };
        let mut state = match loader.load(base, name, &given, false) {
            // Another file may have the environment.
            Err(Error::UndefinedEnvironment { .. }) => return Ok(()),
            other => other?,
        };
        if let Some(inherited) = &options.inherited {
            inherit(&mut state.fields, inherited);
        }
        self.warn_of_repositories(&state, options);
        if self.query.reverse {
            for key in [key!("releases"), key!("helmfiles")] {
                if let Some(Slot::List(Some(items))) = state.fields.slot(key) {
                    items.reverse();
                }
            }
        }
        override_settings(&mut state.fields, settings)?;
        state.selectors.clone_from(&options.selectors);
        working_dir.clone_into(&mut state.working_dir);
        if !self.query.reverse {
            self.nested(&state, cwd, name, options, depth)?;
        }
        release::resolve(self.host, &mut state)
            .map_err(|error| error.within(format!("failed executing release templates in \"{name}\"")))?;
        release::apply_overrides(self.host, &mut state);
        release::add_labels(&mut state);
        let parent = state.clone();
        self.states.push(state);
        if self.query.reverse {
            self.nested(&parent, cwd, name, options, depth)?;
        }
        Ok(())
    }

    /// The environment of the values that the command line or the parent's entry gives.
    fn overriding(
        &self,
        loader: &Loader<'_>,
        callee: &str,
        options: &Options,
    ) -> Result<Option<Environment>, Error> {
        if options.values.is_empty() && options.overrides.is_empty() {
            return Ok(None);
        }
        let name = &self.query.settings.environment;
        let mut environment = Environment::named(name);
        let base = paths::dir(callee);
        environment.values = loader.values_entries(
            &base,
            callee,
            Some("Error"),
            options.values.clone(),
            Some(&environment),
            name,
            "",
        )?;
        environment.overrides.clone_from(&options.overrides);
        Ok(Some(environment))
    }

    fn nested(
        &mut self,
        state: &State,
        cwd: &str,
        name: &str,
        options: &Options,
        depth: usize,
    ) -> Result<(), Error> {
        let entries: Vec<Record> = state.fields.records(key!("helmfiles")).cloned().collect();
        for (at, entry) in entries.iter().enumerate() {
            let own = entry.texts(key!("selectors"));
            let inherited = entry.flag(key!("selectorsInherited")) == Some(true);
            if !self.query.selectors.is_empty()
                && !own.is_empty()
                && !inherited
                && !selector::are_compatible(&self.query.selectors, &own)
            {
                continue;
            }
            let implicit = !entry.has_list(key!("selectors")) && !self.query.explicit_selector_inheritance;
            let wanted = entry.texts(key!("inherits"));
            let nested = Options {
                selectors: if implicit || inherited { options.selectors.clone() } else { own },
                callee: paths::join(cwd, name),
                values: entry.values(key!("values")),
                overrides: Map::new(),
                inherited: (!wanted.is_empty()).then(|| Inherited {
                    environment: wanted
                        .iter()
                        .any(|key| key == "environments")
                        .then(|| state.environment.clone()),
                    fields: state.fields.unshared(),
                    wanted,
                }),
            };
            self.path(&entry.text(key!("path")), cwd, &nested, depth + 1)
                .map_err(|error| error.within(format!("in .helmfiles[{at}]")))?;
        }
        Ok(())
    }

    /// The state files that a path names: relative to `cwd` if it is.
    fn find(&self, path: &str, cwd: &str) -> Result<Vec<String>, Error> {
        let path = if paths::is_remote(path) {
            self.host.fetch(path, "states").map_err(|error| error.within("locate"))?
        } else {
            path.to_owned()
        };
        let kind = |path: &str| self.host.is_dir(&paths::within(cwd, path));
        let dir = if path.is_empty() {
            let template = format!("{DEFAULT_FILE}.gotmpl");
            let found: Vec<&str> =
                [DEFAULT_FILE, &template].into_iter().filter(|name| kind(name) == Some(false)).collect();
            let has_dir = kind(DEFAULT_DIR) == Some(true);
            match (found.as_slice(), has_dir) {
                ([_, _], _) => {
                    return Err(Error::Invalid(format!(
                        "both {DEFAULT_FILE} and {DEFAULT_FILE}.gotmpl exist. Please remove one of them"
                    )));
                }
                ([file], true) => {
                    return Err(Error::Invalid(format!(
                        "configuration conlict error: you can have either {file} or {DEFAULT_DIR}, but not both"
                    )));
                }
                ([file], false) => return Ok(vec![(*file).to_owned()]),
                (_, true) => DEFAULT_DIR.to_owned(),
                _ => {
                    return Err(Error::Invalid(format!(
                        "no state file found. It must be named {DEFAULT_DIR}/*.{{yaml,yml,yaml.gotmpl,yml.gotmpl}}, \
                         {DEFAULT_FILE}, or {template}, otherwise specified with the --file flag or HELMFILE_FILE_PATH \
                         environment variable"
                    )));
                }
            }
        } else {
            match kind(&path) {
                Some(false) => return Ok(vec![path]),
                Some(true) => path,
                None => return Err(Error::Invalid(format!("specified state file {path} is not found"))),
            }
        };
        let mut files = Vec::new();
        for pattern in ["*.y*ml", "*.y*ml.gotmpl"] {
            for found in glob(self.host, &paths::join(&paths::within(cwd, &dir), pattern))? {
                files.push(paths::join(&dir, &paths::base(&found)));
            }
        }
        files.sort();
        if self.query.reverse {
            files.reverse();
        }
        Ok(files)
    }

    /// Warns of charts from repositories that only the parent has.
    fn warn_of_repositories(&self, state: &State, options: &Options) {
        let Some(inherited) = &options.inherited else { return };
        let names = |fields: &Record| -> Vec<String> {
            fields.records(key!("repositories")).map(|r| r.text(key!("name"))).collect()
        };
        let (known, parents) = (names(&state.fields), names(&inherited.fields));
        for release in state.fields.records(key!("releases")) {
            let chart = release.text(key!("chart"));
            let Some((repository, _)) = chart.split_once('/') else { continue };
            if parents.iter().any(|name| name == repository) && !known.iter().any(|name| name == repository) {
                self.host.warn(&format!(
                    "release {:?} references repository {repository:?} which is available in the parent helmfile but not \
                     inherited. Add \"inherits: [repositories]\" to this sub-helmfile entry, or declare the repository here.",
                    release.text(key!("name"))
                ));
            }
        }
    }
}

/// Puts the settings of the command line into the fields; a field that the file sets itself is an error.
fn override_settings(fields: &mut Record, settings: &Settings) -> Result<(), Error> {
    for (key, option, value) in [
        (key!("kubeContext"), "kube-context", &settings.kube_context),
        (key!("namespace"), "namespace", &settings.namespace),
        (key!("chart"), "chart", &settings.chart),
    ] {
        if value.is_empty() {
            continue;
        }
        if !fields.text(key).is_empty() {
            return Err(Error::Invalid(format!(
                "err: Cannot use option --{option} and set attribute {key}."
            )));
        }
        fields.set(key, Slot::Text(value.clone()));
        if key == key!("kubeContext")
            && let Some(Slot::Struct(defaults)) = fields.slot(key!("helmDefaults"))
        {
            defaults.set(key, Slot::Text(value.clone()));
        }
    }
    Ok(())
}

/// Fills a nested file's fields with what it inherits: its own values win (`MergeInherited`).
fn inherit(fields: &mut Record, inherited: &Inherited) {
    let from = &inherited.fields;
    for key in &inherited.wanted {
        match key.as_str() {
            "repositories" => {
                let all: Vec<&Record> =
                    from.records(key!("repositories")).chain(fields.records(key!("repositories"))).collect();
                let last = |at: usize, record: &Record| {
                    all.iter().rposition(|other| other.text(key!("name")) == record.text(key!("name")))
                        == Some(at)
                };
                let kept: Vec<Record> = all
                    .iter()
                    .enumerate()
                    .filter(|(at, record)| last(*at, record))
                    .map(|(_, record)| (*record).clone())
                    .collect();
                if !kept.is_empty() {
                    fields.set_records(key!("repositories"), kept);
                }
            }
            "helmDefaults" => {
                let parent = from.record(key!("helmDefaults")).unwrap_or_else(|| Record::new(&HELM_DEFAULTS));
                if let Some(Slot::Struct(own)) = fields.slot(key!("helmDefaults")) {
                    own.merge(&parent, Merge::Fill);
                }
            }
            "commonLabels" | "templates" => {
                let key = if key == "templates" { key!("templates") } else { key!("commonLabels") };
                if let (Some(Slot::Map(own)), Slot::Map(parent)) = (fields.slot(key), from.get(key)) {
                    for (name, value) in parent {
                        own.entry(name.clone()).or_insert_with(|| value.clone());
                    }
                }
            }
            "apiVersions" => {
                let mut all = from.texts(key!("apiVersions"));
                all.extend(fields.texts(key!("apiVersions")));
                let mut seen = std::collections::HashSet::new();
                all.retain(|version| seen.insert(version.clone()));
                if !all.is_empty() {
                    fields.set(key!("apiVersions"), Slot::texts(all));
                }
            }
            "kubeVersion" if fields.text(key!("kubeVersion")).is_empty() => {
                fields.set(key!("kubeVersion"), Slot::Text(from.text(key!("kubeVersion"))));
            }
            _ => {}
        }
    }
}
