//! What a chart may take between its loading and its render: while its dependencies are processed and its values merged.
//!
//! Owns the bounds and what is left of them. Has no clock: the caller says when to stop.
//!
//! Ten aliases of one chart in each of eight levels are 100,000,000 charts, a list below `global` is copied into each subchart, and
//! both come in archives of a kilobyte.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::error::Error;
use super::load::{Chart, File};
use super::metadata::Metadata;
use crate::data::{Data, Map};
use crate::memory;

/// The most charts that are copied, each with its subcharts, for the dependencies that name them.
const MAX_CHARTS: usize = 10_000;
/// Steps without a limit of the caller, as of a render.
const MAX_STEPS: u64 = 500_000_000;
/// Steps between two questions whether to stop.
const BETWEEN_STOPS: u64 = 1 << 12;
/// Copied bytes that count as a step.
const BYTES_OF_A_STEP: usize = 32;
/// The memory of an entry of a map beside its key and what its value holds, in bytes.
pub(super) const ENTRY: usize = 96;
/// The memory of a chart beside its files and texts, in bytes.
const CHART: usize = 1024;

/// What is left of the bounds for the preparation of one chart.
pub(crate) struct Preparation<'s> {
    charts: Cell<usize>,
    memory: usize,
    bytes: Cell<usize>,
    /// What of it is never given back.
    kept: Cell<usize>,
    most_steps: u64,
    steps: Cell<u64>,
    next_stop: Cell<u64>,
    stopped: &'s dyn Fn() -> Option<String>,
}

impl Default for Preparation<'_> {
    fn default() -> Self {
        Self::within(memory::of_input(), MAX_STEPS, &|| None)
    }
}

impl<'s> Preparation<'s> {
    /// Copies take at most `memory` bytes; `stopped` gives a reason to stop.
    pub(crate) fn within(memory: usize, steps: u64, stopped: &'s dyn Fn() -> Option<String>) -> Self {
        Self {
            charts: Cell::new(0),
            memory,
            bytes: Cell::new(0),
            kept: Cell::new(0),
            most_steps: steps,
            steps: Cell::new(0),
            next_stop: Cell::new(BETWEEN_STOPS),
            stopped,
        }
    }

    /// Counts work: an entry that is compared or merged is a step.
    pub(super) fn step(&self, steps: usize) -> Result<(), Error> {
        let done = self.steps.get().saturating_add(u64::try_from(steps).unwrap_or(u64::MAX));
        self.steps.set(done);
        if done > self.most_steps {
            let most = self.most_steps;
            return Err(Error::bound("", format!("merging values takes more than {most} steps")));
        }
        if done >= self.next_stop.get() {
            self.next_stop.set(done.saturating_add(BETWEEN_STOPS));
            if let Some(why) = (self.stopped)() {
                return Err(Error::bound("", format!("render stopped: {why}")));
            }
        }
        Ok(())
    }

    /// Takes memory for a copy of what `key` names, before it is made.
    pub(super) fn take(&self, bytes: usize, key: &str) -> Result<(), Error> {
        self.step(1 + bytes / BYTES_OF_A_STEP)?;
        let taken = self.bytes.get().saturating_add(bytes);
        self.bytes.set(taken);
        if taken > self.memory {
            let mib = self.memory >> 20;
            return Err(Error::bound(key, format!("copies of charts and values take more than {mib} MiB")));
        }
        Ok(())
    }

    /// Takes memory that [`Self::give_back`] does not give back.
    pub(super) fn take_for_good(&self, bytes: usize, key: &str) -> Result<(), Error> {
        self.kept.set(self.kept.get().saturating_add(bytes));
        self.take(bytes, key)
    }

    /// What was taken so far for copies of values, for [`Self::give_back`].
    pub(super) fn taken(&self) -> usize {
        self.bytes.get() - self.kept.get()
    }

    /// Gives back what was taken since for copies of values, but not the steps.
    pub(super) fn give_back(&self, taken: usize) {
        self.bytes.set(self.kept.get().saturating_add(taken));
    }

