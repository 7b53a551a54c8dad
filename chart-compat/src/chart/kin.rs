//! Which chart a subchart takes for its parent, and so where its templates seem to lie.
//!
//! Helm copies a chart for each entry of `dependencies` that names it. What lies below the chart is the same for all copies, and
//! keeps its parent until somebody sets another: Helm 3 does so for copies that have a list of dependencies themselves, and the last
//! copy counts; Helm 4 copies the next level, too.

use std::collections::HashSet;

use super::load::Chart;
use crate::profile::Profile;

/// A chart in the place where it is used; several places may have the same chart.
#[derive(Clone)]
pub(super) struct Place {
    id: usize,
    /// In the order of the chart's subcharts.
    pub(super) below: Vec<Place>,
    /// Of the chart's list of dependencies, those that take part, by their place in it.
    pub(super) enabled: Vec<usize>,
}

#[derive(Clone)]
struct Member {
    name: String,
    parent: Option<usize>,
    /// Copies of one number share their list of dependencies.
    list: usize,
}

/// All charts of a tree, those included that were copied and are not used any more.
#[derive(Default)]
pub(super) struct Kin {
    members: Vec<Member>,
    /// The lists that were gone through: each dependency has its alias for a name from then on.
    pub(super) renamed: HashSet<usize>,
    /// The dependencies, by list and place, whose import-values were read: Helm writes them back in a form that it does not read.
    imported: HashSet<(usize, usize)>,
}

impl Kin {
    /// Takes a tree up as it was loaded.
    pub(super) fn plant(&mut self, chart: &Chart, parent: Option<usize>) -> Place {
        let id = self.members.len();
        self.members.push(Member { name: chart.name().to_owned(), parent, list: id });
        let below = chart.dependencies.iter().map(|sub| self.plant(sub, Some(id))).collect();
        Place { id, below, enabled: Vec::new() }
    }

    fn twin(&mut self, id: usize) -> usize {
        let twin = self.members.len();
        self.members.push(self.members[id].clone());
        twin
    }

    /// The copy of a chart that a dependency stands for (`getAliasDependency`).
    pub(super) fn copy(&mut self, place: &Place, alias: &str, profile: Profile) -> Place {
        let id = self.twin(place.id);
        let mut below = place.below.clone();
        if profile == Profile::Helm4 {
            for sub in &mut below {
                sub.id = self.twin(sub.id);
                self.members[sub.id].parent = Some(id);
            }
            self.members[id].list = id;
        }
        if !alias.is_empty() {
            alias.clone_into(&mut self.members[id].name);
        }
        Place { id, below, enabled: Vec::new() }
    }

    /// Whether the import-values of one of the dependencies that take part are read for the first time.
    pub(super) fn imports(&mut self, place: &Place, number: usize) -> bool {
        let list = self.members[place.id].list;
        place.enabled.get(number).is_none_or(|at| self.imported.insert((list, *at)))
    }

    /// Makes a chart the parent of what lies below it (`SetDependencies`).
    pub(super) fn adopt(&mut self, place: &Place) {
        for sub in &place.below {
            self.members[sub.id].parent = Some(place.id);
        }
    }

    /// Whether the chart's dependencies have their aliases for names already.
    pub(super) fn is_renamed(&self, place: &Place) -> bool {
        self.renamed.contains(&self.members[place.id].list)
    }

    pub(super) fn rename(&mut self, place: &Place) {
        self.renamed.insert(self.members[place.id].list);
    }

    fn path(&self, id: usize) -> String {
        let member = &self.members[id];
        match member.parent {
            Some(parent) => format!("{}/charts/{}", self.path(parent), member.name),
            None => member.name.clone(),
        }
    }

    /// Tells each subchart that seems to lie elsewhere than below its parent (`ChartFullPath`).
    pub(super) fn settle(&self, chart: &mut Chart, place: &Place) {
        for (sub, below) in chart.dependencies.iter_mut().zip(&place.below) {
            let moved = self.members[below.id].parent != Some(place.id);
            sub.home = moved.then(|| self.path(below.id));
            self.settle(sub, below);
        }
    }
}
