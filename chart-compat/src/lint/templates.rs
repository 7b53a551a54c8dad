//! Helm's rules for templates and their output (`rules.Templates`).

use super::documents::{self, Object};
use super::{Entry, Messages, Options, Severity, Subject, deprecated, names};
use crate::chart::{Warn, coalesce_values, process_dependencies};
use crate::data::Data;
use crate::go::{slog, strconv};
use crate::profile::Profile;
use crate::render::{self, Capabilities, Lenient, Release, render_leniently};
use crate::template::{DiagnosticKind, Limits};
use crate::yaml;

use Severity::{Error, Warning};

const DIRECTORY: &str = "templates/";

const CRD_HOOK: &str = "manifest is a crd-install hook. \
                        This hook is no longer supported in v3 and all CRDs should also exist the crds/ directory at the top level of the chart";

/// Renders a chart as lint does, if possible: continues after a missing required value.
pub(super) fn render(subject: &Subject<'_>, options: &Options<'_>, warn: Warn<'_>) -> Option<Lenient> {
    let mut chart = subject.chart.as_ref().ok().map(|c| (*c).clone())?;
    process_dependencies(&mut chart, options.values, options.profile, warn).ok()?;
    let values = coalesce_values(&chart, options.values, options.profile, warn).ok()?;
    // Helm coalesces twice, and the second time restores a subchart's value that a null deleted the first time.
    let values = coalesce_values(&chart, &values, options.profile, warn).ok()?;
    let mut capabilities = Capabilities::default();
    if let Some(version) = &options.kube_version {
        capabilities.kube_version = version.clone();
    }
    let release = Release {
        name: "test-release".to_owned(),
        namespace: options.namespace.to_owned(),
        revision: 0,
        is_upgrade: false,
    };
    let how = render::Options {
        release,
        capabilities,
        skip_schema_validation: options.skip_schema_validation,
        subchart_notes: false,
        limits: Limits::default(),
    };
    Some(render_leniently(chart, &values, &how, options.profile, options.world))
}

/// Helm's log line in place of a template error. Helm 3 logs the line of its own source (`log.Lshortfile`).
fn log_line(kind: &DiagnosticKind, helm4: bool) -> Option<String> {
    let (level, text, line, helm3, message) = match kind {
        DiagnosticKind::Missing(message) => {
            ("WARN", "missing required value", 206, "Missing required value", message)
        }
        DiagnosticKind::Empty(message) => {
            ("WARN", "missing required values", 214, "Missing required value", message)
        }
        DiagnosticKind::Failed(message) => ("INFO", "funcMap fail", 227, "Fail", message),
        DiagnosticKind::NoValue | DiagnosticKind::Printed(_) => return None,
    };
    Some(if helm4 {
        slog::line(level, text, &[("message", message)])
    } else {
        // Go's logger adds a line feed only if the message has none.
        format!("engine.go:{line}: [INFO] {helm3}: {}", message.strip_suffix('\n').unwrap_or(message))
    })
}

pub(super) fn lint(subject: &Subject<'_>, options: &Options<'_>, messages: &mut Messages, warn: Warn<'_>) {
    let helm4 = options.profile == Profile::Helm4;
    match subject.templates {
        Entry::Missing if helm4 => {
            messages.rule(Warning, DIRECTORY, Err("directory does not exist".to_owned()));
            return;
        }
        Entry::File => {
            let severity = if helm4 { Error } else { Warning };
            messages.rule(severity, DIRECTORY, Err("not a directory".to_owned()));
            return;
        }
        Entry::Missing | Entry::Directory => {}
    }
    let chart = match &subject.chart {
        Ok(chart) => chart,
        Err(e) => {
            messages.rule(Error, DIRECTORY, Err(e.clone()));
            return;
        }
    };
    let Some(rendered) = render(subject, options, warn) else { return };
    rendered.diagnostics.iter().filter_map(|notice| log_line(&notice.kind, helm4)).for_each(warn);
    let files = match rendered.files {
        Ok(files) => files,
        Err(e) => {
            messages.rule(Error, DIRECTORY, Err(e.to_string()));
            return;
        }
    };
    let default = Capabilities::default().kube_version;
    let kube = options.kube_version.as_ref().unwrap_or(&default);
    for template in &chart.templates {
        let name = template.name.as_str();
        let extension = extension(name);
        let known = matches!(extension, ".yaml" | ".yml" | ".tpl" | ".txt");
        let text = format!(
            "file extension '{extension}' not valid. Valid extensions are .yaml, .yml, .tpl, or .txt"
        );
        messages.rule(Error, name, if known { Ok(()) } else { Err(text) });
        if !helm4 {
            messages.rule(Warning, name, crd_hook(&template.data));
            messages.rule(Error, name, release_time(&template.data));
        }
        let is_yaml = match options.profile {
            Profile::Helm4 => matches!(extension.to_ascii_lowercase().as_str(), ".yaml" | ".yml"),
            Profile::Helm3 => extension == ".yaml",
        };
        if !is_yaml {
            continue;
        }
        let path = format!("{}/{name}", chart.name());
        let Some((_, content)) = files.iter().find(|f| f.0 == path) else { continue };
        if content.trim().is_empty() {
            continue;
        }
        messages.rule(Warning, name, indent(content));
        for object in documents::read(content.as_bytes()) {
            match object {
                Ok(None) => {}
                Ok(Some(object)) => {
                    messages.rule(Warning, name, names::check(&object.kind, &object.name));
                    messages.rule(Warning, name, deprecated::check(&object.api_version, &object.kind, kube));
                    messages.rule(Error, name, selector(&object, content));
                    messages.rule(Error, name, list_annotations(&object, content, options.profile));
                }
                Err(e) => {
                    // The name of Go's type.
                    let e = if helm4 { e } else { e.replace("k8sYamlStruct", "K8sYamlStruct") };
                    // Helm skips the remaining templates.
                    messages.rule(Error, name, Err(format!("unable to parse YAML: {e}")));
                    return;
                }
            }
        }
    }
}

