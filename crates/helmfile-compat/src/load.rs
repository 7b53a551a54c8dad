//! Loading of one state file: its parts, bases and environment.
//!
//! Owns the order in which parts are rendered, parsed and merged, and which values each part sees. Does not evaluate releases and
//! does not follow `helmfiles`.

use super::document::{self, DocumentError};
use super::environment_values::Environment;
use super::error::Error;
use super::hcl;
use super::host::{Host, glob, read_text};
use super::merge::{Lists, layered, override_map};
use super::paths;
use super::policy;
use super::record::{Merge, Record, Slot};
use super::state_fields::STATE;
use super::template::{Root, render, render_named};
use super::value::{Map, Value, text_keys};
use crate::key;

/// The environment that need not be defined.
pub const DEFAULT_ENVIRONMENT: &str = "default";

/// A loaded state file (`state.HelmState`).
#[derive(Clone, Debug)]
pub struct State {
    /// The fields of the file, merged from bases and parts.
    pub fields: Record,
    /// The path of the file as it was given: relative to `cwd`, or absolute.
    pub file: String,
    /// The folder that the file's paths are relative to: relative to `cwd`, or absolute.
    pub base: String,
    /// The folder that relative paths are relative to, absolute.
    pub cwd: String,
    /// The working directory of helmfile while it handles the file: it shows absolute paths below it.
    pub working_dir: String,
    /// The environment.
    pub environment: Environment,
    /// The values of templates: all layers merged.
    pub values: Map,
    /// The selectors that choose releases.
    pub selectors: Vec<String>,
    /// The releases as they were in the file, for `needs`.
    pub original_releases: Vec<Record>,
}

/// What is the same for all files of a run.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The environment's name.
    pub environment: String,
    /// `--namespace`
    pub namespace: String,
    /// `--chart`
    pub chart: String,
    /// `--kube-context`
    pub kube_context: String,
    /// `--helm-binary`, shown by `build`.
    pub helm_binary: String,
    /// `--kustomize-binary`, shown by `build`.
    pub kustomize_binary: String,
    /// Whether files without `.gotmpl` are templates too (`HELMFILE_RENDER_YAML`).
    pub render_yaml: bool,
}

/// Loads state files of one folder.
pub struct Loader<'h> {
    /// The outside.
    pub host: &'h dyn Host,
    /// The settings of the run.
    pub settings: &'h Settings,
    /// The folder that relative paths are relative to.
    pub cwd: String,
}

/// What values a file has from outside.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// The parent's environment, if it is inherited.
    pub inherited: Option<Environment>,
    /// Values of the command line and of the parent's entry.
    pub overriding: Option<Environment>,
}

