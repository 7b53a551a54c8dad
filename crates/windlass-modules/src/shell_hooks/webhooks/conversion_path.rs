//! Which steps convert from one version to another: the fewest that do. Pure.
//!
//! Versions come with or without their group, as hooks write them; they are the same if one has no group and the rest is
//! equal (`conversion.VersionsMatched`). Unlike addon-operator's search, the answer does not depend on the order of a map.

use std::collections::VecDeque;

/// Whether two spellings mean one version.
#[must_use]
pub fn same_version(a: &str, b: &str) -> bool {
    match (a.split_once('/'), b.split_once('/')) {
        (Some((_, version)), None) => version == b,
        (None, Some((_, version))) => version == a,
        _ => a == b,
    }
}

/// The indexes of the steps from one version to another, in order; the first of several ways that are equally short, where
/// steps that spell a version out the same way come first. `None`: there is no way. Empty: it is that version already.
#[must_use]
pub fn chain(steps: &[(String, String)], from: &str, to: &str) -> Option<Vec<usize>> {
    if same_version(from, to) {
        return Some(Vec::new());
    }
    let mut reached = vec![false; steps.len()];
    let mut ways: VecDeque<Vec<usize>> = VecDeque::from([Vec::new()]);
    while let Some(way) = ways.pop_front() {
        let at = way.last().map_or(from, |i| steps[*i].1.as_str());
        let mut next: Vec<usize> =
            (0..steps.len()).filter(|i| !reached[*i] && same_version(at, &steps[*i].0)).collect();
        next.sort_by_key(|i| (steps[*i].0 != at, steps[*i].1 != to));
        for i in next {
            reached[i] = true;
            let longer: Vec<usize> = way.iter().copied().chain([i]).collect();
            if same_version(&steps[i].1, to) {
                return Some(longer);
            }
            ways.push_back(longer);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_with_and_without_their_group() {
        for (a, b, same) in [
            ("v1", "v1", true),
            ("g.io/v1", "v1", true),
            ("v1", "g.io/v1", true),
            ("g.io/v1", "h.io/v1", false),
            ("v1", "v2", false),
            ("g.io/v1", "v2", false),
        ] {
            assert_eq!(same_version(a, b), same, "{a} {b}");
        }
    }

    #[test]
    fn the_shortest_way_is_taken() {
        let steps = |text: &str| -> Vec<(String, String)> {
            let pair = |s: &str| s.split_once('>').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
            text.split_whitespace().map(pair).collect()
        };
        let table: [(&str, &str, &str, Option<&[usize]>); 11] = [
            ("v1>v2 v2>v3", "g/v1", "g/v3", Some(&[0, 1])),
            ("v1>v2 v2>v3 v1>v3", "g/v1", "g/v3", Some(&[2])),
            ("v2>v3 v1>v2", "v1", "v3", Some(&[1, 0])),
            ("v1>v2 v2>v1", "v1", "v3", None),
            ("v1>v2", "v2", "v1", None),
            ("v1>v2", "v1", "g/v1", Some(&[])),
            ("", "v1", "v2", None),
            // Cycles end here.
            ("v1>v2 v2>v1 v2>v3 v3>v2 v3>v4", "v1", "v4", Some(&[0, 2, 4])),
            // Spelt out in one place, short in another.
            ("g/v1>v2 g/v2>g/v3 v3>v4", "g/v1", "g/v4", Some(&[0, 1, 2])),
            // The requested spelling comes first.
            ("v1>v2 g/v1>g/v2", "g/v1", "g/v2", Some(&[1])),
            ("h/v1>v2", "g/v1", "g/v2", None),
        ];
        for (text, from, to, want) in table {
            assert_eq!(chain(&steps(text), from, to).as_deref(), want, "{text}: {from} to {to}");
        }
    }
}
