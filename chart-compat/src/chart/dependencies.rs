//! Dependency processing: enabled subcharts, their aliases and imported values (`chart/v2/util/dependencies.go`).

use std::collections::HashSet;
use std::sync::Arc;

use super::Warn;
use super::alias_tree::{AliasTree, Node};
use super::coalesce::{coalesce_values_within, merge_tables, merge_values, tell};
use super::error::Error;
use super::imports::Imports;
use super::load::Chart;
use super::metadata::Dependency;
use super::preparation::Preparation;
use super::values::{find_table, path_value, table};
use crate::data::{Data, Map};
use crate::go::{Arena, Value, fmt, semver, slog, strconv};
use crate::profile::Profile;

/// Applies aliases, tags, conditions and import-values to a loaded chart, given the user's values
/// (`ProcessDependencies`).
///
/// # Errors
/// Values of a subchart that are not a table, too many copies of charts, copies of charts and values that take more than
/// [`memory::of_input`](crate::memory::of_input), or imports whose paths are too long.
pub fn process_dependencies(
    chart: &mut Chart,
    user: &Map,
    profile: Profile,
    warn: Warn<'_>,
) -> Result<(), Error> {
    process_dependencies_within(chart, user, profile, &Preparation::default(), warn)
}

/// As [`process_dependencies`], within other bounds.
pub(crate) fn process_dependencies_within(
    chart: &mut Chart,
    user: &Map,
    profile: Profile,
    preparation: &Preparation<'_>,
    warn: Warn<'_>,
) -> Result<(), Error> {
    let mut aliases = AliasTree::default();
    let mut node = aliases.add(chart, None);
    let mut walk = Walk { profile, preparation, warn, aliases };
    walk.enable(chart, &mut node, user, "")?;
    walk.aliases.set_homes(chart, &node);
    walk.import_values(chart, &node)
}

fn wants(req: &Dependency, chart: &Chart) -> bool {
    chart.name() == req.name && semver::is_compatible(&req.version, &chart.metadata.version)
}

/// A declared dependency whose chart is there in another version: its alias, condition, tags and imports do not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherVersion {
    /// The chart's name.
    pub name: String,
    /// The alias of the dependency, or empty.
    pub alias: String,
    /// The version, or the range, that is asked for.
    pub wanted: String,
    /// The version of the chart.
    pub found: String,
}

impl std::fmt::Display for OtherVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, alias, wanted, found } = self;
        let wanted = if wanted.is_empty() { "no version" } else { wanted };
        let without = match alias.as_str() {
            "" => "the condition, tags and import-values of the dependency are ignored".to_owned(),
            alias => format!(
                "it is rendered as {name}, and the alias {alias}, its values, and the condition, tags and import-values of the \
                 dependency are ignored"
            ),
        };
        write!(
            f,
            "charts/{name} has version {found} and Chart.yaml asks for {wanted}: {without}; fetch the version with dependency update, \
             or change it in Chart.yaml"
        )
    }
}

/// The dependencies of a loaded chart whose charts are there in other versions.
#[must_use]
pub fn other_versions(chart: &Chart) -> Vec<OtherVersion> {
    let unmet = |req: &&Dependency| !chart.dependencies.iter().any(|sub| wants(req, sub));
    let declared = chart.metadata.dependencies.iter().flatten().filter(unmet);
    declared
        .filter_map(|req| {
            let found = chart.dependencies.iter().find(|sub| sub.name() == req.name)?;
            Some(OtherVersion {
                name: req.name.clone(),
                alias: req.alias.clone(),
                wanted: req.version.clone(),
                found: found.metadata.version.clone(),
            })
        })
        .collect()
}

/// The most import-values of a dependency.
const MAX_IMPORTS: usize = 1_000;

/// The parameters common to all charts of a tree.
struct Walk<'w, 's> {
    profile: Profile,
    preparation: &'w Preparation<'s>,
    warn: Warn<'w>,
    aliases: AliasTree,
}

