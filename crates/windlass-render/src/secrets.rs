//! Values of charts that are secret: those that schemas mark, and those that stand in Secrets as YAML or JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chart_compat::chart::Chart;
use chart_compat::data::{Data, Map};
use chart_compat::yaml;
use serde_json::{Value, json};

use super::convert::to_json;
use windlass_base::bounded_json::{self, JsonError};
use windlass_base::redact;

/// Masks in messages the values that `values.schema.json` of the chart or of a subchart marks `writeOnly` or `x-sensitive`: those of
/// the user and the defaults of charts.
pub fn note_secrets(chart: &Chart, user: &Map) {
    if marks(chart) {
        note(chart, &[&to_json(&Data::Map(user.clone()))], &[]);
    }
}

/// Masks in messages the values of the YAML and JSON in a Secret, or in a list of Secrets. Who reads it as such quotes one of the values,
/// which is no line of the text.
pub(super) fn note_secret_documents(object: &Value) {
    let items = object["items"].as_array().filter(|_| object["kind"] == "SecretList");
    let of_kind = (object["kind"] == "Secret").then_some(object);
    for secret in items.into_iter().flatten().chain(of_kind) {
        let texts = secret["data"].as_object().into_iter().flat_map(|data| data.values());
        texts.filter_map(|text| STANDARD.decode(text.as_str()?).ok()).for_each(|text| note_document(&text));
    }
}

/// Masks in messages the values of a text, if it is a map or a list in YAML or JSON. A text that is none is a secret as a whole, and
/// known as that.
pub fn note_document(text: &[u8]) {
    // Most data of Secrets are passwords, keys and certificates.
    if !text.iter().any(|byte| matches!(byte, b':' | b'[' | b'-')) || text.starts_with(b"-----BEGIN ") {
        return;
    }
    if let Ok(values @ (Data::Map(_) | Data::List(_))) = yaml::from_slice(text) {
        note_values(&values);
    }
}

/// Masks values in messages that were made of a Secret.
pub fn note_values(values: &Data) {
    redact::add_all(&to_json(values));
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

/// What the schema of a chart may take once it is read, in bytes.
const SCHEMA: u64 = 64 << 20;

/// `layers`: the values that parents and the user set for the chart, each unmerged: no layer hides another one's values. `globals`: layers of
/// the charts above with nothing but their global values, which are those of this chart, too.
fn note(chart: &Chart, layers: &[&Value], globals: &[&Value]) {
    let own = to_json(&Data::Map(chart.values.as_ref().clone()));
    let layers: Vec<&Value> = layers.iter().copied().chain([&own]).collect();
    let all = || layers.iter().chain(globals);
    match chart.schema.as_ref().map(|bytes| bounded_json::from_slice_within::<Value>(bytes, SCHEMA)) {
        Some(Ok(schema)) if schema.is_object() => all().for_each(|layer| redact::add_marked(&schema, layer)),
        // What it marks is not known.
        Some(Err(JsonError::TooLarge(_))) => all().for_each(|layer| redact::add_all(layer)),
        // An invalid schema fails the render.
        _ => {}
    }
    let own_globals: Vec<Value> =
        layers.iter().filter_map(|layer| Some(json!({"global": layer.get("global")?}))).collect();
    let globals: Vec<&Value> = globals.iter().copied().chain(&own_globals).collect();
    for child in &chart.dependencies {
        let declared = chart.metadata.dependencies.iter().flatten().filter(|d| d.name == child.name());
        let names = declared.map(|d| d.alias.as_str()).chain([child.name()]);
        let below: Vec<&Value> =
            names.flat_map(|name| layers.iter().filter_map(move |layer| layer.get(name))).collect();
        note(child, &below, &globals);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_base::redact::SecretScope;

    #[test]
    fn values_in_secrets_are_known_one_by_one() {
        let data = |text: &str| json!({"data": {"a": STANDARD.encode(text)}});
        let mut one = data("pw: wonderland-rabbit-secret\nusers:\n- {token: of-the-first-user}\n");
        one["kind"] = "Secret".into();
        let many =
            json!({"kind": "SecretList", "items": [data(r#"{"n": 731731731731}"#), data("- in-a-list")]});
        let other = json!({"kind": "ConfigMap", "data": {"a": STANDARD.encode("a: no-secret-at-all")}});
        SecretScope::new().run(|| {
            [&one, &many, &other].into_iter().for_each(note_secret_documents);
            for text in
                [&b"a: ["[..], b"\xff: a", b"-----BEGIN CERTIFICATE-----\nTUlJ\n-----END CERTIFICATE-----\n"]
            {
                note_document(text);
            }
            let text =
                "wonderland-rabbit-secret, of-the-first-user, 731731731731, in-a-list, no-secret-at-all";
            assert_eq!(redact::mask(text), "***, ***, ***, ***, no-secret-at-all");
        });
    }
}