/// `filepath.Ext`
fn extension(name: &str) -> &str {
    let base = name.rsplit('/').next().unwrap_or(name);
    base.rfind('.').map_or("", |n| &base[n..])
}

/// `validateNoCRDHooks`: `"?helm\.sh/hook"?:\s+crd-install`
fn crd_hook(text: &[u8]) -> Result<(), String> {
    let installs = |after: &[u8]| {
        let after = after.strip_prefix(b"\"").unwrap_or(after);
        let Some(value) = after.strip_prefix(b":") else { return false };
        let space = value.iter().take_while(|b| matches!(b, b'\t' | b'\n' | 12 | b'\r' | b' ')).count();
        space > 0 && value[space..].starts_with(b"crd-install")
    };
    let hook = "helm.sh/hook";
    if memchr::memmem::find_iter(text, hook).any(|at| installs(&text[at + hook.len()..])) {
        return Err(CRD_HOOK.to_owned());
    }
    Ok(())
}

/// `validateNoReleaseTime`
fn release_time(text: &[u8]) -> Result<(), String> {
    if memchr::memmem::find(text, b".Release.Time").is_some() {
        let text =
            ".Release.Time has been removed in v3, please replace with the `now` function in your templates";
        return Err(text.to_owned());
    }
    Ok(())
}

/// `validateTopIndentLevel`
fn indent(content: &str) -> Result<(), String> {
    match content.lines().find(|l| !l.trim().is_empty()) {
        Some(line) if line.starts_with([' ', '\t']) => {
            let quoted = strconv::quote(line.as_bytes());
            Err(format!("document starts with an illegal indent: {quoted}, which may cause parsing problems"))
        }
        _ => Ok(()),
    }
}

/// `validateMatchSelector`
fn selector(object: &Object, content: &str) -> Result<(), String> {
    let wants = matches!(object.kind.as_str(), "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet");
    if !wants || content.contains("matchLabels") || content.contains("matchExpressions") {
        return Ok(());
    }
    let (kind, name) = (&object.kind, strconv::quote(object.name.as_bytes()));
    Err(format!("a {kind} must contain matchLabels or matchExpressions, and {name} does not"))
}

/// `validateListAnnotations`
fn list_annotations(object: &Object, content: &str, profile: Profile) -> Result<(), String> {
    if object.kind != "List" {
        return Ok(());
    }
    let data = match yaml::from_slice(content.as_bytes()) {
        Ok(data) => data,
        Err(e) => return Err(format!("unable to parse YAML: error converting YAML to JSON: {e}")),
    };
    let policy = |item: &Data| {
        item.get("metadata")
            .and_then(|m| m.get("annotations"))
            .and_then(|a| a.get("helm.sh/resource-policy"))
            .is_some()
    };
    if data.get("items").and_then(Data::as_list).is_some_and(|items| items.iter().any(policy)) {
        let first = if profile == Profile::Helm4 { 'a' } else { 'A' };
        return Err(format!("{first}nnotation 'helm.sh/resource-policy' within List objects are ignored"));
    }
    Ok(())
}
