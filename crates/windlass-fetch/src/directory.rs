//! Walks chart directories as Helm does, with `.helmignore`, size limits, and Helm's errors for unreadable files.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use chart_compat::chart::{File, MAX_CHART_BYTES, MAX_ENTRIES, MAX_FILE_BYTES_HELM3, Rules, Warn};
use chart_compat::go::slog;
use chart_compat::profile::Profile;

use super::Error;
use windlass_base::bounded_read;

/// Deepest nesting of directories; symbolic links can form cycles.
const MAX_DEPTH: usize = 100;
/// Maximum number of links in one path (`filepath.EvalSymlinks`).
const MAX_LINKS: usize = 255;

/// The files of a chart directory, in order of name (`loader.LoadDir`).
pub(super) fn files(root: &Path, profile: Profile, warn: Warn<'_>) -> Result<Vec<File>, Error> {
    let root = &super::absolute(root);
    let ignore = root.join(".helmignore");
    let text = match bounded_read::read_file(&ignore, bounded_read::MAX_TEXT) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) if !ignore.exists() => String::new(),
        Err(e) if e.kind() == io::ErrorKind::IsADirectory => return Err(unread("read", &ignore, e)),
        Err(e) => return Err(unread("open", &ignore, e)),
    };
    let rules = Rules::parse(&text)?;
    let mut walk = Walk { root, profile, rules, files: Vec::new(), left: MAX_CHART_BYTES, warn };
    walk.directory(root, "", 0)?;
    Ok(walk.files)
}

fn unread(step: &'static str, path: &Path, source: io::Error) -> Error {
    Error::Read { step, path: path.to_owned(), source }
}

struct Walk<'r> {
    root: &'r Path,
    profile: Profile,
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
        let mut names: Vec<OsString> = Vec::new();
        for entry in std::fs::read_dir(dir).map_err(|e| unread("open", dir, e))? {
            names.push(entry.map_err(|e| unread("read", dir, e))?.file_name());
        }
        names.sort();
        for name in names {
            let path = dir.join(&name);
            let name = name.to_string_lossy();
            let relative = if prefix.is_empty() { name.into_owned() } else { format!("{prefix}/{name}") };
            let mut kind = std::fs::symlink_metadata(&path).map_err(|e| unread("lstat", &path, e))?;
            if kind.is_symlink() {
                let end = resolve(&path)
                    .map_err(|source| Error::Link { path: path.clone(), source: Box::new(source) })?;
                self.tell_link(&path, &end);
                kind = std::fs::symlink_metadata(&end).map_err(|e| unread("lstat", &end, e))?;
            }
            if self.rules.ignores(&relative, kind.is_dir()) {
                continue;
            }
            if kind.is_dir() {
                self.directory(&path, &relative, depth + 1)?;
            } else if kind.is_file() {
                self.file(&path, relative, kind.len())?;
            } else {
                return Err(Error::Irregular(path));
            }
        }
        Ok(())
    }

    /// Warns that a symbolic link is followed, as Helm does.
    fn tell_link(&mut self, path: &Path, end: &Path) {
        let attributes = [("path", &*path.to_string_lossy()), ("resolved", &*end.to_string_lossy())];
        let text = "found symbolic link in path. Contents of linked file included and used";
        (self.warn)(slog::line("INFO", text, &attributes));
    }

    fn file(&mut self, path: &Path, name: String, size: u64) -> Result<(), Error> {
        if self.files.len() >= MAX_ENTRIES {
            return Err(self.refuse(path, &format!("the chart has more than {MAX_ENTRIES} files")));
        }
        if self.profile == Profile::Helm3 && size > MAX_FILE_BYTES_HELM3 {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            return Err(Error::TooLarge(name));
        }
        let failed = |source: Error| Error::File { name: name.clone(), source: Box::new(source) };
        if size > self.left {
            return Err(failed(Error::Budget));
        }
        let data = bounded_read::read_file(path, self.left).map_err(|e| failed(unread("open", path, e)))?;
        self.left = self.left.saturating_sub(data.len() as u64);
        self.files.push(File::new(name, data));
        Ok(())
    }
}

/// An absolute path with all links resolved (`filepath.EvalSymlinks`).
fn resolve(path: &Path) -> Result<PathBuf, Error> {
    let parts = |path: &Path| path.components().map(|c| c.as_os_str().to_owned()).collect::<VecDeque<_>>();
    let mut left = parts(path);
    let mut found = PathBuf::new();
    let mut links = 0;
    while let Some(part) = left.pop_front() {
        match Path::new(&part).components().next() {
            Some(Component::ParentDir) => {
                found.pop();
            }
            Some(Component::Normal(name)) => {
                let next = found.join(name);
                let kind = std::fs::symlink_metadata(&next).map_err(|e| unread("lstat", &next, e))?;
                if kind.is_symlink() {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Error::Links);
                    }
                    let to = std::fs::read_link(&next).map_err(|e| unread("readlink", &next, e))?;
                    let mut to = parts(&to);
                    to.append(&mut left);
                    left = to;
                } else if kind.is_dir() || left.is_empty() {
                    found = next;
                } else {
                    return Err(Error::NoDirectory);
                }
            }
            // An absolute link restarts at the root.
            Some(other) => found.push(other),
            None => {}
        }
    }
    Ok(found)
}
