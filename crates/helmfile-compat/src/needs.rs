//! The order of releases that need each other.
//!
//! Owns the grouping of releases into waves and the errors of a graph that has no order. Knows identities, not releases.

use std::collections::{BTreeMap, BTreeSet};

use super::error::Error;

/// A release in the graph.
#[derive(Clone, Debug)]
pub struct Node {
    /// The identity.
    pub id: String,
    /// The identities of what it needs.
    pub needs: Vec<String>,
}

/// Which releases of the graph are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// Only the chosen ones; a chosen one that needs another one is an error.
    Refuse,
    /// Only the chosen ones (`--skip-needs`).
    Skip,
    /// The chosen ones and all that they need (`--include-needs`).
    Include,
}

/// Groups the chosen releases into waves: indexes into `nodes`, each wave in order of the file. Without choice, all are chosen.
///
/// # Errors
/// A need is not defined, releases need each other in a circle, or a need is not chosen.
pub fn waves(nodes: &[Node], chosen: &[String], needed: Needed) -> Result<Vec<Vec<usize>>, Error> {
    let mut index: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, node) in nodes.iter().enumerate() {
        index.insert(&node.id, at);
    }
    check_defined(nodes, &index)?;
    let depths = depths(nodes, &index)?;
    let mut wanted: Option<BTreeSet<&str>> =
        (!chosen.is_empty()).then(|| chosen.iter().map(String::as_str).collect());
    let deepest = depths.iter().copied().max().unwrap_or(0);
    let mut out: Vec<Vec<usize>> = Vec::new();
    // From the last wave to the first, so that the needs of needs are seen.
    for depth in (0..=deepest).rev() {
        let mut wave = Vec::new();
        for (at, node) in nodes.iter().enumerate().filter(|(at, _)| depths.get(*at) == Some(&depth)) {
            let Some(wanted) = wanted.as_mut() else {
                wave.push(at);
                continue;
            };
            if wanted.contains(node.id.as_str()) {
                wave.push(at);
                continue;
            }
            if needed == Needed::Skip {
                continue;
            }
            let dependents: Vec<&str> = nodes
                .iter()
                .filter(|other| wanted.contains(other.id.as_str()) && other.needs.contains(&node.id))
                .map(|other| other.id.as_str())
                .collect();
            if dependents.is_empty() {
                continue;
            }
            if needed == Needed::Refuse {
                return Err(Error::Invalid(not_chosen(&node.id, dependents)));
            }
            wanted.insert(&node.id);
            wave.push(at);
        }
        // Releases with one identity stand together where the last of them is.
        wave.sort_by_key(|at| nodes.get(*at).and_then(|node| index.get(node.id.as_str())).copied());
        if !wave.is_empty() {
            out.push(wave);
        }
    }
    out.reverse();
    Ok(out)
}

fn check_defined(nodes: &[Node], index: &BTreeMap<&str, usize>) -> Result<(), Error> {
    let missing = nodes.iter().flat_map(|node| &node.needs).find(|need| !index.contains_key(need.as_str()));
    let Some(missing) = missing else { return Ok(()) };
    let mut dependents: Vec<String> = nodes
        .iter()
        .filter(|node| node.needs.contains(missing))
        .map(|node| format!("{:?}", node.id))
        .collect();
    dependents.sort();
    dependents.dedup();
    let name = missing.rsplit('/').next().unwrap_or_default();
    Err(Error::Invalid(format!(
        "release(s) {} depend(s) on an undefined release {missing:?}. Perhaps you made a typo in \"needs\" or forgot defining a \
         release named {name:?} with appropriate \"namespace\" and \"kubeContext\"?",
        dependents.join(", ")
    )))
}

/// The wave of each node: one more than the deepest of its needs.
fn depths(nodes: &[Node], index: &BTreeMap<&str, usize>) -> Result<Vec<usize>, Error> {
    let mut depths: Vec<Option<usize>> = vec![None; nodes.len()];
    let mut left = nodes.len();
    let mut round = 0;
    while left > 0 {
        let ready: Vec<usize> = nodes
            .iter()
            .enumerate()
            .filter(|(at, node)| {
                depths.get(*at) == Some(&None)
                    && node.needs.iter().all(|need| {
                        index.get(need.as_str()).and_then(|at| depths.get(*at)).is_some_and(Option::is_some)
                    })
            })
            .map(|(at, _)| at)
            .collect();
        if ready.is_empty() {
            return Err(Error::Invalid(format!("cycle detected: {}", circle(nodes, index, &depths))));
        }
        left -= ready.len();
        for at in ready {
            if let Some(depth) = depths.get_mut(at) {
                *depth = Some(round);
            }
        }
        round += 1;
    }
    Ok(depths.into_iter().map(Option::unwrap_or_default).collect())
}

