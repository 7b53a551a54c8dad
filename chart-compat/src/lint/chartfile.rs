//! Helm's rules for `Chart.yaml` (`rules.Chartfile`).

use super::address::{is_email, is_request_url, is_url};
use super::{Messages, Severity, go_type};
use crate::chart::Metadata;
use crate::data::{Data, Map};
use crate::go::{semver, strconv};
use crate::json;
use crate::profile::Profile;
use crate::yaml;

use Severity::{Error, Info, Warning};

const FILE: &str = "Chart.yaml";

/// The keys of the maps in the lists of `Chart.yaml`.
const MAINTAINER: [&str; 3] = ["name", "email", "url"];
const DEPENDENCY: [&str; 8] =
    ["name", "version", "repository", "condition", "tags", "enabled", "import-values", "alias"];

pub(super) fn lint(text: &[u8], profile: Profile, messages: &mut Messages) {
    let (map, metadata) = match read(text, profile) {
        Ok(found) => found,
        Err(e) => {
            messages.rule(Error, FILE, Err(format!("unable to parse YAML\n\t{e}")));
            return;
        }
    };
    let helm4 = profile == Profile::Helm4;
    if helm4 {
        let strict = strict(text, &map);
        let told = |e| format!("failed to strictly parse chart metadata file\n\t{e}");
        messages.rule(Warning, FILE, strict.map_err(told));
    }
    messages.rule(Error, FILE, name(&metadata));
    messages.rule(Error, FILE, api_version(&metadata));
    messages.rule(Error, FILE, is_text(&map, "version"));
    messages.rule(Error, FILE, version(&metadata));
    messages.rule(Error, FILE, is_text(&map, "appVersion"));
    messages.rule(Error, FILE, maintainers(&map, &metadata));
    messages.rule(Error, FILE, sources(&metadata));
    messages.rule(Info, FILE, unless(!metadata.icon.is_empty(), || "icon is recommended".to_owned()));
    let icon = metadata.icon.is_empty() || is_request_url(&metadata.icon);
    messages.rule(Error, FILE, unless(icon, || format!("invalid icon URL '{}'", metadata.icon)));
    let v2 = metadata.api_version == "v2";
    let told = &metadata.api_version;
    let text = || format!("chart type is not valid in apiVersion '{told}'. It is valid in apiVersion 'v2'");
    messages.rule(Error, FILE, unless(metadata.kind.is_empty() || v2, text));
    let none = metadata.dependencies.as_ref().is_none_or(Vec::is_empty);
    let text = || {
        format!(
            "dependencies are not valid in the Chart file with apiVersion '{told}'. They are valid in apiVersion 'v2'"
        )
    };
    messages.rule(Error, FILE, unless(none || v2, text));
    let text = || format!("version '{}' is not a valid SemVerV2", metadata.version);
    messages.rule(Warning, FILE, unless(!helm4 || is_strict_version(&metadata.version), text));
}

fn unless(holds: bool, text: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(text()) }
}

/// `LoadChartfile`
fn read(text: &[u8], profile: Profile) -> Result<(Map, Metadata), String> {
    let map = match yaml::from_slice(text) {
        Ok(Data::Map(map)) => map,
        Ok(Data::Null) => Map::new(),
        Ok(other) => {
            let kind = if profile == Profile::Helm4 { "v2.Metadata" } else { "chart.Metadata" };
            let text = json::wrong_type(&other, kind);
            return Err(format!("error unmarshaling JSON: while decoding JSON: {text}"));
        }
        Err(e) => return Err(format!("error converting YAML to JSON: {e}")),
    };
    let mut metadata = Metadata::default();
    let mut readable = map.clone();
    // Another rule reports an empty entry.
    for key in ["maintainers", "dependencies"] {
        if let Some(Data::List(items)) = readable.get_mut(key) {
            items.retain(|item| *item != Data::Null);
        }
    }
    metadata.read(&readable, profile)?;
    Ok((map, metadata))
}

