//! `template --output-dir`: writes each template's documents to a file with the template's path.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Component, Path};

use chart_compat::render::{Hook, Rendered};

use super::Failure;
use windlass_base::causes::of_the_system;

/// Writes all documents below `dir`, and reports a file once for each of its documents (`renderResources` of the action package
/// and the command's own code after it). If `release` is given, manifests go into a directory of that name; CRDs do not.
///
/// Existing files are replaced, and further documents of a template are appended. As in Helm, hooks are appended to existing
/// files. `hint` follows an error, except that of a hook. `report` gets a line for each document.
pub(super) fn write(
    dir: &Path,
    release: Option<&str>,
    rendered: &Rendered,
    include_crds: bool,
    hooks: impl Fn(&Hook) -> bool,
    hint: &str,
    report: fn(&str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let dir = dir.to_string_lossy();
    let below = match release {
        Some(name) => windlass_fetch::clean(&Path::new(&*dir).join(name)).display().to_string(),
        None => dir.clone().into_owned(),
    };
    let mut written = BTreeSet::new();
    let crds = rendered.crds.iter().filter(|_| include_crds);
    let crds = crds.map(|c| (&*dir, c.path.as_str(), &*c.data));
    let manifests = rendered.manifests.iter().map(|m| (&*below, m.source.as_str(), m.text.as_bytes()));
    for (dir, source, text) in crds.chain(manifests) {
        document(dir, source, text, !written.insert(source), report).map_err(|e| format!("{e}{hint}"))?;
    }
    for hook in rendered.hooks.iter().filter(|h| hooks(h)) {
        let source = hook.manifest.source.as_str();
        let behind = Path::new(&below).join(source).exists();
        document(&below, source, hook.manifest.text.as_bytes(), behind, report)?;
    }
    Ok(())
}

/// Writes one document to its file; `behind` appends (`writeToFile`).
fn document(
    dir: &str,
    source: &str,
    text: &[u8],
    behind: bool,
    report: fn(&str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if Path::new(source).components().any(|c| !matches!(c, Component::Normal(_))) {
        return Err(format!("template path {source:?} leaves the output directory"));
    }
    let path = format!("{dir}/{source}");
    let failed = |step: &str, path: &str, e: std::io::Error| format!("{step} {path}: {}", of_the_system(&e));
    if let Some((parent, _)) = path.rsplit_once('/') {
        match fs::metadata(parent) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(failed("stat", parent, e)),
            _ => {}
        }
        fs::create_dir_all(parent).map_err(|e| failed("mkdir", parent, e))?;
    }
    let file = if behind { OpenOptions::new().append(true).open(&path) } else { File::create(&path) };
    let mut file = file.map_err(|e| failed("open", &path, e))?;
    let document = [format!("---\n# Source: {source}\n").as_bytes(), text, b"\n"].concat();
    file.write_all(&document).map_err(|e| failed("write", &path, e))?;
    report(&format!("wrote {path}"))
}
