//! The values of a chart that decide which objects it makes, and the settings of each that are worth a render.
//!
//! Owns the settings: those that a schema lists, those that templates compare with, and the opposite of the default. What a setting
//! leads to is known after the render alone.

use std::collections::BTreeSet;

use chart_compat::analysis::{Gates, gates};
use chart_compat::chart::Chart;
use chart_compat::path::{Path, Step};
use chart_compat::profile::Profile;
use chart_compat::render::default_api_versions;
use serde_json::{Value, json};

use crate::chart_definition::DefinitionError;
use crate::example_object::example;
use crate::pairwise::Choice;
use crate::subchart_values::{defaults, overlay, spec_schema};
use crate::{Object, Warning};

/// Most switches of a chart.
pub const MAX_SWITCHES: usize = 256;
/// Most settings of one switch.
const MAX_SETTINGS: usize = 8;

/// A choice that decides which objects a chart makes.
#[derive(Clone, Debug, PartialEq)]
pub enum Switch {
    /// A value, with settings besides its default.
    Value(Path, Vec<Setting>),
    /// Whether the cluster serves an API version.
    ApiVersion(String),
}

/// A setting of a value, in several forms where its type is not known: the first one that a chart renders with is used.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    forms: Vec<Value>,
    used: usize,
}

impl From<Value> for Setting {
    fn from(value: Value) -> Self {
        Self { forms: vec![value], used: 0 }
    }
}

impl Setting {
    fn of(forms: Vec<Value>) -> Self {
        Self { forms, used: 0 }
    }

    fn value(&self) -> &Value {
        self.forms.get(self.used).unwrap_or(&Value::Null)
    }
}

/// The switches of a chart.
#[derive(Clone, Debug, Default)]
pub struct Switches {
    /// The switches, those of dependencies first.
    pub all: Vec<Switch>,
    /// Switches beyond [`MAX_SWITCHES`].
    pub left_out: Vec<Switch>,
    /// Whether all templates were followed to their end.
    pub is_complete: bool,
}

impl Switch {
    fn settings(&self) -> usize {
        match self {
            Self::Value(_, settings) => settings.len(),
            Self::ApiVersion(_) => 1,
        }
    }

    /// The setting of a choice for people: `a.b=true`, or the API version.
    #[must_use]
    pub fn setting_text(&self, setting: usize) -> String {
        match self {
            Self::Value(path, settings) => {
                format!("{path}={}", settings.get(setting).map_or(&Value::Null, Setting::value))
            }
            Self::ApiVersion(version) => version.clone(),
        }
    }
}

impl Switches {
    /// Finds the switches of a chart. `base`: values over those of the chart, from which each combination starts.
    ///
    /// # Errors
    /// The chart's values or its schema cannot be read.
    pub fn of(chart: &Chart, base: &Value, profile: Profile) -> Result<Self, DefinitionError> {
        let mut values = defaults(chart, 0)
            .map_err(|error| DefinitionError::Values { chart: chart.name().to_owned(), error })?;
        let schema = spec_schema(chart, &values, "$", 0, &mut Vec::new())?;
        overlay(&mut values, base);
        let found = gates(chart, profile);
        let mut all = value_switches(&found, &values, &schema);
        all.extend(unserved(&found.api_versions).map(Switch::ApiVersion));
        let left_out = all.split_off(all.len().min(MAX_SWITCHES));
        Ok(Self { all, left_out, is_complete: found.is_complete })
    }

    /// Goes on to the next form of a setting. After the last one it is the first one again, and the answer is no.
    pub fn use_next_form(&mut self, (switch, setting): Choice) -> bool {
        let Some(Switch::Value(_, settings)) = self.all.get_mut(switch) else { return false };
        let Some(setting) = settings.get_mut(setting) else { return false };
        setting.used = (setting.used + 1) % setting.forms.len().max(1);
        setting.used > 0
    }

    /// The number of settings of each switch.
    #[must_use]
    pub fn counts(&self) -> Vec<usize> {
        self.all.iter().map(Switch::settings).collect()
    }

    /// The values and API versions of a combination, with the values laid over `base`.
    #[must_use]
    pub fn combination(&self, base: &Value, row: &[Choice]) -> (Value, Vec<String>) {
        let (mut values, mut versions) = (base.clone(), Vec::new());
        let mut chosen = Vec::new();
        for (switch, setting) in row {
            match self.all.get(*switch) {
                Some(Switch::Value(path, settings)) => {
                    chosen.extend(settings.get(*setting).map(|setting| (path, setting.value())));
                }
                Some(Switch::ApiVersion(version)) => versions.push(version.clone()),
                None => {}
            }
        }
        // A value before what is below it.
        chosen.sort_by_key(|(path, _)| path.0.len());
        for (path, value) in chosen {
            set(&mut values, &path.0, value);
        }
        (values, versions)
    }
}

