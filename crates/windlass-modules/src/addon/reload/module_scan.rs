//! Scans the files of modules and global hooks for changes, at the cost of one stat each.
//!
//! Owns the definition of a change and how often files are checked. The time of a directory changes when files appear, vanish or are
//! replaced by a rename, as git-sync, ConfigMaps and most editors write them: each scan checks directories. A file that is written in
//! place leaves its directory unchanged: each scan checks the files of a fifth of the modules.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::addon::module::Modules;

/// How deep directories are scanned, and how many files of a module.
const MAX_DEPTH: usize = 24;
const MAX_FILES: usize = 50_000;
/// All files of a module are checked in one of this many scans.
const TURNS: usize = 5;

/// What changes when files do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::addon) struct Fingerprints {
    /// Of all files.
    pub(in crate::addon) all: u64,
    /// Of those below `hooks`.
    pub(in crate::addon) hooks: u64,
}

/// All files of the roots at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::addon) struct Scan {
    /// Of the root itself and its `values.yaml`; `None` for a root that cannot be read.
    pub(super) roots: BTreeMap<PathBuf, Option<u64>>,
    pub(super) modules: BTreeMap<PathBuf, Fingerprints>,
    /// Of the directory of global hooks; `None` if there is none that can be read.
    pub(super) global: Option<Fingerprints>,
}

impl Scan {
    /// Checks all files of the roots, and of the directory of global hooks.
    pub(in crate::addon) fn take(roots: &str, global: Option<&Path>) -> Self {
        Walker::default().take(roots, global, true)
    }

    /// Stores the fingerprint of its hooks in each module.
    pub(in crate::addon) fn stamp(&self, modules: &mut Modules) {
        for module in &mut modules.modules {
            module.hooks = self.modules.get(&module.path).copied().unwrap_or_default().hooks;
        }
    }
}

/// Remembers the last scan, so that the next one is cheaper.
#[derive(Debug, Default)]
pub(super) struct Walker {
    seen: BTreeMap<PathBuf, Seen>,
    turn: usize,
}

/// One directory with all below it.
#[derive(Debug)]
struct Seen {
    prints: Fingerprints,
    /// The directories, symlinks to such included, and what they were like.
    directories: Vec<PathBuf>,
    shape: u64,
}

impl Walker {
    /// Checks the directories; at files where it is their turn, or a directory is another, or at `all`.
    pub(super) fn take(&mut self, roots: &str, global: Option<&Path>, all: bool) -> Scan {
        self.turn = (self.turn + 1) % TURNS;
        let mut before = std::mem::take(&mut self.seen);
        let mut scan = Scan::default();
        let mut place = 0;
        let mut look = |path: &Path| {
            place += 1;
            let whole = all || place % TURNS == self.turn;
            let seen =
                match before.remove(path).filter(|seen| !whole && seen.shape == shape(&seen.directories)) {
                    Some(seen) => seen,
                    None => Seen::of(path),
                };
            let prints = seen.prints;
            self.seen.insert(path.to_owned(), seen);
            prints
        };
        for root in roots.split(':').filter(|r| !r.is_empty()).map(Path::new) {
            let Ok(entries) = std::fs::read_dir(root) else {
                scan.roots.insert(root.to_owned(), None);
                continue;
            };
            let mut hasher = DefaultHasher::new();
            print(&root.join("values.yaml"), &mut hasher);
            scan.roots.insert(root.to_owned(), Some(hasher.finish()));
            for entry in entries.filter_map(Result::ok) {
                let hidden = entry.file_name().as_encoded_bytes().first() == Some(&b'.');
                if !hidden && is_directory(&entry) {
                    let path = entry.path();
                    let prints = look(&path);
                    scan.modules.insert(path, prints);
                }
            }
        }
        scan.global = global.filter(|path| path.is_dir()).map(look);
        scan
    }
}

impl Seen {
    fn of(directory: &Path) -> Self {
        let (mut all, mut hooks) = (DefaultHasher::new(), DefaultHasher::new());
        // Hooks are run by their paths.
        directory.hash(&mut hooks);
        let below = directory.join("hooks");
        let mut walk = Walk { left: MAX_FILES, directories: Vec::new() };
        walk.below(directory, MAX_DEPTH, &mut |path| {
            let mut of_file = DefaultHasher::new();
            path.hash(&mut of_file);
            print(path, &mut of_file);
            let of_file = of_file.finish();
            of_file.hash(&mut all);
            if path.starts_with(&below) {
                of_file.hash(&mut hooks);
            }
        });
        let shape = shape(&walk.directories);
        let prints = Fingerprints { all: all.finish(), hooks: hooks.finish() };
        Self { prints, directories: walk.directories, shape }
    }
}

/// Whether an entry is a directory, or a symlink to one. Most file systems say so without being asked of the file itself.
fn is_directory(entry: &std::fs::DirEntry) -> bool {
    match entry.file_type() {
        Ok(kind) if !kind.is_symlink() => kind.is_dir(),
        _ => entry.path().is_dir(),
    }
}

