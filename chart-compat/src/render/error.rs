//! Why a render failed, in Helm's words.

use crate::chart;
use crate::profile::Profile;
use crate::template;

/// Why a render failed; `Display` is Helm's text.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The chart or its values.
    #[error(transparent)]
    Chart(#[from] chart::Error),
    /// Which subcharts take part cannot be told.
    #[error(transparent)]
    Dependencies(chart::Error),
    /// The values break a schema.
    #[error("values don't meet the specifications of the schema(s) in the following chart(s):\n{0}")]
    Schema(String),
    /// The chart does not run on this Kubernetes.
    #[error("chart requires kubeVersion: {range} which is incompatible with Kubernetes {version}")]
    KubeVersion {
        /// The chart's range.
        range: String,
        /// The cluster's version.
        version: String,
    },
    /// A template does not parse or fails when it runs.
    #[error("{text}")]
    Template {
        /// Helm's text.
        text: String,
        /// Where, outermost frame first.
        frames: Vec<template::Frame>,
    },
    /// A template gave text that is not YAML.
    #[error("YAML parse error on {path}: {reason}")]
    Yaml {
        /// The template.
        path: String,
        /// The YAML error with its line.
        reason: String,
    },
}

/// How `required` and `fail` mark their message on its way through the frames.
pub(super) const MARK_START: &str = "HELM_ERR_START";
/// The end of a marked message.
pub(super) const MARK_END: &str = "HELM_ERR_END";

impl Error {
    /// Whether Helm had a release in hand when this happened; `helm template` adds a hint then.
    #[must_use]
    pub fn has_release(&self) -> bool {
        matches!(self, Self::KubeVersion { .. } | Self::Template { .. } | Self::Yaml { .. })
    }

    /// A parse error (`cleanupParseError`): the position, and the text after the last colon.
    pub(super) fn parse(file: &str, e: &template::Error) -> Self {
        let text = e.to_string();
        let parts: Vec<&str> = text.split(": ").collect();
        let text = match parts[..] {
            [_, location, .., message] => format!("parse error at ({location}): {message}"),
            [_, message] => format!("parse error at ({message}): {message}"),
            _ => format!("parse error in ({file}): {text}"),
        };
        Self::Template { text, frames: e.frame().cloned().into_iter().collect() }
    }

    /// An execution error (`reformatExecErrorMsg`).
    pub(super) fn exec(file: &str, e: &template::Error, profile: Profile) -> Self {
        let frames: Vec<template::Frame> = e.chain().filter_map(|e| e.frame().cloned()).collect();
        let text =
            if e.chain().any(template::Error::is_exec) { exec_text(file, e, profile) } else { e.to_string() };
        Self::Template { text, frames }
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
    // Helm 4 unfolds the chain, one block a link, when every link is a template's own error.
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

/// One link of the chain in Helm 4's form, if its text has a template's form.
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
