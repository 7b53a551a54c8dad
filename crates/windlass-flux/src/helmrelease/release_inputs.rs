//! What a HelmRelease's release is made of, as a request to the runner.

use std::collections::BTreeMap;
use std::sync::Arc;

use chart_compat::data::Map;
use chart_compat::render::CompiledChart;

use super::actions::OWNER;
use super::names::origin_labels;
use super::object::HelmReleaseObject;
use super::options;
use super::release_state::Action;
use flux_api::helm_release::HelmReleaseSpec;
use windlass_controller::{ReconcileError, ReleaseSpec, crd_files};
use windlass_engine::ReleaseId;
use windlass_engine::record::Record;

/// What a release is made of.
pub(super) struct ReleaseInputs<'a> {
    pub(super) object: &'a HelmReleaseObject,
    pub(super) spec: &'a HelmReleaseSpec,
    pub(super) id: &'a ReleaseId,
    pub(super) chart: Arc<CompiledChart>,
    pub(super) values: &'a Map,
}

impl ReleaseInputs<'_> {
    /// What is asked of the runner.
    ///
    /// # Errors
    /// A post-renderer is invalid, or `crds/` of the chart.
    pub(super) fn release_spec(&self, action: Action, installs: bool) -> Result<ReleaseSpec, ReconcileError> {
        let origin = origin_labels(self.object);
        Ok(ReleaseSpec {
            id: self.id.clone(),
            crds: crd_files(&self.chart.chart().crds(), &[], &origin)?,
            chart: Arc::clone(&self.chart),
            values: Arc::new(self.values.clone()),
            skip_schema_validation: match installs {
                true => self.spec.install.disable_schema_validation,
                false => self.spec.upgrade.disable_schema_validation,
            },
            owner: OWNER.to_owned(),
            cause: cause_of(self.object),
            description: None,
            record_labels: uid_labels(self.object),
            checksum_label: None,
            post_render: Some(options::post_render(self.spec, origin)?),
            options: options::release_options(self.spec, action, installs),
        })
    }
}

/// Label of a record: the UID of the HelmRelease that it was made for.
const OBJECT_UID: &str = "windlass.dev/object-uid";

fn uid_labels(object: &HelmReleaseObject) -> BTreeMap<String, String> {
    let uid = Some(&object.uid).filter(|uid| !uid.is_empty());
    uid.map(|uid| (OBJECT_UID.to_owned(), uid.clone())).into_iter().collect()
}

/// The UID of the object that a record was made for, by its labels.
pub(super) fn uid_of(labels: &BTreeMap<String, String>) -> Option<&str> {
    labels.get(OBJECT_UID).map(String::as_str)
}

/// Whether a record was made for this very object, not for an earlier one of its name.
pub(super) fn is_made_for(record: &Record, object: &HelmReleaseObject) -> bool {
    has_uid(&record.labels, object)
}

/// Whether the labels of a record name this very object.
pub(super) fn has_uid(labels: &BTreeMap<String, String>, object: &HelmReleaseObject) -> bool {
    !object.uid.is_empty() && labels.get(OBJECT_UID) == Some(&object.uid)
}

/// Whether a record was made of a chart of this name and version.
pub(super) fn is_of_chart(record: &Record, name: &str, version: &str) -> bool {
    record.chart_text("name") == name && record.chart_text("version") == version
}

/// Why a revision is made for an object, for its record.
pub(super) fn cause_of(object: &HelmReleaseObject) -> String {
    format!("generation {}{}", object.generation, cause_suffix(object))
}

/// Whether a revision with this cause was made for an object, in whatever generation.
pub(super) fn is_cause_of(cause: &str, object: &HelmReleaseObject) -> bool {
    let generation =
        cause.strip_prefix("generation ").and_then(|rest| rest.strip_suffix(&cause_suffix(object)));
    generation.is_some_and(|number| number.parse::<u64>().is_ok())
}

/// Namespace and name of the object that a revision with this cause was made for.
pub(super) fn object_of_cause(cause: &str) -> Option<(&str, &str)> {
    cause.strip_prefix("generation ")?.split_once(" of HelmRelease ")?.1.split_once('/')
}

fn cause_suffix(object: &HelmReleaseObject) -> String {
    format!(" of HelmRelease {}/{}", object.namespace, object.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn records_name_the_object_that_they_were_made_for() {
        let object = |uid: Option<&str>| HelmReleaseObject::read(&json!({"metadata": {"uid": uid}}));
        let record = |uid: Option<&str>| Record { labels: uid_labels(&object(uid)), ..Record::default() };
        assert!(is_made_for(&record(Some("a")), &object(Some("a"))));
        for (of, asked) in [(Some("a"), Some("b")), (None, Some("a")), (Some("a"), None), (None, None)] {
            assert!(!is_made_for(&record(of), &object(asked)), "{of:?} {asked:?}");
        }
    }

    #[test]
    fn causes_name_their_object() {
        let object = json!({"metadata": {"namespace": "apps", "name": "web", "generation": 3}});
        let object = HelmReleaseObject::read(&object);
        assert_eq!(cause_of(&object), "generation 3 of HelmRelease apps/web");
        assert_eq!(object_of_cause(&cause_of(&object)), Some(("apps", "web")));
        assert_eq!(object_of_cause("remediates revision 2"), None);
        for (cause, own) in [
            ("generation 3 of HelmRelease apps/web", true),
            ("generation 12 of HelmRelease apps/web", true),
            ("generation x of HelmRelease apps/web", false),
            ("generation 3 of HelmRelease other-apps/web", false),
            ("generation 3 of HelmRelease apps/web2", false),
            ("remediates revision 2", false),
            ("", false),
        ] {
            assert_eq!(is_cause_of(cause, &object), own, "{cause}");
        }
    }
}
