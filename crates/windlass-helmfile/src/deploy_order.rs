//! The order in which releases of all state files are deployed. Pure.
//!
//! Owns the one graph over all files. helmfile's own graph ends at the border of a file; its files are handled one after the other.

use std::collections::{HashMap, HashSet};

use helmfile_compat::Error;
use helmfile_compat::needs::{self, Needed, Node};

/// A release among those of all files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The number of its file, in the order in which helmfile handles files.
    pub file: usize,
    /// Its identity.
    pub id: String,
    /// What it needs.
    pub needs: Vec<String>,
}

/// Where `needs` may lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// To releases of all files.
    #[default]
    All,
    /// To releases of the same file, as in helmfile.
    File,
}

/// Groups items into steps: indexes, each step after all that its items need. A file's releases come after those of earlier files,
/// unless an earlier one needs them.
///
/// # Errors
/// A need is not defined, or items need each other in a circle.
pub fn steps(items: &[Item], scope: Scope) -> Result<Vec<Vec<usize>>, Error> {
    let files = items.iter().map(|item| item.file + 1).max().unwrap_or(0);
    match scope {
        Scope::File => {
            for file in 0..files {
                check(items.iter().filter(|item| item.file == file))?;
            }
        }
        Scope::All => check(items.iter())?,
    }
    let mut waiting: HashMap<&str, usize> = HashMap::new();
    for item in items {
        *waiting.entry(&item.id).or_default() += 1;
    }
    let mut left: Vec<usize> = (0..items.len()).collect();
    let mut out = Vec::new();
    while !left.is_empty() {
        let is_ready = |at: &usize| {
            items.get(*at).is_some_and(|item| {
                item.needs.iter().all(|need| {
                    let own = usize::from(item.id == *need);
                    waiting.get(need.as_str()).is_none_or(|count| *count <= own)
                })
            })
        };
        let ready: Vec<usize> = left.iter().copied().filter(is_ready).collect();
        let first = ready.iter().filter_map(|at| items.get(*at)).map(|item| item.file).min();
        let step: Vec<usize> =
            ready.into_iter().filter(|at| items.get(*at).map(|item| item.file) == first).collect();
        if step.is_empty() {
            // `check` has found circles.
            return Err(Error::Invalid("releases need each other in a circle".to_owned()));
        }
        let done: HashSet<usize> = step.iter().copied().collect();
        left.retain(|at| !done.contains(at));
        for item in step.iter().filter_map(|at| items.get(*at)) {
            if let Some(count) = waiting.get_mut(item.id.as_str()) {
                *count = count.saturating_sub(1);
            }
        }
        out.push(step);
    }
    Ok(out)
}

fn check<'i>(items: impl Iterator<Item = &'i Item>) -> Result<(), Error> {
    let nodes: Vec<Node> =
        items.map(|item| Node { id: item.id.clone(), needs: item.needs.clone() }).collect();
    needs::waves(&nodes, &[], Needed::Include).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order_text(items: &[(usize, &str, &[&str])], scope: Scope) -> Result<String, String> {
        let item = |(file, id, needs): &(usize, &str, &[&str])| Item {
            file: *file,
            id: (*id).to_owned(),
            needs: needs.iter().map(|need| (*need).to_owned()).collect(),
        };
        let items: Vec<Item> = items.iter().map(item).collect();
        let ids =
            |step: &Vec<usize>| step.iter().map(|at| items[*at].id.clone()).collect::<Vec<_>>().join(" ");
        Ok(steps(&items, scope)
            .map_err(|error| error.to_string())?
            .iter()
            .map(ids)
            .collect::<Vec<_>>()
            .join(" | "))
    }

    #[test]
    fn files_come_in_order_and_needs_cross_them() {
        let plain: &[(usize, &str, &[&str])] = &[(0, "a", &[]), (0, "b", &["a"]), (1, "c", &[])];
        assert_eq!(order_text(plain, Scope::All).unwrap(), "a | b | c");
        let crossing: &[(usize, &str, &[&str])] =
            &[(0, "a", &["c"]), (0, "b", &[]), (1, "c", &[]), (1, "d", &[])];
        assert_eq!(order_text(crossing, Scope::All).unwrap(), "b | c d | a");
        assert!(order_text(crossing, Scope::File).unwrap_err().contains("undefined release \"c\""));
    }

    #[test]
    fn a_circle_over_files_is_refused() {
        let circle: &[(usize, &str, &[&str])] = &[(0, "a", &["b"]), (1, "b", &["a"])];
        assert!(order_text(circle, Scope::All).unwrap_err().starts_with("cycle detected: "));
    }
}