/// What changes when a file does.
fn print(path: &Path, hasher: &mut DefaultHasher) {
    match std::fs::metadata(path) {
        Ok(m) => (m.len(), m.mtime(), m.mtime_nsec(), m.ino(), m.mode()).hash(hasher),
        Err(e) => e.kind().hash(hasher),
    }
}

/// What changes when an entry of one of the directories comes or goes, or a symlink leads to another one.
fn shape(directories: &[PathBuf]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for path in directories {
        match std::fs::metadata(path) {
            Ok(m) => (m.mtime(), m.mtime_nsec(), m.ino(), m.dev()).hash(&mut hasher),
            Err(e) => e.kind().hash(&mut hasher),
        }
    }
    hasher.finish()
}

struct Walk {
    left: usize,
    directories: Vec<PathBuf>,
}

impl Walk {
    /// All files below a directory, in order; symlinks are followed.
    fn below(&mut self, directory: &Path, depth: usize, each: &mut dyn FnMut(&Path)) {
        self.directories.push(directory.to_owned());
        let Ok(entries) = std::fs::read_dir(directory) else { return };
        let entry = |e: std::fs::DirEntry| (e.path(), is_directory(&e));
        // Python writes there when hooks run.
        let entries = entries.filter_map(Result::ok).filter(|e| e.file_name() != "__pycache__");
        let mut paths: Vec<(PathBuf, bool)> = entries.map(entry).collect();
        paths.sort();
        for (path, is_directory) in paths {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            match is_directory {
                true if depth > 0 => self.below(&path, depth - 1, each),
                true => {}
                false => each(&path),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    struct Disk(tempfile::TempDir);

    impl Disk {
        fn new() -> Self {
            let disk = Self(tempfile::tempdir().unwrap());
            for at in 0..7 {
                disk.write(&format!("m/00{at}-m/templates/x.yaml"), "a: b\n");
            }
            disk
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        /// How many looks it takes until a change is seen.
        fn looks(&self, walker: &mut Walker, before: &Scan) -> usize {
            let roots = self.path("m").display().to_string();
            let found = (1..=TURNS + 1).find(|_| walker.take(&roots, None, false) != *before);
            found.expect("the change is seen")
        }
    }

    #[test]
    fn what_is_written_in_place_is_seen_in_its_turn_and_all_else_at_once() {
        let disk = Disk::new();
        let roots = disk.path("m").display().to_string();
        let mut walker = Walker::default();
        let before = walker.take(&roots, None, true);
        for _ in 0..2 * TURNS {
            assert_eq!(walker.take(&roots, None, false), before, "nothing moves by itself");
        }
        // Of another size, so that the clock of the file system does not matter.
        disk.write("m/003-m/templates/x.yaml", "a: changed in place\n");
        let looks = disk.looks(&mut walker, &before);
        assert!((1..=TURNS).contains(&looks), "{looks}");
        let before = walker.take(&roots, None, true);
        disk.write("m/004-m/templates/y.yaml", "");
        assert_eq!(disk.looks(&mut walker, &before), 1, "a new file");
        let before = walker.take(&roots, None, true);
        fs::rename(disk.path("m/004-m/templates/y.yaml"), disk.path("m/004-m/templates/x.yaml")).unwrap();
        assert_eq!(disk.looks(&mut walker, &before), 1, "a file that was replaced");
        let before = walker.take(&roots, None, true);
        disk.write("m/005-m/deep/er/z.yaml", "");
        assert_eq!(disk.looks(&mut walker, &before), 1, "a new directory");
        assert_eq!(walker.take(&roots, None, true), walker.take(&roots, None, false));
    }

    #[test]
    fn a_symlink_that_is_swapped_is_seen_at_once() {
        let disk = Disk::new();
        disk.write("one/t.yaml", "1");
        disk.write("two/t.yaml", "22");
        // As a ConfigMap is mounted: files lead through ..data.
        std::os::unix::fs::symlink(disk.path("one"), disk.path("m/006-m/..data")).unwrap();
        std::os::unix::fs::symlink("..data/t.yaml", disk.path("m/006-m/t.yaml")).unwrap();
        let roots = disk.path("m").display().to_string();
        let mut walker = Walker::default();
        let before = walker.take(&roots, None, true);
        std::os::unix::fs::symlink(disk.path("two"), disk.path("next")).unwrap();
        fs::rename(disk.path("next"), disk.path("m/006-m/..data")).unwrap();
        assert_eq!(disk.looks(&mut walker, &before), 1);
    }

    #[test]
    fn global_hooks_are_looked_at_too() {
        let disk = Disk::new();
        let roots = disk.path("m").display().to_string();
        let global = disk.path("g");
        assert_eq!(Scan::take(&roots, Some(&global)).global, None);
        disk.write("g/hooks/a", "x");
        let one = Scan::take(&roots, Some(&global)).global.unwrap();
        disk.write("g/hooks/b", "x");
        assert_ne!(Scan::take(&roots, Some(&global)).global.unwrap().hooks, one.hooks);
    }
}
