//! Releases of a loaded state file: templates they inherit, expressions in their fields, labels, conditions.
//!
//! Owns how a release's fields get their final values. Does not order releases and does not know charts.

use std::collections::BTreeMap;
use std::fmt;

use super::error::Error;
use super::host::Host;
use super::load::State;
use super::paths;
use super::record::{Merge, Record, Slot};
use super::schema::Key;
use super::state_fields::{INHERIT, RELEASE};
use super::template::{ReleaseFields, Root, render};
use super::value::{Map, Value};
use super::{document, value};
use crate::key;

/// The maximal number of rounds in which expressions of a release settle.
const MAX_ROUNDS: usize = 6;
/// The maximal depth of inherited templates, beyond which only a cycle leads.
const MAX_INHERITED: usize = 256;

/// Fills the fields of every release: inherited templates, defaults, labels, expressions (`HelmState.ExecuteTemplates`).
///
/// # Errors
/// A template is unknown or inherits itself, an expression fails or never settles, or a release has no chart.
pub fn resolve(host: &dyn Host, state: &mut State) -> Result<(), Error> {
    let releases: Vec<Record> = state.fields.records(key!("releases")).cloned().collect();
    let mut resolved = Vec::with_capacity(releases.len());
    for release in &releases {
        resolved.push(resolve_one(host, state, release)?);
    }
    if state.fields.has_list(key!("releases")) {
        state.fields.set_records(key!("releases"), resolved);
    }
    Ok(())
}

fn resolve_one(host: &dyn Host, state: &State, release: &Record) -> Result<Record, Error> {
    let mut with_defaults = release.clone();
    with_defaults.set(key!("inherit"), Slot::List(Some(inherits(&state.fields, release))));
    let mut release = inherited(&state.fields, &with_defaults, &mut Vec::new())?;
    if release.text(key!("kubeContext")).is_empty() {
        let context =
            state.fields.record(key!("helmDefaults")).map(|defaults| defaults.text(key!("kubeContext")));
        release.set(key!("kubeContext"), Slot::Text(context.unwrap_or_default()));
    }
    let mut labels = release.text_map(key!("labels"));
    labels.extend(state.fields.text_map(key!("commonLabels")));
    release.set_text_map(key!("labels"), labels);
    if release.list(key!("apiVersions")).is_empty() {
        release.set(key!("apiVersions"), state.fields.get(key!("apiVersions")).clone());
    }
    if release.text(key!("kubeVersion")).is_empty() {
        release.set(key!("kubeVersion"), state.fields.get(key!("kubeVersion")).clone());
    }
    let name = release.text(key!("name"));
    let failed = |error: Error| {
        error.within(format!("failed executing templates in release \"{}\".\"{name}\"", state.file))
    };
    let mut previous = release.clone();
    for _ in 0..MAX_ROUNDS {
        let root = release_root(state, &previous, state.values.clone());
        let next = expressions(host, state, &release, &root).map_err(failed)?;
        if next.same(&previous) {
            let mut next = next;
            booleans(&mut next).map_err(failed)?;
            if next.text(key!("chart")).is_empty() {
                return Err(Error::Invalid(format!(
                    "encountered empty chart while reading release {:?}",
                    next.text(key!("name"))
                )));
            }
            return Ok(next);
        }
        previous = next;
    }
    Err(failed(Error::Invalid("recursive references can't be resolved".to_owned())))
}

/// The data of a release's templates.
#[must_use]
pub fn release_root(state: &State, release: &Record, values: Map) -> Root {
    let fields = ReleaseFields { version_field: "ChartVersion", ..hook_release(release) };
    let overrides = [key!("kubeContext"), key!("namespace"), key!("chart")].map(|key| state.fields.text(key));
    let [kube_context, namespace, chart] = overrides;
    Root::release(&state.environment, fields, values, (kube_context, namespace, chart))
}

/// The fields of a release in hooks and output paths, where the version has its own name.
#[must_use]
pub fn hook_release(release: &Record) -> ReleaseFields {
    ReleaseFields {
        name: release.text(key!("name")),
        namespace: release.text(key!("namespace")),
        labels: release.text_map(key!("labels")),
        chart: release.text(key!("chart")),
        version: release.text(key!("version")),
        version_field: "Version",
        kube_context: release.text(key!("kubeContext")),
    }
}

