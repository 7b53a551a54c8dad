//! Which files of a source are ignored: the rules of `.sourceignore` files and of `spec.ignore`.
//!
//! Owns the rules and their bounds. Does not know what becomes of the files.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use windlass_base::bounded_read;

use super::source_archive::{MAX_DEPTH, sorted, wrong};

/// Files that are never part of a source.
const VCS: &str = ".git/\n.gitignore\n.gitmodules\n.gitattributes\n";
/// Files that are no part of a source without ignore rules of its own.
const DEFAULTS: &str = "*.jpg\n*.jpeg\n*.gif\n*.png\n*.wmv\n*.flv\n*.tar.gz\n*.zip\n\
    .github/\n.circleci/\n.travis.yml\n.gitlab-ci.yml\nappveyor.yml\n.drone.yml\ncloudbuild.yaml\n\
    codeship-services.yml\ncodeship-steps.yml\n**/.goreleaser.yml\n**/.sops.yaml\n**/.flux.yaml\n";
/// The file with ignore rules of a directory.
pub(super) const SOURCE_IGNORE: &str = ".sourceignore";
/// The most bytes, lines and files of all rules of a source. A line takes some 400 bytes once it is compiled.
const MAX_BYTES: u64 = 128 << 10;
const MAX_LINES: usize = 5_000;
const MAX_FILES: usize = 1_000;

/// The ignore rules of a source. Later ones win: those of every source, of `.sourceignore` files from the outer directories on, and of the
/// spec.
#[derive(Default)]
pub(super) struct IgnoreRules {
    of_every_source: Vec<Gitignore>,
    of_directories: HashMap<PathBuf, Gitignore>,
    of_spec: Option<Gitignore>,
}

/// What the rules of a source may still have.
struct RuleBudget {
    bytes: u64,
    lines: usize,
    files: usize,
}

impl RuleBudget {
    fn new() -> Self {
        Self { bytes: MAX_BYTES, lines: MAX_LINES, files: MAX_FILES }
    }

    /// Reads the rules of a file.
    fn read(&mut self, file: &Path, size: u64) -> io::Result<Gitignore> {
        let exceeded = || wrong(format!("the source has more than {MAX_FILES} files {SOURCE_IGNORE}"));
        self.files = self.files.checked_sub(1).ok_or_else(exceeded)?;
        if size > self.bytes {
            return Err(Self::too_many_bytes(SOURCE_IGNORE));
        }
        let text = bounded_read::read_file(file, self.bytes)?;
        self.rules(file.parent().unwrap_or(file), &String::from_utf8_lossy(&text), SOURCE_IGNORE)
    }

    /// Rules of lines in gitignore's syntax; a line that cannot be read has no effect, as with git. `whose`: where they are, for errors.
    fn rules(&mut self, root: &Path, text: &str, whose: &str) -> io::Result<Gitignore> {
        let bytes = self.bytes.checked_sub(text.len() as u64);
        self.bytes = bytes.ok_or_else(|| Self::too_many_bytes(whose))?;
        let exceeded =
            || wrong(format!("{whose}: the ignore rules of the source have more than {MAX_LINES} lines"));
        self.lines = self.lines.checked_sub(text.lines().count()).ok_or_else(exceeded)?;
        compiled(root, text).map_err(|e| wrong(format!("{whose}: {e}")))
    }

    fn too_many_bytes(whose: &str) -> io::Error {
        wrong(format!("{whose}: the ignore rules of the source have more than {MAX_BYTES} bytes"))
    }
}

fn compiled(root: &Path, lines: &str) -> io::Result<Gitignore> {
    let mut builder = GitignoreBuilder::new(root);
    for line in lines.lines() {
        // A wrong glob ignores nothing.
        drop(builder.add_line(None, line));
    }
    builder.build().map_err(|e| wrong(e.to_string()))
}

impl IgnoreRules {
    /// The rules for a directory and the spec's `ignore`.
    ///
    /// # Errors
    /// A file of rules cannot be read, or there are too many of them.
    pub(super) fn load(root: &Path, ignore: Option<&str>) -> io::Result<Self> {
        let mut all = Self::load_own(root, ignore)?;
        all.of_every_source.push(compiled(root, VCS)?);
        if all.of_directories.is_empty() && all.of_spec.is_none() {
            all.of_every_source.push(compiled(root, DEFAULTS)?);
        }
        Ok(all)
    }

