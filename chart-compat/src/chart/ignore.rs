//! `.helmignore` (`pkg/ignore`): which files of a chart directory are not loaded.

use super::error::Error;
use super::path_match::matches;

enum Target {
    /// Matches the whole path.
    Path,
    /// Matches the last segment.
    Name,
}

struct Rule {
    pattern: String,
    target: Target,
    negate: bool,
    directories_only: bool,
}

/// The rules of one `.helmignore`, in order, with Helm's own last.
#[derive(Default)]
pub struct Rules {
    rules: Vec<Rule>,
}

impl Rules {
    /// Reads a `.helmignore`; pass an empty text when there is none.
    ///
    /// ```
    /// let rules = chart_compat::chart::Rules::parse("*.bak\nnotes/\n")?;
    /// assert!(rules.ignores("templates/old.bak", false) && rules.ignores("notes", true));
    /// assert!(!rules.ignores("values.yaml", false));
    /// # Ok::<(), chart_compat::chart::Error>(())
    /// ```
    ///
    /// # Errors
    /// A pattern with `**`, or an invalid pattern.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut rules = Self::default();
        for line in text.lines() {
            rules.add(line).map_err(Error::Ignore)?;
        }
        rules.add("templates/.?*").map_err(Error::Ignore)?;
        Ok(rules)
    }

    fn add(&mut self, line: &str) -> Result<(), String> {
        let rule = line.trim();
        if rule.is_empty() || rule.starts_with('#') {
            return Ok(());
        }
        if rule.contains("**") {
            return Err("double-star (**) syntax is not supported".to_owned());
        }
        matches(rule, "abc")?;
        let (rule, negate) = rule.strip_prefix('!').map_or((rule, false), |r| (r, true));
        let (rule, directories_only) = rule.strip_suffix('/').map_or((rule, false), |r| (r, true));
        let (rule, target) = match rule.strip_prefix('/') {
            Some(r) => (r, Target::Path),
            None if rule.contains('/') => (rule, Target::Path),
            None => (rule, Target::Name),
        };
        self.rules.push(Rule { pattern: rule.to_owned(), target, negate, directories_only });
        Ok(())
    }

    /// Whether a path, relative to the chart and slash-separated, is ignored. The caller must not descend into an ignored
    /// directory.
    #[must_use]
    pub fn ignores(&self, path: &str, directory: bool) -> bool {
        if matches!(path, "" | "." | "./") {
            return false;
        }
        for rule in &self.rules {
            let name = match rule.target {
                Target::Path => path,
                Target::Name => path.rsplit('/').next().unwrap_or(path),
            };
            let hit = matches(&rule.pattern, name).unwrap_or(false);
            let wrong_kind = rule.directories_only && !directory;
            if rule.negate {
                // Helm inverts the match instead of including files again.
                if wrong_kind || !hit {
                    return true;
                }
            } else if hit && !wrong_kind {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::Rules;

    #[test]
    fn rules_work_as_in_helm() {
        let table = [
            ("*.bak", "a/b.bak", false, true),
            ("/a.txt", "a.txt", false, true),
            ("/a.txt", "b/a.txt", false, false),
            ("a/b", "a/b", false, true),
            ("dir/", "dir", true, true),
            ("dir/", "dir", false, false),
            ("!keep.txt", "keep.txt", false, false),
            ("!keep.txt", "other.txt", false, true),
            ("# c\n\n x ", "x", false, true),
            ("", "templates/.x", false, true),
            ("", "templates/x", false, false),
        ];
        for (text, path, directory, want) in table {
            let rules = Rules::parse(text).unwrap();
            assert_eq!(rules.ignores(path, directory), want, "{text:?} {path}");
        }
        assert!(Rules::parse("a/**").is_err());
        assert!(Rules::parse("[").is_err());
    }
}