impl Loader<'_> {
    /// Loads a file. `base`: the folder of the file's paths.
    ///
    /// # Errors
    /// The file cannot be read, rendered or parsed, or its environment is not defined.
    pub fn load(&self, base: &str, file: &str, given: &Given, is_base: bool) -> Result<State, Error> {
        let path = paths::within(base, file);
        let whole = self.absolute(&path);
        let text = read_text(self.host, &whole).map_err(|source| Error::Path {
            opened: whole.clone(),
            shown: path.clone(),
            source: Box::new(source),
        })?;
        let state = self.parts(base, &path, &text, given, is_base)?;
        for (at, nested) in state.fields.records(key!("helmfiles")).enumerate() {
            let nested = nested.text(key!("path"));
            if nested == path {
                return Err(Error::Invalid(format!(
                    "{path} contains a recursion into the same sub-helmfile at helmfiles[{at}]"
                )));
            }
            if nested == "." {
                return Err(Error::Invalid(format!(
                    "{path} contains a recursion into the the directory containing this helmfile at helmfiles[{at}]"
                )));
            }
        }
        Ok(state)
    }

    fn absolute(&self, path: &str) -> String {
        paths::within(&self.cwd, path)
    }

    fn parts(
        &self,
        base: &str,
        file: &str,
        text: &str,
        given: &Given,
        is_base: bool,
    ) -> Result<State, Error> {
        let text = text.replace("\r\n", "\n");
        policy::check(file, &text)?;
        let has_environment = given.inherited.is_some() || given.overriding.is_some();
        let mut environment = given.inherited.clone();
        let mut whole: Option<State> = None;
        let is_template = paths::ext(file) == ".gotmpl" || self.settings.render_yaml;
        for (number, part) in text.split("\n---\n").enumerate() {
            let rendered;
            let content = if is_template {
                rendered = self.render_part(base, file, number, part, environment.as_ref(), given)?;
                rendered.as_str()
            } else {
                part
            };
            let own = environment.clone().unwrap_or_default();
            let context = match (&environment, &given.overriding) {
                (None, None) => None,
                (None, Some(over)) => Some(over.clone()),
                (Some(_), over) => Some(own.merged_with(over.as_ref())),
            };
            let mut state = self.part(base, file, content, context.as_ref(), is_base)?;
            if let Some(mut merged) = whole.take() {
                merged.fields.merge(&state.fields, Merge::Override);
                merge_environment(&mut merged.environment, state.environment);
                merged.values = state.values;
                state = merged;
            }
            environment = Some(state.environment.clone());
            let defined = state.fields.map(key!("environments"));
            let name = &state.environment.name;
            if !is_base && !defined.is_empty() && name != DEFAULT_ENVIRONMENT && !defined.contains_key(name) {
                return Err(undefined(file, name));
            }
            whole = Some(state);
        }
        let Some(mut state) = whole else { return Err(Error::Invalid(format!("{file} is empty"))) };
        if !is_base {
            self.apply_defaults(&mut state.fields);
            let name = &state.environment.name;
            if state.fields.map(key!("environments")).is_empty()
                && !has_environment
                && name != DEFAULT_ENVIRONMENT
            {
                return Err(undefined(file, name));
            }
        }
        for release in state.fields.records(key!("releases")) {
            let strategy = release.text(key!("updateStrategy"));
            if !strategy.is_empty() && strategy != "reinstallIfForbidden" {
                return Err(Error::Invalid(format!(
                    "failed to read {file}: updateStrategy {strategy:?} is invalid, valid values are: \
                     reinstallIfForbidden or not set"
                )));
            }
        }
        state.original_releases = state.fields.records(key!("releases")).cloned().collect();
        Ok(state)
    }

    fn render_part(
        &self,
        base: &str,
        file: &str,
        number: usize,
        part: &str,
        environment: Option<&Environment>,
        given: &Given,
    ) -> Result<String, Error> {
        let environment = match (environment, &given.overriding) {
            (None, None) => Environment::named(&self.settings.environment),
            (None, Some(over)) => over.clone(),
            (Some(own), over) => own.merged_with(over.as_ref()),
        };
        let values = environment.merged_values()?;
        let root = Root::environment(&environment, &self.settings.namespace, values);
        render(self.host, &self.absolute(base), part, &root)
            .map_err(|error| error.within(format!("error during {file}.part.{number} parsing")))
    }

    /// Parses one part, with its bases and environment.
    fn part(
        &self,
        base: &str,
        file: &str,
        content: &str,
        context: Option<&Environment>,
        is_base: bool,
    ) -> Result<State, Error> {
        let mut fields = parse(file, content)?;
        let bases = fields.texts(key!("bases"));
        if is_base && !bases.is_empty() {
            return Err(Error::Invalid(
                "nested `base` helmfile is unsupported. please submit a feature request if you need this!"
                    .to_owned(),
            ));
        }
        if !is_base {
            let mut layers: Option<Record> = None;
            for path in bases {
                let path = self.locate(&path)?;
                let given = Given { inherited: context.cloned(), overriding: None };
                let layer = self.load(base, &path, &given, true)?.fields;
                layers = Some(with_layer(layers, layer));
            }
            fields = with_layer(layers, fields);
        }
        let environment = self.environment(&fields, base, file, context)?;
        let values = environment.merged_values().map_err(|error| error.within("rendering values"))?;
        self.expand_helmfiles(&mut fields, base)?;
        Ok(State {
            fields,
            file: file.to_owned(),
            base: base.to_owned(),
            cwd: self.cwd.clone(),
            working_dir: self.cwd.clone(),
            environment,
            values,
            selectors: Vec::new(),
            original_releases: Vec::new(),
        })
    }

    /// The path of a file that may be an address.
    fn locate(&self, path: &str) -> Result<String, Error> {
        if paths::is_remote(path) {
            return self.host.fetch(path, "states").map_err(|error| error.within("locate"));
        }
        Ok(path.to_owned())
    }

    /// The environment of a part: its own values above those of earlier parts.
    fn environment(
        &self,
        fields: &Record,
        base: &str,
        file: &str,
        context: Option<&Environment>,
    ) -> Result<Environment, Error> {
        let name = self.settings.environment.as_str();
        let failed = |error: Error| error.within(format!("failed to read {file}"));
        let mut own = Environment::named(name);
        if let Some(Slot::Struct(spec)) = fields.map(key!("environments")).get(name) {
            let handler = spec
                .optional_text(key!("missingFileHandler"))
                .or_else(|| fields.optional_text(key!("missingFileHandler")));
            let mut secrets = Map::new();
            let mut entries: Vec<Value> = Vec::new();
            for path in spec.texts(key!("secrets")) {
                for path in self
                    .resolve_file(base, file, handler.as_deref(), "environment values", &path)
                    .map_err(failed)?
                {
                    if path.ends_with(".hcl") {
                        return Err(failed(Error::Invalid(format!(
                            "{path}: encrypted HCL files are not supported; use YAML"
                        ))));
                    }
                    let text = self.host.decrypt(&self.absolute(&path)).map_err(failed)?;
                    let load = |error: Error| {
                        failed(error.within(format!("failed to load environment secrets file \"{path}\"")))
                    };
                    let map = document::map(&String::from_utf8_lossy(&text)).map_err(Error::from);
                    let map = map.and_then(text_keys).map_err(load)?;
                    override_map(&mut secrets, map);
                }
            }
            entries.extend(spec.values(key!("values")));
            let own_handler = spec.optional_text(key!("missingFileHandler"));
            let strategy = spec.text(key!("mergeStrategy"));
            let mut values = self
                .values_entries(base, file, own_handler.as_deref(), entries, context, name, &strategy)
                .map_err(failed)?;
            override_map(&mut values, secrets);
            own.values = values;
            own.kube_context = spec.text(key!("kubeContext"));
        }
        if let Some(context) = context {
            own.defaults = layered(&context.defaults, &own.defaults, Lists::Sparse);
            own.values = layered(&context.values, &own.values, Lists::Sparse);
            own.overrides = layered(&own.overrides, &context.overrides, Lists::ByItem);
            if !context.name.is_empty() {
                own.name.clone_from(&context.name);
            }
            if !context.kube_context.is_empty() {
                own.kube_context.clone_from(&context.kube_context);
            }
        }
        let defaults =
            self.values_entries(base, file, None, fields.values(key!("values")), context, name, "")?;
        override_map(&mut own.defaults, defaults);
        Ok(own)
    }

    /// Values of files and maps, in order; HCL files come last.
    ///
    /// # Errors
    /// A file is missing, or cannot be rendered or parsed.
    #[allow(clippy::too_many_arguments, reason = "each is a part of one question")]
    pub fn values_entries(
        &self,
        base: &str,
        file: &str,
        handler: Option<&str>,
        entries: Vec<Value>,
        context: Option<&Environment>,
        name: &str,
        strategy: &str,
    ) -> Result<Map, Error> {
        if !["", "override", "fallback"].contains(&strategy) {
            return Err(Error::Invalid(format!(
                "environment {name:?}: invalid mergeStrategy {strategy:?} (must be \"override\" or \"fallback\")"
            )));
        }
        let fallback = strategy == "fallback";
        let mut result = Map::new();
        let mut hcl_files = Vec::new();
        let merge = |result: &mut Map, map: Map| -> Result<(), Error> {
            let map = text_keys(map)?;
            if fallback {
                *result = layered(&map, result, Lists::Sparse);
            } else {
                override_map(result, map);
            }
            Ok(())
        };
        for entry in entries {
            match entry {
                Value::String(path) => {
                    for path in self.resolve_file(base, file, handler, "environment values", &path)? {
                        if path.ends_with(".hcl") {
                            hcl_files.push(path);
                            continue;
                        }
                        let environment = context.cloned().unwrap_or_else(|| Environment::named(name));
                        let mut values = environment.merged_values()?;
                        if fallback && !result.is_empty() {
                            let mut enriched = result.clone();
                            override_map(&mut enriched, values);
                            values = enriched;
                        }
                        let root = Root::environment(&environment, "", values);
                        let failed = |error: Error| {
                            error.within(format!("failed to load environment values file \"{path}\""))
                        };
                        let text = self.render_file(&path, &root).map_err(failed)?;
                        let map = document::map(&text).map_err(|error| failed(error.into()))?;
                        merge(&mut result, map)?;
                    }
                }
                Value::Map(map) => merge(&mut result, map)?,
                Value::AnyMap(_) => {
                    entry.with_text_keys()?;
                }
                other => {
                    let (shown, kind) = (other.go_text(), other.go_type());
                    return Err(Error::Invalid(format!(
                        "unexpected type of value: value={shown}, type={kind}"
                    )));
                }
            }
        }
        if !hcl_files.is_empty() {
            let mut texts = Vec::with_capacity(hcl_files.len());
            for path in hcl_files {
                let text = read_text(self.host, &self.absolute(&path))?;
                texts.push((path, text));
            }
            // It takes as much as a template may, and no more than one of both may run beside others.
            let memory = self.host.render_memory();
            let values = hcl::evaluate(&texts).map_err(Error::Hcl);
            drop(memory);
            merge(&mut result, values?)?;
        }
        Ok(result)
    }

    /// The text of a file, rendered if it is a template.
    fn render_file(&self, path: &str, root: &Root) -> Result<String, Error> {
        let text = read_text(self.host, &self.absolute(path))
            .map_err(|error| error.within(format!("failed to load [{path}]")))?;
        if !path.ends_with(".gotmpl") {
            return Ok(text);
        }
        let dir = self.absolute(&paths::dir(path));
        render_named(self.host, &dir, "stringTemplate", &text, root, true)
            .map_err(|error| Error::Template(format!("failed to render [{path}], because of {error}")))
    }

    /// The files that a path, pattern or address names, relative to `cwd`.
    ///
    /// # Errors
    /// Nothing matches and the handler says so, or an address cannot be fetched.
    pub fn resolve_file(
        &self,
        base: &str,
        file: &str,
        handler: Option<&str>,
        what: &str,
        path: &str,
    ) -> Result<Vec<String>, Error> {
        let files = if paths::is_remote(path) {
            vec![self.host.fetch(path, "values")?]
        } else {
            self.expand(base, path)?
        };
        if !files.is_empty() {
            return Ok(files);
        }
        match handler.unwrap_or("Error") {
            "Error" => {
                Err(Error::Invalid(format!("{what} file matching \"{path}\" does not exist in \".\"")))
            }
            "Warn" => {
                self.host.warn(&format!("skipping missing {what} file matching \"{path}\""));
                Ok(files)
            }
            "Info" | "Debug" => Ok(files),
            other => Err(Error::Invalid(format!(
                "invalid missing file handler \"{other}\" while processing \"{path}\" in \"{file}\": it must be one of \
                 [Error Warn Info Debug]"
            ))),
        }
    }

    /// The paths that a pattern matches, from the folder of a state file.
    fn expand(&self, base: &str, pattern: &str) -> Result<Vec<String>, Error> {
        let pattern = normalize(base, pattern);
        let found = glob(self.host, &self.absolute(&pattern))
            .map_err(|e| e.within(format!("failed processing {pattern}")))?;
        if pattern.starts_with('/') {
            return Ok(found);
        }
        Ok(found.iter().map(|path| relative(&self.cwd, path, &pattern)).collect())
    }

    /// Replaces patterns in `helmfiles` by the paths that they match.
    fn expand_helmfiles(&self, fields: &mut Record, base: &str) -> Result<(), Error> {
        let handler = fields.optional_text(key!("missingFileHandler")).unwrap_or_else(|| "Error".to_owned());
        let mut expanded = Vec::new();
        for nested in fields.records(key!("helmfiles")) {
            let path = nested.text(key!("path"));
            if paths::is_remote(&path) {
                expanded.push(nested.clone());
                continue;
            }
            let matches = self.expand(base, &path)?;
            if matches.is_empty() {
                let problem = format!("no matches for path: {path}");
                if handler == "Error" {
                    return Err(Error::Invalid(problem));
                }
                self.host.warn(&problem);
            }
            for path in matches {
                let mut one = nested.clone();
                one.set(key!("path"), Slot::Text(path));
                expanded.push(one);
            }
        }
        if !expanded.is_empty() || fields.has_list(key!("helmfiles")) {
            fields.set_records(key!("helmfiles"), expanded);
        }
        Ok(())
    }

    fn apply_defaults(&self, fields: &mut Record) {
        for (key, own, default) in [
            (key!("helmBinary"), &self.settings.helm_binary, "helm"),
            (key!("kustomizeBinary"), &self.settings.kustomize_binary, "kustomize"),
        ] {
            if !own.is_empty() && own != default {
                fields.set(key, Slot::Text(own.clone()));
            } else if fields.text(key).is_empty() {
                fields.set(key, Slot::Text(default.to_owned()));
            }
        }
    }
}

