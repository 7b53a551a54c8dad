//! The CustomResourceDefinition of a chart.

use chart_compat::chart::Chart;
use serde_json::{Value, json};

use crate::example_object::example;
use crate::kind_names::KindNames;
use crate::schema_overlay::{Overlay, OverlayError};
use crate::structural_schema::anything;
use crate::subchart_values::{defaults, spec_schema};
use crate::{Object, Warning};

/// The largest CustomResourceDefinition, in bytes of JSON: etcd's limit of a request is 1.5 MiB.
const MAX_BYTES: usize = 1 << 20;
/// Levels that a schema keeps where it is too large, at most and at least.
const LEVELS: std::ops::RangeInclusive<usize> = 1..=8;

/// What a definition is made with.
#[derive(Clone, Debug)]
pub struct DefinitionOptions {
    /// The names of the kind.
    pub names: KindNames,
    /// Edits by hand.
    pub overlay: Option<Overlay>,
}

/// A chart's CustomResourceDefinition.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// The CustomResourceDefinition.
    pub crd: Value,
    /// An object of the kind, with what its schema requires.
    pub example: Value,
    /// What the schema does not check.
    pub warnings: Vec<Warning>,
}

/// A chart of which no definition can be made.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// `values.schema.json` is not JSON.
    #[error("chart {chart}: values.schema.json: {error}")]
    Schema {
        /// The chart.
        chart: String,
        /// The reason.
        error: serde_json::Error,
    },
    /// `values.yaml` has no JSON form.
    #[error("chart {chart}: values.yaml: {error}")]
    Values {
        /// The chart.
        chart: String,
        /// The reason.
        error: String,
    },
    /// The overlay.
    #[error(transparent)]
    Overlay(#[from] OverlayError),
}

/// Makes the definition of a chart, and an example.
///
/// # Errors
/// The chart's schema or values cannot be read, or the overlay leads to a schema that the API server refuses.
pub fn define(chart: &Chart, options: &DefinitionOptions) -> Result<Definition, DefinitionError> {
    let mut warnings = Vec::new();
    let values = defaults(chart, 0)
        .map_err(|error| DefinitionError::Values { chart: chart.name().to_owned(), error })?;
    let mut schema = spec_schema(chart, &values, "$", 0, &mut warnings)?;
    let text = format!("Values of the chart {} {}.", chart.name(), chart.metadata.version);
    schema.insert("description".to_owned(), json!(text));
    let mut spec = Value::Object(schema);
    if let Some(overlay) = &options.overlay {
        overlay.apply(&mut spec)?;
    }
    let crd = within_limit(chart, &options.names, spec, &mut warnings);
    let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let spec = spec.as_object().cloned().unwrap_or_default();
    let example = json!({
        "apiVersion": format!("{}/{}", options.names.group, options.names.version),
        "kind": options.names.kind,
        "metadata": {"name": "example"},
        "spec": example(&spec, "$", &mut warnings),
    });
    warnings.sort();
    warnings.dedup();
    Ok(Definition { crd, example, warnings })
}

/// The definition, without descriptions or without its deepest levels where it would be too large.
fn within_limit(chart: &Chart, names: &KindNames, mut spec: Value, warnings: &mut Vec<Warning>) -> Value {
    let mut warn = |text: &str| warnings.push(Warning { text: text.to_owned(), path: "$".to_owned() });
    let mut crd = object(chart, names, &spec);
    if crd.to_string().len() <= MAX_BYTES {
        return crd;
    }
    warn("descriptions are left out: the CustomResourceDefinition would be larger than 1 MiB");
    visit(&mut spec, &mut |node| drop(node.remove("description")));
    for level in LEVELS.rev() {
        crd = object(chart, names, &spec);
        if crd.to_string().len() <= MAX_BYTES {
            return crd;
        }
        warn("the deepest levels are not checked: the CustomResourceDefinition would be larger than 1 MiB");
        cut(&mut spec, level);
    }
    crd
}

/// Calls back with each node of a structure; alternatives are not nodes.
fn visit(schema: &mut Value, each: &mut impl FnMut(&mut Object)) {
    let Value::Object(node) = schema else { return };
    each(node);
    for inside in
        node.get_mut("properties").and_then(Value::as_object_mut).into_iter().flat_map(|map| map.values_mut())
    {
        visit(inside, each);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inside) = node.get_mut(key) {
            visit(inside, each);
        }
    }
}

/// Leaves out what is deeper than so many levels, and alternatives, which may refer to it.
fn cut(schema: &mut Value, levels: usize) {
    let Value::Object(node) = schema else { return };
    for key in ["anyOf", "oneOf", "allOf", "not"] {
        node.remove(key);
    }
    let shorten = |inside: &mut Value| match levels {
        0 => *inside = Value::Object(anything()),
        _ => cut(inside, levels - 1),
    };
    let fields = node.get_mut("properties").and_then(Value::as_object_mut);
    fields.into_iter().flat_map(|map| map.values_mut()).for_each(shorten);
    for key in ["items", "additionalProperties"] {
        if let Some(inside) = node.get_mut(key) {
            shorten(inside);
        }
    }
}

fn object(chart: &Chart, names: &KindNames, spec: &Value) -> Value {
    let mut properties = json!({
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": spec,
        "status": status(),
    });
    let required = spec.get("required").is_some();
    let mut schema = json!({"type": "object", "properties": properties.take()});
    schema["description"] = json!(format!("{} is a release of the chart {}.", names.kind, chart.name()));
    if required {
        schema["required"] = json!(["spec"]);
    }
    let ready = r#".status.conditions[?(@.type=="Ready")].status"#;
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": names.crd()},
        "spec": {
            "group": names.group,
            "scope": "Namespaced",
            "names": {
                "kind": names.kind,
                "listKind": format!("{}List", names.kind),
                "plural": names.plural,
                "singular": names.singular,
            },
            "versions": [{
                "name": names.version,
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    {"name": "Ready", "type": "string", "jsonPath": ready},
                    {"name": "Revision", "type": "integer", "jsonPath": ".status.revision"},
                    {"name": "Chart", "type": "string", "jsonPath": ".status.chart"},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

/// The schema of the status: small, and open for what other operators of the kind have in it.
fn status() -> Value {
    json!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "observedGeneration": {"type": "integer", "format": "int64", "description": "The generation of the last reconciled spec."},
            "revision": {"type": "integer", "format": "int64", "description": "The revision of the release."},
            "chart": {"type": "string", "description": "The chart of the release."},
            "version": {"type": "string", "description": "The version of the chart."},
            "digest": {"type": "string", "description": "The digest of what is applied: chart, values and capabilities."},
            "conditions": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["type", "status"],
                    "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {
                        "type": {"type": "string"},
                        "status": {"type": "string"},
                        "reason": {"type": "string"},
                        "message": {"type": "string"},
                        "lastTransitionTime": {"type": "string", "format": "date-time", "nullable": true},
                        "observedGeneration": {"type": "integer", "format": "int64"},
                    },
                },
            },
        },
    })
}
