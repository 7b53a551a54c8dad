//! The output of `helm template`, and the manifest text of release records.

use super::{Hook, Rendered};
use crate::chart::matches;
use crate::go::strconv;
use crate::profile::Profile;

/// The manifest of a release: each document with its source, CRDs first if requested.
#[must_use]
pub fn manifest_text(rendered: &Rendered, include_crds: bool) -> Vec<u8> {
    manifest_pieces(rendered, include_crds).concat()
}

fn manifest_pieces(rendered: &Rendered, include_crds: bool) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    if include_crds {
        for crd in &rendered.crds {
            document(&mut pieces, &crd.path, &crd.data);
        }
    }
    for m in &rendered.manifests {
        document(&mut pieces, &m.source, m.text.as_bytes());
    }
    pieces
}

fn document<'r>(pieces: &mut Vec<&'r [u8]>, source: &'r str, text: &'r [u8]) {
    let all: [&'r [u8]; 5] = [b"---\n# Source: ", source.as_bytes(), b"\n", text, b"\n"];
    pieces.extend(all);
}

/// The documents that `--show-only` selects.
pub struct ShowOnly<'p> {
    /// Patterns of template paths below the chart, in the order given.
    pub patterns: &'p [String],
}

/// The standard output of `helm template`: the manifest, then the hooks that are not skipped.
///
/// ```
/// use chart_compat::profile::Profile;
/// use chart_compat::render::{Rendered, ShowOnly, template_output};
///
/// let rendered = Rendered::default(); // what CompiledChart::render gave
/// let no_tests = |hook: &chart_compat::render::Hook| !hook.events.iter().any(|e| e == "test");
/// let all = ShowOnly { patterns: &[] };
/// assert_eq!(template_output(&rendered, true, no_tests, &all, Profile::Helm4)?, b"\n");
///
/// let picked = ShowOnly { patterns: &["templates/a.yaml".to_owned()] };
/// let error = template_output(&rendered, false, |_| true, &picked, Profile::Helm4).err();
/// assert_eq!(error.as_deref(), Some("could not find template templates/a.yaml in chart"));
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
/// `could not find template X in chart` for a `--show-only` without a match.
pub fn template_output(
    rendered: &Rendered,
    include_crds: bool,
    hooks: impl Fn(&Hook) -> bool,
    show_only: &ShowOnly<'_>,
    profile: Profile,
) -> Result<Vec<u8>, String> {
    let pieces = template_pieces(rendered, include_crds, hooks);
    pick(pieces.concat(), show_only, profile)
}

/// As [`template_output`] of all documents, in slices of the rendered text, without a copy.
#[must_use]
pub fn template_pieces(rendered: &Rendered, include_crds: bool, hooks: impl Fn(&Hook) -> bool) -> Vec<&[u8]> {
    finish(manifest_pieces(rendered, include_crds), rendered, hooks)
}

/// A manifest without white space at its ends, and the hooks.
fn finish<'r>(
    mut pieces: Vec<&'r [u8]>,
    rendered: &'r Rendered,
    hooks: impl Fn(&Hook) -> bool,
) -> Vec<&'r [u8]> {
    trim(&mut pieces);
    pieces.push(b"\n");
    for hook in rendered.hooks.iter().filter(|h| hooks(h)) {
        document(&mut pieces, &hook.manifest.source, hook.manifest.text.as_bytes());
    }
    pieces
}

/// Like [`template_output`], with a manifest that replaces the rendered one.
///
/// # Errors
/// As [`template_output`].
pub fn template_output_of(
    manifest: &[u8],
    rendered: &Rendered,
    hooks: impl Fn(&Hook) -> bool,
    show_only: &ShowOnly<'_>,
    profile: Profile,
) -> Result<Vec<u8>, String> {
    pick(finish(vec![manifest], rendered, hooks).concat(), show_only, profile)
}

/// The output of `helm template --debug` for templates that did not render a valid manifest: the raw files by path.
/// Helm prints them in random order. Empty if a pattern matches nothing.
#[must_use]
pub fn debug_output(files: &[(String, String)], show_only: &ShowOnly<'_>, profile: Profile) -> Vec<u8> {
    let blob: String = files.iter().map(|(path, text)| format!("---\n# Source: {path}\n{text}\n")).collect();
    pick(format!("{}\n", blob.trim()).into_bytes(), show_only, profile).unwrap_or_default()
}