/// The templates that a release inherits: the defaults that it does not name itself, then its own.
fn inherits(state: &Record, release: &Record) -> Vec<Slot> {
    let own = release.list(key!("inherit"));
    let defaults = state.texts(key!("defaultInherit"));
    if defaults.is_empty() {
        return own.to_vec();
    }
    let name = |slot: &Slot| match slot {
        Slot::Struct(inherit) => inherit.text(key!("template")).trim().to_owned(),
        _ => String::new(),
    };
    let mut known: Vec<String> = own.iter().map(name).filter(|name| !name.is_empty()).collect();
    let mut out = Vec::new();
    for default in defaults {
        if !known.contains(&default) {
            let mut inherit = Record::new(&INHERIT);
            inherit.set(key!("template"), Slot::Text(default.clone()));
            out.push(Slot::Struct(inherit));
            known.push(default);
        }
    }
    out.extend(own.iter().filter(|slot| !name(slot).is_empty()).cloned());
    out
}

/// A release or template merged above what it inherits (`releaseWithInheritedTemplate`).
fn inherited(state: &Record, release: &Record, path: &mut Vec<String>) -> Result<Record, Error> {
    let mut merged = Record::new(&RELEASE);
    for inherit in release.records(key!("inherit")) {
        let name = inherit.text(key!("template"));
        if name.is_empty() {
            return Ok(release.clone());
        }
        if path.contains(&name) || path.len() > MAX_INHERITED {
            path.push(name);
            return Err(Error::Invalid(format!(
                "unable to load release {:?} with template: cyclic inheritance detected: {}",
                release.text(key!("name")),
                path.join("->")
            )));
        }
        let Some(Slot::Struct(template)) = state.map(key!("templates")).get(&name) else {
            return Err(Error::Invalid(format!(
                "release {:?} tried to inherit inexistent release template {name:?}",
                release.text(key!("name"))
            )));
        };
        path.push(name.clone());
        let mut source = inherited(state, template, path)
            .map_err(|error| error.within(format!("unable to load release template {name:?}")))?;
        path.pop();
        for field in inherit.texts(key!("except")) {
            match field.as_str() {
                "labels" => source.set(key!("labels"), Slot::Map(BTreeMap::new())),
                "values" => source.set(key!("values"), Slot::List(None)),
                "valuesTemplate" => source.set(key!("valuesTemplate"), Slot::List(None)),
                "setTemplate" => source.set(key!("setTemplate"), Slot::List(None)),
                "set" => source.set(key!("set"), Slot::List(None)),
                "setString" => source.set(key!("setString"), Slot::List(None)),
                "secrets" => source.set(key!("secrets"), Slot::List(None)),
                other => {
                    return Err(Error::Invalid(format!(
                        "{other:?} is not allowed under `inherit`. Allowed values are \"set\", \"setTemplate\", \
                         \"values\", \"valuesTemplate\", \"secrets\", and \"labels\""
                    )));
                }
            }
        }
        merged.merge(&source, Merge::Append);
    }
    merged.merge(release, Merge::Append);
    merged.set(key!("inherit"), Slot::List(None));
    Ok(merged)
}

/// Renders the expressions in the fields of a release (`ReleaseSpec.ExecuteTemplateExpressions`).
fn expressions(host: &dyn Host, state: &State, release: &Record, root: &Root) -> Result<Record, Error> {
    let mut out = release.unshared();
    let name = release.text(key!("name"));
    let base = paths::within(&state.cwd, &state.base);
    let eval = |field: &dyn fmt::Display, text: &str| {
        render(host, &base, text, root).map_err(|error| {
            error.within(format!(
                "failed executing template expressions in release \"{name}\".{field} = \"{text}\""
            ))
        })
    };
    for key in [key!("name"), key!("chart"), key!("namespace"), key!("version")] {
        let rendered = eval(&key, &out.text(key))?;
        out.set(key, Slot::Text(rendered.trim().to_owned()));
    }
    for (key, _) in BOOLEANS {
        if let Some(text) = out.optional_text(key) {
            out.set(key, Slot::pointer(Slot::Text(eval(&key, &text)?)));
        }
    }
    let mut labels = out.text_map(key!("labels"));
    for (key, label) in &mut labels {
        *label = eval(&format!("labels[{key}]"), label)?;
    }
    out.set_text_map(key!("labels"), labels);
    let arguments = out.texts(key!("postRendererArgs"));
    let arguments: Vec<String> =
        arguments.iter().map(|text| eval(&key!("postRendererArgs"), text)).collect::<Result<_, _>>()?;
    if !arguments.is_empty() {
        out.set(key!("postRendererArgs"), Slot::texts(arguments));
    }
    let mut templates = out.values(key!("valuesTemplate"));
    for (at, template) in templates.iter_mut().enumerate() {
        if let Value::Map(map) = template {
            let field = format!("values[{at}]");
            let rendered = eval(&field, &value::map_to_yaml(map))?;
            let read = document::map(&rendered).map_err(Error::from).and_then(value::text_keys);
            *template = Value::Map(read.map_err(|error| {
                error.within(format!("failed executing template expressions in release \"{name}\".{field}"))
            })?);
        }
    }
    if !templates.is_empty() {
        out.set_values(key!("valuesTemplate"), templates.clone());
        out.set_values(key!("values"), [templates, out.values(key!("values"))].concat());
    }
    for key in [key!("values"), key!("secrets")] {
        let mut values = out.values(key);
        for (at, value) in values.iter_mut().enumerate() {
            match value {
                Value::String(text) => *value = Value::String(eval(&format!("{key}[{at}]"), text)?),
                Value::AnyMap(_) if key == key!("values") => {
                    *value = std::mem::take(value).with_text_keys().map_err(|error| {
                        error.within(format!(
                            "failed executing template expressions in release \"{name}\".{key}[{at}]"
                        ))
                    })?;
                }
                _ => {}
            }
        }
        if !values.is_empty() {
            out.set_values(key, values);
        }
    }
    set_templates(&mut out, &eval)?;
    let needs = out.texts(key!("needs"));
    let needs: Vec<String> = needs
        .iter()
        .enumerate()
        .map(|(at, need)| eval(&format!("needs[{at}]"), need))
        .collect::<Result<_, _>>()?;
    if !needs.is_empty() {
        out.set(key!("needs"), Slot::texts(needs));
    }
    Ok(out)
}

