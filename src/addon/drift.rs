//! The drift policy of one module: the annotations of its chart over the operator's flags.

use crate::controller::DriftPolicy;

/// Annotation of a module's chart: what is done about drift of its release.
const MODE: &str = "windlass.dev/drift";
/// The same: fields that are not drift, one rule a line or separated by commas.
const IGNORE: &str = "windlass.dev/drift-ignore";

/// The policy of one module.
///
/// # Errors
/// A mode that does not exist: the text names the annotation.
pub(super) fn of_chart(
    operator: &DriftPolicy,
    annotations: Option<&[(String, String)]>,
) -> Result<DriftPolicy, String> {
    let mut own = operator.clone();
    for (name, text) in annotations.unwrap_or_default() {
        match name.as_str() {
            MODE => own.mode = text.parse().map_err(|e| format!("Chart.yaml: annotation {MODE}: {e}"))?,
            IGNORE => {
                let rules = text.split([',', '\n']).map(str::trim).filter(|rule| !rule.is_empty());
                own.ignore.extend(rules.map(str::to_owned));
            }
            _ => {}
        }
    }
    Ok(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::DriftMode;

    #[test]
    fn annotations_of_charts_come_first() {
        let operators = DriftPolicy { mode: DriftMode::Report, ignore: vec!["spec.replicas".into()] };
        let annotation = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let of = |annotations: &[(String, String)]| of_chart(&operators, Some(annotations));
        assert_eq!(of_chart(&operators, None).unwrap().mode, DriftMode::Report);
        let own =
            of(&[annotation(MODE, "correct"), annotation(IGNORE, "Deployment:spec.paused, data\nspec.x")]);
        let own = own.unwrap();
        assert_eq!(own.mode, DriftMode::Correct);
        assert_eq!(own.ignore, ["spec.replicas", "Deployment:spec.paused", "data", "spec.x"]);
        let wrong = of(&[annotation(MODE, "never")]).unwrap_err();
        assert!(wrong.contains("\"never\" is not a drift mode"), "{wrong}");
    }
}
