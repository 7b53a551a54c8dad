//! User values from flags, in Helm's order of sources whatever the order on the command line (`values.Options`).

use std::io::Read;

use chart_compat::chart::{merge_maps, read_values};
use chart_compat::data::{Data, Map};
use chart_compat::json;
use chart_compat::profile::Profile;
use chart_compat::values::strvals;

use super::flags::Values;

/// The largest values file that is read, in bytes.
const MAX_FILE: u64 = 100 * 1024 * 1024;

fn read(path: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let result = if path.trim() == "-" {
        std::io::stdin().lock().take(MAX_FILE + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|f| f.take(MAX_FILE + 1).read_to_end(&mut bytes))
    };
    match result {
        Ok(n) if n as u64 > MAX_FILE => Err(format!("{path}: larger than {MAX_FILE} bytes")),
        Ok(_) => Ok(bytes),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            Err(format!("open {path}: no such file or directory"))
        }
        Err(e) => Err(format!("open {path}: {e}")),
    }
}

/// The values that the flags give, merged.
pub(super) fn merge(flags: &Values, profile: Profile) -> Result<Map, String> {
    let mut values = Map::new();
    for path in &flags.files {
        let bytes = read(path)?;
        let map = read_values(&bytes, profile).map_err(|e| format!("failed to parse {path}: {e}"))?;
        merge_maps(&mut values, map);
    }
    for text in &flags.set_json {
        if profile == Profile::Helm4 && text.trim_start().starts_with('{') {
            match json::from_slice(text.as_bytes()) {
                Ok(Data::Map(map)) => merge_maps(&mut values, map),
                // Helm says no more about it.
                Ok(_) | Err(_) => return Err(format!("failed parsing --set-json data JSON: {text}")),
            }
        } else {
            strvals::parse_json(&mut values, text)
                .map_err(|_| format!("failed parsing --set-json data {text}"))?;
        }
    }
    for text in &flags.set {
        strvals::parse_into(&mut values, text).map_err(|e| format!("failed parsing --set data: {e}"))?;
    }
    for text in &flags.set_string {
        strvals::parse_into_string(&mut values, text)
            .map_err(|e| format!("failed parsing --set-string data: {e}"))?;
    }
    for text in &flags.set_file {
        let mut load = |path: &str| -> Result<Data, String> {
            read(path).map(|b| Data::String(String::from_utf8_lossy(&b).into_owned()))
        };
        strvals::parse_file(&mut values, text, &mut load)
            .map_err(|e| format!("failed parsing --set-file data: {e}"))?;
    }
    for text in &flags.set_literal {
        strvals::parse_literal(&mut values, text)
            .map_err(|e| format!("failed parsing --set-literal data: {e}"))?;
    }
    Ok(values)
}