/// Renders `setTemplate` and puts it before `set`.
fn set_templates(
    out: &mut Record,
    eval: &dyn Fn(&dyn fmt::Display, &str) -> Result<String, Error>,
) -> Result<(), Error> {
    let mut templates: Vec<Record> = out.records(key!("setTemplate")).cloned().collect();
    if templates.is_empty() {
        return Ok(());
    }
    for (at, template) in templates.iter_mut().enumerate() {
        for key in [key!("name"), key!("value"), key!("file")] {
            let rendered = eval(&format!("set[{at}].{key}"), &template.text(key))?;
            template.set(key, Slot::Text(rendered));
        }
        let mut values = template.values(key!("values"));
        for (index, value) in values.iter_mut().enumerate() {
            if let Value::String(text) = value {
                *value = Value::String(eval(&format!("set[{at}].values[{index}]"), text)?);
            }
        }
        if !values.is_empty() {
            template.set_values(key!("values"), values);
        }
    }
    out.set_records(key!("setTemplate"), templates.clone());
    templates.extend(out.records(key!("set")).cloned());
    out.set_records(key!("set"), templates);
    Ok(())
}

/// Templates of booleans, and the fields that their results stand for.
const BOOLEANS: [(Key, Key); 4] = [
    (key!("waitTemplate"), key!("wait")),
    (key!("installedTemplate"), key!("installed")),
    (key!("conditionTemplate"), key!("condition")),
    (key!("verifyTemplate"), key!("verify")),
];

/// Turns the results of `installedTemplate` and the like into the fields that they stand for.
fn booleans(release: &mut Record) -> Result<(), Error> {
    for (template, field) in BOOLEANS {
        let Some(text) = release.optional_text(template) else { continue };
        let value = match document::value(&text) {
            Ok(Value::Bool(value)) => value,
            Ok(Value::Null) => false,
            Ok(Value::String(word)) if ["y", "yes", "on"].contains(&word.to_lowercase().as_str()) => true,
            Ok(Value::String(word)) if ["n", "no", "off"].contains(&word.to_lowercase().as_str()) => false,
            _ => {
                return Err(Error::Invalid(format!(
                    "{template}: failed deserialising string {text}: it is not a boolean"
                )));
            }
        };
        release.set(template, Slot::Pointer(None));
        if field == key!("condition") {
            release.set(field, Slot::Text(value.to_string()));
        } else {
            release.set(field, Slot::pointer(Slot::Bool(value)));
        }
    }
    Ok(())
}

/// Whether a release is to be installed, and not uninstalled (`ReleaseSpec.Desired`).
#[must_use]
pub fn is_desired(release: &Record) -> bool {
    release.flag(key!("installed")) != Some(false)
}

/// The identity of a release: `[CONTEXT/][NAMESPACE/]NAME` (`ReleaseToID`).
#[must_use]
pub fn id(release: &Record) -> String {
    id_of(&release.text(key!("kubeContext")), &release.text(key!("namespace")), &release.text(key!("name")))
}

fn id_of(context: &str, namespace: &str, name: &str) -> String {
    match (context, namespace) {
        ("", "") => name.to_owned(),
        ("", namespace) => format!("{namespace}/{name}"),
        // An empty namespace stays visible, so that no context is taken for one.
        (context, namespace) => format!("{context}/{namespace}/{name}"),
    }
}

