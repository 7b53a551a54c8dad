//! Cases from release records: writes the chart and values of each to a scratch directory for both programs.
//!
//! Only reads from the cluster: records, its version and its kinds.

use std::ffi::OsString;
use std::path::{Component, Path};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chart_compat::yaml;
use serde_json::Value;

use super::super::flags::Globals;
use super::super::{Failure, output, with_engine};
use super::Case;
use windlass_engine::record::{Record, ReleaseStatus};
use windlass_render::from_json;

/// The releases and capabilities of a cluster.
pub(super) struct Stored {
    pub(super) records: Vec<Record>,
    pub(super) kube_version: String,
    pub(super) api_versions: Vec<String>,
}

/// The newest record of each existing release.
///
/// # Errors
/// The cluster does not respond.
pub(super) fn read(globals: &Globals, everywhere: bool) -> Result<Stored, Failure> {
    with_engine(globals, async |s| {
        let namespace = (!everywhere).then_some(s.namespace.as_str());
        let mut records = s.engine.records().list(namespace).await.map_err(|e| e.to_string())?;
        records
            .retain(|r| !matches!(r.info.status, ReleaseStatus::Uninstalled | ReleaseStatus::Uninstalling));
        let version = s.engine.cluster().version().await.map_err(|e| e.to_string())?;
        let kinds = s.engine.cluster().kinds().await.map_err(|e| e.to_string())?;
        if records.is_empty() {
            let place = namespace.map_or_else(|| "any namespace".to_owned(), |n| format!("namespace {n}"));
            return Err(format!("no release in {place}"));
        }
        Ok(Stored {
            records,
            kube_version: version["gitVersion"].as_str().unwrap_or_default().to_owned(),
            api_versions: kinds.api_versions(),
        })
    })
}

/// One case for each record.
///
/// # Errors
/// The scratch directory is not writable.
pub(super) fn cases(stored: &Stored, scratch: &Path) -> Result<Vec<Case>, Failure> {
    let several = stored.records.iter().any(|r| r.namespace != stored.records[0].namespace);
    stored
        .records
        .iter()
        .enumerate()
        .map(|(i, record)| {
            let name =
                if several { format!("{}/{}", record.namespace, record.name) } else { record.name.clone() };
            Ok(Case {
                chart: name,
                values: output::chart(record),
                arguments: arguments(record, &scratch.join(format!("release-{i}")))?,
                recorded: Some(recorded(record)),
            })
        })
        .collect()
}

/// The record in the format of `template`'s output.
fn recorded(record: &Record) -> Vec<u8> {
    let mut out = format!("{}\n", record.manifest.trim());
    for hook in &record.hooks {
        out.push_str(&format!("---\n# Source: {}\n{}\n", hook.path, hook.manifest));
    }
    out.into_bytes()
}

/// The arguments that render a record's chart; the inner error is the reason why that is not possible.
fn arguments(record: &Record, dir: &Path) -> Result<Result<Vec<OsString>, String>, Failure> {
    if has_subcharts(record) {
        return Ok(Err("the chart has subcharts, which Helm's records leave out".to_owned()));
    }
    let files = match files(record) {
        Ok(files) => files,
        Err(reason) => return Ok(Err(reason)),
    };
    for (name, bytes) in &files {
        let path = dir.join(name);
        let parent = path.parent().unwrap_or(dir);
        std::fs::create_dir_all(parent)
            .and_then(|()| std::fs::write(&path, bytes))
            .map_err(|e| format!("cannot write to a scratch directory: {e}"))?;
    }
    let mut out: Vec<OsString> = vec![record.name.clone().into(), dir.join("chart").into()];
    out.extend(["--values".into(), dir.join("user-values.yaml").into()]);
    out.extend(["--namespace".into(), record.namespace.clone().into()]);
    if record.version > 1 {
        out.push("--is-upgrade".into());
    }
    Ok(Ok(out))
}

