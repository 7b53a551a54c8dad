//! The parents of subcharts that were copied under an alias, which decide the paths of their templates.
//!
//! Helm copies a chart for each entry of `dependencies` that names it. All copies share their subcharts, and a subchart keeps its
//! parent until Helm sets it again: Helm 3 sets it for copies that declare dependencies themselves, and the last copy wins;
//! Helm 4 also copies the next level.

use std::collections::HashSet;

use super::load::Chart;
use crate::profile::Profile;

/// One use of a chart; several nodes may use the same chart.
#[derive(Clone)]
pub(super) struct Node {
    id: usize,
    /// In the order of the chart's subcharts.
    pub(super) below: Vec<Node>,
    /// Indexes of the enabled entries in the chart's list of dependencies.
    pub(super) enabled: Vec<usize>,
}

#[derive(Clone)]
struct ChartCopy {
    name: String,
    parent: Option<usize>,
    /// Copies with the same number share their list of dependencies.
    list: usize,
}

/// All charts of a tree, including replaced copies.
#[derive(Default)]
pub(super) struct AliasTree {
    copies: Vec<ChartCopy>,
    /// The processed lists, whose dependencies have their aliases as names.
    pub(super) renamed: HashSet<usize>,
    /// The dependencies, by list and index, whose import-values were read: Helm writes them back in a form that it cannot parse.
    imported: HashSet<(usize, usize)>,
}

impl AliasTree {
    /// Adds a chart and its subcharts as they were loaded.
    pub(super) fn add(&mut self, chart: &Chart, parent: Option<usize>) -> Node {
        let id = self.copies.len();
        self.copies.push(ChartCopy { name: chart.name().to_owned(), parent, list: id });
        let below = chart.dependencies.iter().map(|sub| self.add(sub, Some(id))).collect();
        Node { id, below, enabled: Vec::new() }
    }

    fn duplicate(&mut self, id: usize) -> usize {
        let duplicate = self.copies.len();
        self.copies.push(self.copies[id].clone());
        duplicate
    }

    /// Copies a chart for a dependency with an alias (`getAliasDependency`).
    pub(super) fn copy(&mut self, node: &Node, alias: &str, profile: Profile) -> Node {
        let id = self.duplicate(node.id);
        let mut below = node.below.clone();
        if profile == Profile::Helm4 {
            for sub in &mut below {
                sub.id = self.duplicate(sub.id);
                self.copies[sub.id].parent = Some(id);
            }
            self.copies[id].list = id;
        }
        if !alias.is_empty() {
            alias.clone_into(&mut self.copies[id].name);
        }
        Node { id, below, enabled: Vec::new() }
    }

    /// Returns whether the import-values of an enabled dependency are read for the first time.
    pub(super) fn imports(&mut self, node: &Node, number: usize) -> bool {
        let list = self.copies[node.id].list;
        node.enabled.get(number).is_none_or(|at| self.imported.insert((list, *at)))
    }

    /// Makes a chart the parent of its subcharts (`SetDependencies`).
    pub(super) fn set_parent(&mut self, node: &Node) {
        for sub in &node.below {
            self.copies[sub.id].parent = Some(node.id);
        }
    }

    /// Whether the chart's dependencies already have their aliases as names.
    pub(super) fn is_renamed(&self, node: &Node) -> bool {
        self.renamed.contains(&self.copies[node.id].list)
    }

    pub(super) fn rename(&mut self, node: &Node) {
        self.renamed.insert(self.copies[node.id].list);
    }

    fn path(&self, id: usize) -> String {
        let copy = &self.copies[id];
        match copy.parent {
            Some(parent) => format!("{}/charts/{}", self.path(parent), copy.name),
            None => copy.name.clone(),
        }
    }

    /// Sets `home` of each subchart whose path is not below its parent (`ChartFullPath`).
    pub(super) fn set_homes(&self, chart: &mut Chart, node: &Node) {
        for (sub, below) in chart.dependencies.iter_mut().zip(&node.below) {
            let moved = self.copies[below.id].parent != Some(node.id);
            sub.home = moved.then(|| self.path(below.id));
            self.set_homes(sub, below);
        }
    }
}