fn undefined(file: &str, environment: &str) -> Error {
    Error::UndefinedEnvironment { file: file.to_owned(), environment: environment.to_owned() }
}

/// A path as the user sees it: relative to `cwd` if the pattern was.
fn relative(cwd: &str, path: &str, pattern: &str) -> String {
    let ups = pattern.split('/').take_while(|part| *part == "..").count();
    let mut root = cwd.to_owned();
    for _ in 0..ups {
        root = paths::dir(&root);
    }
    let rest = path.strip_prefix(&root).map_or(path, |rest| rest.trim_start_matches('/'));
    format!("{}{rest}", "../".repeat(ups))
}

/// A path from the folder of a state file (`Storage.normalizePath`).
#[must_use]
pub fn normalize(base: &str, path: &str) -> String {
    if path.starts_with('/') || path.contains("://") {
        return path.to_owned();
    }
    // Paths that were normalized before are not joined again.
    if !base.is_empty() && base != "." && path.strip_prefix(base).is_some_and(|rest| rest.starts_with('/')) {
        return path.to_owned();
    }
    paths::join(base, path)
}

/// Parses the documents of a part into one structure; lists are appended.
fn parse(file: &str, content: &str) -> Result<Record, Error> {
    let hint = if paths::ext(file) == ".gotmpl" {
        ""
    } else {
        ". Started seeing this since Helmfile v1? Add the .gotmpl file extension"
    };
    let failed = |index: usize, error: DocumentError| {
        let place = format!("failed to read {file}: reading document at index {index}{hint}");
        Error::from(error).within(place)
    };
    let mut fields = Record::new(&STATE);
    let documents = document::documents(content).map_err(|error| failed(1, error))?;
    for (index, node) in documents.into_iter().enumerate() {
        let mut node = node;
        // The fields of `build` that are not fields of a file: helmfile reads them and computes them again.
        for key in ["filepath", "renderedvalues"] {
            node.remove(key);
        }
        let own = Record::decode(&STATE, &node)
            .map_err(|problems| failed(index + 1, DocumentError::Unmarshal(problems)))?;
        fields.merge(&own, Merge::Append);
    }
    Ok(fields)
}

