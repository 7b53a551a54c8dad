//! Post-renderer plugins of Helm 4, found by name in the directories of `HELM_PLUGINS`.
//!
//! Owns `plugin.yaml` of the type `postrenderer/v1` with the runtime `subprocess` (`plugin.FindPlugin`,
//! `plugin.PrepareCommands`). Plugins of other types and runtimes are ignored.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use chart_compat::yaml;
use serde::Deserialize;

use super::Failure;
use windlass_base::bounded_read;
use windlass_render::to_json;

/// The largest `plugin.yaml`, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// The supported type of plugin.
const TYPE: &str = "postrenderer/v1";

/// A plugin's `plugin.yaml`.
#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[derive(Default)]
struct Metadata {
    api_version: String,
    name: String,
    #[serde(rename = "type")]
    kind: String,
    runtime: String,
    runtime_config: RuntimeConfig,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct RuntimeConfig {
    platform_command: Vec<PlatformCommand>,
}

/// A command for a platform.
#[derive(Clone, Deserialize, Default)]
#[serde(default)]
struct PlatformCommand {
    os: String,
    arch: String,
    command: String,
    args: Vec<String>,
}

/// A plugin with its executable.
pub(super) struct Plugin {
    pub(super) name: String,
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    /// Additional environment variables.
    pub(super) variables: [(&'static str, String); 2],
}

/// Helm's message for a missing plugin.
pub(super) fn not_found(name: &str) -> String {
    format!("plugin: {{Name:{name} Type:{TYPE}}} not found")
}

/// The post-renderer plugin named `name`; `None` if no directory contains one.
///
/// # Errors
/// The plugin exists but cannot be run.
pub(super) fn find(directories: &std::ffi::OsStr, name: &str) -> Result<Option<Plugin>, Failure> {
    for directory in std::env::split_paths(directories) {
        let mut inner: Vec<PathBuf> =
            std::fs::read_dir(&directory).into_iter().flatten().flatten().map(|e| e.path()).collect();
        inner.sort();
        for directory in inner {
            // An unreadable directory is not a plugin; Helm continues as well.
            let Some(metadata) = read(&directory.join("plugin.yaml")) else { continue };
            if (metadata.name.as_str(), metadata.kind.as_str()) == (name, TYPE) {
                return prepare(metadata, &directory).map(Some);
            }
        }
    }
    Ok(None)
}

fn read(path: &Path) -> Option<Metadata> {
    let text = bounded_read::read_file(path, MAX_FILE).ok()?;
    let metadata: Metadata = serde_json::from_value(to_json(&yaml::from_slice(&text).ok()?)).ok()?;
    (metadata.api_version == "v1").then_some(metadata)
}

fn prepare(metadata: Metadata, directory: &Path) -> Result<Plugin, Failure> {
    let Metadata { name, runtime, runtime_config, .. } = metadata;
    if runtime != "subprocess" {
        return Err(format!(
            "plugin {name:?}: its runtime is {runtime:?}; windlass runs \"subprocess\" alone"
        ));
    }
    let none =
        || format!("plugin {name:?}: failed to prepare plugin command: no plugin command is applicable");
    let command = choose(&runtime_config.platform_command, go_os(), go_arch()).ok_or_else(none)?;
    let directory = windlass_fetch::absolute(directory).display().to_string();
    let variables = [("HELM_PLUGIN_NAME", name.clone()), ("HELM_PLUGIN_DIR", directory)];
    let mut all: BTreeMap<String, String> = std::env::vars().collect();
    all.extend(variables.iter().map(|(k, v)| ((*k).to_owned(), v.clone())));
    let mut words = command.command.split(' ').map(|word| expand(word, &all));
    let program = words.next().filter(|p| !p.is_empty()).ok_or_else(none)?;
    let arguments = words.chain(command.args.iter().map(|a| expand(a, &all))).collect();
    Ok(Plugin { name, program: program.into(), arguments, variables })
}

/// The command for this platform: for system and architecture, for the system, or for all (`getPlatformCommand`).
fn choose<'c>(commands: &'c [PlatformCommand], os: &str, arch: &str) -> Option<&'c PlatformCommand> {
    let same = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
    let exact = commands.iter().find(|c| same(&c.os, os) && same(&c.arch, arch));
    let system = || commands.iter().find(|c| same(&c.os, os) && c.arch.is_empty());
    let any = || commands.iter().find(|c| c.os.is_empty() && c.arch.is_empty());
    exact.or_else(system).or_else(any)
}

/// Go's name of this operating system.
fn go_os() -> &'static str {
    if std::env::consts::OS == "macos" { "darwin" } else { std::env::consts::OS }
}

/// Go's name of this architecture.
fn go_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    }
}

/// Replaces `$NAME` and `${NAME}`; unknown variables become empty (`os.Expand`).
fn expand(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let (name, more) = match after.strip_prefix('{').and_then(|a| a.split_once('}')) {
            Some(braced) => braced,
            None => after.split_at(
                after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(after.len()),
            ),
        };
        match variables.get(name) {
            Some(value) => out.push_str(value),
            // A dollar sign without a name is kept.
            None if name.is_empty() => out.push('$'),
            None => {}
        }
        rest = more;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_chosen_by_machine() {
        let command = |os: &str, arch: &str| PlatformCommand {
            os: os.to_owned(),
            arch: arch.to_owned(),
            command: format!("{os}/{arch}"),
            args: Vec::new(),
        };
        let all = [command("", ""), command("Linux", ""), command("linux", "amd64"), command("", "arm64")];
        let said = |n: usize, os, arch| choose(&all[..n], os, arch).map(|c| c.command.as_str());
        assert_eq!(said(4, "linux", "amd64"), Some("linux/amd64"));
        assert_eq!(said(4, "linux", "arm64"), Some("Linux/"));
        assert_eq!(said(4, "darwin", "arm64"), Some("/"));
        assert_eq!(choose(&all[3..], "linux", "arm64").map(|c| c.command.as_str()), None);
    }

    #[test]
    fn variables_are_replaced_as_go_does() {
        let all = BTreeMap::from([("A".to_owned(), "1".to_owned()), ("A_B".to_owned(), "2".to_owned())]);
        for (text, want) in [("$A/x", "1/x"), ("${A}B $A_B", "1B 2"), ("$NO-$", "-$"), ("plain", "plain")] {
            assert_eq!(expand(text, &all), want);
        }
    }
}
