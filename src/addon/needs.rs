//! Which modules a module waits for, as its chart's annotation says. Pure.
//!
//! Owns the annotation and what is wrong with what it says; whose turn it is, `queue` knows.

use std::collections::{BTreeMap, BTreeSet};

/// Annotation of a module's chart: names of modules, separated by commas, that must have worked before it runs.
const ANNOTATION: &str = "windlass.dev/depends-on-modules";

/// What each module waits for, by name.
pub(super) type Waits = BTreeMap<String, BTreeSet<String>>;

/// Reads what modules say that they wait for: each with its name and the annotations of its chart. What can never come is left
/// out and told: modules that are not there, and those that wait for each other.
pub(super) fn waits<'m>(
    modules: impl Iterator<Item = (&'m str, Option<&'m [(String, String)]>)>,
) -> (Waits, Vec<String>) {
    let mut said: Waits = BTreeMap::new();
    for (name, annotations) in modules {
        let text = annotations.unwrap_or_default().iter().find(|(key, _)| key == ANNOTATION);
        let names = text.map_or("", |(_, text)| text.as_str()).split(',').map(str::trim);
        let names = names.filter(|n| !n.is_empty()).map(str::to_owned).collect();
        said.insert(name.to_owned(), names);
    }
    let mut problems = Vec::new();
    let known: BTreeSet<String> = said.keys().cloned().collect();
    for (name, waits) in &mut said {
        for other in waits.difference(&known) {
            problems.push(format!("module {name}: annotation {ANNOTATION}: there is no module {other:?}"));
        }
        waits.retain(|other| known.contains(other));
    }
    for name in &known {
        if reaches(&said, name, name) {
            problems.push(format!(
                "module {name}: annotation {ANNOTATION}: it waits for itself, by way of what it waits for; it waits for nobody"
            ));
            said.remove(name);
        }
    }
    said.retain(|_, waits| !waits.is_empty());
    (said, problems)
}

/// Whether a module waits for another, be it by way of others.
fn reaches(waits: &Waits, from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut left = vec![from];
    while let Some(name) = left.pop() {
        for next in waits.get(name).into_iter().flatten() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_and_what_can_never_come() {
        let said =
            |text: &str| vec![("other".to_owned(), "x".to_owned()), (ANNOTATION.to_owned(), text.to_owned())];
        let modules = [
            ("a", Some(said("b, c"))),
            ("b", Some(said(""))),
            ("c", None),
            ("d", Some(said("nope,a"))),
            ("e", Some(said("f"))),
            ("f", Some(said("g"))),
            ("g", Some(said("e"))),
            ("h", Some(said("e"))),
        ];
        let (waits, problems) = waits(modules.iter().map(|(n, a)| (*n, a.as_deref())));
        let of = |name: &str| waits.get(name).map(|w| w.iter().cloned().collect::<Vec<_>>().join(","));
        assert_eq!(of("a").as_deref(), Some("b,c"));
        assert_eq!((of("b"), of("c")), (None, None));
        assert_eq!(of("d").as_deref(), Some("a"));
        assert_eq!(of("h").as_deref(), Some("e"));
        assert!(
            problems.iter().any(|p| p.contains("module d") && p.contains("no module \"nope\"")),
            "{problems:?}"
        );
        // One that waits for itself waits for nobody; the others of the circle then have an end to wait for.
        assert_eq!(of("e"), None);
        assert_eq!(problems.iter().filter(|p| p.contains("waits for itself")).count(), 1, "{problems:?}");
        assert_eq!((of("f").as_deref(), of("g").as_deref()), (Some("g"), Some("e")));
    }
}
