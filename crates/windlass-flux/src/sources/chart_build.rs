//! Charts as a HelmChart wants them: with other default values, and with metadata in the version.
//!
//! Pure, but for the files of values in the source of the chart. Owns no fetching and no storage.

use std::path::{Component, Path, PathBuf};

use chart_compat::chart::{Chart, merge_maps, read_values_within};
use chart_compat::data::Map;
use chart_compat::go::semver;
use chart_compat::profile::Profile;
use chart_compat::yaml::{self, Room};

use super::source_status::{BUILD_FAILED, SourceError};
use windlass_base::bounded_read;
use windlass_fetch::chart_package::{self, Times};

/// The largest file of values, in bytes.
const MAX_VALUES: u64 = 5 << 20;

fn values_failed(text: &str) -> SourceError {
    let text = format!("values files merge error: {text}");
    SourceError::new(BUILD_FAILED, "ValuesFilesError", text).stalling()
}

/// The files of values that replace those of the chart; none if they are just the chart's own.
pub(super) fn values_files(files: &[String]) -> &[String] {
    match files {
        [one] if one.trim_start_matches("./") == "values.yaml" => &[],
        files => files,
    }
}

/// A version with other build metadata.
pub(super) fn with_metadata(version: &str, metadata: &str) -> Result<String, SourceError> {
    let failed = |why: &str| {
        let text = format!("chart metadata patch error: {why}");
        SourceError::new(BUILD_FAILED, "MetadataPatchError", text).stalling()
    };
    let parsed = semver::parse(version)
        .map_err(|e| failed(&format!("failed to parse version from chart metadata as SemVer: {e}")))?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    if !metadata.chars().all(plain) {
        return Err(failed("failed to set SemVer metadata on chart version: invalid metadata string"));
    }
    let pre = match parsed.prerelease {
        "" => String::new(),
        pre => format!("-{pre}"),
    };
    Ok(format!("{}.{}.{}{pre}+{metadata}", parsed.major, parsed.minor, parsed.patch))
}

/// Where files of values are.
pub(super) enum ValuesRoot<'r> {
    /// In the chart.
    Chart,
    /// In the source that the chart is in.
    Directory(&'r Path),
}

/// Replaces the chart's default values by those of files, later ones over earlier ones. Returns the files that exist.
pub(super) fn set_values(
    chart: &mut Chart,
    files: &[String],
    ignore_missing: bool,
    root: &ValuesRoot<'_>,
) -> Result<Vec<String>, SourceError> {
    let room = Room::default();
    let mut merged = Map::new();
    let mut found = Vec::new();
    for file in files {
        let text = match root {
            ValuesRoot::Chart => of_chart(chart, file),
            ValuesRoot::Directory(root) => of_directory(root, file)?,
        };
        let Some(text) = text else {
            if ignore_missing {
                continue;
            }
            return Err(values_failed(&format!("no values file found at path '{file}'")));
        };
        let values = read_values_within(&text, Profile::Helm4, &room)
            .map_err(|e| values_failed(&format!("unmarshaling values from '{file}' failed: {e}")))?;
        merge_maps(&mut merged, values);
        found.push(file.clone());
    }
    if chart.values_text.is_none() {
        return Err(values_failed("failed to locate values file: values.yaml"));
    }
    let text = if merged.is_empty() {
        String::new()
    } else {
        yaml::to_string(&merged.clone().into()).map_err(|e| values_failed(&e.to_string()))?
    };
    chart.values_text = Some(text.into());
    chart.values = merged.into();
    Ok(found)
}

fn of_chart(chart: &Chart, file: &str) -> Option<Vec<u8>> {
    let name = file.trim_start_matches("./");
    if name == "values.yaml" {
        return chart.values_text.as_ref().map(|text| text.to_vec());
    }
    chart.files.iter().find(|f| f.name == name).map(|f| f.data.to_vec())
}