    /// The same without those that every source has.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub(super) fn load_own(root: &Path, ignore: Option<&str>) -> io::Result<Self> {
        let mut budget = RuleBudget::new();
        let of_spec = ignore.map(|lines| budget.rules(root, lines, "spec.ignore")).transpose()?;
        let mut all = Self { of_spec, ..Self::default() };
        all.add_directory(root, 0, &mut budget)?;
        Ok(all)
    }

    /// Adds the rules of all `.sourceignore` files of a directory.
    fn add_directory(&mut self, directory: &Path, depth: usize, budget: &mut RuleBudget) -> io::Result<()> {
        if depth > MAX_DEPTH {
            let text = format!("{}: more than {MAX_DEPTH} directories deep", directory.display());
            return Err(wrong(text));
        }
        let file = directory.join(SOURCE_IGNORE);
        if let Ok(metadata) = fs::symlink_metadata(&file)
            && metadata.is_file()
        {
            self.of_directories.insert(directory.to_owned(), budget.read(&file, metadata.len())?);
        }
        for entry in sorted(directory)? {
            if entry.is_dir && entry.name != ".git" {
                self.add_directory(&entry.path, depth + 1, budget)?;
            }
        }
        Ok(())
    }

    /// No rules.
    pub(super) fn none() -> Self {
        Self::default()
    }

    /// Whether a file is ignored, or a directory that it is in.
    pub(super) fn ignores_below(&self, path: &Path) -> bool {
        self.ignores(path, false)
            || path.ancestors().skip(1).take(MAX_DEPTH).any(|directory| self.ignores(directory, true))
    }

    /// Whether a path is ignored by itself. Rules count for what is below their directory only.
    pub(super) fn ignores(&self, path: &Path, directory: bool) -> bool {
        let of_directories = path.ancestors().skip(1).filter_map(|above| self.of_directories.get(above));
        let all = self.of_spec.iter().chain(of_directories).chain(self.of_every_source.iter().rev());
        let below = all.filter(|rules| path.starts_with(rules.path()) && path != rules.path());
        for rules in below {
            match rules.matched(path, directory) {
                Match::None => {}
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::source_archive::tests::tree;
    use super::*;

    #[test]
    fn rules_count_below_their_directory() {
        let root = tree(&[(".sourceignore", "*.md\n"), ("a/.sourceignore", "*.txt\n!keep.md\n")]);
        let rules = IgnoreRules::load(root.path(), Some("/a/b/\n")).unwrap();
        let ignored = |path: &str| rules.ignores_below(&root.path().join(path));
        let cases = [
            ("x.md", true),
            ("x.txt", false),
            ("a/x.txt", true),
            ("a/keep.md", false),
            ("b/keep.md", true),
            ("a/c/x.txt", true),
            ("a/b/x", true),
            ("b/x", false),
        ];
        for (path, expected) in cases {
            assert_eq!(ignored(path), expected, "{path}");
        }
    }

    #[test]
    fn rules_are_bounded_over_all_files() {
        let told = |files: &[(&str, &str)], spec: Option<&str>| {
            let root = tree(files);
            IgnoreRules::load(root.path(), spec).err().map(|e| e.to_string())
        };
        let lines = "a\n".repeat(2_600);
        let bytes = format!("{}\n", "a".repeat(70 << 10));
        assert_eq!(
            told(&[(".sourceignore", &lines), ("a/.sourceignore", "b\n")], Some(&"c\n".repeat(1_000))),
            None
        );
        let many_lines = ".sourceignore: the ignore rules of the source have more than 5000 lines";
        assert_eq!(
            told(&[(".sourceignore", &lines), ("a/.sourceignore", &lines)], None).as_deref(),
            Some(many_lines)
        );
        assert_eq!(told(&[("a/.sourceignore", &lines)], Some(&lines)).as_deref(), Some(many_lines));
        let many_bytes = ".sourceignore: the ignore rules of the source have more than 131072 bytes";
        assert_eq!(
            told(&[(".sourceignore", &bytes), ("a/.sourceignore", &bytes)], None).as_deref(),
            Some(many_bytes)
        );
        assert_eq!(
            told(&[], Some(&"x".repeat(1 << 20))).as_deref(),
            Some("spec.ignore: the ignore rules of the source have more than 131072 bytes")
        );
        let names: Vec<String> = (0..=MAX_FILES).map(|n| format!("{n}/.sourceignore")).collect();
        let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        assert_eq!(told(&files, None).as_deref(), Some("the source has more than 1000 files .sourceignore"));
    }
}