/// A circle among nodes without a wave, as `a -> b -> a`: each needs the one before it.
fn circle(nodes: &[Node], index: &BTreeMap<&str, usize>, depths: &[Option<usize>]) -> String {
    let stuck = |at: &usize| depths.get(*at) == Some(&None);
    let first = (0..nodes.len()).filter(stuck).min_by_key(|at| nodes.get(*at).map(|node| &node.id));
    let mut path: Vec<&str> = Vec::new();
    let mut at = first;
    while let Some(node) = at.and_then(|at| nodes.get(at)) {
        if let Some(start) = path.iter().position(|id| *id == node.id) {
            let mut circle: Vec<&str> = path.get(start..).unwrap_or_default().to_vec();
            circle.push(&node.id);
            circle.reverse();
            return circle.join(" -> ");
        }
        path.push(&node.id);
        at = node.needs.iter().filter_map(|need| index.get(need.as_str()).copied()).find(stuck);
    }
    path.join(" -> ")
}

fn not_chosen(id: &str, mut dependents: Vec<&str>) -> String {
    dependents.sort_unstable();
    let quoted: Vec<String> = dependents.iter().map(|id| format!("{id:?}")).collect();
    let shown = match quoted.split_last() {
        Some((last, rest)) if rest.len() >= 2 => format!("{}, and {last}", rest.join(", ")),
        _ => quoted.join(" and "),
    };
    let verb = if dependents.len() == 1 { "depends" } else { "depend" };
    let name = id.rsplit('/').next().unwrap_or_default();
    format!(
        "release {shown} {verb} on {id:?} which does not match the selectors. Please add a selector like \"--selector \
         name={name}\", or indicate whether to skip (--skip-needs) or include (--include-needs) these dependencies"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(text: &[(&str, &[&str])]) -> Vec<Node> {
        let node = |(id, needs): &(&str, &[&str])| Node {
            id: (*id).to_owned(),
            needs: needs.iter().map(|need| (*need).to_owned()).collect(),
        };
        text.iter().map(node).collect()
    }

    fn order_text(nodes: &[Node], chosen: &[&str], needed: Needed) -> Result<String, String> {
        let chosen: Vec<String> = chosen.iter().map(|id| (*id).to_owned()).collect();
        let waves = waves(nodes, &chosen, needed).map_err(|error| error.to_string())?;
        let ids =
            |wave: &Vec<usize>| wave.iter().map(|at| nodes[*at].id.clone()).collect::<Vec<_>>().join(" ");
        Ok(waves.iter().map(ids).collect::<Vec<_>>().join(" | "))
    }

    #[test]
    fn releases_come_after_what_they_need() {
        let graph = nodes(&[("c", &["b"]), ("z", &[]), ("b", &["a"]), ("a", &[])]);
        assert_eq!(order_text(&graph, &[], Needed::Include).unwrap(), "z a | b | c");
        assert_eq!(order_text(&graph, &["c"], Needed::Include).unwrap(), "a | b | c");
        assert_eq!(order_text(&graph, &["c"], Needed::Skip).unwrap(), "c");
        assert!(order_text(&graph, &["c"], Needed::Refuse).unwrap_err().contains("name=b"));
    }

    #[test]
    fn a_graph_without_order_is_refused() {
        let circle = nodes(&[("a", &["b"]), ("b", &["c"]), ("c", &["a"]), ("d", &["a"])]);
        assert_eq!(
            order_text(&circle, &[], Needed::Include).unwrap_err(),
            "cycle detected: a -> c -> b -> a"
        );
        let undefined = nodes(&[("n/a", &["n/b"])]);
        assert!(order_text(&undefined, &[], Needed::Skip).unwrap_err().contains("undefined release \"n/b\""));
    }
}
