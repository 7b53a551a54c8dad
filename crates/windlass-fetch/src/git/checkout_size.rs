//! How much a checkout takes: by the listing of its tree before, and by its files on disk after.
//!
//! Owns the bounds of entries, of paths and of their depth. Which commit is listed, and how many bytes it may have, is the caller's.

use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::path::Path;

use windlass_base::redact;

/// Most files and submodules of a checkout, with those of its submodules.
const MAX_ENTRIES: usize = 500_000;
/// Most parts of a path in a tree, and most directories above a file on disk.
const MAX_DEPTH: usize = 100;
/// Most bytes of a path in a tree: below the system's limit, with room for the directory of the checkout.
const MAX_PATH: usize = 2048;
/// What a file takes at least, in bytes: many empty ones fill a disk, too.
const LEAST_FILE: u64 = 512;
/// Most characters of a path in an error.
const SHOWN: usize = 60;

/// What the trees of a repository and of its submodules have together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CheckoutSize {
    entries: usize,
    bytes: u64,
}

impl CheckoutSize {
    /// The same with a tree of the name `name`, off the runtime's threads. `listed`: the output of `git ls-tree -r -l -z`;
    /// `directories`: the only ones that are checked out, if there are any.
    ///
    /// # Errors
    /// There is too much: says what, for people.
    pub(super) async fn with_tree(
        mut self,
        name: String,
        listed: Vec<u8>,
        directories: &[String],
        limit: u64,
    ) -> Result<Self, String> {
        let directories = directories.to_vec();
        let task = redact::spawn_blocking(move || {
            self.add_tree(&name, &listed, &directories)?;
            match self.bytes {
                bytes if bytes > limit => {
                    Err(format!("the files of {name} have {bytes} bytes, more than {limit}"))
                }
                _ => Ok(self),
            }
        });
        task.await.unwrap_or_else(|error| Err(format!("a task ended early: {error}")))
    }

    /// Counts all entries of a listing, and then the bytes of those that are checked out.
    fn add_tree(&mut self, name: &str, listed: &[u8], directories: &[String]) -> Result<(), String> {
        let listing = || listed.split(|b| *b == 0).filter(|entry| !entry.is_empty());
        self.entries = self.entries.saturating_add(listing().count());
        if self.entries > MAX_ENTRIES {
            let entries = self.entries;
            return Err(format!("{name} has {entries} files, and at most {MAX_ENTRIES} are checked out"));
        }
        let wanted = sparse_directories(directories);
        let parents = parents_of(&wanted);
        // `MODE blob OBJECT SIZE<tab>PATH`; a submodule has `-` for its size.
        for entry in listing() {
            let Some(tab) = entry.iter().position(|b| *b == b'\t') else { continue };
            let (head, path) = (&entry[..tab], &entry[tab + 1..]);
            check_path(name, path)?;
            if directories.is_empty() || is_below(&wanted, path) || parents.contains(parent(path)) {
                let size = str::from_utf8(head).unwrap_or_default().split_whitespace().nth(3);
                let size = size.and_then(|size| size.parse().ok()).unwrap_or(0);
                self.bytes = self.bytes.saturating_add(size);
            }
        }
        Ok(())
    }
}

fn check_path(name: &str, path: &[u8]) -> Result<(), String> {
    let beginning = || shown(&String::from_utf8_lossy(&path[..path.len().min(4 * SHOWN)]));
    if path.len() > MAX_PATH {
        return Err(format!(
            "{name} has a path of {} bytes, and at most {MAX_PATH} are checked out: {}",
            path.len(),
            beginning()
        ));
    }
    let parts = path.split(|b| *b == b'/').count();
    if parts > MAX_DEPTH {
        return Err(format!(
            "{name} has a path of {parts} parts, and at most {MAX_DEPTH} are checked out: {}",
            beginning()
        ));
    }
    Ok(())
}