/// `StrictLoadChartfile`: no duplicate key, no unknown key.
fn strict(text: &[u8], map: &Map) -> Result<(), String> {
    yaml::from_slice_strict(text).map_err(|e| format!("error converting YAML to JSON: {e}"))?;
    for (key, value) in map {
        known(key, &Metadata::KEYS)?;
        let inner: &[&str] = match key.to_lowercase().as_str() {
            "maintainers" => &MAINTAINER,
            "dependencies" => &DEPENDENCY,
            _ => continue,
        };
        for entry in value.as_list().into_iter().flatten().filter_map(Data::as_map) {
            entry.keys().try_for_each(|key| known(key, inner))?;
        }
    }
    Ok(())
}

fn known(key: &str, keys: &[&str]) -> Result<(), String> {
    // Go accepts a key in any letter case.
    unless(keys.iter().any(|k| k.eq_ignore_ascii_case(key)), || {
        let quoted = strconv::quote(key.as_bytes());
        format!("error unmarshaling JSON: while decoding JSON: json: unknown field {quoted}")
    })
}

fn name(m: &Metadata) -> Result<(), String> {
    if m.name.is_empty() {
        return Err("name is required".to_owned());
    }
    let quoted = || format!("chart name {} is invalid", strconv::quote(m.name.as_bytes()));
    unless(!m.name.contains('/') || m.name == "/", quoted)
}

fn api_version(m: &Metadata) -> Result<(), String> {
    match m.api_version.as_str() {
        "v1" | "v2" => Ok(()),
        "" => Err("apiVersion is required. The value must be either \"v1\" or \"v2\"".to_owned()),
        other => Err(format!("apiVersion '{other}' is not valid. The value must be either \"v1\" or \"v2\"")),
    }
}

fn is_text(map: &Map, key: &str) -> Result<(), String> {
    match map.get(key) {
        None | Some(Data::String(_)) => Ok(()),
        Some(other) => Err(format!("{key} should be of type string but it's of type {}", go_type(other))),
    }
}

fn version(m: &Metadata) -> Result<(), String> {
    if m.version.is_empty() {
        return Err("version is required".to_owned());
    }
    if semver::parse(&m.version).is_err() {
        return Err(format!("version '{}' is not a valid SemVer", m.version));
    }
    unless(semver::is_compatible(">0.0.0-0", &m.version), || {
        format!("version {} is less than or equal to 0.0.0-0", m.version)
    })
}

/// Whether a version has three parts and only strict syntax (`semver.StrictNewVersion`).
fn is_strict_version(text: &str) -> bool {
    let numbers = text.split(['-', '+']).next().unwrap_or_default();
    let plain = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|c| c.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    numbers.split('.').count() == 3 && numbers.split('.').all(plain) && semver::parse(text).is_ok()
}

fn maintainers(map: &Map, m: &Metadata) -> Result<(), String> {
    let listed = map.get("maintainers").and_then(Data::as_list).unwrap_or_default();
    let mut read = m.maintainers.iter().flatten();
    for entry in listed {
        if *entry == Data::Null {
            return Err("a maintainer entry is empty".to_owned());
        }
        let Some(m) = read.next() else { return Ok(()) };
        if m.name.is_empty() {
            return Err("each maintainer requires a name".to_owned());
        }
        if !m.email.is_empty() && !is_email(&m.email) {
            return Err(format!("invalid email '{}' for maintainer '{}'", m.email, m.name));
        }
        if !m.url.is_empty() && !is_url(&m.url) {
            return Err(format!("invalid url '{}' for maintainer '{}'", m.url, m.name));
        }
    }
    Ok(())
}

fn sources(m: &Metadata) -> Result<(), String> {
    match m.sources.iter().flatten().find(|s| s.is_empty() || !is_request_url(s)) {
        None => Ok(()),
        Some(source) => Err(format!("invalid source URL '{source}'")),
    }
}
