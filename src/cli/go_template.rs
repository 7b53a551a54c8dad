//! The user's Go templates for output, on plain data.

use std::sync::LazyLock;

use chart_compat::Bytes;
use chart_compat::data::Data;
use chart_compat::go::{Arena, Value};
use chart_compat::template::{BUILTINS, Exec, Funcs, Limits, Set, TemplateSet, parse};

use super::Failure;
use windlass_render::SystemWorld;

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
