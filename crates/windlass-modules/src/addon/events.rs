//! What modules record as Events.

use std::collections::BTreeMap;

use serde_json::Value;

use super::config::Problem;
use windlass_cluster::ObjectRef;
use windlass_controller::{EventNote, EventRecorder, EventType};

/// Records that a key of the ConfigMap cannot be used. `config_map` is the object as it was read.
pub(super) fn invalid_config_key(recorder: &EventRecorder, config_map: &Value, problem: &Problem) {
    let mut object = config_map.clone();
    object["apiVersion"] = "v1".into();
    object["kind"] = "ConfigMap".into();
    let note = EventNote {
        event_type: EventType::Warning,
        reason: "InvalidConfigKey",
        action: "Read",
        note: problem.text.clone(),
        annotations: BTreeMap::new(),
    };
    recorder.spawn_for(&object, note);
}

/// Records that hooks which were to run at a module's deletion did not.
pub(super) fn delete_hooks_lost(
    recorder: &EventRecorder,
    config_map: &ObjectRef,
    module: &str,
    note: String,
) {
    tracing::warn!(module, "{note}");
    recorder.warn_object(config_map, "DeleteHooksLost", note);
}

/// Records what a program of a module's hooks warns of in its settings.
pub(super) fn settings_warning(recorder: &EventRecorder, config_map: &ObjectRef, module: &str, note: String) {
    tracing::warn!(module, "{note}");
    recorder.warn_object(config_map, "SettingsWarning", note);
}
