//! Manifests that are finished before the engine sees them, as a release: those of a kustomization, or plain files.
//!
//! Owns their form in a request and in the record, which Helm reads. Does not know where they come from.

use chart_compat::profile::Profile;
use chart_compat::render::{Error, Rendered};
use serde_json::json;

use super::bounds::RenderBounds;
use super::convert;
use windlass_engine::{ChartRecord, RenderedRelease};

/// The version in the record of what has none.
const NO_VERSION: &str = "0.0.0";

/// The manifests of a release: files with their names, each with one document or several. Documents with an annotation of chart
/// hooks run at their events, as in a chart.
///
/// # Errors
/// A document that is not YAML, or objects that exceed the render's memory limit.
pub fn finished_release(
    files: impl IntoIterator<Item = (String, String)>,
    profile: Profile,
    bounds: &RenderBounds,
    warn: &mut dyn FnMut(String),
) -> Result<RenderedRelease, Error> {
    convert::release(&Rendered::from_files(files, profile, warn)?, bounds)
}

/// The chart of the release's record: a name and what it is. Helm shows it, and needs no template of it for `rollback`.
#[must_use]
pub fn finished_chart(name: &str, version: Option<&str>, description: &str) -> ChartRecord {
    ChartRecord(json!({
        "metadata": {
            "apiVersion": "v2",
            "name": name,
            "version": version.unwrap_or(NO_VERSION),
            "type": "application",
            "description": description,
        },
        "lock": null,
        "templates": null,
        "values": {},
        "schema": null,
        "files": null,
    }))
}

/// Whether the release contains a Namespace of this name.
#[must_use]
pub fn contains_namespace(release: &RenderedRelease, name: &str) -> bool {
    release.manifests.iter().any(|m| {
        m.object["apiVersion"] == "v1"
            && m.object["kind"] == "Namespace"
            && m.object["metadata"]["name"] == name
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_become_a_release_with_hooks_in_the_order_of_kinds() {
        let files = [
            ("web/deploy.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"),
            (
                "web/all.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n",
            ),
            (
                "web/job.yaml",
                "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, annotations: {helm.sh/hook: pre-install}}\n",
            ),
        ];
        let files = files.map(|(name, text)| (name.to_owned(), text.to_owned()));
        let made = finished_release(files, Profile::Helm4, &RenderBounds::default(), &mut |_| {}).unwrap();
        let kind = |object: &serde_json::Value| object["kind"].as_str().unwrap_or_default().to_owned();
        let shown: Vec<_> = made.manifests.iter().map(|m| (m.source.as_str(), kind(&m.object))).collect();
        let expected =
            [("web/all.yaml", "Namespace"), ("web/all.yaml", "ConfigMap"), ("web/deploy.yaml", "Deployment")];
        assert_eq!(shown, expected.map(|(source, kind)| (source, kind.to_owned())));
        assert_eq!(made.hooks[0].name, "j");
        assert!(
            made.manifest_text.starts_with("---\n# Source: web/all.yaml\napiVersion: v1\nkind: Namespace\n"),
            "{}",
            made.manifest_text
        );
        assert!(!made.checksum.is_empty());
        assert!(contains_namespace(&made, "team") && !contains_namespace(&made, "web"));
    }

    #[test]
    fn the_record_names_the_release_and_its_version() {
        let chart = finished_chart("web", None, "a kustomization").0;
        assert_eq!(
            (&chart["metadata"]["name"], &chart["metadata"]["version"]),
            (&json!("web"), &json!("0.0.0"))
        );
        assert_eq!(finished_chart("web", Some("1.2.3"), "").0["metadata"]["version"], "1.2.3");
    }
}
