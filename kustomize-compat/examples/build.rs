//! `kustomize build DIR` over the file system: `cargo run -p kustomize-compat --example build -- [--load-restrictor X] DIR`.

#![allow(
    clippy::disallowed_types,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::exit,
    reason = "a front for the crate"
)]

use std::fs;
use std::path::{Component, Path, PathBuf};

use kustomize_compat::load::{Place, World};
use kustomize_compat::target::{Options, build};

struct Disk;

fn reason(e: &std::io::Error) -> String {
    match e.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        std::io::ErrorKind::NotADirectory => "not a directory".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => e.to_string(),
    }
}

impl World for Disk {
    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        fs::read(path).map_err(|e| format!("open {path}: {}", reason(&e)))
    }

    fn resolve(&self, path: &str) -> Result<Place, String> {
        let found = fs::canonicalize(path).map_err(|e| missing(Path::new(path), &e))?;
        let text = |path: &Path| path.to_string_lossy().into_owned();
        if found.is_dir() {
            return Ok(Place::Directory(text(&found)));
        }
        let (directory, name) = (found.parent().map(text), found.file_name().map(|n| n.to_string_lossy()));
        Ok(Place::File {
            directory: directory.unwrap_or_default(),
            name: name.unwrap_or_default().into_owned(),
        })
    }

    fn warn(&self, line: &str) {
        eprintln!("{line}");
    }
}

/// What Go says of a path that leads nowhere: the first part that is missing.
fn missing(path: &Path, e: &std::io::Error) -> String {
    let mut at = PathBuf::new();
    for part in path.components() {
        at.push(part);
        if matches!(part, Component::Normal(_)) && fs::symlink_metadata(&at).is_err() {
            if at.parent().is_some_and(Path::is_file) {
                return "not a directory".to_owned();
            }
            return format!("lstat {}: {}", at.display(), reason(e));
        }
    }
    reason(e)
}

fn main() {
    let mut options = Options::default();
    let mut target = ".".to_owned();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--load-restrictor" => {
                options.unrestricted = args.next().as_deref() == Some("LoadRestrictionsNone");
            }
            "--reorder" => options.keep_order = args.next().as_deref() == Some("none"),
            _ => target = arg,
        }
    }
    let path = std::path::absolute(&target).map(|path| path.to_string_lossy().into_owned());
    let path = if target.contains("://") { target } else { path.unwrap_or(target) };
    match build(&Disk, &path, &options) {
        Ok(text) => print!("{text}"),
        Err(e) => {
            eprintln!("Error: {e}");
            std::process::exit(1);
        }
    }
}
