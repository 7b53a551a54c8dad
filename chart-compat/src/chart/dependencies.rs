//! Dependency processing: enabled subcharts, their aliases and imported values (`chart/v2/util/dependencies.go`).

use std::sync::Arc;

use super::Warn;
use super::alias_tree::{AliasTree, Node};
use super::coalesce::{coalesce_values, merge_tables, merge_values};
use super::error::Error;
use super::imports::Imports;
use super::load::Chart;
use super::metadata::Dependency;
use super::values::{find_table, path_value, table};
use crate::data::{Data, Map};
use crate::go::{Arena, Value, fmt, semver, slog, strconv};
use crate::profile::Profile;

/// Applies aliases, tags, conditions and import-values to a loaded chart, given the user's values
/// (`ProcessDependencies`).
///
/// # Errors
/// Values of a subchart that are not a table.
pub fn process_dependencies(
    chart: &mut Chart,
    user: &Map,
    profile: Profile,
    warn: Warn<'_>,
) -> Result<(), Error> {
    let mut aliases = AliasTree::default();
    let mut node = aliases.add(chart, None);
    let mut walk = Walk { profile, warn: &mut *warn, aliases };
    walk.enable(chart, &mut node, user, "")?;
    let mut aliases = walk.aliases;
    aliases.set_homes(chart, &node);
    import_values(chart, &node, &mut aliases, profile, warn)
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

/// The parameters common to all charts of a tree.
struct Walk<'w> {
    profile: Profile,
    warn: Warn<'w>,
    aliases: AliasTree,
}

impl Walk<'_> {
    fn enable(&mut self, chart: &mut Chart, node: &mut Node, values: &Map, path: &str) -> Result<(), Error> {
        let Some(mut reqs) = chart.metadata.dependencies.take() else { return Ok(()) };
        if self.aliases.is_renamed(node) {
            reqs.iter_mut().for_each(take_alias);
        }
        let charts = std::mem::take(&mut chart.dependencies);
        let loaded: Vec<(Chart, Node)> = charts.into_iter().zip(std::mem::take(&mut node.below)).collect();
        let is_declared = |c: &Chart| reqs.iter().any(|r| wants(r, c));
        let mut selected: Vec<_> = loaded.iter().filter(|(c, _)| !is_declared(c)).cloned().collect();
        let undeclared = selected.len();
        for req in &mut reqs {
            if let Some((found, original)) = loaded.iter().find(|(c, _)| wants(req, c)) {
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
        self.aliases.set_parent(node);
        let coalesced = coalesce_values(chart, values, self.profile, self.warn)?;
        tags(&mut reqs, &coalesced, self.warn);
        conditions(&mut reqs, &coalesced, path, self.warn);
        let disabled: Vec<String> = reqs.iter().filter(|r| !r.enabled).map(|r| r.name.clone()).collect();
        let takes_part = |r: &Dependency| !disabled.contains(&r.name);
        node.enabled = (0..reqs.len()).filter(|at| takes_part(&reqs[*at])).collect();
        reqs.retain(takes_part);
        let subcharts =
            std::mem::take(&mut chart.dependencies).into_iter().zip(std::mem::take(&mut node.below));
        for (number, (mut sub, mut below)) in subcharts.enumerate() {
            if disabled.iter().any(|n| n == sub.name()) {
                continue;
            }
            let path = format!("{path}{}.", sub.name());
            // Helm 3 processes shared lists again, with the subcharts of the first time: names and aliases agree.
            let shared = self.profile == Profile::Helm3 && number < undeclared;
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
        Ok(())
    }
}

fn take_alias(req: &mut Dependency) {
    if !req.alias.is_empty() {
        req.name.clone_from(&req.alias);
    }
}

fn tags(reqs: &mut [Dependency], values: &Map, warn: Warn<'_>) {
    let Some(tags) = table(values, "tags") else { return };
    for req in reqs {
        let (mut on, mut off) = (false, false);
        for tag in req.tags.iter().flatten() {
            match tags.get(tag) {
                Some(Data::Bool(b)) => {
                    on |= b;
                    off |= !b;
                }
                Some(_) => {
                    let attributes = [("tag", tag.as_str()), ("chart", &req.name)];
                    warn(slog::line("WARN", "returned non-bool value", &attributes));
                }
                None => {}
            }
        }
        req.enabled = on || !off;
    }
}

fn conditions(reqs: &mut [Dependency], values: &Map, path: &str, warn: Warn<'_>) {
    for req in reqs {
        for condition in req.condition.trim().split(',').filter(|c| !c.is_empty()) {
            match path_value(values, &format!("{path}{condition}")) {
                Some(Data::Bool(b)) => {
                    req.enabled = *b;
                    break;
                }
                Some(_) => {
                    let attributes = [("path", condition), ("chart", &req.name)];
                    warn(slog::line("WARN", "returned non-bool value", &attributes));
                }
                None => {}
            }
        }
    }
}

fn import_values(
    chart: &mut Chart,
    node: &Node,
    aliases: &mut AliasTree,
    profile: Profile,
    warn: Warn<'_>,
) -> Result<(), Error> {
    for (sub, below) in chart.dependencies.iter_mut().zip(&node.below) {
        import_values(sub, below, aliases, profile, warn)?;
    }
    let Some(mut reqs) = chart.metadata.dependencies.take() else { return Ok(()) };
    let mut values = merge_values(chart, profile, warn)?;
    let mut imported = Imports::default();
    for (number, req) in reqs.iter_mut().enumerate() {
        let mut seen = Vec::new();
        let first = aliases.imports(node, number);
        for import in req.import_values.iter().flatten().filter(|_| first) {
            let (child, parent) = match import {
                Data::Map(m) => (text(m.get("child")), text(m.get("parent"))),
                Data::String(name) => (format!("exports.{name}"), ".".to_owned()),
                _ => continue,
            };
            match find_table(&values, &format!("{}.{child}", req.name)) {
                Ok(_) => {
                    let mut told = |text: String| warn(slog::line("INFO", &text, &[]));
                    imported.add(&mut values, &format!("{}.{child}", req.name), &parent, &mut told);
                }
                Err(missing) => {
                    let error = format!("{} is not a table", strconv::quote(missing.as_bytes()));
                    let (chart, error) = (("chart", req.name.as_str()), ("error", error.as_str()));
                    warn(match import {
                        Data::Map(_) => {
                            slog::line("WARN", "ImportValues missing table from chart", &[chart, error])
                        }
                        _ => slog::line("WARN", "ImportValues missing table", &[error]),
                    });
                }
            }
            let entry =
                [("child".to_owned(), Data::String(child)), ("parent".to_owned(), Data::String(parent))];
            seen.push(Data::Map(Map::from(entry)));
        }
        req.import_values = Some(seen).filter(|seen| !seen.is_empty());
    }
    let imported = imported.resolve(&values);
    merge_tables(&mut values, &imported, &mut |text| warn(slog::line("INFO", &text, &[])));
    chart.values = Arc::new(values);
    chart.metadata.dependencies = Some(reqs);
    Ok(())
}

/// `fmt.Sprintf("%v", value)`
fn text(value: Option<&Data>) -> String {
    let arena = Arena::new();
    let value = value.map_or(Value::Nil, |d| Value::from_data(&arena, d));
    String::from_utf8_lossy(&fmt::sprint(value)).into_owned()
}
