//! What of a HelmRelease is not supported, or works differently than with helm-controller. Pure.

use serde_json::Value;

use super::helm_releases::{spec_of, text};
use crate::flux_api::helm_release::HelmReleaseSpec;

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
    let spec = match spec_of(object) {
        Ok(spec) => spec,
        Err(error) => return vec![Difference { refused: true, text: error.to_string() }],
    };
    let refused = spec.refuse_unsupported().err();
    let mut found: Vec<Difference> =
        refused.into_iter().map(|text| Difference { refused: true, text }).collect();
    let differs = differing(object, &spec).into_iter().filter(|(applies, _)| *applies);
    found.extend(differs.map(|(_, text)| Difference { refused: false, text: text.to_owned() }));
    found
}

/// Differences, and whether they apply.
fn differing(object: &Value, spec: &HelmReleaseSpec) -> Vec<(bool, &'static str)> {
    let client_side = spec.install.server_side_apply == Some(false)
        || [&spec.upgrade.server_side_apply, &spec.rollback.server_side_apply]
            .iter()
            .any(|mode| mode.as_deref() == Some("disabled"));
    let conditions = object["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let stalled = conditions.iter().any(|c| c["type"] == "Stalled" && c["status"] == "True");
    let kustomize = spec.post_renderers.iter().flatten().filter_map(|renderer| renderer.kustomize.as_ref());
    let renames = kustomize.flat_map(|one| &one.patches).any(|patch| patch.patch.contains("/metadata/name"));
    let shard = &object["metadata"]["labels"]["sharding.fluxcd.io/key"];
    vec![
        (client_side, "serverSideApply: disabled has no effect: objects are always applied server-side"),
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
        (renames, "postRenderers: references of other objects do not follow a changed metadata.name"),
        (
            !text(shard).is_empty(),
            "label sharding.fluxcd.io/key: there are no shards here, and one process reconciles all objects",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(object: &Value) -> Vec<String> {
        let line = |difference: Difference| {
            let first = difference.text.split(':').next().unwrap_or_default().to_owned();
            if difference.refused { format!("! {first}") } else { first }
        };
        differences(object).into_iter().map(line).collect()
    }

    #[test]
    fn every_unsupported_part_is_told() {
        assert_eq!(told(&json!({"spec": {"interval": "1h", "upgrade": {"force": false}}})), [""; 0]);
        let spec = json!({
            "kubeConfig": {"configMapRef": {"name": "x"}},
            "driftDetection": {"mode": "enabled", "ignore": [
                {"paths": ["/spec/replicas"]}, {"paths": ["/spec/0"]}, {"paths": [""], "target": {"kind": "A.*"}},
            ]},
            "upgrade": {"force": true, "serverSideApply": "disabled"},
        });
        let found = told(&json!({
            "metadata": {"labels": {"sharding.fluxcd.io/key": "a"}}, "spec": spec,
            "status": {"conditions": [{"type": "Stalled", "status": "True"}]},
        }));
        let refused: Vec<&String> = found.iter().filter(|line| line.starts_with('!')).collect();
        assert_eq!((refused.len(), found.len()), (1, 6), "{found:?}");
        assert!(refused.iter().all(|line| line.contains(" spec.")), "{found:?}");
        assert_eq!(told(&json!({"spec": {"interval": 1}})).len(), 1);
    }
}