    /// Takes memory for a copy of a value, which shares maps.
    pub(super) fn take_copy(&self, value: &Data, key: &str) -> Result<(), Error> {
        self.take(copied(value), key)
    }

    /// A map that is to be changed: takes memory for a copy if others share it.
    pub(super) fn own<'m>(
        &self,
        map: &'m mut Map,
        key: &str,
    ) -> Result<&'m mut BTreeMap<String, Data>, Error> {
        if map.is_shared() {
            self.take(map.iter().map(|(key, value)| ENTRY + key.len() + copied(value)).sum(), key)?;
        }
        Ok(map)
    }

    /// Takes memory for a copy of a chart under an alias, with its subcharts.
    pub(super) fn take_chart(&self, chart: &Chart, alias: &str) -> Result<(), Error> {
        let (charts, bytes) = weight(chart);
        self.charts.set(self.charts.get().saturating_add(charts));
        let name = if alias.is_empty() { chart.name() } else { alias };
        if self.charts.get() > MAX_CHARTS {
            let bound = format!("dependencies copy more than {MAX_CHARTS} charts: use fewer aliases");
            return Err(Error::bound(name, bound));
        }
        self.take_for_good(bytes + charts * 4 * alias.len(), name)
    }
}

/// What a copy of a value takes beside the value itself: maps are shared.
fn copied(value: &Data) -> usize {
    match value {
        Data::String(text) => text.len(),
        Data::List(items) => items.iter().map(|item| size_of::<Data>() + copied(item)).sum(),
        Data::Null | Data::Bool(_) | Data::Int(_) | Data::Float(_) | Data::Map(_) => 0,
    }
}

/// What a copy of a value takes that shares nothing, as where it is shown.
pub(super) fn whole(value: &Data) -> usize {
    let inner = match value {
        Data::List(items) => items.iter().map(whole).sum(),
        Data::Map(map) => map.iter().map(|(key, value)| key.len() + whole(value)).sum(),
        _ => copied(value),
    };
    ENTRY + inner
}

/// The charts of a tree, and what a copy of them takes.
fn weight(chart: &Chart) -> (usize, usize) {
    let files: usize =
        chart.templates.iter().chain(&chart.files).map(|file| size_of::<File>() + file.name.len()).sum();
    // Its name is also that of a copy, and in the paths of its templates.
    let own = CHART + files + 4 * chart.name().len() + of_metadata(&chart.metadata);
    chart
        .dependencies
        .iter()
        .map(weight)
        .fold((1, own), |(charts, bytes), (more, further)| (charts + more, bytes.saturating_add(further)))
}

fn of_metadata(metadata: &Metadata) -> usize {
    let m = metadata;
    let texts = |list: &Option<Vec<String>>| -> usize {
        list.iter().flatten().map(|text| size_of::<String>() + text.len()).sum()
    };
    let own = [
        &m.home,
        &m.version,
        &m.description,
        &m.icon,
        &m.api_version,
        &m.condition,
        &m.tags,
        &m.app_version,
        &m.kube_version,
        &m.kind,
    ];
    let maintainers = m.maintainers.iter().flatten();
    let dependencies = m.dependencies.iter().flatten().map(|d| {
        let own = [&d.name, &d.version, &d.repository, &d.condition, &d.alias];
        let imports = d.import_values.iter().flatten().map(|import| size_of::<Data>() + copied(import));
        size_of_val(d)
            + own.iter().map(|text| text.len()).sum::<usize>()
            + texts(&d.tags)
            + imports.sum::<usize>()
    });
    own.iter().map(|text| text.len()).sum::<usize>()
        + texts(&m.sources)
        + texts(&m.keywords)
        + m.annotations
            .iter()
            .flatten()
            .map(|(k, v)| 2 * size_of::<String>() + k.len() + v.len())
            .sum::<usize>()
        + maintainers.map(|p| size_of_val(p) + p.name.len() + p.email.len() + p.url.len()).sum::<usize>()
        + dependencies.sum::<usize>()
}
