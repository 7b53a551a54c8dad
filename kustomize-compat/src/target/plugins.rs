//! Generators and transformers that are configured by objects.
//!
//! Owns which ones are built in, and the fields of their configurations. Programs and containers are refused.

use std::collections::BTreeMap;

use chart_compat::data::{Data, Map};
use chart_compat::yaml::{self};

use super::Kustomization;
use super::accumulator::Accumulator;
use crate::decode::{Mode, Struct, Type, decode, unknown_fields};
use crate::error::Error;
use crate::fieldspec::{FIELD_SPEC, FieldSpec, decode_specs};
use crate::generate::Load;
use crate::kustomization::{
    GENERATOR_OPTIONS, GeneratorArgs, HELM_CHART, IMAGE, REPLACEMENT_FIELD, REPLICA, SELECTOR,
    generator_args, image, map_text, patch_source, selector, texts,
};
use crate::load::{Chart, base};
use crate::patch::LoadedPatch;
use crate::patch::json6902::JsonPatch;
use crate::resource::{Gvk, Objects, Resource, read_within, to_data};
use crate::selector::Selector;
use crate::transform::affixes::Affix;
use crate::transform::images::Image;
use crate::transform::namespace::{Namespace, Subjects};
use crate::transform::replacements::{FieldOptions, Replacement, Source, Target};
use crate::transform::replicas::Replicas;
use crate::transform::value_add::{ValueAdd, ValueTarget};

/// A generator that is configured.
pub(super) enum Generator {
    ConfigMap(GeneratorArgs),
    Secret(GeneratorArgs),
    Chart(Chart),
    IamPolicy(Resource),
}

/// A transformer that is configured.
pub(super) enum Transformer {
    StrategicMerge(Vec<Resource>),
    Patch(LoadedPatch),
    Namespace(Namespace),
    Affix(Affix),
    /// Labels or annotations, and their fields.
    Pairs(BTreeMap<String, String>, Vec<FieldSpec>),
    Json(Selector, JsonPatch),
    Replicas(Replicas),
    /// An image, the suffix of its tag, and fields of images.
    Image(Image, String, Vec<FieldSpec>),
    Replacements(Vec<Replacement>),
    ValueAdd(ValueAdd),
    Hash,
    All(Vec<Transformer>),
}

const TEXTS: Type = Type::List(&Type::Text);
const SPECS: Type = Type::List(&Type::Struct(&FIELD_SPEC));
static META: Struct =
    Struct { go: "types.ObjectMeta", fields: &[("name", Type::Text), ("namespace", Type::Text)] };
static VALUE_TARGET: Struct = Struct {
    go: "builtins.Target",
    fields: &[
        ("selector", Type::Pointer(&SELECTOR)),
        ("fieldPath", Type::Text),
        ("filePathPosition", Type::Int("int")),
    ],
};
static SERVICE: Struct =
    Struct { go: "types.KubernetesService", fields: &[("name", Type::Text), ("namespace", Type::Text)] };
static ACCOUNT: Struct =
    Struct { go: "types.ServiceAccount", fields: &[("name", Type::Text), ("projectId", Type::Text)] };
static OPTIONS: Struct = Struct {
    go: "types.PatchArgs",
    fields: &[("allowNameChange", Type::Bool), ("allowKindChange", Type::Bool)],
};

/// The fields of all built-in plugins: each reads its own, and others do not count.
macro_rules! plugins {
    ($($name:ident: $kind:literal { $($field:literal: $type:expr),* $(,)? })*) => {
        $(static $name: Struct = Struct { go: concat!("builtins.", $kind, "Plugin"), fields: &[$(($field, $type)),*] };)*
        fn fields_of(kind: &str) -> Option<&'static Struct> {
            match kind {
                $($kind => Some(&$name),)*
                _ => None,
            }
        }
    };
}

