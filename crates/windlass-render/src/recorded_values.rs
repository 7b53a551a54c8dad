//! Values of a recorded revision, and new values over them.
//!
//! Owns what an upgrade that reuses values takes from a record. Does not know who asks for it.

use std::sync::Arc;

use chart_compat::chart::{Chart, coalesce_values};
use chart_compat::data::{Data, Map};
use chart_compat::profile::Profile;
use serde_json::Value;

use super::from_json;
use windlass_engine::record::Record;

/// The user's values of a record.
#[must_use]
pub fn user_values(record: &Record) -> Map {
    map(&record.config)
}

/// The values of the templates, as far as the record contains them: the chart's defaults, overridden by the user's values.
///
/// # Errors
/// The values do not fit together.
pub fn computed_values(record: &Record, profile: Profile) -> Result<Map, String> {
    let chart = Chart { values: Arc::new(map(&record.chart["values"])), ..Chart::default() };
    coalesce_values(&chart, &user_values(record), profile, &mut |_| {}).map_err(|error| error.to_string())
}

/// Makes the values that a record was rendered with the defaults of a chart: `--reuse-values` (`Upgrade.reuseValues`).
///
/// # Errors
/// As [`computed_values`].
pub fn reuse_as_defaults(record: &Record, chart: &mut Chart, profile: Profile) -> Result<(), String> {
    let defaults = computed_values(record, profile);
    chart.values = Arc::new(defaults.map_err(|error| format!("failed to rebuild old values: {error}"))?);
    chart.values_text = None;
    Ok(())
}

/// Merges old values under new ones: adds missing keys, and merges maps recursively. A new null removes an old value
/// (`CoalesceTables`).
pub fn fill(new: &mut Map, old: Map) {
    for (key, value) in old {
        match (new.get_mut(&key), value) {
            (None, value) => {
                new.insert(key, value);
            }
            (Some(Data::Null), value) if value != Data::Null => {
                new.remove(&key);
            }
            (Some(Data::Map(new)), Data::Map(old)) => fill(new, old),
            (Some(_), _) => {}
        }
    }
}

fn map(value: &Value) -> Map {
    match from_json(value) {
        Data::Map(map) => map,
        _ => Map::new(),
    }
}
