//! What `helm template` prints, and the manifest text that release records hold.

use super::{Hook, Rendered};
use crate::chart::matches;
use crate::go::strconv;
use crate::profile::Profile;

/// The manifest of a release: each document with its source, CRDs first if asked for.
#[must_use]
pub fn manifest_text(rendered: &Rendered, include_crds: bool) -> Vec<u8> {
    let size = rendered.manifests.iter().map(|m| m.text.len() + m.source.len() + 20).sum();
    let mut out = Vec::with_capacity(size);
    if include_crds {
        for crd in &rendered.crds {
            document(&mut out, &crd.path, &crd.data);
        }
    }
    for m in &rendered.manifests {
        document(&mut out, &m.source, m.text.as_bytes());
    }
    out
}

fn document(out: &mut Vec<u8>, source: &str, text: &[u8]) {
    out.extend_from_slice(b"---\n# Source: ");
    out.extend_from_slice(source.as_bytes());
    out.push(b'\n');
    out.extend_from_slice(text);
    out.push(b'\n');
}

/// Which documents `--show-only` picks.
pub struct ShowOnly<'p> {
    /// Patterns of template paths below the chart, in the order given.
    pub patterns: &'p [String],
}

/// The standard output of `helm template`: manifest, then hooks unless there are to be none.
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
/// `could not find template X in chart` for a `--show-only` that picks nothing.
pub fn template_output(
    rendered: &Rendered,
    include_crds: bool,
    hooks: impl Fn(&Hook) -> bool,
    show_only: &ShowOnly<'_>,
    profile: Profile,
) -> Result<Vec<u8>, String> {
    let manifest = manifest_text(rendered, include_crds);
    template_output_of(manifest, rendered, hooks, show_only, profile)
}

/// As [`template_output`], but with a manifest that something else made of the rendered one.
///
/// # Errors
/// As [`template_output`].
pub fn template_output_of(
    manifest: Vec<u8>,
    rendered: &Rendered,
    hooks: impl Fn(&Hook) -> bool,
    show_only: &ShowOnly<'_>,
    profile: Profile,
) -> Result<Vec<u8>, String> {
    let mut out = manifest;
    let (start, size) = {
        let kept = trim(&out);
        (kept.as_ptr().addr() - out.as_ptr().addr(), kept.len())
    };
    out.truncate(start + size);
    out.drain(..start);
    out.push(b'\n');
    for hook in rendered.hooks.iter().filter(|h| hooks(h)) {
        document(&mut out, &hook.manifest.source, hook.manifest.text.as_bytes());
    }
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

/// `strings.TrimSpace` on bytes: Unicode white space at both ends.
fn trim(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Ok(s) => s.trim().as_bytes(),
        Err(_) => bytes.trim_ascii(),
    }
}

/// The name that Helm would refuse, or `None` for a good one (`chartutil.ValidateReleaseName`).
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
        return Some("no name provided".to_owned());
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