plugins! {
    CONFIG_MAP: "ConfigMapGenerator" {
        "metadata": Type::Struct(&META), "name": Type::Text, "namespace": Type::Text, "behavior": Type::Text,
        "literals": TEXTS, "files": TEXTS, "envs": TEXTS, "env": Type::Text,
        "options": Type::Pointer(&GENERATOR_OPTIONS),
    }
    SECRET: "SecretGenerator" {
        "metadata": Type::Struct(&META), "name": Type::Text, "namespace": Type::Text, "behavior": Type::Text,
        "literals": TEXTS, "files": TEXTS, "envs": TEXTS, "env": Type::Text, "type": Type::Text,
        "options": Type::Pointer(&GENERATOR_OPTIONS),
    }
    CHART: "HelmChartInflationGenerator" {
        "chartHome": Type::Text, "configHome": Type::Text,
    }
    IAM_POLICY: "IAMPolicyGenerator" {
        "cloud": Type::Text, "kubernetesService": Type::Struct(&SERVICE), "serviceAccount": Type::Struct(&ACCOUNT),
    }
    ANNOTATIONS: "AnnotationsTransformer" { "annotations": Type::Map(&Type::Text), "fieldSpecs": SPECS }
    LABELS: "LabelTransformer" { "labels": Type::Map(&Type::Text), "fieldSpecs": SPECS }
    HASH: "HashTransformer" {}
    IMAGE_TAG: "ImageTagTransformer" { "imageTag": Type::Struct(&IMAGE), "fieldSpecs": SPECS }
    NAMESPACE: "NamespaceTransformer" {
        "metadata": Type::Struct(&META), "fieldSpecs": SPECS, "unsetOnly": Type::Bool,
        "setRoleBindingSubjects": Type::Text,
    }
    JSON_PATCH: "PatchJson6902Transformer" {
        "target": Type::Pointer(&SELECTOR), "path": Type::Text, "jsonOp": Type::Text,
    }
    MERGE_PATCH: "PatchStrategicMergeTransformer" { "paths": TEXTS, "patches": Type::Text }
    PATCH: "PatchTransformer" {
        "path": Type::Text, "patch": Type::Text, "target": Type::Pointer(&SELECTOR),
        "options": Type::Pointer(&OPTIONS),
    }
    PREFIX_SUFFIX: "PrefixSuffixTransformer" {
        "prefix": Type::Text, "suffix": Type::Text, "fieldSpecs": SPECS,
    }
    PREFIX: "PrefixTransformer" { "prefix": Type::Text, "fieldSpecs": SPECS }
    SUFFIX: "SuffixTransformer" { "suffix": Type::Text, "fieldSpecs": SPECS }
    REPLACEMENT: "ReplacementTransformer" { "replacements": Type::List(&Type::Struct(&REPLACEMENT_FIELD)) }
    REPLICA_COUNT: "ReplicaCountTransformer" { "replica": Type::Struct(&REPLICA), "fieldSpecs": SPECS }
    VALUE_ADD: "ValueAddTransformer" {
        "value": Type::Text, "targets": Type::List(&Type::Struct(&VALUE_TARGET)), "targetFilePath": Type::Text,
    }
}

fn text(data: &Data, key: &str) -> String {
    data.get(key).and_then(Data::as_str).unwrap_or_default().to_owned()
}

fn items<'d>(data: &'d Data, key: &str) -> &'d [Data] {
    data.get(key).and_then(Data::as_list).unwrap_or_default()
}

fn flag(data: &Data, key: &str) -> bool {
    data.get(key).and_then(Data::as_bool).unwrap_or_default()
}

#[allow(clippy::cast_possible_truncation, reason = "whole numbers, checked when decoded")]
fn number(data: &Data, key: &str) -> i64 {
    match data.get(key) {
        Some(Data::Int(n)) => *n,
        Some(Data::Float(n)) => *n as i64,
        _ => 0,
    }
}

pub(super) fn replicas(data: &Data) -> Replicas {
    Replicas { name: text(data, "name"), count: number(data, "count"), fields: Vec::new() }
}