impl Walk<'_, '_> {
    /// The subcharts that no dependency names, then one for each dependency whose chart is there, which takes its alias.
    fn select(
        &mut self,
        chart: &mut Chart,
        node: &mut Node,
        reqs: &mut [Dependency],
    ) -> Result<usize, Error> {
        let charts = std::mem::take(&mut chart.dependencies);
        let mut declared: Vec<(Chart, Node)> = Vec::new();
        let mut selected: Vec<(Chart, Node)> = Vec::new();
        for (sub, below) in charts.into_iter().zip(std::mem::take(&mut node.below)) {
            self.preparation.step(reqs.len())?;
            let named = reqs.iter().filter(|req| req.name == sub.name());
            self.preparation.step(named.map(|req| req.version.len()).sum())?;
            let is_declared = reqs.iter().any(|req| wants(req, &sub));
            if is_declared { &mut declared } else { &mut selected }.push((sub, below));
        }
        let undeclared = selected.len();
        for req in reqs {
            self.preparation.step(declared.len())?;
            let named = declared.iter().filter(|(sub, _)| sub.name() == req.name);
            self.preparation.step(named.count() * req.version.len())?;
            if let Some((found, original)) = declared.iter().find(|(c, _)| wants(req, c)) {
                self.preparation.take_chart(found, &req.alias)?;
                let mut sub = found.clone();
                if !req.alias.is_empty() {
                    sub.metadata.name.clone_from(&req.alias);
                }
                selected.push((sub, self.aliases.copy(original, &req.alias, self.profile)));
            }
            take_alias(req);
            req.enabled = true;
        }
        (chart.dependencies, node.below) = selected.into_iter().unzip();
        Ok(undeclared)
    }

    fn enable(&mut self, chart: &mut Chart, node: &mut Node, values: &Map, path: &str) -> Result<(), Error> {
        let Some(mut reqs) = chart.metadata.dependencies.take() else { return Ok(()) };
        if self.aliases.is_renamed(node) {
            reqs.iter_mut().for_each(take_alias);
        }
        let undeclared = self.select(chart, node, &mut reqs).map_err(|e| e.in_chart(&shown(path, chart)))?;
        self.aliases.set_parent(node);
        let taken = self.preparation.taken();
        let coalesced = coalesce_values_within(chart, values, self.profile, self.preparation, self.warn)?;
        self.tags(&mut reqs, &coalesced)
            .and_then(|()| self.conditions(&mut reqs, &coalesced, path))
            .map_err(|e| e.in_chart(&shown(path, chart)))?;
        let disabled: HashSet<String> = reqs.iter().filter(|r| !r.enabled).map(|r| r.name.clone()).collect();
        let takes_part = |r: &Dependency| !disabled.contains(&r.name);
        node.enabled = (0..reqs.len()).filter(|at| takes_part(&reqs[*at])).collect();
        reqs.retain(takes_part);
        let subcharts =
            std::mem::take(&mut chart.dependencies).into_iter().zip(std::mem::take(&mut node.below));
        for (number, (mut sub, mut below)) in subcharts.enumerate() {
            if disabled.contains(sub.name()) {
                continue;
            }
            let path = format!("{path}{}.", sub.name());
            // Helm 3 processes shared lists again, with the subcharts of the first time: names and aliases agree.
            let shared = self.profile == Profile::Helm3 && number < undeclared;
            if shared {
                self.preparation.step(self.aliases.renamed.len())?;
            }
            let renamed = shared.then(|| self.aliases.renamed.clone());
            self.enable(&mut sub, &mut below, &coalesced, &path)?;
            match renamed {
                Some(renamed) => self.aliases.renamed = renamed,
                None => self.aliases.rename(&below),
            }
            chart.dependencies.push(sub);
            node.below.push(below);
        }
        // An empty list becomes nil in Go, which switches import-values off.
        chart.metadata.dependencies = (!reqs.is_empty()).then_some(reqs);
        drop(coalesced);
        self.preparation.give_back(taken);
        Ok(())
    }

    /// Warns, if there is memory for the text.
    fn tell(&mut self, line: String) -> Result<(), Error> {
        tell(self.preparation, line, self.warn)
    }

    fn tags(&mut self, reqs: &mut [Dependency], values: &Map) -> Result<(), Error> {
        let Some(tags) = table(values, "tags") else { return Ok(()) };
        for req in reqs {
            let (mut on, mut off) = (false, false);
            for tag in req.tags.iter().flatten() {
                self.preparation.step(1)?;
                match tags.get(tag) {
                    Some(Data::Bool(b)) => {
                        on |= b;
                        off |= !b;
                    }
                    Some(_) => {
                        let attributes = [("tag", tag.as_str()), ("chart", &req.name)];
                        self.tell(slog::line("WARN", "returned non-bool value", &attributes))?;
                    }
                    None => {}
                }
            }
            req.enabled = on || !off;
        }
        Ok(())
    }

