//! Kinds of users that stand for Helmfiles: a file names the kinds, and for each the spec of a Helmfile, whose strings are templates.
//!
//! An object's text stays within the string that it is substituted into: it cannot add fields to the spec, which says with whose rights
//! releases are deployed.
//!
//! Owns the form of the file: whitebox-controller's, with `helmfile` in place of a reconciler. Programs and handlers of such a file are
//! refused.

use std::time::Duration;

use chart_compat::data::Data;
use chart_compat::world::World;
use chart_compat::yaml;
use serde::Deserialize;
use serde_json::Value as Json;

use super::api::HelmfileSpec;
use crate::error::HelmfileError;
use helmfile_compat::Error;
use helmfile_compat::host::{Entry, Forbidden, Host, Program, RenderMemory};
use helmfile_compat::template::{Field, Root, render_named};
use helmfile_compat::value::{Map, Value};
use windlass_cluster::Gvk;
use windlass_render::{RenderBounds, SystemWorld, from_json, to_json};

/// How long the template of one object may take.
const TIME_LIMIT: Duration = Duration::from_secs(1);

/// Why a template of an object gets nothing of the outside.
const NOTHING: &str = "a template of a kind sees nothing but its object";

/// A kind whose objects stand for Helmfiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomKind {
    /// Name in logs and metrics, and the owner of its releases.
    pub name: String,
    /// The kind.
    pub gvk: Gvk,
    /// The spec; its strings are templates, whose data is `.Object`.
    template: Json,
}

/// The kinds of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindsFile {
    /// They are watched beside or in place of Helmfiles.
    pub kinds: Vec<CustomKind>,
    /// Fields that have no effect.
    pub ignored: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    #[serde(default)]
    name: String,
    resources: Vec<Resource>,
    webhook: Option<Json>,
    metrics: Option<Json>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Resource {
    group: String,
    version: String,
    kind: String,
    helmfile: Option<Json>,
    reconciler: Option<Json>,
    validator: Option<Json>,
    mutator: Option<Json>,
    injector: Option<Json>,
    finalizer: Option<Json>,
    dependents: Option<Json>,
    references: Option<Json>,
    resync_period: Option<Json>,
}

impl KindsFile {
    /// Reads a file.
    ///
    /// # Errors
    /// It is not in the form, or asks for programs or handlers; the text names the field.
    pub fn parse(text: &str) -> Result<Self, HelmfileError> {
        let map = yaml::from_slice_map(text.as_bytes()).map_err(HelmfileError::cause)?;
        let file: File = serde_json::from_value(to_json(&Data::Map(map))).map_err(HelmfileError::cause)?;
        if file.webhook.is_some() {
            return Err(HelmfileError::Object(
                "webhook: the operator serves no webhooks of kinds: use a ValidatingAdmissionPolicy"
                    .to_owned(),
            ));
        }
        let mut out = Self::default();
        if file.metrics.is_some() {
            out.ignored.push("metrics: --listen-address and --listen-port say where metrics are".to_owned());
        }
        if !file.name.is_empty() {
            out.ignored.push("name: the operator has one name".to_owned());
        }
        for (at, resource) in file.resources.into_iter().enumerate() {
            let place = format!("resources[{at}]");
            let refused = [
                ("reconciler", &resource.reconciler),
                ("validator", &resource.validator),
                ("mutator", &resource.mutator),
                ("injector", &resource.injector),
            ];
            if let Some((field, _)) = refused.iter().find(|(_, value)| value.is_some()) {
                return Err(HelmfileError::Object(format!(
                    "{place}.{field}: the operator runs no programs and calls no handlers: set {place}.helmfile to the spec of \
                     a Helmfile"
                )));
            }
            let ignored = [
                ("finalizer", &resource.finalizer),
                ("dependents", &resource.dependents),
                ("references", &resource.references),
                ("resyncPeriod", &resource.resync_period),
            ];
            for (field, _) in ignored.iter().filter(|(_, value)| value.is_some()) {
                out.ignored.push(format!("{place}.{field}: releases are watched by themselves"));
            }
            let template = match resource.helmfile {
                Some(map @ Json::Object(_)) => map,
                Some(Json::String(_)) => {
                    return Err(HelmfileError::Object(format!(
                        "{place}.helmfile: it is a text: make it a map, whose strings may be templates; a string that is one \
                         action and ends in `toJson` stands for the value itself"
                    )));
                }
                _ => {
                    return Err(HelmfileError::Object(format!(
                        "{place}.helmfile: it must be the spec of a Helmfile: a map"
                    )));
                }
            };
            let Resource { group, version, kind, .. } = resource;
            if [&group, &version, &kind].iter().any(|part| part.is_empty()) {
                return Err(HelmfileError::Object(format!("{place}: group, version and kind must be set")));
            }
            let name = format!("{}.{group}", kind.to_lowercase());
            // Two front ends would own the same objects.
            if out.kinds.iter().any(|known: &CustomKind| known.name == name) {
                return Err(HelmfileError::Object(format!(
                    "{place}: {kind} of {group} is there twice: remove one of them"
                )));
            }
            out.kinds.push(CustomKind { name, gvk: Gvk { group, version, kind }, template });
        }
        Ok(out)
    }
}

