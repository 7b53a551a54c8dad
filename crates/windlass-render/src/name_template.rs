//! Templates of a release's name (`--name-template`): with the functions of charts, without a chart.

use chart_compat::chart::{File, load_files};
use chart_compat::data::Map;
use chart_compat::profile::Profile;
use chart_compat::render::{Capabilities, CompiledChart, Options, Release};
use chart_compat::template::Limits;

use super::SystemWorld;

/// Executes a template of a release's name.
///
/// # Errors
/// The template does not parse or fails.
pub fn release_name(text: &str) -> Result<String, String> {
    let file = |name: &str, data: &str| File::new(name.to_owned(), data.as_bytes().to_vec());
    let files = vec![
        file("Chart.yaml", "apiVersion: v2\nname: name-template\nversion: 0.1.0\n"),
        file("templates/NOTES.txt", text),
    ];
    let chart = load_files(files, Profile::Helm4, &mut |_| {}).map_err(|e| e.to_string())?;
    let release = Release { name: String::new(), namespace: String::new(), revision: 1, is_upgrade: false };
    let options = Options {
        release,
        capabilities: Capabilities::default(),
        skip_schema_validation: false,
        subchart_notes: false,
        limits: Limits::default(),
    };
    let compiled = CompiledChart::new(chart, Profile::Helm4);
    let rendered = compiled.render(&Map::new(), &options, &SystemWorld::default(), &mut |_| {});
    Ok(rendered.map_err(|e| e.to_string())?.notes)
}