/// The replacements of a list, some of which are files.
pub(super) fn replacements(list: &[Data], load: Load<'_>) -> Result<Vec<Replacement>, Error> {
    let mut out = Vec::new();
    for (at, data) in list.iter().enumerate() {
        let place = format!("replacements[{at}]");
        let path = text(data, "path");
        if path.is_empty() {
            out.push(replacement(data, place));
            continue;
        }
        if data.get("source").is_some() || !items(data, "targets").is_empty() {
            return Err(Error::text("cannot specify both path and inline replacement"));
        }
        let content = load(&path)?;
        let read = yaml::from_slice(&content).map_err(|e| Error::text(e.to_string()))?;
        let one = |data: &Data, part: String| {
            let map = decode(data, &REPLACEMENT_FIELD, Mode::Lenient).map_err(Error::Text)?;
            let made = replacement(&Data::Map(map), format!("{place} ({path}{part})"));
            Ok::<_, Error>(Replacement { unknown: unknown_fields(data, &REPLACEMENT_FIELD), ..made })
        };
        match &read {
            Data::List(list) => {
                for (at, data) in list.iter().enumerate() {
                    out.push(one(data, format!(", item {at}"))?);
                }
            }
            Data::Map(_) => out.push(one(&read, String::new())?),
            other => {
                let kind = match other {
                    Data::String(_) => "string",
                    Data::Bool(_) => "bool",
                    Data::Int(_) | Data::Float(_) => "float64",
                    _ => "invalid",
                };
                return Err(Error::text(format!(
                    "unsupported replacement type encountered within replacement path: {kind}"
                )));
            }
        }
    }
    Ok(out)
}

fn replacement(data: &Data, place: String) -> Replacement {
    let options = |data: &Data| {
        data.get("options").map(|options| FieldOptions {
            delimiter: text(options, "delimiter"),
            index: number(options, "index"),
            create: flag(options, "create"),
        })
    };
    let source = |data: &Data| Source {
        gvk: Gvk { group: text(data, "group"), version: text(data, "version"), kind: text(data, "kind") },
        name: text(data, "name"),
        namespace: text(data, "namespace"),
        field_path: text(data, "fieldPath"),
        options: options(data),
    };
    let target = |data: &Data| Target {
        select: data.get("select").map(selector),
        reject: items(data, "reject").iter().map(selector).collect(),
        field_paths: texts(data.get("fieldPaths")),
        options: options(data),
    };
    let targets = data.get("targets").and_then(Data::as_list);
    Replacement {
        source: data.get("source").map(source),
        source_value: data.get("sourceValue").and_then(Data::as_str).map(str::to_owned),
        targets: targets.map(|list| list.iter().map(target).collect()),
        place,
        unknown: Vec::new(),
    }
}

/// Kind and fields of a plugin's configuration.
struct Config {
    kind: String,
    data: Data,
    /// All fields as they are written.
    raw: Data,
}

