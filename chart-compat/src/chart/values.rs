//! Values as Helm reads, merges and looks them up outside a render.

use super::error::Error;
use crate::data::{Data, Map};
use crate::profile::Profile;
use crate::yaml;

/// Splits a values text into documents at `---` lines (`yaml.NewYAMLReader` of apimachinery).
fn documents(text: &[u8]) -> Vec<Vec<u8>> {
    let mut docs = Vec::new();
    let mut doc = Vec::new();
    for line in text.split_inclusive(|c| *c == b'\n') {
        if let Some(rest) = line.strip_prefix(b"---") {
            let rest = rest.trim_ascii();
            if rest.is_empty() || rest.starts_with(b"#") {
                if !doc.is_empty() {
                    docs.push(std::mem::take(&mut doc));
                }
                continue;
            }
        }
        doc.extend_from_slice(line);
    }
    if !doc.is_empty() {
        docs.push(doc);
    }
    docs
}

/// Reads a values file, numbers as floats: Helm 4 merges its documents (`loader.LoadValues`), Helm 3 reads the first.
///
/// # Errors
/// The YAML error, with its line.
pub fn read_values(text: &[u8], profile: Profile) -> Result<Map, Error> {
    if profile == Profile::Helm3 {
        return yaml::from_slice_map(text).map_err(Error::Unmarshal);
    }
    let mut values = Map::new();
    let mut read = |doc: &[u8]| -> Result<(), Error> {
        let map = yaml::from_slice_map(doc).map_err(Error::Yaml)?;
        merge_maps(&mut values, map);
        Ok(())
    };
    if memchr::memmem::find(text, b"---").is_none() {
        read(text)?;
    } else {
        for doc in documents(text) {
            read(&doc)?;
        }
    }
    Ok(values)
}

/// Merges `over` into `base`: maps deeply, everything else replaced, null stored (`loader.MergeMaps`).
pub fn merge_maps(base: &mut Map, over: Map) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Data::Map(old)), Data::Map(new)) => merge_maps(old, new),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// The table at a dotted path (`Values.Table`).
#[must_use]
pub fn table<'v>(values: &'v Map, path: &str) -> Option<&'v Map> {
    find_table(values, path).ok()
}

/// The table at a dotted path, or the part of the path that is no table.
pub(super) fn find_table<'v, 'p>(values: &'v Map, path: &'p str) -> Result<&'v Map, &'p str> {
    path.split('.').try_fold(values, |at, name| at.get(name).and_then(Data::as_map).ok_or(name))
}

/// The value at a dotted path, unless it is a table (`Values.PathValue`).
#[must_use]
pub fn path_value<'v>(values: &'v Map, path: &str) -> Option<&'v Data> {
    let (parent, key) = match path.rsplit_once('.') {
        Some((parent, key)) => (table(values, parent)?, key),
        None => (values, path),
    };
    parent.get(key).filter(|v| v.as_map().is_none())
}
