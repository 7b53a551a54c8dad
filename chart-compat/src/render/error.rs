//! Errors of a render, with Helm's texts.

use super::context::TemplateTask;
use crate::chart;
use crate::path::Path;
use crate::profile::Profile;
use crate::template;
use crate::yaml;

/// An error of a render; `Display` is Helm's text.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Invalid chart or values.
    #[error(transparent)]
    Chart(#[from] chart::Error),
    /// Dependency processing failed.
    #[error(transparent)]
    Dependencies(chart::Error),
    /// The values violate a schema.
    #[error("values don't meet the specifications of the schema(s) in the following chart(s):\n{text}")]
    Schema {
        /// The violations as Helm lists them.
        text: String,
        /// The violations, one by one.
        breaches: Vec<Breach>,
    },
    /// The chart is incompatible with this Kubernetes version.
    #[error("chart requires kubeVersion: {range} which is incompatible with Kubernetes {version}")]
    KubeVersion {
        /// The chart's range.
        range: String,
        /// The cluster's version.
        version: String,
    },
    /// A template cannot be parsed or its execution fails.
    #[error("{text}")]
    Template {
        /// Helm's text.
        text: String,
        /// The error of the innermost frame.
        reason: String,
        /// The call stack, outermost frame first.
        frames: Vec<template::Frame>,
        /// The names of the subcharts from the chart down to the one whose template was executed; empty for the chart itself.
        scope: Vec<String>,
    },
    /// The objects of all manifests exceed the memory limit of the render.
    #[error(
        "render stopped: the objects of all manifests take more than {mib} MiB, most of them those of {path}"
    )]
    Objects {
        /// The template whose objects take the most memory.
        path: String,
        /// The limit, in MiB.
        mib: usize,
    },
    /// What templates read, or their syntax trees, exceed the memory limit of the render before one is executed.
    #[error("render stopped: {path}: the {what} take more than {mib} MiB")]
    Context {
        /// The path of the chart or of the template that exceeds it.
        path: String,
        /// What takes the memory.
        what: &'static str,
        /// The limit, in MiB.
        mib: usize,
    },
    /// The output of a template is not valid YAML.
    #[error("YAML parse error on {path}: {reason}")]
    Yaml {
        /// The template.
        path: String,
        /// The YAML error with its line.
        reason: String,
        /// The error without the line.
        problem: String,
        /// The rendered document.
        document: String,
        /// The line of the document, from 1, if known.
        line: Option<u32>,
    },
}

/// A value that violates a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Path of the invalid or missing value in the root chart's values.
    pub path: Path,
    /// The violation, with the validator's text.
    pub text: String,
    /// The properties of the value that the schema refuses by their names, if that is the violation.
    pub properties: Vec<String>,
}

/// The marker that `required` and `fail` put before their message in nested errors.
pub(super) const MARK_START: &str = "HELM_ERR_START";
/// The marker after the message.
pub(super) const MARK_END: &str = "HELM_ERR_END";

impl Error {
    /// The error of a limit of memory, in bytes, that is exceeded before a template is executed.
    pub(super) fn context(path: &str, what: &'static str, memory: usize) -> Self {
        Self::Context { path: path.chars().take(200).collect(), what, mib: memory >> 20 }
    }

    /// Whether Helm already had a release when the error occurred; `helm template` then adds a hint.
    #[must_use]
    pub fn has_release(&self) -> bool {
        matches!(self, Self::KubeVersion { .. } | Self::Template { .. } | Self::Yaml { .. })
    }

    /// Error for a document of a rendered file, or of a CRD file, that is not valid YAML.
    #[must_use]
    pub fn yaml(path: &str, document: &str, e: &yaml::Error) -> Self {
        let (path, document) = (path.to_owned(), document.to_owned());
        Self::Yaml { path, reason: e.to_string(), problem: e.problem().to_owned(), document, line: e.line() }
    }

