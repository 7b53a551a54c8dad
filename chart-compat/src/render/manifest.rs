//! Parses rendered text into manifests and hooks (`releaseutil.SortManifests`).

use std::ops::Range;

use super::error::Error;
use super::order;
use crate::chart::Warn;
use crate::go::{slog, trim};
use crate::profile::Profile;
use crate::yaml::{self, Head, Room};

/// One document of a rendered template.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The template that rendered it, e.g. `chart/templates/x.yaml`.
    pub source: String,
    /// Its text as Helm keeps it.
    pub text: String,
    /// Its API version, kind and metadata; empty for a document of comments only.
    pub head: Head,
    /// Its index among the documents of its template, from 0.
    pub number: usize,
}

/// A chart hook: a manifest that is executed at an event of the release instead of being part of it.
#[derive(Clone, Debug)]
pub struct Hook {
    /// The document.
    pub manifest: Manifest,
    /// The events that trigger it, e.g. `pre-install`, in the order of the annotation.
    pub events: Vec<String>,
    /// Its position among the hooks of one event.
    pub weight: i64,
    /// `helm.sh/hook-delete-policy`
    pub delete_policies: Vec<String>,
    /// `helm.sh/hook-output-log-policy`
    pub output_log_policies: Vec<String>,
}

/// The events that a hook can name.
const EVENTS: [&str; 9] = [
    "pre-install",
    "post-install",
    "pre-delete",
    "post-delete",
    "pre-upgrade",
    "post-upgrade",
    "pre-rollback",
    "post-rollback",
    "test",
];

/// Splits a file of several documents, such as one of `crds/`, at its `---` lines and omits blank documents.
///
/// ```
/// use chart_compat::render::split_documents;
///
/// assert_eq!(split_documents("a: 1\n---\n\n---\nb: 2\n").len(), 2);
/// ```
#[must_use]
pub fn split_documents(text: &str) -> Vec<&str> {
    split(text, Profile::Helm4)
}

/// Splits a rendered file into documents (`SplitManifests`). Both Helm versions split even inside block scalars.
pub(super) fn split(text: &str, profile: Profile) -> Vec<&str> {
    // The ranges end at character boundaries.
    places(text.as_bytes(), profile).into_iter().filter_map(|place| text.get(place)).collect()
}

/// The ranges of the documents of a rendered file.
fn places(text: &[u8], profile: Profile) -> Vec<Range<usize>> {
    let docs = match profile {
        Profile::Helm4 => split_lines(text),
        Profile::Helm3 => split_trimmed(text),
    };
    let place = |doc: &[u8]| {
        let from = doc.as_ptr().addr() - text.as_ptr().addr();
        from..from + doc.len()
    };
    docs.into_iter().map(place).collect()
}

/// Helm 4: splits at each line that starts with `---`; trims only the start of a document.
fn split_lines(text: &[u8]) -> Vec<&[u8]> {
    let text = trim::start_space(text);
    let mut docs = Vec::new();
    let mut add = |doc| {
        let doc = trim::start_space(doc);
        if !doc.is_empty() {
            docs.push(doc);
        }
    };
    let (mut from, mut at) = (0, 0);
    while let Some(n) = memchr::memmem::find(&text[at..], b"---") {
        let pos = at + n;
        if pos > 0 && text[pos - 1] != b'\n' {
            at = pos + 1;
            continue;
        }
        add(&text[from..pos]);
        at = pos + 3;
        at += text[at..].iter().take_while(|c| matches!(c, b' ' | b'\t')).count();
        from = at;
        // The next separator must be at the start of another line.
        match memchr::memchr(b'\n', &text[at..]) {
            Some(n) => at += n + 1,
            None => break,
        }
    }
    add(&text[from..]);
    docs
}

/// Helm 3: splits at `(?:^|\s*\n)---\s*` and trims documents on both sides.
fn split_trimmed(text: &[u8]) -> Vec<&[u8]> {
    let text = trim::space(text);
    let mut docs = Vec::new();
    let (mut from, mut at) = (0, 0);
    while let Some(n) = memchr::memmem::find(&text[at..], b"---") {
        let pos = at + n;
        // The previous separator may include the line break of this one: then the text does not split again there.
        let line_start = pos == 0 || pos > from && text[pos - 1] == b'\n';
        if !line_start {
            at = pos + 1;
            continue;
        }
        docs.push(&text[from..pos]);
        at = text.len() - trim::start_space(&text[pos + 3..]).len();
        from = at;
    }
    docs.push(&text[from..]);
    docs.into_iter().map(trim::space).filter(|d| !d.is_empty()).collect()
}

/// The value of an annotation.
fn annotation<'h>(head: &'h Head, key: &str) -> Option<&'h str> {
    head.annotations.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
}

fn words(head: &Head, key: &str) -> Vec<String> {
    match annotation(head, key) {
        Some(text) => text.split(',').map(|w| w.trim().to_lowercase()).collect(),
        None => Vec::new(),
    }
}

