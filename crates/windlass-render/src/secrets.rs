//! Values that a chart's schemas mark as secret.

use chart_compat::chart::Chart;
use chart_compat::data::{Data, Map};
use serde_json::{Value, json};

use super::convert::to_json;
use windlass_base::redact;

/// Masks in messages the values that `values.schema.json` of the chart or of a subchart marks `writeOnly` or `x-sensitive`: those of
/// the user and the defaults of charts.
pub fn note_secrets(chart: &Chart, user: &Map) {
    if marks(chart) {
        note(chart, vec![to_json(&Data::Map(user.clone()))]);
    }
}

/// Whether any schema may mark values; most charts have none that does.
fn marks(chart: &Chart) -> bool {
    let own = chart.schema.as_ref().is_some_and(|schema| {
        ["writeOnly", "x-sensitive"]
            .iter()
            .any(|mark| schema.windows(mark.len()).any(|w| w == mark.as_bytes()))
    });
    own || chart.dependencies.iter().any(marks)
}

/// `layers`: the values that parents and the user set for the chart, each unmerged: no layer hides another one's values.
fn note(chart: &Chart, mut layers: Vec<Value>) {
    layers.push(to_json(&Data::Map(chart.values.as_ref().clone())));
    // An invalid schema fails the render.
    let schema = chart.schema.as_ref().and_then(|bytes| serde_json::from_slice(bytes).ok());
    if let Some(schema) = schema.as_ref().filter(|schema: &&Value| schema.is_object()) {
        layers.iter().for_each(|layer| redact::add_marked(schema, layer));
    }
    for child in &chart.dependencies {
        let declared = chart.metadata.dependencies.iter().flatten().filter(|d| d.name == child.name());
        let layers = &layers;
        let names = declared.map(|d| d.alias.as_str()).chain([child.name()]);
        let mut below: Vec<Value> =
            names.flat_map(|name| layers.iter().filter_map(move |layer| layer.get(name).cloned())).collect();
        below.extend(layers.iter().filter_map(|layer| Some(json!({"global": layer.get("global")?}))));
        note(child, below);
    }
}