    fn conditions(&mut self, reqs: &mut [Dependency], values: &Map, path: &str) -> Result<(), Error> {
        for req in reqs {
            for condition in req.condition.trim().split(',').filter(|c| !c.is_empty()) {
                self.preparation.step(1 + (path.len() + condition.len()) / 16)?;
                match path_value(values, &format!("{path}{condition}")) {
                    Some(Data::Bool(b)) => {
                        req.enabled = *b;
                        break;
                    }
                    Some(_) => {
                        let attributes = [("path", condition), ("chart", &req.name)];
                        self.tell(slog::line("WARN", "returned non-bool value", &attributes))?;
                    }
                    None => {}
                }
            }
        }
        Ok(())
    }

    fn import_values(&mut self, chart: &mut Chart, node: &Node) -> Result<(), Error> {
        for (sub, below) in chart.dependencies.iter_mut().zip(&node.below) {
            self.import_values(sub, below)?;
        }
        let Some(mut reqs) = chart.metadata.dependencies.take() else { return Ok(()) };
        let mut values = merge_values(chart, self.profile, self.preparation, self.warn)?;
        self.imports(node, &mut reqs, &mut values).map_err(|e| e.in_chart(chart.name()))?;
        chart.values = Arc::new(values);
        chart.metadata.dependencies = Some(reqs);
        Ok(())
    }

    fn imports(&mut self, node: &Node, reqs: &mut [Dependency], values: &mut Map) -> Result<(), Error> {
        let mut imported = Imports::new(self.preparation);
        for (number, req) in reqs.iter_mut().enumerate() {
            let count = req.import_values.as_ref().map_or(0, Vec::len);
            if count > MAX_IMPORTS {
                let bound = format!("import-values has {count} entries, more than {MAX_IMPORTS}");
                return Err(Error::bound(&req.name, bound));
            }
            let mut seen = Vec::new();
            let first = self.aliases.imports(node, number);
            for import in req.import_values.iter().flatten().filter(|_| first) {
                let (child, parent) = match import {
                    Data::Map(m) => (text(m.get("child")), text(m.get("parent"))),
                    Data::String(name) => (format!("exports.{name}"), ".".to_owned()),
                    _ => continue,
                };
                let path = format!("{}.{child}", req.name);
                match find_table(values, &path) {
                    Ok(_) => {
                        let mut told = |text: String| (self.warn)(slog::line("INFO", &text, &[]));
                        imported.add(values, &path, &parent, &mut told)?;
                    }
                    Err(missing) => {
                        let error = format!("{} is not a table", strconv::quote(missing.as_bytes()));
                        let (chart, error) = (("chart", req.name.as_str()), ("error", error.as_str()));
                        let line = match import {
                            Data::Map(_) => {
                                slog::line("WARN", "ImportValues missing table from chart", &[chart, error])
                            }
                            _ => slog::line("WARN", "ImportValues missing table", &[error]),
                        };
                        tell(self.preparation, line, self.warn)?;
                    }
                }
                let entry =
                    [("child".to_owned(), Data::String(child)), ("parent".to_owned(), Data::String(parent))];
                seen.push(Data::Map(Map::from(entry)));
            }
            req.import_values = Some(seen).filter(|seen| !seen.is_empty());
        }
        let imported = imported.resolve(values)?;
        let mut told = |text: String| (self.warn)(slog::line("INFO", &text, &[]));
        merge_tables(values, &imported, self.preparation, &mut told)
    }
}

/// The names of a chart and those around it, for errors.
fn shown(path: &str, chart: &Chart) -> String {
    if path.is_empty() { chart.name().to_owned() } else { path.trim_end_matches('.').to_owned() }
}

fn take_alias(req: &mut Dependency) {
    if !req.alias.is_empty() {
        req.name.clone_from(&req.alias);
    }
}

/// `fmt.Sprintf("%v", value)`
fn text(value: Option<&Data>) -> String {
    let arena = Arena::new();
    let value = value.map_or(Value::Nil, |d| Value::from_data(&arena, d));
    String::from_utf8_lossy(&fmt::sprint(value)).into_owned()
}
