//! Charts of a kustomization.
//!
//! Owns what a chart is asked for; rendering is the caller's.

use chart_compat::data::{Data, Map};
use chart_compat::yaml;

use super::Kustomization;
use crate::error::Error;
use crate::load::Chart;
use crate::resource::{Resource, read_within};

/// How values of the kustomization and of the chart are put together.
const MERGES: [&str; 3] = ["merge", "override", "replace"];

impl Kustomization<'_> {
    /// Checks a chart before anything is generated.
    pub(super) fn chart(&self, fields: &Map, globals: Option<&Data>) -> Result<Chart, Error> {
        let global = |key| globals.and_then(|g| g.get(key)).and_then(Data::as_str).unwrap_or_default();
        let mut chart = Chart {
            fields: fields.clone(),
            chart_home: global("chartHome").to_owned(),
            config_home: global("configHome").to_owned(),
            root: self.loader.directory().to_owned(),
        };
        let text = |key: &str| fields.get(key).and_then(Data::as_str).unwrap_or_default();
        if text("namespace").is_empty() {
            let own = self.file.text("namespace");
            let namespace = if own.is_empty() { self.chart_namespace.as_str() } else { own };
            if !namespace.is_empty() {
                chart.fields.insert("namespace".to_owned(), Data::from(namespace));
            }
        }
        let mut shown = chart.fields.clone();
        for (key, value) in [("chartHome", &chart.chart_home), ("configHome", &chart.config_home)] {
            if !value.is_empty() {
                shown.insert(key.to_owned(), Data::String(value.clone()));
            }
        }
        let shown = yaml::to_string(&Data::Map(shown)).map_err(|e| Error::text(e.to_string()))?;
        let failed = |e: Error| {
            e.within(format!(
                "trouble configuring builtin HelmChartInflationGenerator with config: `\n{shown}`"
            ))
        };
        self.check_chart(&chart).map_err(failed)?;
        Ok(chart)
    }

    pub(super) fn check_chart(&self, chart: &Chart) -> Result<(), Error> {
        let text = |key: &str| chart.fields.get(key).and_then(Data::as_str).unwrap_or_default();
        if !self.session.world.charts_enabled() {
            return Err(Error::text("must specify --enable-helm"));
        }
        if text("name").is_empty() {
            return Err(Error::text("chart name cannot be empty"));
        }
        for file in crate::kustomization::texts(chart.fields.get("additionalValuesFiles")) {
            self.loader.load(&file).map_err(|e| e.within("could not load additionalValuesFile"))?;
        }
        let merge = text("valuesMerge");
        if !merge.is_empty() && !MERGES.contains(&merge) {
            return Err(Error::text(format!("valuesMerge must be one of [{}]", MERGES.join(" "))));
        }
        Ok(())
    }

    pub(super) fn inflate(&self, chart: &Chart) -> Result<Vec<Resource>, Error> {
        let read_file = |path: &str| self.loader.load(path);
        let text = self.session.world.inflate(chart, &read_file).map_err(Error::Text)?;
        let mut objects = read_within(&text, self.session.room)
            .map_err(|e| e.within("could not parse bytes into resource map"))?;
        objects.iter_mut().try_for_each(Resource::mark_from_chart)?;
        Ok(objects)
    }
}