/// Applies the overrides of the file and the command line, and completes `needs` to identities (`ApplyOverrides`).
pub fn apply_overrides(host: &dyn Host, state: &mut State) {
    let (context, namespace) = (state.fields.text(key!("kubeContext")), state.fields.text(key!("namespace")));
    let mut installed: BTreeMap<String, bool> = BTreeMap::new();
    let effective = |own: String, over: &String| if over.is_empty() { own } else { over.clone() };
    for release in &state.original_releases {
        let context = effective(release.text(key!("kubeContext")), &context);
        let namespace = effective(release.text(key!("namespace")), &namespace);
        installed
            .insert(format!("{context}/{namespace}/{}", release.text(key!("name"))), is_desired(release));
    }
    let mut releases: Vec<Record> = state.fields.records(key!("releases")).cloned().collect();
    for release in &mut releases {
        for (key, over) in [(key!("kubeContext"), &context), (key!("namespace"), &namespace)] {
            if !over.is_empty() {
                release.set(key, Slot::Text(over.clone()));
            }
        }
        let needs: Vec<String> = release
            .texts(key!("needs"))
            .iter()
            .map(|need| complete(host, release, need, &installed))
            .collect();
        if !needs.is_empty() {
            release.set(key!("needs"), Slot::texts(needs));
        }
    }
    if !releases.is_empty() {
        state.fields.set_records(key!("releases"), releases);
    }
}

/// The identity that an entry of `needs` stands for.
fn complete(host: &dyn Host, release: &Record, need: &str, installed: &BTreeMap<String, bool>) -> String {
    let parts: Vec<&str> = need.split('/').collect();
    let (name, rest) = parts.split_last().map_or((need, &[][..]), |(name, rest)| (*name, rest));
    let (namespace, context) = match rest.split_last() {
        None => (release.text(key!("namespace")), release.text(key!("kubeContext"))),
        Some((namespace, [])) => ((*namespace).to_owned(), release.text(key!("kubeContext"))),
        Some((namespace, context)) => ((*namespace).to_owned(), context.join("/")),
    };
    if is_desired(release) && installed.get(&format!("{context}/{namespace}/{name}")) == Some(&false) {
        let own = release.text(key!("name"));
        host.warn(&format!(
            "WARNING: release {own} needs {name}, but {name} is not installed due to installed: false. Either mark {name} as \
             installed or remove {name} from {own}'s needs"
        ));
    }
    id_of(&context, &namespace, name)
}

/// Adds the labels that every release has: common ones below its own, and `name`, `namespace` and `chart` above.
pub fn add_labels(state: &mut State) {
    let common = state.fields.text_map(key!("commonLabels"));
    let mut releases: Vec<Record> = state.fields.records(key!("releases")).cloned().collect();
    for release in &mut releases {
        let mut labels = common.clone();
        labels.extend(release.text_map(key!("labels")));
        labels.insert("name".to_owned(), release.text(key!("name")));
        labels.insert("namespace".to_owned(), release.text(key!("namespace")));
        let chart = release.text(key!("chart"));
        labels.insert("chart".to_owned(), chart.rsplit('/').next().unwrap_or_default().to_owned());
        release.set_text_map(key!("labels"), labels);
    }
    if !releases.is_empty() {
        state.fields.set_records(key!("releases"), releases);
    }
}

/// Whether the condition of a release holds (`ConditionEnabled`).
///
/// # Errors
/// The condition is not a path that ends in `.enabled`, or leads to nothing.
pub fn is_enabled(release: &Record, values: &Map) -> Result<bool, Error> {
    let condition = release.text(key!("condition"));
    match condition.to_lowercase().as_str() {
        "" | "true" => return Ok(true),
        "false" => return Ok(false),
        _ => {}
    }
    let Some(path) = condition.strip_suffix("enabled").and_then(|path| match path {
        "" => Some(path),
        path => path.strip_suffix('.'),
    }) else {
        return Err(Error::Invalid(
            "Condition value must be in the form 'foo.enabled' where 'foo' can be modified as necessary"
                .to_owned(),
        ));
    };
    let mut at = values;
    let mut shown = String::new();
    for key in path.split('.').filter(|_| !path.is_empty()) {
        shown = format!("{shown}.{key}");
        at = match at.get(key) {
            None => return Err(Error::Invalid(format!("environment values field '{shown}' not found"))),
            Some(Value::Map(map)) => map,
            Some(_) => {
                return Err(Error::Invalid(format!("environment values field '{shown}' is not a map")));
            }
        };
    }
    Ok(at.get("enabled") == Some(&Value::Bool(true)))
}
