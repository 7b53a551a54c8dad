//! Values of a chart of `helmCharts`: files, and `valuesInline` as `valuesMerge` has it.

use std::path::Path;

use chart_compat::chart::{self, merge_maps, read_values_within};
use chart_compat::data::{Data, Map};
use chart_compat::kyaml;
use chart_compat::profile::Profile;
use chart_compat::yaml::{self, Room};
use kustomize_compat::load::ReadFile;
use kustomize_compat::patch::strategic_merge;
use kustomize_compat::resource::{from_data, to_data};
use kustomize_compat::schema::Schemas;

use super::Item;

/// The user's values of a render.
pub(super) fn of(
    item: &Item<'_>,
    chart: &chart::Chart,
    read: &ReadFile<'_>,
    profile: Profile,
) -> Result<Map, String> {
    let (name, text) = match item.inline() {
        Some(inline) => ("valuesInline".to_owned(), merged(item, inline, chart, read)?.into_bytes()),
        None => first_file(item, chart, read)?,
    };
    let room = Room::default();
    let parsed = |name: &str, text: &[u8]| {
        read_values_within(text, profile, &room).map_err(|e| format!("failed to parse {name}: {e}"))
    };
    let mut values = parsed(&name, &text)?;
    for file in item.texts("additionalValuesFiles") {
        let text = read(&file).map_err(|e| format!("could not load additionalValuesFile: {e}"))?;
        merge_maps(&mut values, parsed(&file, &text)?);
    }
    Ok(values)
}

/// The name and content of `valuesFile`: without one the chart's own values. A file of a chart that was fetched comes from its
/// package.
fn first_file(
    item: &Item<'_>,
    chart: &chart::Chart,
    read: &ReadFile<'_>,
) -> Result<(String, Vec<u8>), String> {
    let directory = item.directory();
    let path = match item.text("valuesFile") {
        "" => directory.join("values.yaml"),
        file => windlass_fetch::clean(&Path::new(&item.chart.root).join(file)),
    };
    let shown = path.display().to_string();
    if let Ok(inside) = path.strip_prefix(&directory)
        && !path.exists()
    {
        let own = (inside == Path::new("values.yaml")).then(|| chart.values_text.clone().unwrap_or_default());
        let file = || chart.files.iter().find(|file| Path::new(&file.name) == inside).map(|f| f.data.clone());
        if let Some(content) = own.or_else(file) {
            return Ok((shown, content.to_vec()));
        }
    }
    let named = match item.text("valuesFile") {
        "" => shown.as_str(),
        file => file,
    };
    Ok((named.to_owned(), read(named).map_err(|e| e.to_string())?))
}

/// `valuesInline` and the first file in one: which of them wins says `valuesMerge`.
fn merged(
    item: &Item<'_>,
    inline: &Map,
    chart: &chart::Chart,
    read: &ReadFile<'_>,
) -> Result<String, String> {
    let printed = |data: &Data| yaml::to_string(data).map_err(|e| e.to_string());
    let merge = item.text("valuesMerge");
    if merge == "replace" {
        return printed(&Data::Map(inline.clone()));
    }
    let (name, text) = first_file(item, chart, read)?;
    let text = String::from_utf8(text).map_err(|_| format!("{name} is not UTF-8"))?;
    let failed = |e: &dyn std::fmt::Display| format!("could not parse values file into rnode: {name}: {e}");
    let mut nodes = kyaml::read_resolved(&text, &Room::default()).map_err(|e| failed(&e))?.into_iter();
    // kustomize fails for a file without values.
    let file = nodes.next().unwrap_or_else(|| from_data(&Data::Map(Map::new())));
    let inline = from_data(&Data::Map(inline.clone()));
    let (lower, upper) = if merge == "merge" { (&inline, &file) } else { (&file, &inline) };
    let merged = strategic_merge::merge(lower, upper, &Schemas::default());
    let merged = merged.map_err(|e| format!("could not merge values: {e}"))?;
    let data = match merged {
        Some(node) => to_data(&node).map_err(|e| format!("could not parse merged values into map: {e}"))?,
        None => Data::Map(Map::new()),
    };
    printed(&data)
}
