//! An object of a chart's kind, as it is read: its values, its annotations, and what its status says.
//!
//! Owns operator-sdk's annotations and our own. Which of them matter when is the front end's.

use std::time::Duration;

use api_types::GoDuration;
use chart_compat::data::{Data, Map};
use serde::Deserialize as _;
use serde_json::Value;

use super::object_status::ObjectStatus;
use windlass_cluster::ObjectMeta;
use windlass_controller::ImageAnnotations;
use windlass_render::object_data;

/// Annotations that change how an object is reconciled. A change of one triggers a pass.
pub(crate) const ANNOTATIONS: [&str; 14] = [
    REQUESTED_AT,
    SUSPEND,
    PULL_SECRET,
    PERIOD,
    UPGRADE_FORCE,
    ROLLBACK_FORCE,
    UNINSTALL_WAIT,
    INSTALL_WITHOUT_HOOKS,
    UPGRADE_WITHOUT_HOOKS,
    UNINSTALL_WITHOUT_HOOKS,
    INSTALL_DESCRIPTION,
    UPGRADE_DESCRIPTION,
    UNINSTALL_DESCRIPTION,
    "windlass.dev/drift",
];

const REQUESTED_AT: &str = "windlass.dev/requested-at";
const SUSPEND: &str = "windlass.dev/suspend";
const PULL_SECRET: &str = "windlass.dev/pull-secret";
const PERIOD: &str = "helm.sdk.operatorframework.io/reconcile-period";
pub(crate) const UPGRADE_FORCE: &str = "helm.sdk.operatorframework.io/upgrade-force";
pub(crate) const ROLLBACK_FORCE: &str = "helm.sdk.operatorframework.io/rollback-force";
pub(crate) const UNINSTALL_WAIT: &str = "helm.sdk.operatorframework.io/uninstall-wait";
pub(crate) const INSTALL_WITHOUT_HOOKS: &str = "helm.sdk.operatorframework.io/install-disable-hooks";
pub(crate) const UPGRADE_WITHOUT_HOOKS: &str = "helm.sdk.operatorframework.io/upgrade-disable-hooks";
pub(crate) const UNINSTALL_WITHOUT_HOOKS: &str = "helm.sdk.operatorframework.io/uninstall-disable-hooks";
pub(crate) const INSTALL_DESCRIPTION: &str = "helm.sdk.operatorframework.io/install-description";
pub(crate) const UPGRADE_DESCRIPTION: &str = "helm.sdk.operatorframework.io/upgrade-description";
pub(crate) const UNINSTALL_DESCRIPTION: &str = "helm.sdk.operatorframework.io/uninstall-description";

/// The shortest and the longest period of an object.
const PERIODS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(365 * 86_400));
/// Longest description of a revision that an annotation sets, in characters.
const MAX_DESCRIPTION: usize = 512;

/// An object.
#[derive(Clone)]
pub struct ChartObject {
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) generation: i64,
    spec: Value,
    pub(crate) status: ObjectStatus,
    /// The annotations that matter, with their values.
    annotations: Vec<(&'static str, String)>,
    /// What its annotations say of the images in its values.
    pub(crate) images: ImageAnnotations,
}

impl ChartObject {
    pub(crate) fn read(object: &Value) -> Self {
        let meta = ObjectMeta::of(object);
        let annotation = |name: &'static str| Some((name, meta.annotation(name)?.to_owned()));
        Self {
            namespace: meta.namespace().map(str::to_owned),
            name: meta.name().to_owned(),
            uid: meta.uid().to_owned(),
            generation: meta.generation(),
            spec: object["spec"].clone(),
            status: ObjectStatus::deserialize(&object["status"]).unwrap_or_default(),
            annotations: ANNOTATIONS.into_iter().filter_map(annotation).collect(),
            images: ImageAnnotations::of(meta),
        }
    }

    /// `NAMESPACE/NAME`.
    pub(crate) fn key(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }

    /// Its values. Without a spec there are none.
    ///
    /// # Errors
    /// The spec is not a map.
    pub(crate) fn values(&self) -> Result<Map, String> {
        match object_data(&self.spec) {
            Data::Map(values) => Ok(values),
            Data::Null => Ok(Map::new()),
            _ => Err("spec: it is not a map: it has the values of the chart".to_owned()),
        }
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// What an annotation switches. Texts are those of Go's `ParseBool`; absent and others mean `default`.
    pub(crate) fn switch(&self, name: &str, default: bool) -> bool {
        self.annotation(name).and_then(parse_bool).unwrap_or(default)
    }

    /// A description of a revision.
    pub(crate) fn description(&self, name: &str) -> Option<String> {
        let text = self.annotation(name).filter(|text| !text.is_empty())?;
        Some(text.chars().take(MAX_DESCRIPTION).collect())
    }

    /// The annotation by which a user asks for another attempt.
    pub(crate) fn requested_at(&self) -> &str {
        self.annotation(REQUESTED_AT).unwrap_or_default()
    }

    /// The annotation that names a pull secret, with its value.
    pub(crate) fn pull_secret(&self) -> Option<(&str, &str)> {
        self.annotation(PULL_SECRET).map(|name| (PULL_SECRET, name))
    }

    pub(crate) fn is_suspended(&self) -> bool {
        self.switch(SUSPEND, false)
    }

    /// How often it is reconciled, if an annotation says it.
    ///
    /// # Errors
    /// The annotation is not a duration; the text names it.
    pub(crate) fn period(&self) -> Result<Option<Duration>, String> {
        let Some(text) = self.annotation(PERIOD) else { return Ok(None) };
        let period: GoDuration = text.parse().map_err(|error| format!("annotation {PERIOD}: {error}"))?;
        Ok(Some(period.get().clamp(PERIODS.0, PERIODS.1)))
    }

    /// Refuses annotations without a meaning, which would be taken for absent ones.
    ///
    /// # Errors
    /// One that is no duration or no boolean; the text names it.
    pub(crate) fn check_annotations(&self) -> Result<(), String> {
        self.period()?;
        let switches = [
            SUSPEND,
            UPGRADE_FORCE,
            ROLLBACK_FORCE,
            UNINSTALL_WAIT,
            INSTALL_WITHOUT_HOOKS,
            UPGRADE_WITHOUT_HOOKS,
            UNINSTALL_WITHOUT_HOOKS,
        ];
        for name in switches {
            if let Some(text) = self.annotation(name).filter(|text| parse_bool(text).is_none()) {
                let shown: String = text.chars().take(60).collect();
                return Err(format!("annotation {name}: {shown:?} is neither true nor false"));
            }
        }
        Ok(())
    }
}

/// Go's `strconv.ParseBool`.
fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(annotations: &Value, spec: &Value) -> ChartObject {
        let metadata = json!({"name": "web", "namespace": "shop", "annotations": annotations});
        ChartObject::read(&json!({"metadata": metadata, "spec": spec}))
    }

    #[test]
    fn values_are_the_spec_with_whole_numbers() {
        let values = object(&json!({}), &json!({"port": 1_000_000, "share": 0.5})).values().unwrap();
        assert_eq!(values.get("port"), Some(&Data::Int(1_000_000)));
        assert_eq!(object(&json!({}), &Value::Null).values().unwrap(), Map::new());
        assert!(
            object(&json!({}), &json!("text")).values().unwrap_err().starts_with("spec: it is not a map")
        );
    }

    #[test]
    fn annotations_switch() {
        let of =
            |text: &str| object(&json!({UPGRADE_FORCE: text, PERIOD: "90s", SUSPEND: "T"}), &Value::Null);
        for (text, default, expected) in [
            ("true", false, true),
            ("1", false, true),
            ("False", true, false),
            ("yes", true, true),
            ("", false, false),
        ] {
            assert_eq!(of(text).switch(UPGRADE_FORCE, default), expected, "{text}");
        }
        assert!(of("").is_suspended());
        assert_eq!(of("").period(), Ok(Some(Duration::from_secs(90))));
        assert_eq!(of("true").check_annotations(), Ok(()));
        let error = of("yes").check_annotations().unwrap_err();
        assert_eq!(
            error,
            "annotation helm.sdk.operatorframework.io/upgrade-force: \"yes\" is neither true nor false"
        );
        let error = object(&json!({PERIOD: "-5s"}), &Value::Null).check_annotations().unwrap_err();
        assert!(
            error.starts_with("annotation helm.sdk.operatorframework.io/reconcile-period: \"-5s\""),
            "{error}"
        );
        assert_eq!(object(&json!({PERIOD: "0s"}), &Value::Null).period(), Ok(Some(PERIODS.0)));
    }
}