impl Kustomization<'_> {
    /// The objects that configure plugins, each with its place for hints: entries are objects themselves, or paths as those of
    /// `resources`.
    pub(super) fn plugin_objects(
        &mut self,
        entries: &[String],
        doing: &str,
    ) -> Result<Vec<(Resource, String)>, Error> {
        let mut all = Accumulator::default();
        let (mut paths, mut places) = (Vec::new(), Vec::new());
        for entry in entries {
            let mut own = Objects::default();
            match read_within(entry, self.session.room)
                .and_then(|list| own.add_all(list, self.session.schemas))
            {
                Err(_) => paths.push(entry.clone()),
                Ok(()) => {
                    let mut list = own.into_items();
                    if let Some(origin) = &self.origin {
                        let text = origin.append(self.file_name).to_yaml();
                        list.iter_mut()
                            .try_for_each(|object| object.set_annotation(crate::resource::ORIGIN, &text))?;
                    }
                    all.objects
                        .add_all(list, self.session.schemas)
                        .map_err(|e| e.within(doing.to_owned()))?;
                }
            }
        }
        places.resize(all.objects.items().len(), String::new());
        for path in paths {
            all = self.accumulate_resources(all, std::slice::from_ref(&path))?;
            places.resize(all.objects.items().len(), format!("{path}: "));
        }
        let placed = |(object, place): (Resource, String)| {
            let id = object.id(self.session.schemas);
            (object, format!("{place}{} {:?}", id.gvk.kind, id.name))
        };
        Ok(all.objects.into_items().into_iter().zip(places).map(placed).collect())
    }

    fn plugin_config(&self, config: &Resource) -> Result<Config, Error> {
        let id = config.id(self.session.schemas);
        if !id.gvk.group.is_empty() || id.gvk.version != "builtin" {
            let kind = &config.original_id(self.session.schemas).gvk.kind;
            return Err(Error::text(format!(
                "external plugins disabled; unable to load external plugin '{kind}'"
            )));
        }
        let fields = fields_of(&id.gvk.kind)
            .ok_or_else(|| Error::text(format!("unable to load builtin {}", id.gvk)))?;
        let raw = to_data(&config.node)?;
        let data = decode(&raw, fields, Mode::Lenient).map_err(|e| {
            Error::text(format!("error unmarshaling JSON: while decoding JSON: {e}"))
                .within(format!("plugin {id} fails configuration"))
        })?;
        Ok(Config { kind: id.gvk.kind, data: Data::Map(data), raw })
    }

    pub(super) fn load_generator(&self, object: &Resource) -> Result<Generator, Error> {
        let id = object.original_id(self.session.schemas);
        let Config { kind, data, raw } = self.plugin_config(object)?;
        let failed = |e: Error| e.within(format!("plugin {id} fails configuration"));
        let args = || {
            let mut args = generator_args(&data);
            let metadata = data.get("metadata").cloned().unwrap_or_default();
            for (ours, key) in [(&mut args.name, "name"), (&mut args.namespace, "namespace")] {
                if ours.is_empty() {
                    *ours = text(&metadata, key);
                }
            }
            args
        };
        match kind.as_str() {
            "ConfigMapGenerator" => Ok(Generator::ConfigMap(args())),
            "SecretGenerator" => Ok(Generator::Secret(args())),
            "HelmChartInflationGenerator" => {
                let fields = decode(&raw, &HELM_CHART, Mode::Lenient).map_err(|e| failed(Error::Text(e)))?;
                let chart = Chart {
                    fields,
                    chart_home: text(&data, "chartHome"),
                    config_home: text(&data, "configHome"),
                    root: self.loader.directory().to_owned(),
                };
                self.check_chart(&chart).map_err(failed)?;
                Ok(Generator::Chart(chart))
            }
            "IAMPolicyGenerator" => iam_policy(&data).map(Generator::IamPolicy),
            _ => Err(Error::text(format!("plugin {id} not a generator"))),
        }
    }

    pub(super) fn load_transformer(&self, object: &Resource) -> Result<Transformer, Error> {
        let id = object.original_id(self.session.schemas);
        let Config { kind, data, raw } = self.plugin_config(object)?;
        let failed = |e: Error| e.within(format!("plugin {id} fails configuration"));
        let specs = || decode_specs(data.get("fieldSpecs"));
        let affix = |key: &str, is_suffix: bool| {
            if data.get("fieldSpecs").is_none() {
                return Err(failed(Error::text("fieldSpecs is not expected to be nil")));
            }
            Ok(Transformer::Affix(Affix { text: text(&data, key), is_suffix, fields: specs() }))
        };
        let part = |key: &str| data.get(key).cloned().unwrap_or_default();
        Ok(match kind.as_str() {
            "AnnotationsTransformer" => Transformer::Pairs(map_text(data.get("annotations")), specs()),
            "LabelTransformer" => Transformer::Pairs(map_text(data.get("labels")), specs()),
            "HashTransformer" => Transformer::Hash,
            "ImageTagTransformer" => {
                let (image, suffix) = image(&part("imageTag"));
                Transformer::Image(image, suffix, specs())
            }
            "NamespaceTransformer" => Transformer::Namespace(Namespace {
                namespace: text(&part("metadata"), "namespace"),
                fields: specs(),
                unset_only: flag(&data, "unsetOnly"),
                subjects: Subjects::parse(&text(&data, "setRoleBindingSubjects")).map_err(failed)?,
            }),
            "PatchJson6902Transformer" => {
                let mut source = patch_source(&data);
                source.patch = text(&data, "jsonOp");
                self.load_json_patch(&source).map_err(failed)?
            }
            "PatchStrategicMergeTransformer" => Transformer::StrategicMerge(
                self.load_merges(&texts(data.get("paths")), &text(&data, "patches")).map_err(failed)?,
            ),
            "PatchTransformer" => {
                let shown = yaml::to_string(&raw).map_err(|e| Error::text(e.to_string()))?;
                Transformer::Patch(self.load_patch(&patch_source(&data), &shown).map_err(failed)?)
            }
            "PrefixSuffixTransformer" => {
                Transformer::All(vec![affix("prefix", false)?, affix("suffix", true)?])
            }
            "PrefixTransformer" => affix("prefix", false)?,
            "SuffixTransformer" => affix("suffix", true)?,
            "ReplacementTransformer" => {
                let list = items(&data, "replacements");
                let mut list = replacements(list, &|path| self.loader.load(path)).map_err(failed)?;
                for (one, data) in list.iter_mut().zip(items(&raw, "replacements")) {
                    // Those of files have theirs already.
                    if text(data, "path").is_empty() {
                        one.unknown = unknown_fields(data, &REPLACEMENT_FIELD);
                    }
                }
                Transformer::Replacements(list)
            }
            "ReplicaCountTransformer" => {
                Transformer::Replicas(Replicas { fields: specs(), ..replicas(&part("replica")) })
            }
            "ValueAddTransformer" => Transformer::ValueAdd(self.value_add(&data).map_err(failed)?),
            _ => return Err(Error::text(format!("plugin {id} not a transformer"))),
        })
    }

    fn value_add(&self, data: &Data) -> Result<ValueAdd, Error> {
        let mut value = text(data, "value").trim().to_owned();
        if value.is_empty() {
            value = base(self.loader.directory());
        }
        let mut targets = items(data, "targets").to_vec();
        let path = text(data, "targetFilePath");
        if !path.is_empty() {
            let content = self.loader.load(&path)?;
            let read = yaml::from_slice(&content).map_err(|e| Error::text(e.to_string()))?;
            let map = decode(&read, &VALUE_ADD, Mode::Lenient).map_err(Error::Text)?;
            targets.extend_from_slice(items(&Data::Map(map), "targets"));
        }
        if targets.is_empty() {
            return Err(Error::text("must specify at least one target"));
        }
        let target = |data: &Data| {
            let field_path = text(data, "fieldPath");
            let position = number(data, "filePathPosition");
            if field_path.is_empty() {
                return Err(Error::text("fieldPath cannot be empty"));
            }
            if position < 0 {
                return Err(Error::text(format!(
                    "value of FilePathPosition ({position}) cannot be negative"
                )));
            }
            Ok(ValueTarget { selector: data.get("selector").map(selector), field_path, position })
        };
        Ok(ValueAdd { value, targets: targets.iter().map(target).collect::<Result<_, _>>()? })
    }
}

