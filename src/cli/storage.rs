//! The storage of records: Helm's `HELM_DRIVER`.

use std::sync::Arc;

use super::{Failure, environment};
use windlass_base::bounded_read;
use windlass_engine::record::{Record, Storage};
use windlass_render::parse_manifest;

/// Whether a driver is one of Helm's.
pub(super) fn is_known(driver: &str) -> bool {
    matches!(driver, "" | "secret" | "secrets" | "configmap" | "configmaps" | "memory" | "sql")
}

/// The storage for a driver, with Helm's errors.
pub(super) fn storage(driver: &str) -> Result<Storage, Failure> {
    match driver {
        "" | "secret" | "secrets" => Ok(Storage::Secrets),
        "configmap" | "configmaps" => Ok(Storage::ConfigMaps),
        "memory" => Ok(Storage::Memory(Arc::new(at_hand()?))),
        "sql" => {
            Err("HELM_DRIVER=sql: windlass keeps releases in the cluster, in Secrets or ConfigMaps; unset \
                      HELM_DRIVER, or set it to secret or configmap"
                .to_owned())
        }
        other => Err(format!("unknown driver {other:?}")),
    }
}

/// The records in the files of `HELM_MEMORY_DRIVER_DATA`.
fn at_hand() -> Result<Vec<Record>, Failure> {
    let mut records: Vec<Record> = Vec::new();
    let paths = environment::process().text("HELM_MEMORY_DRIVER_DATA").unwrap_or_default();
    for path in paths.split(':').filter(|path| !path.is_empty()) {
        let failed = |e: &dyn std::fmt::Display| format!("HELM_MEMORY_DRIVER_DATA: {path}: {e}");
        let text = bounded_read::read_text(path.as_ref(), bounded_read::MAX_TEXT).map_err(|e| failed(&e))?;
        let value = parse_manifest(&text).map_err(|e| failed(&e))?;
        records.extend(serde_json::from_value::<Vec<Record>>(value).map_err(|e| failed(&e))?);
    }
    Ok(records)
}
