//! Coalescing of user values with chart defaults, globals and subcharts (`chart/common/util/coalesce.go`).

use std::collections::HashSet;

use super::Warn;
use super::error::Error;
use super::load::Chart;
use super::preparation::{ENTRY, Preparation, whole};
use crate::data::{Data, Map};
use crate::go::{Arena, Value, fmt, slog};
use crate::profile::Profile;

const GLOBAL: &str = "global";

/// A value as Go's `%v` prints it, for warnings.
fn show(d: &Data) -> String {
    let arena = Arena::new();
    String::from_utf8_lossy(&fmt::sprint(Value::from_data(&arena, d))).into_owned()
}

/// As [`show`], if there is memory for the text: about as much for each value as for an entry.
fn show_within(d: &Data, key: &str, preparation: &Preparation<'_>) -> Result<String, Error> {
    preparation.take_for_good(whole(d), key)?;
    Ok(show(d))
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
/// A subchart's values are not a table, or copies of values take more than [`memory::of_input`](crate::memory::of_input).
pub fn coalesce_values(chart: &Chart, user: &Map, profile: Profile, warn: Warn<'_>) -> Result<Map, Error> {
    coalesce_values_within(chart, user, profile, &Preparation::default(), warn)
}

/// As [`coalesce_values`], within other bounds.
pub(crate) fn coalesce_values_within(
    chart: &Chart,
    user: &Map,
    profile: Profile,
    preparation: &Preparation<'_>,
    warn: Warn<'_>,
) -> Result<Map, Error> {
    run(chart, user, false, profile, preparation, warn)
}

/// Merges the default values of a chart and its subcharts and keeps nulls (`MergeValues`).
pub(super) fn merge_values(
    chart: &Chart,
    profile: Profile,
    preparation: &Preparation<'_>,
    warn: Warn<'_>,
) -> Result<Map, Error> {
    run(chart, &Map::new(), true, profile, preparation, warn)
}

fn run(
    chart: &Chart,
    user: &Map,
    merge: bool,
    profile: Profile,
    preparation: &Preparation<'_>,
    warn: Warn<'_>,
) -> Result<Map, Error> {
    let mut dest = user.clone();
    // Helm logs these with its old logger.
    let mut told = |text: String| warn(slog::line("INFO", &text, &[]));
    let mut c = Coalesce { merge, profile, preparation, warn: &mut told };
    c.chart(chart, &mut dest, "")?;
    spread_globals(chart, &mut dest, preparation).map_err(|e| e.in_chart(chart.name()))?;
    Ok(dest)
}

struct Coalesce<'w, 's> {
    merge: bool,
    profile: Profile,
    preparation: &'w Preparation<'s>,
    warn: Warn<'w>,
}

impl Coalesce<'_, '_> {
    fn chart(&mut self, chart: &Chart, dest: &mut Map, prefix: &str) -> Result<(), Error> {
        let prefix = join(prefix, chart.name());
        self.within(chart, dest, &prefix).map_err(|e| e.in_chart(&prefix))
    }

    fn within(&mut self, chart: &Chart, dest: &mut Map, prefix: &str) -> Result<(), Error> {
        self.preparation.step(1)?;
        self.defaults(chart, dest, prefix)?;
        for sub in &chart.dependencies {
            let name = sub.name();
            let mut table = match self.preparation.own(dest, name)?.remove(name) {
                None => Map::new(),
                Some(Data::Map(m)) => m,
                Some(other) => {
                    let arena = Arena::new();
                    let shown = fmt::sprintf(b"%t", &[Value::from_data(&arena, &other)], "common.Values");
                    let shown = String::from_utf8_lossy(&shown);
                    return Err(Error::Values(format!("type mismatch on {name}: {shown}")));
                }
            };
            self.globals(&mut table, dest, prefix)?;
            let result = self
                .chart(sub, &mut table, prefix)
                .and_then(|()| share_globals(&table, dest, self.preparation));
            self.preparation.own(dest, name)?.insert(name.to_owned(), Data::Map(table));
            result?;
        }
        Ok(())
    }

    /// Warns, if there is memory for the text.
    fn tell(&mut self, text: String) -> Result<(), Error> {
        tell(self.preparation, text, self.warn)
    }

    /// Copies the parent's globals into a subchart's values.
    fn globals(&mut self, dest: &mut Map, src: &Map, prefix: &str) -> Result<(), Error> {
        let preparation = self.preparation;
        let mut target = match dest.get(GLOBAL) {
            None => Map::new(),
            Some(Data::Map(m)) => m.clone(),
            Some(_) => {
                return self
                    .tell("warning: skipping globals because destination global is not a table.".to_owned());
            }
        };
        let empty = Map::new();
        let source = match src.get(GLOBAL) {
            None => &empty,
            Some(Data::Map(m)) => m,
            Some(_) => {
                return self
                    .tell("warning: skipping globals because source global is not a table.".to_owned());
            }
        };
        for (key, value) in source {
            preparation.step(1)?;
            match (value, target.get(key)) {
                (Data::Map(m), Some(Data::Map(old))) => {
                    let mut merged = m.clone();
                    let path = KeyPath { above: Some(&KeyPath { above: None, name: prefix }), name: key };
                    coalesce_tables_full_key(&mut merged, old, &path, true, preparation, self.warn)?;
                    preparation.own(&mut target, GLOBAL)?.insert(key.clone(), Data::Map(merged));
                }
                (Data::Map(_), Some(_)) => {
                    self.tell(format!("Conflict: cannot merge map onto non-map for {key:?}. Skipping."))?;
                }
                (_, Some(Data::Map(_))) => self.tell(format!("key {key} is table. Skipping"))?,
                _ => {
                    preparation.take(ENTRY + key.len(), key)?;
                    preparation.take_copy(value, key)?;
                    preparation.own(&mut target, GLOBAL)?.insert(key.clone(), value.clone());
                }
            }
        }
        preparation.own(dest, GLOBAL)?.insert(GLOBAL.to_owned(), Data::Map(target));
        Ok(())
    }

    /// Coalesces `values` with the chart's own defaults.
    fn defaults(&mut self, chart: &Chart, values: &mut Map, prefix: &str) -> Result<(), Error> {
        if chart.values.is_empty() {
            return Ok(());
        }
        let preparation = self.preparation;
        let strips = !self.merge && self.profile == Profile::Helm4;
        let subcharts: HashSet<&str> = chart.dependencies.iter().map(Chart::name).collect();
        let values = preparation.own(values, "its values")?;
        for (key, default) in chart.values.iter() {
            preparation.step(1)?;
            match values.get_mut(key) {
                Some(Data::Null) if !self.merge => {
                    values.remove(key);
                }
                Some(Data::Map(dest)) => match default {
                    Data::Map(src) => {
                        let merge = self.merge || subcharts.contains(key.as_str());
                        let mut src = src.clone();
                        if !merge && self.profile == Profile::Helm4 {
                            strip_nulls(&mut src, key, preparation)?;
                        }
                        let path = KeyPath { above: Some(&KeyPath { above: None, name: prefix }), name: key };
                        coalesce_tables_full_key(dest, &src, &path, merge, preparation, self.warn)?;
                    }
                    Data::Null => {}
                    _ => self.tell(format!("warning: skipped value for {prefix}.{key}: Not a table."))?,
                },
                Some(_) => {}
                None if strips && *default == Data::Null => {}
                None => {
                    preparation.take(ENTRY + key.len(), key)?;
                    preparation.take_copy(default, key)?;
                    let mut value = default.clone();
                    if let (true, Data::Map(m)) = (strips, &mut value) {
                        strip_nulls(m, key, preparation)?;
                    }
                    values.insert(key.clone(), value);
                }
            }
        }
        Ok(())
    }
}

/// Warns, if there is memory for the text.
pub(super) fn tell(preparation: &Preparation<'_>, text: String, warn: Warn<'_>) -> Result<(), Error> {
    preparation.take_for_good(text.len(), "its warnings")?;
    warn(text);
    Ok(())
}

/// The entry of a map as a map that is to be changed.
fn table_mut<'m>(
    map: &'m mut Map,
    key: &str,
    preparation: &Preparation<'_>,
) -> Result<Option<&'m mut Map>, Error> {
    Ok(preparation.own(map, key)?.get_mut(key).and_then(Data::as_map_mut))
}

