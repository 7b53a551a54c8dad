//! The user's Go templates: output templates on plain data, and `--name-template` with sprig's functions.

use std::sync::LazyLock;

use chart_compat::Bytes;
use chart_compat::chart::{File, load_files};
use chart_compat::data::{Data, Map};
use chart_compat::go::{Arena, Value};
use chart_compat::profile::Profile;
use chart_compat::render::{Capabilities, CompiledChart, Options, Release};
use chart_compat::template::{BUILTINS, Exec, Funcs, Limits, Set, TemplateSet, parse};

use super::Failure;
use crate::render::SystemWorld;

/// The functions of Go's own engine.
static FUNCS: LazyLock<Funcs> =
    LazyLock::new(|| Funcs::new(&[BUILTINS], |_, _| None, "map[string]interface {}"));

/// Executes a template on data (`template.New("_").Parse(…).Execute`).
///
/// # Errors
/// The template does not parse or fails, in Go's words.
pub(super) fn run(text: &str, data: &Data) -> Result<Vec<u8>, Failure> {
    const NAME: &str = "_";
    let parsed = parse(NAME, &Bytes::copy_from_slice(text.as_bytes()), &FUNCS).map_err(|e| e.to_string())?;
    let (arena, store) = (Arena::new(), typed_arena::Arena::new());
    let mut set = TemplateSet::default();
    set.add(&parsed);
    let world = SystemWorld::default();
    let dot = Value::from_data(&arena, data);
    let exec = Exec::new(&arena, &store, Set::new(&set), &FUNCS, &world, Limits::default());
    exec.ok_or("the template cannot be run")?.execute(NAME, dot).map_err(|e| e.to_string())
}

/// Executes a `--name-template`: with the functions of charts, without a chart.
///
/// # Errors
/// The template does not parse or fails.
pub(super) fn release_name(text: &str) -> Result<String, Failure> {
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
