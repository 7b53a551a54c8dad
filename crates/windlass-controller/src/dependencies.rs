//! Which keys depend on which. Pure.
//!
//! Owns what is wrong with declared dependencies; when a key's turn comes, the work queue knows.

use std::collections::{BTreeMap, BTreeSet};

/// What each key depends on. Keys without dependencies are absent.
pub type Dependencies = BTreeMap<String, BTreeSet<String>>;

/// A declared dependency that can never be fulfilled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DependencyProblem {
    /// The key depends on one that does not exist.
    Missing {
        /// The key.
        key: String,
        /// What it depends on.
        on: String,
    },
    /// The key depends on itself, directly or through others; its dependencies are ignored.
    Cycle {
        /// The key.
        key: String,
    },
}

/// Resolves declared dependencies: those on absent keys and those that close a cycle are left out and returned as problems.
#[must_use]
pub fn resolve(mut declared: Dependencies) -> (Dependencies, Vec<DependencyProblem>) {
    let mut problems = Vec::new();
    let known: BTreeSet<String> = declared.keys().cloned().collect();
    for (key, dependencies) in &mut declared {
        for on in dependencies.difference(&known) {
            problems.push(DependencyProblem::Missing { key: key.clone(), on: on.clone() });
        }
        dependencies.retain(|on| known.contains(on));
    }
    for key in &known {
        if reaches(|key| declared.get(key), key, key) {
            problems.push(DependencyProblem::Cycle { key: key.clone() });
            declared.remove(key);
        }
    }
    declared.retain(|_, dependencies| !dependencies.is_empty());
    (declared, problems)
}

/// Whether a key depends on another, directly or through others.
#[must_use]
pub fn reaches<'d, D: IntoIterator<Item = &'d String>>(
    dependencies: impl Fn(&str) -> Option<D>,
    from: &'d str,
    to: &str,
) -> bool {
    let mut seen = BTreeSet::new();
    let mut left = vec![from];
    while let Some(key) = left.pop() {
        for next in dependencies(key).into_iter().flatten() {
            if next == to {
                return true;
            }
            if seen.insert(next) {
                left.push(next);
            }
        }
    }
    false
}
