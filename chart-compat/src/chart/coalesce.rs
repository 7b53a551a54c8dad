//! Coalescing of user values with chart defaults, globals and subcharts (`chart/common/util/coalesce.go`).

use super::Warn;
use super::error::Error;
use super::load::Chart;
use crate::data::{Data, Map};
use crate::go::{Arena, Value, fmt, slog};
use crate::profile::Profile;

const GLOBAL: &str = "global";

/// A value as Go's `%v` prints it, for warnings.
fn show(d: &Data) -> String {
    let arena = Arena::new();
    String::from_utf8_lossy(&fmt::sprint(Value::from_data(&arena, d))).into_owned()
}

fn join(a: &str, b: &str) -> String {
    if a.is_empty() { b.to_owned() } else { format!("{a}.{b}") }
}

/// The path of keys to a table, joined only for a warning.
struct KeyPath<'w> {
    above: Option<&'w KeyPath<'w>>,
    name: &'w str,
}

impl KeyPath<'_> {
    fn text(&self) -> String {
        self.above.map_or_else(|| self.name.to_owned(), |above| join(&above.text(), self.name))
    }
}

/// Coalesces `user` values with the defaults of a chart and its subcharts (`CoalesceValues`).
///
/// # Errors
/// A subchart's values are not a table.
pub fn coalesce_values(chart: &Chart, user: &Map, profile: Profile, warn: Warn<'_>) -> Result<Map, Error> {
    run(chart, user, false, profile, warn)
}

/// Merges the default values of a chart and its subcharts and keeps nulls (`MergeValues`).
pub(super) fn merge_values(chart: &Chart, profile: Profile, warn: Warn<'_>) -> Result<Map, Error> {
    run(chart, &Map::new(), true, profile, warn)
}

fn run(chart: &Chart, user: &Map, merge: bool, profile: Profile, warn: Warn<'_>) -> Result<Map, Error> {
    let mut dest = user.clone();
    // Helm logs these with its old logger.
    let mut told = |text: String| warn(slog::line("INFO", &text, &[]));
    let mut c = Coalesce { merge, profile, warn: &mut told };
    c.chart(chart, &mut dest, "")?;
    spread_globals(chart, &mut dest);
    Ok(dest)
}

struct Coalesce<'w> {
    merge: bool,
    profile: Profile,
    warn: Warn<'w>,
}

impl Coalesce<'_> {
    fn chart(&mut self, chart: &Chart, dest: &mut Map, prefix: &str) -> Result<(), Error> {
        let prefix = join(prefix, chart.name());
        self.defaults(chart, dest, &prefix);
        for sub in &chart.dependencies {
            let name = sub.name();
            let mut table = match dest.remove(name) {
                None => Map::new(),
                Some(Data::Map(m)) => m,
                Some(other) => {
                    let arena = Arena::new();
                    let shown = fmt::sprintf(b"%t", &[Value::from_data(&arena, &other)], "common.Values");
                    let shown = String::from_utf8_lossy(&shown);
                    return Err(Error::Values(format!("type mismatch on {name}: {shown}")));
                }
            };
            self.globals(&mut table, dest, &prefix);
            let result = self.chart(sub, &mut table, &prefix);
            share_globals(&table, dest);
            dest.insert(name.to_owned(), Data::Map(table));
            result?;
        }
        Ok(())
    }

    /// Copies the parent's globals into a subchart's values.
    fn globals(&mut self, dest: &mut Map, src: &Map, prefix: &str) {
        let mut target = match dest.get(GLOBAL) {
            None => Map::new(),
            Some(Data::Map(m)) => m.clone(),
            Some(_) => {
                (self.warn)(
                    "warning: skipping globals because destination global is not a table.".to_owned(),
                );
                return;
            }
        };
        let empty = Map::new();
        let source = match src.get(GLOBAL) {
            None => &empty,
            Some(Data::Map(m)) => m,
            Some(_) => {
                (self.warn)("warning: skipping globals because source global is not a table.".to_owned());
                return;
            }
        };
        for (key, value) in source {
            match (value, target.get_mut(key)) {
                (Data::Map(m), Some(Data::Map(old))) => {
                    let mut merged = m.clone();
                    let path = KeyPath { above: Some(&KeyPath { above: None, name: prefix }), name: key };
                    coalesce_tables_full_key(&mut merged, old, &path, true, self.warn);
                    *old = merged;
                }
                (Data::Map(_), Some(_)) => {
                    (self.warn)(format!("Conflict: cannot merge map onto non-map for {key:?}. Skipping."));
                }
                (Data::Map(_), None) => {
                    target.insert(key.clone(), value.clone());
                }
                (_, Some(Data::Map(_))) => (self.warn)(format!("key {key} is table. Skipping")),
                _ => {
                    target.insert(key.clone(), value.clone());
                }
            }
        }
        dest.insert(GLOBAL.to_owned(), Data::Map(target));
    }

    /// Coalesces `values` with the chart's own defaults.
    fn defaults(&mut self, chart: &Chart, values: &mut Map, prefix: &str) {
        let strips = !self.merge && self.profile == Profile::Helm4;
        for (key, default) in chart.values.iter() {
            match values.get_mut(key) {
                Some(Data::Null) if !self.merge => {
                    values.remove(key);
                }
                Some(Data::Map(dest)) => match default {
                    Data::Map(src) => {
                        let merge = self.merge || chart.dependencies.iter().any(|d| d.name() == key);
                        let mut src = src.clone();
                        if !merge && self.profile == Profile::Helm4 {
                            strip_nulls(&mut src);
                        }
                        let path = KeyPath { above: Some(&KeyPath { above: None, name: prefix }), name: key };
                        coalesce_tables_full_key(dest, &src, &path, merge, self.warn);
                    }
                    Data::Null => {}
                    _ => (self.warn)(format!("warning: skipped value for {prefix}.{key}: Not a table.")),
                },
                Some(_) => {}
                None if strips && *default == Data::Null => {}
                None => {
                    let mut value = default.clone();
                    if let (true, Data::Map(m)) = (strips, &mut value) {
                        strip_nulls(m);
                    }
                    values.insert(key.clone(), value);
                }
            }
        }
    }
}

