//! The files of a build, on disk.
//!
//! Owns reading and resolving paths, with errors in Go's words.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use kustomize_compat::kustomization::{FILE_NAMES, KustomizationFile};
use kustomize_compat::load::{Chart, FetchError, Place, ReadFile, Repository, World, base};

use super::chart_inflation::{self, ChartSettings};
use super::remote_base::RemoteBases;
use crate::RenderPermit;
use windlass_base::bounded_read;
use windlass_base::causes::of_the_system;
use windlass_fetch::confined_files::check_tree;
use windlass_fetch::input_store::{InputKind, InputStore, RemoteInput};

/// The size limit of a file, in bytes: that of all files of a build.
const MAX_FILE: u64 = 512 << 20;

/// What one build asks of the outside.
pub(super) struct DiskWorld<'s> {
    pub(super) remote: RemoteBases,
    pub(super) charts: Option<ChartSettings<'s>>,
    pub(super) root: Option<PathBuf>,
    pub(super) inputs: Option<&'s dyn InputStore>,
    pub(super) permit: RenderPermit,
    pub(super) warn: &'s dyn Fn(&str),
}

impl World for DiskWorld<'_> {
    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        if self.root.is_some() {
            let real = fs::canonicalize(path).map_err(|e| format!("open {path}: {}", of_the_system(&e)))?;
            self.check_root(&real)?;
        }
        let content = read(Path::new(path))?;
        if let Some(store) = self.inputs {
            store.note_file(Path::new(path))?;
        }
        if FILE_NAMES.contains(&base(path).as_str()) {
            self.start_clones(&content);
        }
        Ok(content)
    }

    fn resolve(&self, path: &str) -> Result<Place, String> {
        let found = fs::canonicalize(path).map_err(|e| missing(Path::new(path), &e))?;
        self.check_root(&found)?;
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

    fn fetch(&self, url: &str) -> Result<Vec<u8>, FetchError> {
        let Some(store) = self.inputs else { return self.permit.without(|| self.remote.fetch(url)) };
        let input = RemoteInput::new(InputKind::File, url, "");
        if let Some(path) = store.find(&input).map_err(|e| FetchError::Other(e.0))? {
            return read(&path).map_err(FetchError::Other);
        }
        let content = self.permit.without(|| self.remote.fetch(url))?;
        store.take_files(&input, &[("file", &content)]).map_err(|e| FetchError::Other(e.0))?;
        Ok(content)
    }

    fn clone_repository(&self, repository: &Repository) -> Result<String, String> {
        let cloned = || self.permit.without(|| self.remote.clone_repository(repository));
        let Some(store) = self.inputs else { return cloned() };
        let submodules = if repository.submodules { " with submodules" } else { "" };
        let reference = format!("{}{submodules}", repository.reference);
        let input = RemoteInput::new(InputKind::Repository, &repository.clone_spec(), &reference);
        if let Some(path) = store.find(&input)? {
            return Ok(path.to_string_lossy().into_owned());
        }
        let copy = cloned()?;
        store.take_copy(&input, Path::new(&copy), Path::new(&copy))?;
        Ok(copy)
    }

    fn charts_enabled(&self) -> bool {
        self.charts.is_some()
    }

    fn inflate(&self, chart: &Chart, read: &ReadFile<'_>) -> Result<String, String> {
        match &self.charts {
            Some(charts) => {
                self.check_chart(chart)?;
                charts.inflate(chart, read, &self.permit, self.warn)
            }
            None => Err("must specify --enable-helm".to_owned()),
        }
    }

    fn warn(&self, line: &str) {
        (self.warn)(line);
    }

    fn hint(&self, line: &str) {
        (self.warn)(&format!("# Warning: {line}"));
    }
}

impl DiskWorld<'_> {
    /// Refuses a path, without symbolic links, that is neither in the root nor in a copy of a repository.
    fn check_root(&self, path: &Path) -> Result<(), String> {
        match &self.root {
            Some(root) if !path.starts_with(root) && !self.remote.has(path) => {
                Err(format!("{}: it is outside of the source", path.display()))
            }
            _ => Ok(()),
        }
    }

    /// With a root, refuses a chart on disk outside of it, and Helm's configuration of this machine.
    fn check_chart(&self, chart: &Chart) -> Result<(), String> {
        let Some(root) = &self.root else { return Ok(()) };
        if !chart.config_home.is_empty() {
            return Err(
                "helmGlobals.configHome: the configuration of this machine is not used here".to_owned()
            );
        }
        let Ok(directory) = fs::canonicalize(chart_inflation::directory(chart)) else { return Ok(()) };
        self.check_root(&directory)?;
        // Copies of repositories have no links.
        if directory.starts_with(root) { Ok(check_tree(root, &directory)?) } else { Ok(()) }
    }

    /// Starts to fetch the repositories that a kustomization names, all at once. Errors are those of the step that needs a copy.
    fn start_clones(&self, content: &[u8]) {
        let Ok(file) = KustomizationFile::parse(content, "") else { return };
        let paths = ["resources", "components"].iter().flat_map(|field| file.texts(field));
        let repositories: Vec<Repository> = paths
            .filter(|path| !is_file_name(path))
            .filter_map(|path| Repository::parse(&path).ok())
            .collect();
        if repositories.len() > 1 {
            repositories.iter().for_each(|repository| self.remote.start(repository));
        }
    }
}

/// Whether a URL names a file of manifests rather than a repository.
fn is_file_name(path: &str) -> bool {
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    [".yaml", ".yml", ".json"].iter().any(|end| path.ends_with(end))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let failed = |step: &str, e: &io::Error| format!("{step} {}: {}", path.display(), of_the_system(e));
    let file = fs::File::open(path).map_err(|e| failed("open", &e))?;
    bounded_read::read_to_end(file, MAX_FILE).map_err(|e| failed("read", &e))
}

/// What Go says of a path that leads nowhere: the first part that is missing.
fn missing(path: &Path, e: &io::Error) -> String {
    let mut at = PathBuf::new();
    for part in path.components() {
        at.push(part);
        if matches!(part, Component::Normal(_)) && fs::symlink_metadata(&at).is_err() {
            if at.parent().is_some_and(Path::is_file) {
                return "not a directory".to_owned();
            }
            return format!("lstat {}: {}", at.display(), of_the_system(e));
        }
    }
    of_the_system(e)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_lead_nowhere_are_told_in_gos_words() {
        let directory = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(directory.path()).unwrap();
        fs::write(root.join("file"), "").unwrap();
        let told = |path: &str| {
            let path = root.join(path);
            let e = fs::canonicalize(&path).unwrap_err();
            missing(&path, &e).replace(&root.display().to_string(), "ROOT")
        };
        assert_eq!(told("a/b"), "lstat ROOT/a: no such file or directory");
        assert_eq!(told("file/b"), "not a directory");
        let opened = read(&root.join("gone")).unwrap_err();
        assert!(
            opened.starts_with("open /") && opened.ends_with("gone: no such file or directory"),
            "{opened}"
        );
    }

    #[test]
    fn files_of_manifests_are_no_repositories() {
        assert!(is_file_name("https://example.com/org/repo/app.yaml?ref=v1"));
        assert!(!is_file_name("https://example.com/org/repo//app?ref=v1.yaml"));
    }
}