/// The beginning of a path, in quotes.
fn shown(path: &str) -> String {
    let rest = if path.chars().nth(SHOWN).is_some() { "…" } else { "" };
    format!("{:?}{rest}", path.chars().take(SHOWN).collect::<String>())
}

/// Directories with a slash at their ends, sorted, without those below others. The root is the empty text.
fn sparse_directories(directories: &[String]) -> Vec<Vec<u8>> {
    let plain = |directory: &String| {
        let parts = directory.split('/').filter(|part| !matches!(*part, "" | "."));
        parts.flat_map(|part| [part.as_bytes(), b"/"].concat()).collect::<Vec<u8>>()
    };
    let mut all: Vec<Vec<u8>> = directories.iter().map(plain).collect();
    all.sort();
    all.dedup_by(|later, kept| later.starts_with(kept));
    all
}

/// Whether a path is below one of some sorted directories: only the last one that is not after it can be its beginning.
fn is_below(directories: &[Vec<u8>], path: &[u8]) -> bool {
    let after = directories.partition_point(|directory| directory.as_slice() <= path);
    after.checked_sub(1).is_some_and(|last| path.starts_with(&directories[last]))
}

/// The directories above some directories: git checks out the files in these, too.
fn parents_of(directories: &[Vec<u8>]) -> HashSet<&[u8]> {
    let above = |directory: &'_ Vec<u8>| {
        let slashes = directory.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at + 1);
        slashes.take(MAX_DEPTH).collect::<Vec<_>>()
    };
    let mut all = HashSet::from([&b""[..]]);
    for directory in directories {
        all.extend(above(directory).into_iter().map(|end| &directory[..end]));
    }
    all
}

/// The directory of a path, with a slash at its end; the root is the empty text.
fn parent(path: &[u8]) -> &[u8] {
    &path[..path.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1)]
}

/// The bytes of all files below a directory, off the runtime's threads.
///
/// # Errors
/// A directory cannot be read, or is too deep.
pub(super) async fn measure(directory: &Path) -> io::Result<u64> {
    let directory = directory.to_owned();
    redact::spawn_blocking(move || directory_size(&directory)).await.map_err(io::Error::other)?
}

/// The bytes of all files below a directory. What goes away meanwhile has none: git may be at work there.
fn directory_size(root: &Path) -> io::Result<u64> {
    let mut bytes = 0_u64;
    let mut directories = vec![(root.to_owned(), 0)];
    while let Some((directory, depth)) = directories.pop() {
        let failed = |error: io::Error| {
            let inside = directory.strip_prefix(root).unwrap_or(&directory);
            io::Error::new(
                error.kind(),
                format!("{} cannot be read: {error}", shown(&inside.to_string_lossy())),
            )
        };
        if depth > MAX_DEPTH {
            let inside = directory.strip_prefix(root).unwrap_or(&directory);
            let text =
                format!("{} is more than {MAX_DEPTH} directories deep", shown(&inside.to_string_lossy()));
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        }
        let Some(entries) = unless_gone(std::fs::read_dir(&directory)).map_err(failed)? else { continue };
        for entry in entries {
            let Some(entry) = unless_gone(entry).map_err(failed)? else { continue };
            let Some(meta) = unless_gone(entry.metadata()).map_err(failed)? else { continue };
            let size = if meta.is_dir() { LEAST_FILE } else { meta.len().max(LEAST_FILE) };
            bytes = bytes.saturating_add(size);
            if meta.is_dir() {
                directories.push((entry.path(), depth + 1));
            }
        }
    }
    Ok(bytes)
}

