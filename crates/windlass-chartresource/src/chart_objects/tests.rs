//! Values of an object with newer images over them, as a table.

use chart_compat::chart::Chart;
use chart_compat::profile::Profile;
use chart_compat::render::CompiledChart;
use serde_json::json;
use windlass_controller::{ChartArguments, IMAGE_OVERRIDES, IMAGE_VALUES};
use windlass_render::object_data;

use super::*;
use crate::override_values::OverrideValues;

/// The front end of a kind with values that its administrator sets, and the chart of the kind.
fn front_end(overrides: &Value) -> (ChartObjects, LoadedChart) {
    let chart = Chart::default();
    let chart = LoadedChart {
        chart: Arc::new(CompiledChart::new(chart, Profile::Helm4)),
        digest: String::new(),
        arguments: ChartArguments::default(),
        reads_capabilities: false,
    };
    let settings = KindSettings {
        name: "web.example.com".to_owned(),
        gvk: Gvk::new("example.com/v1", "Web"),
        overrides: OverrideValues::of_map(overrides.as_object().unwrap()),
        selector: String::new(),
        reconcile_period: Duration::from_secs(60),
        watches_dependents: true,
        concurrency: None,
        service_account: None,
        pull_secret_path: None,
        suspended: false,
    };
    (ChartObjects::new(settings, chart.clone(), ObjectOptions::default()), chart)
}

/// Who writes an object writes its annotations, too.
#[test]
fn values_of_the_kind_beat_images_that_an_annotation_sets() {
    let overrides = json!({"image.tag": {"repository": "image.repository", "base": "team/web:1", "set": {"image.tag": "2"}}});
    let object = json!({
        "metadata": {"name": "web", "namespace": "shop", "annotations": {IMAGE_VALUES: "image.tag", IMAGE_OVERRIDES: overrides.to_string()}},
        "spec": {"image": {"repository": "team/web", "tag": "1"}},
    });
    let object = ChartObject::read(&object);
    for (of_kind, tag, error) in [
        (json!({}), "2", None),
        (json!({"port": 80}), "2", None),
        (
            json!({"image": {"tag": "1"}}),
            "1",
            Some("overrideValues of the kind set one of these images: it stays, and none is followed"),
        ),
    ] {
        let (front_end, chart) = front_end(&of_kind);
        let mut values = front_end.values_of(&object);
        let images = front_end.set_images(&object, Some(&chart), &mut values).unwrap();
        let mut expected = json!({"image": {"repository": "team/web", "tag": tag}});
        expected
            .as_object_mut()
            .unwrap()
            .extend(of_kind.as_object().unwrap().clone().into_iter().filter(|(key, _)| key != "image"));
        let values = values.ok().unwrap();
        assert_eq!(chart_compat::data::Data::Map(values), object_data(&expected), "{of_kind}");
        assert_eq!(images.errors.first().map(String::as_str), error, "{of_kind}");
        assert_eq!(images.images.contains_key("image.tag"), error.is_none(), "{of_kind}");
    }
}