    /// Error for a document that is invalid for another reason.
    #[must_use]
    pub fn manifest(path: &str, document: &str, reason: String) -> Self {
        let problem = reason.clone();
        Self::Yaml { path: path.to_owned(), reason, problem, document: document.to_owned(), line: None }
    }

    /// A parse error (`cleanupParseError`): the position, and the text after the last colon.
    pub(super) fn parse(task: &TemplateTask<'_>, e: &template::Error) -> Self {
        let text = e.to_string();
        let parts: Vec<&str> = text.split(": ").collect();
        let text = match parts[..] {
            [_, location, .., message] => format!("parse error at ({location}): {message}"),
            [_, message] => format!("parse error at ({message}): {message}"),
            _ => format!("parse error in ({}): {text}", task.name),
        };
        Self::template(text, task, e)
    }

    /// An execution error (`reformatExecErrorMsg`).
    pub(super) fn exec(task: &TemplateTask<'_>, e: &template::Error, profile: Profile) -> Self {
        let any = e.chain().any(template::Error::is_exec);
        let text = if any { exec_text(&task.name, e, profile) } else { e.to_string() };
        Self::template(text, task, e)
    }

    fn template(text: String, task: &TemplateTask<'_>, e: &template::Error) -> Self {
        let mut frames = Vec::new();
        // The text of the links after the last one with a position.
        let mut reason = String::new();
        for link in e.chain() {
            frames.extend(link.callers().iter().rev().cloned());
            match link.frame() {
                Some(frame) => {
                    reason.clone_from(&frame.message);
                    frames.push(frame.clone());
                }
                None if reason.is_empty() => link.own_text().clone_into(&mut reason),
                None => {
                    reason.push_str(if reason.ends_with(": ") { "" } else { ": " });
                    reason.push_str(link.own_text());
                }
            }
        }
        let reason = match (reason.find(MARK_START), reason.rfind(MARK_END)) {
            (Some(start), Some(end)) if start < end => reason[start + MARK_START.len()..end].to_owned(),
            _ => reason,
        };
        Self::Template { text, reason, frames, scope: task.scope() }
    }
}

fn exec_text(file: &str, e: &template::Error, profile: Profile) -> String {
    let whole = e.to_string();
    let mut parts = whole.splitn(3, ": ");
    let (Some(_), Some(location), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return format!("execution error in ({file}): {whole}");
    };
    if let Some(start) = rest.find(MARK_START)
        && let Some(end) = rest.rfind(MARK_END)
        && start < end
    {
        return format!("execution error at ({location}): {}", &rest[start + MARK_START.len()..end]);
    }
    if profile == Profile::Helm3 {
        return whole;
    }
    // Helm 4 prints the chain, one block per link, when every link is a template error.
    let mut blocks: Vec<String> = Vec::new();
    for link in e.chain() {
        match block(&link.to_string()) {
            Some(b) if blocks.last() == Some(&b) => {}
            Some(b) => blocks.push(b),
            None => return whole,
        }
    }
    blocks.concat().trim().to_owned()
}

fn cut_template(message: &str) -> &str {
    message.find(" template:").map_or(message, |n| &message[..n])
}

/// Formats one link of the chain as Helm 4 does, if its text has the form of a template error.
fn block(text: &str) -> Option<String> {
    let rest = text.strip_prefix("template: ")?;
    if rest.starts_with("no template ") {
        return Some(format!("{text}\n"));
    }
    if let Some((location, after)) = rest.split_once(": executing ")
        && let Some(quoted) = after.strip_prefix('"')
        && let Some((function, after)) = quoted.split_once('"')
        && let Some(at) = after.strip_prefix(" at <")
        && let Some((node, message)) = at.split_once(">: ")
    {
        let message = cut_template(message);
        let message = if message.is_empty() { String::new() } else { format!("{message}\n") };
        return Some(format!("{location}\n  executing \"{function}\" at <{node}>:\n    {message}"));
    }
    let (location, message) = rest.rsplit_once(": ")?;
    let message = cut_template(message);
    let message = if message.is_empty() { String::new() } else { format!("{message}\n") };
    Some(format!("{location}\n  {message}"))
}
