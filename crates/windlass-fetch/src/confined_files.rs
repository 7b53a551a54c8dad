//! Files that must stay within a directory.
//!
//! Owns the check of paths and of symbolic links. Reads no file.

use std::path::{Path, PathBuf};

use windlass_base::causes::of_the_system;

/// Most entries of a directory that is checked.
const MAX_ENTRIES: usize = 100_000;

/// Why a path is refused. Paths are shown from the root, which is a temporary directory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfinedPathError {
    /// It leads out of the root.
    #[error("{0}: it is outside of the source")]
    Outside(String),
    /// It cannot be read.
    #[error("open {path}: {reason}")]
    Unreadable {
        /// The path.
        path: String,
        /// The system's reason.
        reason: String,
    },
    /// A directory has too many entries.
    #[error("{0}: more than {MAX_ENTRIES} entries")]
    TooMany(String),
}

impl From<ConfinedPathError> for String {
    fn from(error: ConfinedPathError) -> Self {
        error.to_string()
    }
}

/// The path without symbolic links, if it is below `root`. `root`: without symbolic links.
///
/// # Errors
/// The path leaves the root, or does not exist (`open PATH: no such file or directory`).
pub fn resolve(root: &Path, path: &Path) -> Result<PathBuf, ConfinedPathError> {
    // Do not reveal whether paths outside the root exist.
    if !super::clean(path).starts_with(root) {
        return Err(outside(root, path));
    }
    let real = path.canonicalize().map_err(|error| unreadable(root, path, &error))?;
    if real.starts_with(root) { Ok(real) } else { Err(outside(root, path)) }
}

/// Refuses a path that leaves the root, and a directory with a symbolic link that does.
///
/// # Errors
/// As [`resolve`], and for a directory of more than 100,000 entries.
pub fn check_tree(root: &Path, path: &Path) -> Result<(), ConfinedPathError> {
    let mut left = vec![resolve(root, path)?];
    let mut seen = 0;
    while let Some(at) = left.pop() {
        let failed = |error: std::io::Error| unreadable(root, &at, &error);
        if !at.is_dir() {
            continue;
        }
        for entry in at.read_dir().map_err(failed)? {
            let entry = entry.map_err(failed)?;
            seen += 1;
            if seen > MAX_ENTRIES {
                return Err(ConfinedPathError::TooMany(display_path(root, path)));
            }
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() {
                left.push(entry.path());
            } else if kind.is_symlink() {
                let target = resolve(root, &entry.path())?;
                if target.is_dir() {
                    left.push(target);
                }
            }
        }
    }
    Ok(())
}

fn unreadable(root: &Path, path: &Path, error: &std::io::Error) -> ConfinedPathError {
    ConfinedPathError::Unreadable { path: display_path(root, path), reason: of_the_system(error) }
}

fn display_path(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

fn outside(root: &Path, path: &Path) -> ConfinedPathError {
    ConfinedPathError::Outside(display_path(root, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_lead_out_are_refused() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let root = home.join("root");
        std::fs::create_dir_all(root.join("chart/templates")).unwrap();
        std::fs::write(home.join("secret"), "").unwrap();
        std::fs::write(root.join("chart/a"), "").unwrap();
        std::os::unix::fs::symlink("../a", root.join("chart/templates/a")).unwrap();
        assert_eq!(check_tree(&root, &root.join("chart")), Ok(()));
        assert!(
            resolve(&root, &root.join("chart/../../secret")).unwrap_err().to_string().contains("outside")
        );
        let gone = resolve(&root, &root.join("gone")).unwrap_err().to_string();
        assert!(gone.starts_with("open gone: no such file"));
        std::os::unix::fs::symlink("../../../secret", root.join("chart/templates/b")).unwrap();
        let told = check_tree(&root, &root.join("chart")).unwrap_err().to_string();
        assert_eq!(told, "chart/templates/b: it is outside of the source");
    }
}