/// In Helm, a chart and its subcharts share the tables two levels below `global`: a merge into one shows in all. This copies
/// them from one chart's values to another's.
fn share_globals(from: &Map, to: &mut Map) {
    let Some(from) = from.get(GLOBAL).and_then(Data::as_map) else { return };
    let Some(to) = to.get_mut(GLOBAL).and_then(Data::as_map_mut) else { return };
    for (key, to) in to {
        let (Some(from), Data::Map(to)) = (from.get(key).and_then(Data::as_map), to) else { continue };
        for (name, to) in to {
            if let (Some(Data::Map(from)), Data::Map(to)) = (from.get(name), to) {
                to.clone_from(from);
            }
        }
    }
}

/// Copies the shared tables, as the last subchart left them, to all subcharts.
fn spread_globals(chart: &Chart, values: &mut Map) {
    for sub in &chart.dependencies {
        let Some(Data::Map(mut table)) = values.remove(sub.name()) else { continue };
        share_globals(values, &mut table);
        spread_globals(sub, &mut table);
        values.insert(sub.name().to_owned(), Data::Map(table));
    }
}

fn strip_nulls(map: &mut Map) {
    // An unchanged map stays shared.
    if !has_null(map) {
        return;
    }
    map.retain(|_, v| *v != Data::Null);
    for value in map.values_mut() {
        if let Data::Map(m) = value {
            strip_nulls(m);
        }
    }
}

fn has_null(map: &Map) -> bool {
    map.values().any(|v| match v {
        Data::Null => true,
        Data::Map(m) => has_null(m),
        _ => false,
    })
}

/// Merges `src` into `dst`, which has precedence (`coalesceTablesFullKey`); without `merge` a null in `dst` deletes.
fn coalesce_tables_full_key(dst: &mut Map, src: &Map, path: &KeyPath<'_>, merge: bool, warn: Warn<'_>) {
    for (key, value) in src {
        let path = KeyPath { above: Some(path), name: key };
        // Compared before the entry is removed for a change: most maps do not change and stay shared.
        match (dst.get(key), value) {
            (None, value) => {
                dst.insert(key.clone(), value.clone());
            }
            (Some(Data::Map(old)), Data::Map(new)) => {
                if !old.same(new)
                    && let Some(Data::Map(old)) = dst.get_mut(key)
                {
                    coalesce_tables_full_key(old, new, &path, merge, warn);
                }
            }
            (Some(Data::Null), value) if !merge && *value != Data::Null => {
                dst.remove(key);
            }
            (Some(Data::Null), _) => {}
            (Some(_), Data::Map(_)) => warn(format!(
                "warning: cannot overwrite table with non table for {} ({})",
                path.text(),
                show(value)
            )),
            (Some(Data::Map(_)), value) if *value != Data::Null => warn(format!(
                "warning: destination for {} is a table. Ignoring non-table value ({})",
                path.text(),
                show(value)
            )),
            _ => {}
        }
    }
}

/// Merges `src` into `dst`; a null in `dst` deletes (`CoalesceTables`).
pub(crate) fn coalesce_tables(dst: &mut Map, src: &Map) {
    coalesce_tables_full_key(dst, src, &KeyPath { above: None, name: "" }, false, &mut |_| {});
}

/// Merges `src` into `dst` and keeps nulls (`MergeTables`).
pub fn merge_tables(dst: &mut Map, src: &Map, warn: Warn<'_>) {
    coalesce_tables_full_key(dst, src, &KeyPath { above: None, name: "" }, true, warn);
}