/// What was read; `None` if it is no longer there, or no longer a directory.
fn unless_gone<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        read => read.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn size(listed: &[u8], directories: &[&str]) -> Result<(usize, u64), String> {
        let directories: Vec<String> = directories.iter().map(|one| (*one).to_owned()).collect();
        let mut size = CheckoutSize::default();
        size.add_tree("HEAD", listed, &directories).map(|()| (size.entries, size.bytes))
    }

    #[test]
    fn listed_trees_are_counted() {
        let listed = b"100644 blob 12ab      7\ta/b\x00160000 commit 12ab       -\tsub\x00100755 blob 12ab     30\td e/f\tg\0";
        for (directories, expected) in [
            (&[][..], (3, 37)),
            (&["a"], (3, 7)),
            (&["/d e/", "x"], (3, 30)),
            (&["d"], (3, 0)),
            (&["a", "a/b", "./d e"], (3, 37)),
            (&["/"], (3, 37)),
            // Files beside a directory on its way are checked out with it.
            (&["a/c/d"], (3, 7)),
        ] {
            assert_eq!(size(listed, directories), Ok(expected), "{directories:?}");
        }
    }

    #[test]
    fn many_directories_take_no_longer_than_one() {
        let listed: Vec<u8> = (0..200_000)
            .flat_map(|n| format!("100644 blob 12ab 1\tlong/way/to/{n}\0").into_bytes())
            .collect();
        let directories: Vec<String> = (0..100_000).map(|n| format!("long/way/to/x{n}")).collect();
        let mut size = CheckoutSize::default();
        let start = Instant::now();
        size.add_tree("HEAD", &listed, &directories).unwrap();
        assert_eq!((size.entries, size.bytes), (200_000, 200_000));
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    }

    #[test]
    fn entries_are_counted_before_their_paths_are_looked_at() {
        let deep = "d/".repeat(200);
        let listed =
            format!("100644 blob 12ab 1\t{deep}f\0{}", "100644 blob 12ab 1\tf\0".repeat(MAX_ENTRIES));
        let told = size(listed.as_bytes(), &["d"]).unwrap_err();
        assert_eq!(told, "HEAD has 500001 files, and at most 500000 are checked out");
    }

    #[test]
    fn paths_of_trees_have_so_many_parts_and_bytes() {
        let entry = |path: &str| format!("100644 blob 12ab 1\t{path}\0").into_bytes();
        assert_eq!(size(&entry(&format!("{}f", "d/".repeat(99))), &[]), Ok((1, 1)));
        let told = size(&entry(&format!("{}f", "d/".repeat(100))), &[]).unwrap_err();
        let beginning = "d/".repeat(30);
        assert_eq!(
            told,
            format!("HEAD has a path of 101 parts, and at most 100 are checked out: \"{beginning}\"…")
        );
        let told = size(&entry(&"x".repeat(2049)), &[]).unwrap_err();
        assert!(
            told.starts_with("HEAD has a path of 2049 bytes, and at most 2048 are checked out: \"xx"),
            "{told}"
        );
    }

    #[test]
    fn directories_on_disk_are_so_deep() {
        let root = tempfile::tempdir().unwrap();
        let deepest = root.path().join("d/".repeat(MAX_DEPTH));
        std::fs::create_dir_all(&deepest).unwrap();
        std::fs::write(deepest.join("f"), "x").unwrap();
        assert_eq!(directory_size(root.path()).unwrap(), 101 * LEAST_FILE);
        std::fs::create_dir_all(deepest.join("d")).unwrap();
        let told = directory_size(root.path()).unwrap_err().to_string();
        assert_eq!(told, format!("\"{}\"… is more than 100 directories deep", "d/".repeat(30)));
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        // The whole path is longer than the system's limit.
        let root = tempfile::tempdir().unwrap();
        let half = |name: &str| {
            let inner = root.path().join(name).join(format!("{}/", "x".repeat(200)).repeat(15));
            std::fs::create_dir_all(&inner).unwrap();
            inner
        };
        std::fs::write(half("a").join("f"), "x").unwrap();
        std::fs::rename(root.path().join("a"), half("b").join("a")).unwrap();
        let told = directory_size(root.path()).unwrap_err().to_string();
        assert!(told.starts_with("\"b/xxx") && told.contains("xxx\"… cannot be read: "), "{told}");
        assert_eq!(directory_size(&root.path().join("gone")).unwrap(), 0);
    }
}
