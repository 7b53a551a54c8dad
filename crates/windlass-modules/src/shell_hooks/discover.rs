//! Which files of a directory are hooks, and what they are called.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::Scope;

/// Directories deeper than this are not searched: a cycle of links ends here.
const MAX_DEPTH: usize = 32;

/// Files with these endings are data, whatever their mode.
const NOT_HOOKS: [&str; 4] = ["yaml", "json", "md", "txt"];

/// What a directory of hooks holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Hooks in the order of their paths.
    pub hooks: Vec<PathBuf>,
    /// Files that would be hooks but for their mode, and directories that cannot be read.
    pub problems: Vec<FileProblem>,
}

/// What is odd about a file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProblem {
    /// Its path.
    pub path: PathBuf,
    /// What is odd.
    pub text: String,
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.text)
    }
}

impl Found {
    fn add_problem(&mut self, path: &Path, text: &impl fmt::Display) {
        self.problems.push(FileProblem { path: path.to_owned(), text: text.to_string() });
    }
}

/// Looks for executable files below a directory; an absent directory has none.
#[must_use]
pub fn discover(directory: &Path, scope: Scope) -> Found {
    let mut found = Found::default();
    look(directory, scope, 0, &mut found);
    found.hooks.sort();
    found
}

fn look(directory: &Path, scope: Scope, depth: usize, found: &mut Found) {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound && depth == 0 => return,
        Err(e) => return found.add_problem(directory, &e),
    };
    let mut paths = Vec::new();
    for entry in entries {
        match entry {
            Ok(entry) => paths.push(entry.path()),
            Err(e) => found.add_problem(directory, &e),
        }
    }
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        // Links are followed, as a module directory may be one.
        let meta = match fs::metadata(&path) {
            Ok(meta) => meta,
            Err(e) => {
                found.add_problem(&path, &e);
                continue;
            }
        };
        if meta.is_dir() {
            let skipped = name == "lib" || scope == Scope::Module && name == "venv";
            if !skipped && depth < MAX_DEPTH {
                look(&path, scope, depth + 1, found);
            }
            continue;
        }
        let ending = path.extension().unwrap_or_default().to_string_lossy();
        if !meta.is_file() || NOT_HOOKS.contains(&&*ending) {
            continue;
        }
        if meta.permissions().mode() & 0o111 == 0 {
            found.add_problem(&path, &"it is not executable and is ignored; chmod +x makes it a hook");
        } else {
            found.hooks.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_in_the_order_of_their_paths() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, mode: u32| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        for path in ["b.sh", "a/z.py", "a/deep/x", "lib/no.sh", ".git/no.sh", "a/.hidden", "venv/bin/python3"]
        {
            put(path, 0o755);
        }
        for path in ["c.yaml", "d.json", "README.md", "e.txt"] {
            put(path, 0o755);
        }
        put("f.sh", 0o644);
        std::os::unix::fs::symlink(dir.path(), dir.path().join("a/circle")).unwrap();
        let names = |scope| -> Vec<String> {
            let hooks = discover(dir.path(), scope).hooks;
            let relative = |p: &PathBuf| p.strip_prefix(dir.path()).unwrap().to_string_lossy().into_owned();
            hooks.iter().map(relative).filter(|p| !p.contains("circle")).collect()
        };
        assert_eq!(names(Scope::Module), ["a/deep/x", "a/z.py", "b.sh"]);
        assert_eq!(names(Scope::Global), ["a/deep/x", "a/z.py", "b.sh", "venv/bin/python3"]);
        let problems = discover(dir.path(), Scope::Module).problems;
        assert!(
            problems.iter().any(|p| p.to_string().contains("f.sh: it is not executable")),
            "{problems:?}"
        );
        assert_eq!(discover(&dir.path().join("absent"), Scope::Global), Found::default());
    }
}