fn of_directory(root: &Path, file: &str) -> Result<Option<Vec<u8>>, SourceError> {
    let Some(path) = inside(root, file) else { return Ok(None) };
    let metadata = match path.metadata() {
        Ok(metadata) if metadata.is_file() => metadata,
        _ => return Ok(None),
    };
    if metadata.len() > MAX_VALUES {
        return Err(values_failed(&format!("'{file}' is larger than {MAX_VALUES} bytes")));
    }
    let bytes = bounded_read::read_file(&path, MAX_VALUES);
    bytes.map(Some).map_err(|e| values_failed(&format!("could not read values from file '{file}': {e}")))
}

/// A path below a directory without symbolic links; `None` if it leads out of it.
pub(super) fn inside(root: &Path, path: &str) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => out.push(name),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir => {
                if !out.pop() {
                    return None;
                }
            }
            Component::Prefix(_) => return None,
        }
    }
    Some(root.join(out))
}

/// The package of a chart. The same chart makes the same bytes.
pub(super) fn package(chart: &Chart) -> Result<Vec<u8>, SourceError> {
    chart_package::pack(chart, &Times::none()).map_err(|e| package_failed(&e.to_string()))
}

/// The chart cannot be packed.
pub(super) fn package_failed(why: &str) -> SourceError {
    SourceError::new(BUILD_FAILED, "ChartPackageError", format!("chart package error: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use chart_compat::chart::{File, load_files};

    fn chart() -> Chart {
        let file = |name: &str, text: &str| File::new(name.to_owned(), text.to_owned());
        let files = vec![
            file("Chart.yaml", "apiVersion: v2\nname: demo\nversion: 1.2.3\n"),
            file("values.yaml", "# comment\na: 1\nb: {c: x}\n"),
            file("ci/values.yaml", "b: {d: z}\n"),
        ];
        load_files(files, Profile::Helm4, &mut drop).unwrap()
    }

    #[test]
    fn metadata_replaces_that_of_a_version() {
        for (version, expected) in [
            ("1.2.3", Some("1.2.3+x.1")),
            ("v1.2.3+old", Some("1.2.3+x.1")),
            ("1.2", Some("1.2.0+x.1")),
            ("1.2.3-rc.1", Some("1.2.3-rc.1+x.1")),
            ("one", None),
        ] {
            assert_eq!(with_metadata(version, "x.1").ok().as_deref(), expected, "{version}");
        }
        assert!(with_metadata("1.2.3", "a_b").is_err());
    }

    #[test]
    fn default_values_are_those_of_the_files() {
        let both = ["values.yaml".to_owned(), "ci/values.yaml".to_owned(), "none.yaml".to_owned()];
        let mut own = chart();
        let found = set_values(&mut own, &both, true, &ValuesRoot::Chart).unwrap();
        assert_eq!(found, both[..2]);
        let text = own.values_text.clone().unwrap();
        assert_eq!(String::from_utf8_lossy(&text), "a: 1\nb:\n  c: x\n  d: z\n");
        let error = set_values(&mut chart(), &both, false, &ValuesRoot::Chart).unwrap_err();
        assert!(error.text.contains("no values file found at path 'none.yaml'") && error.stalls, "{error:?}");
        assert!(values_files(&["./values.yaml".to_owned()]).is_empty());
        assert_eq!(values_files(&both).len(), 3);
    }

    #[test]
    fn files_of_values_are_in_the_source() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("v.yaml"), "a: 2\n").unwrap();
        let mut own = chart();
        let directory = ValuesRoot::Directory(root.path());
        set_values(&mut own, &["v.yaml".to_owned()], false, &directory).unwrap();
        assert_eq!(String::from_utf8_lossy(own.values_text.as_ref().unwrap()), "a: 2\n");
        for outside in ["../v.yaml", "a/../../v.yaml"] {
            let files = [outside.to_owned()];
            assert!(set_values(&mut chart(), &files, false, &directory).is_err(), "{outside}");
        }
        assert_eq!(inside(root.path(), "/v.yaml"), Some(root.path().join("v.yaml")));
    }
}
