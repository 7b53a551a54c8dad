//! What helm-controller says of a release in the annotations of an Event. Pure.

use std::collections::BTreeMap;

use flux_api::helm_release_status::Snapshot;

/// API group of the keys.
const GROUP: &str = "helm.toolkit.fluxcd.io";

/// Annotations of an Event about a chart and values. `token` distinguishes values: their digest.
pub(super) fn of_chart(
    revision: &str,
    token: &str,
    app_version: &str,
    oci_digest: &str,
) -> BTreeMap<String, String> {
    let pairs =
        [("revision", revision), ("token", token), ("app-version", app_version), ("oci-digest", oci_digest)];
    let known = pairs.into_iter().filter(|(_, value)| !value.is_empty());
    known.map(|(key, value)| (format!("{GROUP}/{key}"), value.to_owned())).collect()
}

/// Annotations of an Event about a revision.
pub(super) fn of_snapshot(shot: &Snapshot) -> BTreeMap<String, String> {
    of_chart(&shot.chart_version, &shot.config_digest, &shot.app_version, &shot.oci_digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_absent() {
        assert_eq!(of_chart("", "", "", ""), BTreeMap::new());
        let shot = Snapshot {
            chart_version: "1.2.3".to_owned(),
            config_digest: "sha256:00".to_owned(),
            ..Snapshot::default()
        };
        let expected = [("revision", "1.2.3"), ("token", "sha256:00")];
        let expected =
            expected.map(|(key, value)| (format!("helm.toolkit.fluxcd.io/{key}"), value.to_owned()));
        assert_eq!(of_snapshot(&shot), expected.into());
    }
}