/// A rendered file with the parsed heads of its documents.
#[derive(Clone)]
pub(super) struct Documents {
    /// The template that rendered it.
    pub(super) source: String,
    /// Each document's text and head, up to and including the first head that cannot be parsed.
    documents: Vec<(String, Result<Head, yaml::Error>)>,
}

/// Splits a rendered file and parses the heads of its documents, within the room of all files of a render.
pub(super) fn read(source: String, text: Vec<u8>, profile: Profile, room: &Room) -> Documents {
    let mut documents = Vec::new();
    let places = places(&text, profile);
    let text = match (String::from_utf8(text), &places[..]) {
        (Ok(mut text), [place]) => {
            // The usual case: one document, which is the whole file except for trimmed white space.
            let head = yaml::head_within(&text.as_bytes()[place.clone()], room);
            text.truncate(place.end);
            text.drain(..place.start);
            documents.push((text, head));
            return Documents { source, documents };
        }
        (Ok(text), _) => text.into_bytes(),
        (Err(e), _) => e.into_bytes(),
    };
    for place in places {
        let doc = &text[place];
        let (doc, head) = match std::str::from_utf8(doc) {
            Ok(text) => (text.to_owned(), yaml::head_within(doc, room)),
            Err(_) => (String::from_utf8_lossy(doc).into_owned(), Err(yaml::refuse_bytes(doc))),
        };
        let failed = head.is_err();
        documents.push((doc, head));
        if failed {
            break;
        }
    }
    Documents { source, documents }
}

/// Separates hooks from manifests and sorts both in order of kind.
pub(super) fn sort(
    files: Vec<Documents>,
    profile: Profile,
    warn: Warn<'_>,
) -> Result<(Vec<Manifest>, Vec<Hook>), Error> {
    let (mut manifests, mut hooks) = (Vec::new(), Vec::new());
    for Documents { source, documents } in files {
        for (number, (text, head)) in documents.into_iter().enumerate() {
            let head = head.map_err(|e| {
                let mut reason = e.to_string();
                if profile == Profile::Helm3 {
                    // Helm 3 has the type in another package.
                    reason = reason.replace("type util.SimpleHead", "type releaseutil.SimpleHead");
                }
                let problem = e.problem().to_owned();
                Error::Yaml { path: source.clone(), reason, problem, document: text.clone(), line: e.line() }
            })?;
            let events = words(&head, "helm.sh/hook");
            let is_hook = annotation(&head, "helm.sh/hook").is_some();
            let manifest = Manifest { source: source.clone(), text, head, number };
            if !is_hook {
                manifests.push(manifest);
                continue;
            }
            let events: Vec<String> =
                events.into_iter().map(|e| if e == "test-success" { "test".to_owned() } else { e }).collect();
            if events.iter().any(|e| !EVENTS.contains(&e.as_str())) {
                let types = annotation(&manifest.head, "helm.sh/hook").unwrap_or_default();
                warn(slog::line("INFO", "skipping unknown hooks", &[("hookTypes", types)]));
                continue;
            }
            let weight = annotation(&manifest.head, "helm.sh/hook-weight");
            hooks.push(Hook {
                weight: weight.and_then(|w| w.parse().ok()).unwrap_or(0),
                delete_policies: words(&manifest.head, "helm.sh/hook-delete-policy"),
                output_log_policies: words(&manifest.head, "helm.sh/hook-output-log-policy"),
                events,
                manifest,
            });
        }
    }
    manifests.sort_by(|a, b| order::compare(&a.head.kind, &b.head.kind, profile));
    hooks.sort_by(|a, b| order::compare(&a.manifest.head.kind, &b.manifest.head.kind, profile));
    Ok((manifests, hooks))
}

#[cfg(test)]
mod tests {
    use super::{Profile, split};

    #[test]
    fn documents_split_as_each_helm_does() {
        let table: [(&str, &[&str], &[&str]); 6] = [
            ("a: 1\n---\nb: 2\n", &["a: 1\n", "b: 2\n"], &["a: 1", "b: 2"]),
            ("---\na: 1\n\n\n---  # c\nb: 2", &["a: 1\n\n\n", "# c\nb: 2"], &["a: 1", "# c\nb: 2"]),
            ("---a: 1\n----\nb: 2", &["a: 1\n", "-\nb: 2"], &["a: 1", "-\nb: 2"]),
            ("x: |\n  a\n---\n  b\n", &["x: |\n  a\n", "b\n"], &["x: |\n  a", "b"]),
            ("\n\n---\n---\n", &[], &["---"]),
            ("a: --- b\n", &["a: --- b\n"], &["a: --- b"]),
        ];
        for (text, helm4, helm3) in table {
            assert_eq!(split(text, Profile::Helm4), helm4, "{text:?}");
            assert_eq!(split(text, Profile::Helm3), helm3, "{text:?}");
        }
    }
}
