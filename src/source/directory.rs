//! Chart directories: the walk that Helm makes, with `.helmignore` and bounds.

use std::path::{Path, PathBuf};

use chart_compat::chart::{File, MAX_CHART_BYTES, MAX_ENTRIES, Rules, Warn};
use chart_compat::go::slog;

use super::Error;

/// How deep directories may nest; symbolic links can make circles.
const MAX_DEPTH: usize = 100;

/// The files of a chart directory, in order of name (`loader.LoadDir`).
pub(super) fn files(root: &Path, warn: Warn<'_>) -> Result<Vec<File>, Error> {
    let read = |path: &Path, source| Error::Read { path: path.to_owned(), source };
    let ignore = root.join(".helmignore");
    let text = match std::fs::read(&ignore) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(e) => return Err(read(&ignore, e)),
    };
    let rules = Rules::parse(&text)?;
    let mut walk = Walk { root, rules, files: Vec::new(), left: MAX_CHART_BYTES, warn };
    walk.directory(root, "", 0)?;
    Ok(walk.files)
}

struct Walk<'r> {
    root: &'r Path,
    warn: Warn<'r>,
    rules: Rules,
    files: Vec<File>,
    left: u64,
}

impl Walk<'_> {
    fn refuse(&self, path: &Path, reason: &str) -> Error {
        let shown = path.strip_prefix(self.root).map_or(path, |p| p);
        Error::Directory { path: self.root.to_owned(), reason: format!("{}: {reason}", shown.display()) }
    }

    fn directory(&mut self, dir: &Path, prefix: &str, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(self.refuse(dir, "directories nest too deep; does a symbolic link point upwards?"));
        }
        let read = |source| Error::Read { path: dir.to_owned(), source };
        let mut names: Vec<PathBuf> = Vec::new();
        for entry in std::fs::read_dir(dir).map_err(read)? {
            names.push(entry.map_err(read)?.path());
        }
        names.sort();
        for path in names {
            let Some(name) = path.file_name().map(|n| n.to_string_lossy().into_owned()) else { continue };
            let relative = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
            // Follows links, as Helm does, and says so.
            if path.is_symlink() {
                self.tell_link(&path);
            }
            let kind =
                std::fs::metadata(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
            if self.rules.ignores(&relative, kind.is_dir()) {
                continue;
            }
            if kind.is_dir() {
                self.directory(&path, &relative, depth + 1)?;
            } else if kind.is_file() {
                self.file(&path, relative, kind.len())?;
            } else {
                return Err(
                    self.refuse(&path, "cannot load irregular file as it has file mode type bits set")
                );
            }
        }
        Ok(())
    }

    fn tell_link(&mut self, path: &Path) {
        // A link that leads nowhere is an error that comes next.
        let Ok(resolved) = std::fs::canonicalize(path) else { return };
        let shown = super::absolute(path);
        let attributes = [("path", &*shown.to_string_lossy()), ("resolved", &*resolved.to_string_lossy())];
        let text = "found symbolic link in path. Contents of linked file included and used";
        (self.warn)(slog::line("INFO", text, &attributes));
    }

    fn file(&mut self, path: &Path, name: String, size: u64) -> Result<(), Error> {
        if self.files.len() >= MAX_ENTRIES {
            return Err(self.refuse(path, &format!("the chart has more than {MAX_ENTRIES} files")));
        }
        if size > self.left {
            let reason = format!("the chart's files are larger than the maximum size {MAX_CHART_BYTES}");
            return Err(self.refuse(path, &reason));
        }
        let data = std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        self.left = self.left.saturating_sub(data.len() as u64);
        self.files.push(File::new(name, data));
        Ok(())
    }
}