/// The ServiceAccount of a cloud's account.
fn iam_policy(data: &Data) -> Result<Resource, Error> {
    let cloud = text(data, "cloud");
    if cloud != "gke" {
        return Err(Error::text(format!("cloud provider {cloud} not supported yet")));
    }
    let part = |key: &str| data.get(key).cloned().unwrap_or_default();
    let (service, account) = (part("kubernetesService"), part("serviceAccount"));
    let mail = format!("{}@{}.iam.gserviceaccount.com", text(&account, "name"), text(&account, "projectId"));
    let annotations = Map::from([("iam.gke.io/gcp-service-account".to_owned(), Data::String(mail))]);
    let mut metadata = Map::from([
        ("annotations".to_owned(), Data::Map(annotations)),
        ("name".to_owned(), Data::String(text(&service, "name"))),
    ]);
    let namespace = text(&service, "namespace");
    if !namespace.is_empty() {
        metadata.insert("namespace".to_owned(), Data::String(namespace));
    }
    let object = Map::from([
        ("apiVersion".to_owned(), Data::from("v1")),
        ("kind".to_owned(), Data::from("ServiceAccount")),
        ("metadata".to_owned(), Data::Map(metadata)),
    ]);
    Ok(Resource::new(crate::resource::from_data(&Data::Map(object))))
}