/// Selects the documents to print.
fn pick(out: Vec<u8>, show_only: &ShowOnly<'_>, profile: Profile) -> Result<Vec<u8>, String> {
    if show_only.patterns.is_empty() {
        return Ok(out);
    }
    let text = String::from_utf8_lossy(&out).into_owned();
    let docs = super::manifest::split(&text, profile);
    let mut picked = Vec::new();
    for pattern in show_only.patterns {
        let before = picked.len();
        for doc in &docs {
            let path = doc.lines().find_map(|l| l.strip_prefix("# Source: "));
            let Some((_, path)) = path.and_then(|p| p.split_once('/')) else { continue };
            if matches(pattern, path).unwrap_or(false) {
                picked.extend_from_slice(b"---\n");
                picked.extend_from_slice(doc.as_bytes());
                picked.push(b'\n');
            }
        }
        if picked.len() == before {
            return Err(format!("could not find template {pattern} in chart"));
        }
    }
    Ok(picked)
}

/// `strings.TrimSpace` of the concatenated pieces: removes Unicode white space at both ends.
fn trim(pieces: &mut Vec<&[u8]>) {
    // Pieces end at character boundaries: the whole is UTF-8 if each piece is.
    let is_text = pieces.iter().all(|p| std::str::from_utf8(p).is_ok());
    let trimmed = |piece: &mut &[u8], start: bool| {
        let bytes = *piece;
        *piece = match (std::str::from_utf8(bytes), start) {
            (Ok(text), true) if is_text => text.trim_start().as_bytes(),
            (Ok(text), false) if is_text => text.trim_end().as_bytes(),
            (_, true) => bytes.trim_ascii_start(),
            (_, false) => bytes.trim_ascii_end(),
        };
        piece.is_empty()
    };
    while pieces.last_mut().is_some_and(|last| trimmed(last, false)) {
        pieces.pop();
    }
    let blank = pieces.iter_mut().position(|first| !trimmed(first, true)).unwrap_or(pieces.len());
    pieces.drain(..blank);
}

/// Helm's error for an invalid release name, or `None` for a valid one (`chartutil.ValidateReleaseName`).
///
/// ```
/// use chart_compat::render::release_name_error;
///
/// assert_eq!(release_name_error("my-release"), None);
/// assert!(release_name_error("My_Release").is_some());
/// ```
#[must_use]
pub fn release_name_error(name: &str) -> Option<String> {
    let label = |s: &str| {
        let good = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
        !s.is_empty()
            && s.bytes().all(|c| good(c) || c == b'-')
            && s.bytes().next().is_some_and(good)
            && s.bytes().next_back().is_some_and(good)
    };
    if name.is_empty() {
        return Some("release name \"\": no name provided".to_owned());
    }
    if name.len() <= 53 && name.split('.').all(label) {
        return None;
    }
    let quoted = strconv::quote(name.as_bytes());
    Some(format!(
        "release name {quoted}: invalid release name, must match regex \
         ^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$ and the length must not be longer than 53"
    ))
}

#[cfg(test)]
mod tests {
    use super::trim;

    #[test]
    fn pieces_are_trimmed_as_their_whole() {
        let table: [(&[&[u8]], &[u8]); 7] = [
            (&[], b""),
            (&[b" ", b"\n", b""], b""),
            (&[b"\n", b" a", b" ", b"b ", b"\n", b" "], b"a b"),
            (&["\u{a0}".as_bytes(), b"a", "\u{2028}\n".as_bytes()], b"a"),
            // Of text that is not UTF-8 only ASCII white space is removed.
            (&["\u{a0}".as_bytes(), b"\xff", b"\n"], b"\xc2\xa0\xff"),
            (&[b"---\n# Source: ", b"a", b"\n", b"", b"\n"], b"---\n# Source: a"),
            (&[b" a "], b"a"),
        ];
        for (pieces, want) in table {
            let mut pieces = pieces.to_vec();
            trim(&mut pieces);
            assert_eq!(pieces.concat(), want);
        }
    }
}