/// In Helm, a chart and its subcharts share the tables two levels below `global`: a merge into one shows in all. This copies
/// them from one chart's values to another's.
fn share_globals(from: &Map, to: &mut Map, preparation: &Preparation<'_>) -> Result<(), Error> {
    let Some(from) = from.get(GLOBAL).and_then(Data::as_map) else { return Ok(()) };
    let Some(globals) = to.get(GLOBAL).and_then(Data::as_map) else { return Ok(()) };
    let differs = |from: &Map, to: &Map, name: &str| match (from.get(name), to.get(name)) {
        (Some(Data::Map(from)), Some(Data::Map(to))) => !from.same(to),
        _ => false,
    };
    let mut shared: Vec<(String, Vec<String>)> = Vec::new();
    for (key, to) in globals {
        preparation.step(1)?;
        let (Some(from), Data::Map(to)) = (from.get(key).and_then(Data::as_map), to) else { continue };
        if from.same(to) {
            continue;
        }
        preparation.step(to.len())?;
        let names: Vec<String> = to.keys().filter(|name| differs(from, to, name)).cloned().collect();
        if !names.is_empty() {
            shared.push((key.clone(), names));
        }
    }
    if shared.is_empty() {
        return Ok(());
    }
    let Some(globals) = table_mut(to, GLOBAL, preparation)? else { return Ok(()) };
    for (key, names) in shared {
        let Some(from) = from.get(&key).and_then(Data::as_map) else { continue };
        let Some(to) = table_mut(globals, &key, preparation)? else { continue };
        let to = preparation.own(to, &key)?;
        for name in names {
            if let (Some(Data::Map(from)), Some(Data::Map(to))) = (from.get(&name), to.get_mut(&name)) {
                to.clone_from(from);
            }
        }
    }
    Ok(())
}

