//! `template --output-dir`: each template's documents into a file of its path.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Component, Path};

use chart_compat::render::{Hook, Rendered};

use super::{Failure, print};

/// Writes all documents below `dir`, appending where several share a template, and tells each file once.
pub(super) fn write(
    dir: &Path,
    rendered: &Rendered,
    include_crds: bool,
    hooks: impl Fn(&Hook) -> bool,
) -> Result<(), Failure> {
    let mut written = BTreeSet::new();
    let crds = rendered.crds.iter().filter(|_| include_crds).map(|c| (c.path.as_str(), &*c.data));
    let manifests = rendered.manifests.iter().map(|m| (m.source.as_str(), m.text.as_bytes()));
    let hooks = rendered.hooks.iter().filter(|h| hooks(h));
    let hooks = hooks.map(|h| (h.manifest.source.as_str(), h.manifest.text.as_bytes()));
    for (source, text) in crds.chain(manifests).chain(hooks) {
        let relative = Path::new(source);
        if relative.components().any(|c| !matches!(c, Component::Normal(_))) {
            return Err(format!("template path {source:?} leaves the output directory"));
        }
        let path = dir.join(relative);
        let failed = |e: std::io::Error| format!("cannot write {}: {e}", path.display());
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        let first = written.insert(source.to_owned());
        let mut options = std::fs::OpenOptions::new();
        let mut file =
            if first { options.write(true).create(true).truncate(true) } else { options.append(true) }
                .open(&path)
                .map_err(failed)?;
        let mut doc = format!("---\n# Source: {source}\n").into_bytes();
        doc.extend_from_slice(text);
        doc.push(b'\n');
        file.write_all(&doc).map_err(failed)?;
        print(format!("wrote {}\n", path.display()).as_bytes())?;
    }
    Ok(())
}
