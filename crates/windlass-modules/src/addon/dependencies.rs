//! Which modules a module depends on, as its chart's annotation says. Pure.

use windlass_controller::dependencies::{Dependencies, DependencyProblem, resolve};

/// Annotation of a module's chart: names of modules, separated by commas, that must have worked before it runs.
const ANNOTATION: &str = "windlass.dev/depends-on-modules";

/// Reads the dependencies of modules: each with its name and the annotations of its chart. Those that can never be fulfilled are
/// left out and reported: on modules that do not exist, and cycles.
pub fn of_modules<'m>(
    modules: impl Iterator<Item = (&'m str, Option<&'m [(String, String)]>)>,
) -> (Dependencies, Vec<String>) {
    let declared = modules.map(|(name, annotations)| {
        let text = annotations.unwrap_or_default().iter().find(|(key, _)| key == ANNOTATION);
        let names = text.map_or("", |(_, text)| text.as_str()).split(',').map(str::trim);
        (name.to_owned(), names.filter(|n| !n.is_empty()).map(str::to_owned).collect())
    });
    let (dependencies, problems) = resolve(declared.collect());
    let text = |problem: &DependencyProblem| match problem {
        DependencyProblem::Missing { key, on } => {
            format!("module {key}: annotation {ANNOTATION}: there is no module {on:?}")
        }
        DependencyProblem::Cycle { key } => {
            format!("module {key}: annotation {ANNOTATION}: dependency cycle; its dependencies are ignored")
        }
    };
    (dependencies, problems.iter().map(text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_and_unfulfillable_dependencies() {
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
        let (waits, problems) = of_modules(modules.iter().map(|(n, a)| (*n, a.as_deref())));
        let of = |name: &str| waits.get(name).map(|w| w.iter().cloned().collect::<Vec<_>>().join(","));
        assert_eq!(of("a").as_deref(), Some("b,c"));
        assert_eq!((of("b"), of("c")), (None, None));
        assert_eq!(of("d").as_deref(), Some("a"));
        assert_eq!(of("h").as_deref(), Some("e"));
        assert!(
            problems.iter().any(|p| p.contains("module d") && p.contains("no module \"nope\"")),
            "{problems:?}"
        );
        // The dependencies of one key of the cycle are ignored; the others can be fulfilled then.
        assert_eq!(of("e"), None);
        assert_eq!(problems.iter().filter(|p| p.contains("dependency cycle")).count(), 1, "{problems:?}");
        assert_eq!((of("f").as_deref(), of("g").as_deref()), (Some("g"), Some("e")));
    }
}