fn text_map(data: &Data) -> Map {
    match Value::from_data(data) {
        Value::Map(map) => map,
        _ => Map::new(),
    }
}

impl CustomKind {
    /// The spec of the Helmfile that an object stands for.
    ///
    /// # Errors
    /// The template fails, or makes no such spec.
    pub(super) fn spec(&self, object: &Json, bounds: RenderBounds) -> Result<HelmfileSpec, HelmfileError> {
        let place = |error: HelmfileError| error.within(format!("the template of {}", self.gvk.kind));
        let fields = vec![("Object", Field::Values(text_map(&from_json(object))))];
        let deadline = RenderBounds { timeout: TIME_LIMIT, ..bounds }.deadline();
        let host = NoHost { world: SystemWorld::until(deadline, None), memory: bounds.memory };
        let root = Root::other(fields);
        let mut spec = self.template.clone();
        substitute(&mut spec, "spec", &|text| Ok(render_named(&host, "/", "helmfile", text, &root, true)?))
            .map_err(place)?;
        serde_json::from_value(spec).map_err(|error| place(HelmfileError::cause(error)))
    }
}

/// Renders each string of a value in its place. The reader of the file has bounded its depth.
fn substitute(
    value: &mut Json,
    path: &str,
    render: &dyn Fn(&str) -> Result<String, HelmfileError>,
) -> Result<(), HelmfileError> {
    match value {
        Json::String(text) => {
            let rendered = render(text).map_err(|error| error.within(&*path))?;
            *value = match is_json_action(text) {
                true => serde_json::from_str(&rendered)
                    .map_err(|error| HelmfileError::cause(error).within(path))?,
                false => Json::String(rendered),
            };
            Ok(())
        }
        Json::Array(items) => items
            .iter_mut()
            .enumerate()
            .try_for_each(|(at, item)| substitute(item, &format!("{path}[{at}]"), render)),
        Json::Object(map) => {
            map.iter_mut().try_for_each(|(key, item)| substitute(item, &format!("{path}.{key}"), render))
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => Ok(()),
    }
}

/// Whether a template is one action that ends in `toJson`, and so makes a value and no text.
fn is_json_action(template: &str) -> bool {
    let action = template.trim().strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
    let Some(action) = action.filter(|action| !action.contains("{{")) else { return false };
    let action = action.trim_matches('-').trim();
    action.starts_with("toJson ") || action.rsplit('|').next().is_some_and(|last| last.trim() == "toJson")
}

/// The outside of a template of an object: there is none.
struct NoHost {
    world: SystemWorld<'static>,
    memory: usize,
}

fn refused<T>() -> Result<T, Error> {
    Err(HelmfileError::Object(NOTHING.to_owned()).into())
}

impl Host for NoHost {
    fn world(&self) -> &dyn World {
        &self.world
    }

    fn render_memory(&self) -> RenderMemory {
        RenderMemory { bytes: self.memory, held: None }
    }

    fn without_logins(&self, text: &str) -> String {
        text.to_owned()
    }

    fn read(&self, _: &str) -> Result<Vec<u8>, Error> {
        refused()
    }

    fn is_dir(&self, _: &str) -> Option<bool> {
        None
    }

    fn read_dir(&self, _: &str) -> Result<Vec<Entry>, Error> {
        refused()
    }

    fn variable(&self, _: &str) -> Option<String> {
        None
    }

    fn forbids(&self, _: Forbidden) -> Option<String> {
        Some(NOTHING.to_owned())
    }

    fn run(&self, _: &Program) -> Result<String, Error> {
        refused()
    }

    fn fetch(&self, _: &str, _: &str) -> Result<String, Error> {
        refused()
    }

    fn secret(&self, _: &str, _: &str) -> Result<Value, Error> {
        refused()
    }

    fn decrypt(&self, _: &str) -> Result<Vec<u8>, Error> {
        refused()
    }

    fn warn(&self, _: &str) {}
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FILE: &str = r#"
name: operator
resources:
- group: example.com
  version: v1
  kind: Appliance
  helmfile:
    source: git::https://h/r@helmfile.yaml?ref={{ .Object.spec.release }}
    suspend: '{{ toJson .Object.spec.paused }}'
    values: '{{ .Object.spec.settings | toJson }}'
"#;

    fn spec_of(kind: &CustomKind, object: &Json) -> Result<HelmfileSpec, HelmfileError> {
        kind.spec(object, RenderBounds::default())
    }

    #[test]
    fn an_object_stands_for_a_helmfile() {
        let file = KindsFile::parse(FILE).unwrap();
        assert_eq!(file.ignored, ["name: the operator has one name"]);
        let kind = &file.kinds[0];
        assert_eq!(
            (kind.name.as_str(), kind.gvk.api_version().as_str()),
            ("appliance.example.com", "example.com/v1")
        );
        let spec =
            spec_of(kind, &json!({"spec": {"release": "v1", "paused": true, "settings": {"size": 2}}}))
                .unwrap();
        assert_eq!(spec.source, "git::https://h/r@helmfile.yaml?ref=v1");
        assert_eq!((&spec.values["size"], spec.suspend), (&json!(2), true));
        let told = spec_of(kind, &json!({"spec": {"settings": {}}})).unwrap_err().to_string();
        assert!(
            told.starts_with("the template of Appliance: spec.source: ") && told.contains("release"),
            "{told}"
        );
    }

    #[test]
    fn an_object_adds_no_field() {
        let kind = &KindsFile::parse(FILE).unwrap().kinds[0];
        for release in
            ["v1\nserviceAccountName: ''", "v1\", serviceAccountName: \"", "{{ .Object }}", "v1 # x"]
        {
            let object = json!({"spec": {"release": release, "paused": false, "settings": {}}});
            let spec = spec_of(kind, &object).unwrap();
            assert_eq!(spec.source, format!("git::https://h/r@helmfile.yaml?ref={release}"));
            assert_eq!(spec.service_account_name, None);
        }
        let object = json!({"spec": {"release": "v1", "paused": {"a": 1}, "settings": {}}});
        assert!(spec_of(kind, &object).unwrap_err().to_string().contains("invalid type: map"));
    }

    #[test]
    fn what_has_no_meaning_is_refused() {
        let head = "resources:\n- {group: g, version: v1, kind: K, ";
        for (text, part) in [
            ("reconciler: {exec: {command: sh}}}", "resources[0].reconciler: the operator runs no programs"),
            ("helmfile: 1}", "resources[0].helmfile: it must be"),
            ("helmfile: 'source: x'}", "resources[0].helmfile: it is a text: make it a map"),
            (
                "helmfile: {}}\n- {group: g, version: v2, kind: K, helmfile: {}}",
                "resources[1]: K of g is there twice",
            ),
            ("other: 1}", "unknown field `other`"),
        ] {
            let told = KindsFile::parse(&format!("{head}{text}")).unwrap_err().to_string();
            assert!(told.contains(part), "{told}");
        }
        let kind =
            KindsFile::parse(&format!("{head}helmfile: {{state: '{{{{ readFile \"/etc/passwd\" }}}}'}}}}"))
                .unwrap();
        let told = spec_of(&kind.kinds[0], &json!({})).unwrap_err().to_string();
        assert!(told.contains("sees nothing but its object"), "{told}");
    }
}
