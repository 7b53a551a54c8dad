//! A chart with its subcharts, as the analysis of their templates needs it.
//!
//! Owns the readers of values besides templates: conditions, tags and imports of dependencies.

use std::collections::{BTreeSet, HashMap};

use super::reads::{Scope, ValuePath};
use crate::chart::Chart;
use crate::data::Data;
use crate::memory;
use crate::profile::Profile;
use crate::render::parse_template;
use crate::template::Outline;

/// A chart's tree, with the templates of all charts.
#[derive(Default)]
pub(crate) struct ChartTree<'c> {
    pub(crate) scopes: Vec<Scope>,
    pub(crate) charts: Vec<&'c Chart>,
    pub(crate) templates: HashMap<String, Vec<Outline>>,
    /// Template files to analyze: name and index of the chart.
    pub(crate) files: Vec<(String, usize)>,
    /// Values that dependencies read.
    pub(crate) whole: BTreeSet<ValuePath>,
    /// Conditions and tags of dependencies.
    pub(crate) conditions: BTreeSet<ValuePath>,
}

/// The most charts of a tree, with their aliases.
const MAX_CHARTS: usize = 10_000;

impl<'c> ChartTree<'c> {
    /// The tree of a chart. Templates that cannot be parsed are left out, and so are charts and templates that are too many: no
    /// render takes them either.
    pub(crate) fn of(chart: &'c Chart, profile: Profile) -> Self {
        let mut tree = Self::default();
        tree.add(chart, &ValuePath::new(), chart.name(), profile, &mut memory::of_input());
        tree
    }

    fn add(
        &mut self,
        chart: &'c Chart,
        value_path: &ValuePath,
        path: &str,
        profile: Profile,
        left: &mut usize,
    ) -> usize {
        let number = self.scopes.len();
        self.scopes.push(Scope { value_path: value_path.clone(), subcharts: Vec::new() });
        self.charts.push(chart);
        for (name, sub) in subcharts(chart) {
            if self.scopes.len() >= MAX_CHARTS {
                break;
            }
            let mut below = value_path.clone();
            below.push(name.to_owned());
            let sub = self.add(sub, &below, &format!("{path}/charts/{name}"), profile, left);
            self.scopes[number].subcharts.push((name.to_owned(), sub));
        }
        // A chart's own templates replace those of its subcharts.
        for file in &chart.templates {
            let name = format!("{path}/{}", file.name);
            let Ok(parsed) = parse_template(&name, &file.data, profile, left) else { continue };
            for template in &parsed {
                self.templates.insert(template.name().to_owned(), template.outline());
            }
            let base = name.rsplit('/').next().unwrap_or(&name);
            if !base.starts_with('_') && !chart.metadata.is_library() {
                self.files.push((name, number));
            }
        }
        self.dependencies(chart, value_path);
        number
    }

    /// Marks the values that the chart's dependencies read.
    fn dependencies(&mut self, chart: &Chart, value_path: &ValuePath) {
        let below = |keys: &mut dyn Iterator<Item = &str>| -> ValuePath {
            value_path.iter().cloned().chain(keys.filter(|k| !k.is_empty()).map(str::to_owned)).collect()
        };
        for d in chart.metadata.dependencies.iter().flatten() {
            let name = if d.alias.is_empty() { &d.name } else { &d.alias };
            for tag in d.tags.iter().flatten() {
                // Of the root chart alone.
                self.conditions.insert(vec!["tags".to_owned(), tag.clone()]);
            }
            for condition in d.condition.split(',').map(str::trim).filter(|c| !c.is_empty()) {
                self.conditions.insert(below(&mut condition.split('.')));
            }
            for import in d.import_values.iter().flatten() {
                match import {
                    Data::String(export) => {
                        let keys = [name.as_str(), "exports"].into_iter().chain(export.split('.'));
                        self.whole.insert(below(&mut { keys }));
                    }
                    other => {
                        let child = other.get("child").and_then(Data::as_str).unwrap_or_default();
                        let keys = std::iter::once(name.as_str()).chain(child.split('.'));
                        self.whole.insert(below(&mut { keys }));
                    }
                }
            }
        }
        self.whole.insert(below(&mut std::iter::once("tags")));
        self.whole.extend(self.conditions.iter().cloned());
    }
}

/// A chart's subcharts with the names of their values.
fn subcharts(chart: &Chart) -> Vec<(&str, &Chart)> {
    let declared = || chart.metadata.dependencies.iter().flatten();
    let mut found = Vec::new();
    for sub in &chart.dependencies {
        let before = found.len();
        for d in declared().filter(|d| d.name == sub.name()) {
            found.push((if d.alias.is_empty() { d.name.as_str() } else { d.alias.as_str() }, sub));
        }
        if found.len() == before {
            found.push((sub.name(), sub));
        }
    }
    found
}
