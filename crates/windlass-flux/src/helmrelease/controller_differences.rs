//! What of a HelmRelease is not supported, or works differently than with helm-controller. Pure.

use serde_json::Value;

use super::object::HelmReleaseObject;
use flux_api::helm_release::HelmReleaseSpec;

/// A difference from helm-controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The object is refused; else it works differently.
    pub refused: bool,
    pub text: String,
}

/// The differences that affect a HelmRelease, those that refuse it first.
#[must_use]
pub fn differences(object: &Value) -> Vec<Difference> {
    let read = HelmReleaseObject::read(object);
    let spec = match read.spec() {
        Ok(spec) => spec,
        Err(error) => return vec![Difference { refused: true, text: error.to_string() }],
    };
    let differs = differing(object, spec).into_iter().filter(|(applies, _)| *applies);
    differs.map(|(_, text)| Difference { refused: false, text: text.to_owned() }).collect()
}

/// Differences, and whether they apply.
fn differing(object: &Value, spec: &HelmReleaseSpec) -> Vec<(bool, &'static str)> {
    let conditions = object["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let stalled = conditions.iter().any(|c| c["type"] == "Stalled" && c["status"] == "True");
    let identity = spec.kube_config.as_ref().is_some_and(|config| config.config_map_ref.is_some());
    vec![
        (
            spec.upgrade.force || spec.rollback.force,
            "force: only objects whose immutable fields change are created again; helm-controller replaces all, or none with \
             server-side apply",
        ),
        (
            spec.drift_detection.mode.as_deref() == Some("enabled"),
            "driftDetection: drift is corrected when it happens, not at the interval",
        ),
        (
            stalled,
            "it is stalled: its state is determined again at the interval, while helm-controller waits for a change",
        ),
        (
            identity,
            "kubeConfig.configMapRef: its ConfigMap must have the provider generic and a serviceAccountName; the identities of clouds \
             and the operator's own are refused",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn difference_lines(object: &Value) -> Vec<String> {
        let line = |difference: Difference| {
            let first = difference.text.split(':').next().unwrap_or_default().to_owned();
            if difference.refused { format!("! {first}") } else { first }
        };
        differences(object).into_iter().map(line).collect()
    }

    #[test]
    fn every_difference_is_told() {
        assert_eq!(
            difference_lines(&json!({"spec": {"interval": "1h", "upgrade": {"force": false}}})),
            [""; 0]
        );
        let spec = json!({
            "kubeConfig": {"configMapRef": {"name": "x"}},
            "driftDetection": {"mode": "enabled", "ignore": [
                {"paths": ["/spec/replicas"]}, {"paths": ["/spec/0"]}, {"paths": [""], "target": {"kind": "A.*"}},
            ]},
            "upgrade": {"force": true},
        });
        let found = difference_lines(
            &json!({"spec": spec, "status": {"conditions": [{"type": "Stalled", "status": "True"}]}}),
        );
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found.iter().all(|line| !line.starts_with('!')), "{found:?}");
        assert!(
            matches!(&difference_lines(&json!({"spec": {"interval": 1}}))[..], [refused] if refused.starts_with("! spec"))
        );
    }
}