/// Whether the chart had subcharts. Helm does not store them, so the chart cannot be rendered from the record.
fn has_subcharts(record: &Record) -> bool {
    let declared = record.chart_metadata()["dependencies"].as_array().is_some_and(|d| !d.is_empty());
    let name = record.chart_text("name");
    let below = format!("# Source: {name}/charts/");
    declared
        || record.manifest.lines().any(|l| l.starts_with(&below))
        || record.hooks.iter().any(|h| h.path.starts_with(&below["# Source: ".len()..]))
}

/// The files of the scratch directory.
fn files(record: &Record) -> Result<Vec<(String, Vec<u8>)>, String> {
    let chart = &record.chart;
    let text = |value: &Value| {
        yaml::to_string(&from_json(value)).map(String::into_bytes).map_err(|e| format!("its record: {e}"))
    };
    let table = |value: &Value| if value.is_object() { text(value) } else { Ok(b"{}\n".to_vec()) };
    let mut out = vec![
        ("chart/Chart.yaml".to_owned(), text(&chart["metadata"])?),
        ("chart/values.yaml".to_owned(), table(&chart["values"])?),
        ("user-values.yaml".to_owned(), table(&record.config)?),
    ];
    let decode = |value: &Value| {
        let text = value.as_str().unwrap_or_default();
        STANDARD.decode(text).map_err(|e| format!("its record holds a file that is not base64: {e}"))
    };
    if chart["schema"].as_str().is_some_and(|s| !s.is_empty()) {
        out.push(("chart/values.schema.json".to_owned(), decode(&chart["schema"])?));
    }
    for list in ["templates", "files"] {
        for file in chart[list].as_array().into_iter().flatten() {
            let name = file["name"].as_str().unwrap_or_default();
            let plain = Path::new(name).components().all(|c| matches!(c, Component::Normal(_)));
            if name.is_empty() || !plain {
                return Err(format!("its record holds a file that leaves the chart: {name:?}"));
            }
            // The record contains no ignored files, so its .helmignore must not be applied again.
            if name != ".helmignore" {
                out.push((format!("chart/{name}"), decode(&file["data"])?));
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn record(chart: Value) -> Record {
        Record { name: "r".to_owned(), namespace: "n".to_owned(), version: 2, chart, ..Record::default() }
    }

    #[test]
    fn a_chart_is_written_as_it_was() {
        let chart = json!({"metadata": {"name": "c", "version": "1.10", "apiVersion": "v2"}, "values": {"a": 1e6},
            "templates": [{"name": "templates/x.yaml", "data": STANDARD.encode("x: 1")}],
            "files": [{"name": ".helmignore", "data": ""}]});
        let files = files(&record(chart)).unwrap();
        let text: Vec<(&str, &str)> =
            files.iter().map(|(n, b)| (n.as_str(), std::str::from_utf8(b).unwrap())).collect();
        assert_eq!(
            text,
            [
                ("chart/Chart.yaml", "apiVersion: v2\nname: c\nversion: \"1.10\"\n"),
                ("chart/values.yaml", "a: 1000000\n"),
                ("user-values.yaml", "{}\n"),
                ("chart/templates/x.yaml", "x: 1"),
            ]
        );
    }

    #[test]
    fn nothing_is_written_outside() {
        for name in ["../x", "/etc/x", "a/../../x", ""] {
            let chart = json!({"templates": [{"name": name, "data": ""}]});
            assert!(files(&record(chart)).is_err(), "{name}");
        }
    }

    #[test]
    fn charts_with_subcharts_are_not_rendered() {
        let declared = json!({"metadata": {"name": "c", "dependencies": [{"name": "d"}]}});
        assert!(has_subcharts(&record(declared)));
        let loose = Record {
            manifest: "---\n# Source: c/charts/d/templates/x.yaml\nx: 1\n".to_owned(),
            ..record(json!({"metadata": {"name": "c"}}))
        };
        assert!(has_subcharts(&loose));
        assert!(!has_subcharts(&record(json!({"metadata": {"name": "c"}}))));
    }
}