fn set(values: &mut Value, path: &[Step], value: &Value) {
    let Some((Step::Key(key), rest)) = path.split_first() else {
        *values = value.clone();
        return;
    };
    if !values.is_object() {
        *values = json!({});
    }
    set(&mut values[key.as_str()], rest, value);
}

/// Switches of values: those of dependencies, those in conditions, then enumerations of the schema.
fn value_switches(found: &Gates, values: &Value, schema: &Object) -> Vec<Switch> {
    let mut paths: Vec<Path> = found.dependencies.iter().cloned().collect();
    paths.extend(found.values.keys().cloned());
    enumerations(schema, &Path::default(), &mut paths);
    let mut seen = BTreeSet::new();
    paths.retain(|path| seen.insert(path.clone()));
    let none = BTreeSet::new();
    paths
        .into_iter()
        .filter_map(|path| {
            let compared = found.values.get(&path).unwrap_or(&none);
            let settings = settings(value_at(values, &path), compared, schema_at(schema, &path).as_ref());
            (!settings.is_empty()).then_some(Switch::Value(path, settings))
        })
        .collect()
}

/// The named values whose schema lists what they may be.
fn enumerations(schema: &Object, at: &Path, out: &mut Vec<Path>) {
    for (key, inside) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let Value::Object(inside) = inside else { continue };
        let path = at.key(key);
        enumerations(inside, &path, out);
        if inside.contains_key("enum") {
            out.push(path);
        }
    }
}

fn value_at<'v>(values: &'v Value, path: &Path) -> Option<&'v Value> {
    path.0.iter().try_fold(values, |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::Index(index) => value.get(index),
    })
}

fn schema_at(schema: &Object, path: &Path) -> Option<Object> {
    let inside = path.0.iter().try_fold(schema, |schema, step| match step {
        Step::Key(key) => schema.get("properties")?.get(key)?.as_object(),
        Step::Index(_) => None,
    });
    inside.cloned()
}

/// The settings of a value besides its default.
fn settings(default: Option<&Value>, compared: &BTreeSet<String>, schema: Option<&Object>) -> Vec<Setting> {
    let listed = schema.and_then(|schema| schema.get("enum")).and_then(Value::as_array);
    let listed = listed.into_iter().flatten().filter(|value| default != Some(value) && !value.is_null());
    let mut out: Vec<Setting> = listed.cloned().map(Setting::from).collect();
    let is_listed = !out.is_empty();
    let texts =
        compared.iter().map(|text| json!(text)).filter(|text| default != Some(text)).map(Setting::from);
    match default {
        Some(Value::Bool(on)) if !is_listed => out.push(json!(!on).into()),
        Some(Value::Number(number)) if !is_listed => {
            out.push(json!(i64::from(number.as_f64() == Some(0.0))).into());
        }
        Some(Value::String(text)) if !is_listed => {
            out.extend(texts);
            let other = json!(if text.is_empty() { "example" } else { "" }).into();
            out.extend((!out.contains(&other)).then_some(other));
        }
        Some(Value::Array(items)) if items.is_empty() => out.push(Setting::of(lists(schema))),
        Some(Value::Object(map)) if map.is_empty() => out.push(Setting::of(maps())),
        Some(Value::Null) | None if !is_listed => match schema.and_then(|s| s.get("type")?.as_str()) {
            _ if !compared.is_empty() => out.extend(texts),
            Some("string") => out.push(json!("example").into()),
            Some("integer" | "number") => out.push(json!(1).into()),
            Some("array") => out.push(Setting::of(lists(schema))),
            Some("object") => out.push(Setting::of(maps())),
            Some("boolean") => out.push(json!(true).into()),
            _ => {
                let scalars = vec![json!(true), json!("example"), json!(1)];
                out.push(Setting::of([scalars, maps(), lists(schema)].concat()));
            }
        },
        _ => {}
    }
    out.truncate(MAX_SETTINGS);
    out
}

/// Lists with one item: as the schema has it; without one a text or a map.
fn lists(schema: Option<&Object>) -> Vec<Value> {
    let items = schema.and_then(|schema| schema.get("items")).and_then(Value::as_object);
    match items.filter(|items| items.contains_key("type")) {
        Some(item) => vec![json!([example(item, "$", &mut Vec::<Warning>::new())])],
        None => vec![json!(["example"]), json!([{"name": "example"}])],
    }
}

/// Maps with one entry: a text, a map, a list.
fn maps() -> Vec<Value> {
    [json!("example"), json!({"example": "example"}), json!(["example"])]
        .map(|value| json!({"example": value}))
        .into()
}