/// Merges a layer above others: lists are appended, and values of one environment are concatenated.
fn with_layer(below: Option<Record>, layer: Record) -> Record {
    let Some(mut below) = below else { return layer };
    let mut layer = layer;
    if let (Some(Slot::Map(below)), Some(Slot::Map(above))) =
        (below.slot(key!("environments")), layer.slot(key!("environments")))
    {
        for (name, above) in std::mem::take(above) {
            match (below.get_mut(&name), above) {
                (Some(Slot::Struct(below)), Slot::Struct(above)) => merge_environment_spec(below, &above),
                (_, above) => {
                    below.insert(name, above);
                }
            }
        }
    }
    below.merge(&layer, Merge::Append);
    below
}

/// Merges the definition of an environment above another one (`mergeEnvironments`).
fn merge_environment_spec(below: &mut Record, above: &Record) {
    let (lower, upper) = (below.values(key!("values")), above.values(key!("values")));
    let mut secrets = below.texts(key!("secrets"));
    secrets.extend(above.texts(key!("secrets")));
    for key in [key!("kubeContext"), key!("mergeStrategy")] {
        if !above.text(key).is_empty() {
            below.set(key, Slot::Text(above.text(key)));
        }
    }
    for key in [key!("missingFileHandler"), key!("missingFileHandlerConfig")] {
        if matches!(above.get(key), Slot::Pointer(Some(_))) {
            below.set(key, above.get(key).clone());
        }
    }
    let values = match below.text(key!("mergeStrategy")).as_str() {
        "fallback" => [upper, lower].concat(),
        _ => [lower, upper].concat(),
    };
    below.set_values(key!("values"), values);
    below.set(key!("secrets"), Slot::texts(secrets));
}

/// Merges the environment of a later part, as mergo merges the structure.
fn merge_environment(environment: &mut Environment, later: Environment) {
    if !later.name.is_empty() {
        environment.name = later.name;
    }
    if !later.kube_context.is_empty() {
        environment.kube_context = later.kube_context;
    }
    override_map(&mut environment.values, later.values);
    override_map(&mut environment.defaults, later.defaults);
    override_map(&mut environment.overrides, later.overrides);
}
