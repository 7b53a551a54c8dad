//! Which files are taken: patterns in the syntax of a .gitignore file. Pure.

use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// The most patterns of a list, and the longest, in bytes.
const MAX_PATTERNS: usize = 100;
const MAX_PATTERN: usize = 1024;

/// The patterns of a ConfigMapSource.
pub(crate) struct FilePatterns {
    /// `None`: all files.
    include: Option<Gitignore>,
    exclude: Gitignore,
}

impl FilePatterns {
    /// # Errors
    /// A pattern is none; the text names the field.
    pub(crate) fn of(include: &[String], exclude: &[String]) -> Result<Self, String> {
        let included = compile("spec.include", include)?;
        Ok(Self {
            include: (!include.is_empty()).then_some(included),
            exclude: compile("spec.exclude", exclude)?,
        })
    }

    /// Whether a file is taken. `path`: relative.
    pub(crate) fn takes(&self, path: &str) -> bool {
        let matches = |patterns: &Gitignore| patterns.matched_path_or_any_parents(path, false).is_ignore();
        self.include.as_ref().is_none_or(matches) && !matches(&self.exclude)
    }
}

fn compile(field: &str, patterns: &[String]) -> Result<Gitignore, String> {
    if patterns.len() > MAX_PATTERNS {
        return Err(format!("{field}: {} patterns; no more than {MAX_PATTERNS} are read", patterns.len()));
    }
    let mut builder = GitignoreBuilder::new("");
    for (at, pattern) in patterns.iter().enumerate() {
        let wrong = |why: &str| format!("{field}[{at}]: {pattern:?} {why}");
        match pattern.trim() {
            "" => return Err(wrong("is no pattern: write one such as *.xml")),
            text if text.starts_with(['!', '#']) => {
                return Err(wrong("begins with ! or #: write what is left out in spec.exclude"));
            }
            text if text.len() > MAX_PATTERN => {
                return Err(format!("{field}[{at}]: the pattern has more than {MAX_PATTERN} bytes"));
            }
            _ => {
                let added = builder.add_line(None, pattern);
                added.map_err(|error| wrong(&format!("is no pattern: {error}")))?;
            }
        }
    }
    builder.build().map_err(|error| format!("{field}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(include: &[&str], exclude: &[&str]) -> Result<FilePatterns, String> {
        let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        FilePatterns::of(&owned(include), &owned(exclude))
    }

    #[test]
    fn files_are_taken_as_gitignore_names_them() {
        for (include, exclude, path, expected) in [
            (&[][..], &[][..], "a/b.xml", true),
            (&["*.xml"], &[], "a/b.xml", true),
            (&["*.xml"], &[], "a/b.md", false),
            (&["/*.xml"], &[], "a/b.xml", false),
            (&["/*.xml"], &[], "b.xml", true),
            (&["a/"], &[], "a/b/c.xml", true),
            (&["a/**/c.*"], &[], "a/b/c.xml", true),
            (&[], &["*.md", "tests/"], "a/tests/x.xml", false),
            (&["*.xml"], &["b.xml"], "a/b.xml", false),
        ] {
            let patterns = patterns(include, exclude).unwrap();
            assert_eq!(patterns.takes(path), expected, "{include:?} {exclude:?} {path}");
        }
    }

    #[test]
    fn what_is_no_pattern_names_its_field() {
        let long = "a".repeat(MAX_PATTERN + 1);
        for (include, exclude, part) in [
            (&["a", ""][..], &[][..], "spec.include[1]: \"\" is no pattern"),
            (&[" "], &[], "spec.include[0]: \" \" is no pattern"),
            (&["!a"], &[], "spec.include[0]: \"!a\" begins with !"),
            (&[], &["# a"], "spec.exclude[0]: \"# a\" begins with !"),
            (&[], &["a{b"], "spec.exclude[0]: \"a{b\" is no pattern: "),
            (&[], &[long.as_str()], "spec.exclude[0]: the pattern has more than 1024 bytes"),
        ] {
            let error = patterns(include, exclude).err().unwrap();
            assert!(error.starts_with(part), "{error}");
        }
        let many = vec!["a"; MAX_PATTERNS + 1];
        assert!(patterns(&many, &[]).err().unwrap().starts_with("spec.include: 101 patterns"));
    }
}