/// Copies the shared tables, as the last subchart left them, to all subcharts.
fn spread_globals(chart: &Chart, values: &mut Map, preparation: &Preparation<'_>) -> Result<(), Error> {
    for sub in &chart.dependencies {
        preparation.step(1)?;
        if values.get(sub.name()).and_then(Data::as_map).is_none() {
            continue;
        }
        let own = preparation.own(values, sub.name())?;
        let Some(Data::Map(mut table)) = own.remove(sub.name()) else { continue };
        share_globals(values, &mut table, preparation)?;
        spread_globals(sub, &mut table, preparation)?;
        preparation.own(values, sub.name())?.insert(sub.name().to_owned(), Data::Map(table));
    }
    Ok(())
}

fn strip_nulls(map: &mut Map, key: &str, preparation: &Preparation<'_>) -> Result<(), Error> {
    // An unchanged map stays shared.
    let mut looked = 0;
    let has_null = has_null(map, &mut looked);
    preparation.step(looked)?;
    if !has_null {
        return Ok(());
    }
    let map = preparation.own(map, key)?;
    map.retain(|_, v| *v != Data::Null);
    for value in map.values_mut() {
        if let Data::Map(m) = value {
            strip_nulls(m, key, preparation)?;
        }
    }
    Ok(())
}

fn has_null(map: &Map, looked: &mut usize) -> bool {
    map.values().any(|v| {
        *looked += 1;
        match v {
            Data::Null => true,
            Data::Map(m) => has_null(m, looked),
            _ => false,
        }
    })
}

/// Merges `src` into `dst`, which has precedence (`coalesceTablesFullKey`); without `merge` a null in `dst` deletes.
fn coalesce_tables_full_key(
    dst: &mut Map,
    src: &Map,
    path: &KeyPath<'_>,
    merge: bool,
    preparation: &Preparation<'_>,
    warn: Warn<'_>,
) -> Result<(), Error> {
    for (key, value) in src {
        preparation.step(1)?;
        let path = KeyPath { above: Some(path), name: key };
        // Compared before the entry is removed for a change: most maps do not change and stay shared.
        match (dst.get(key), value) {
            (None, value) => {
                preparation.take(ENTRY + key.len(), key)?;
                preparation.take_copy(value, key)?;
                preparation.own(dst, key)?.insert(key.clone(), value.clone());
            }
            (Some(Data::Map(old)), Data::Map(new)) => {
                if !old.same(new)
                    && let Some(old) = table_mut(dst, key, preparation)?
                {
                    coalesce_tables_full_key(old, new, &path, merge, preparation, warn)?;
                }
            }
            (Some(Data::Null), value) if !merge && *value != Data::Null => {
                preparation.own(dst, key)?.remove(key);
            }
            (Some(Data::Null), _) => {}
            (Some(_), Data::Map(_)) => {
                let shown = show_within(value, key, preparation)?;
                let path = path.text();
                let text = format!("warning: cannot overwrite table with non table for {path} ({shown})");
                tell(preparation, text, warn)?;
            }
            (Some(Data::Map(_)), value) if *value != Data::Null => {
                let shown = show_within(value, key, preparation)?;
                let path = path.text();
                let text =
                    format!("warning: destination for {path} is a table. Ignoring non-table value ({shown})");
                tell(preparation, text, warn)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Merges `src` into `dst`; a null in `dst` deletes (`CoalesceTables`).
///
/// # Errors
/// Copies of values take more than they may.
pub(crate) fn coalesce_tables(dst: &mut Map, src: &Map) -> Result<(), Error> {
    let path = KeyPath { above: None, name: "" };
    coalesce_tables_full_key(dst, src, &path, false, &Preparation::default(), &mut |_| {})
}

/// Merges `src` into `dst` and keeps nulls (`MergeTables`).
pub(super) fn merge_tables(
    dst: &mut Map,
    src: &Map,
    preparation: &Preparation<'_>,
    warn: Warn<'_>,
) -> Result<(), Error> {
    coalesce_tables_full_key(dst, src, &KeyPath { above: None, name: "" }, true, preparation, warn)
}