/// API versions that are not Kubernetes' own: an API server may serve them or not.
fn unserved(versions: &BTreeSet<String>) -> impl Iterator<Item = String> {
    let group = |version: &str| match version.split_once('/') {
        Some((group, _)) => group.to_owned(),
        None => String::new(),
    };
    let mut own: BTreeSet<String> = default_api_versions().iter().map(|version| group(version)).collect();
    own.insert("extensions".to_owned());
    versions.iter().filter(move |version| !own.contains(&group(version))).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use chart_compat::chart::{File, load_files};

    fn chart(files: &[(&str, &str)]) -> Chart {
        let metadata = ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
        let all = files.iter().chain([&metadata]);
        let files = all.map(|(name, text)| File::new((*name).to_owned(), text.as_bytes().to_vec())).collect();
        load_files(files, Profile::Helm4, &mut drop).unwrap()
    }

    #[test]
    fn settings_are_what_the_default_is_not() {
        let compared = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        for (default, texts, schema, expected) in [
            (Some(json!(false)), &[][..], json!({}), json!([true])),
            (Some(json!(true)), &["true"], json!({}), json!([false])),
            (Some(json!(0)), &[], json!({}), json!([1])),
            (Some(json!(3)), &[], json!({}), json!([0])),
            (Some(json!("")), &[], json!({}), json!(["example"])),
            (Some(json!("a")), &["a", "b"], json!({}), json!(["b", ""])),
            (Some(json!("a")), &["b"], json!({"enum": ["a", "c"]}), json!(["c"])),
            (Some(json!([])), &[], json!({}), json!([["example"]])),
            (
                Some(json!([])),
                &[],
                json!({"items": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}}),
                json!([[{"n": 1}]]),
            ),
            (Some(json!([1])), &[], json!({}), json!([])),
            (Some(json!({})), &[], json!({}), json!([{"example": "example"}])),
            (Some(json!({"a": 1})), &[], json!({}), json!([])),
            (None, &[], json!({}), json!([true])),
            (None, &["x"], json!({}), json!(["x"])),
            (Some(Value::Null), &[], json!({"type": "string"}), json!(["example"])),
        ] {
            let found = settings(default.as_ref(), &compared(texts), schema.as_object());
            let found: Vec<&Value> = found.iter().map(Setting::value).collect();
            assert_eq!(json!(found), expected, "{default:?} {texts:?} {schema}");
        }
    }

    #[test]
    fn a_value_of_no_type_has_several_forms() {
        let all = vec![Switch::Value(Path::parse("a").unwrap(), settings(None, &BTreeSet::new(), None))];
        let mut switches = Switches { all, ..Switches::default() };
        let mut texts = vec![switches.all[0].setting_text(0)];
        while switches.use_next_form((0, 0)) {
            texts.push(switches.all[0].setting_text(0));
        }
        assert_eq!(
            texts,
            [
                "a=true",
                "a=\"example\"",
                "a=1",
                "a={\"example\":\"example\"}",
                "a={\"example\":{\"example\":\"example\"}}",
                "a={\"example\":[\"example\"]}",
                "a=[\"example\"]",
                "a=[{\"name\":\"example\"}]",
            ]
        );
        assert_eq!(switches.all[0].setting_text(0), "a=true");
    }

    #[test]
    fn switches_are_values_in_conditions_enumerations_and_api_versions() {
        let template = "{{ if .Values.on }}{{ if .Values.set }}x{{ end }}{{ end }}\
            {{ if .Capabilities.APIVersions.Has \"batch/v1/CronJob\" }}x{{ end }}\
            {{ if .Capabilities.APIVersions.Has \"extensions/v1beta1\" }}x{{ end }}\
            {{ if .Capabilities.APIVersions.Has \"monitoring.test/v1\" }}x{{ end }}";
        let schema = json!({"properties": {"kind": {"enum": ["A", "B"]}}}).to_string();
        let chart = chart(&[
            ("templates/a.yaml", template),
            ("values.yaml", "on: false\nset: true\nkind: A\nnever: false\n"),
            ("values.schema.json", &schema),
        ]);
        let switches = Switches::of(&chart, &json!({"set": false}), Profile::Helm4).unwrap();
        let texts: Vec<String> = switches.all.iter().map(|switch| switch.setting_text(0)).collect();
        assert_eq!(texts, ["on=true", "set=true", "kind=\"B\"", "monitoring.test/v1"]);
        assert_eq!((switches.counts(), switches.is_complete), (vec![1, 1, 1, 1], true));
        let (values, versions) = switches.combination(&json!({"set": false}), &[(0, 0), (3, 0)]);
        assert_eq!(values, json!({"set": false, "on": true}));
        assert_eq!(versions, ["monitoring.test/v1"]);
    }

    #[test]
    fn a_value_is_set_before_what_is_below_it() {
        let path = |text: &str| Path::parse(text).unwrap();
        let deep = Switch::Value(path("a.b"), vec![json!(true).into()]);
        let all = vec![deep, Switch::Value(path("a"), vec![json!({"example": "example"}).into()])];
        let switches = Switches { all, ..Switches::default() };
        let (values, _) = switches.combination(&json!({}), &[(0, 0), (1, 0)]);
        assert_eq!(values, json!({"a": {"b": true, "example": "example"}}));
    }
}
