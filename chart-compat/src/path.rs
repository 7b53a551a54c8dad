//! The path to a value within a tree: `image.tags[0]`, in the syntax of `--set`.
//!
//! Owns parsing and printing of paths, and lookups by them; does not know charts.

use std::fmt;

use crate::data::{Data, Map};

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// A key of a map.
    Key(String),
    /// An index of a list, from 0.
    Index(usize),
}

/// A path to a value; the empty path is the whole tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<Step>);

impl Path {
    /// Parses `a.b[0].c`. Ignores a leading `.`, `.Values.` or `Values.`; a backslash escapes a dot or bracket, as in
    /// `--set`.
    ///
    /// ```
    /// use chart_compat::chart::read_values;
    /// use chart_compat::path::Path;
    ///
    /// let values = read_values(b"hosts: [{name: a}, {name: b}]", Default::default()).unwrap();
    /// let path = Path::parse(".Values.hosts[1].name")?;
    /// assert_eq!(path.find(&values), Some(&"b".into()));
    /// # Ok::<(), String>(())
    /// ```
    ///
    /// # Errors
    /// The invalid step, with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rest = text.trim();
        rest = rest.strip_prefix('.').unwrap_or(rest);
        rest = rest.strip_prefix("Values.").unwrap_or(rest);
        if rest.is_empty() || rest == "Values" {
            return Ok(Self::default());
        }
        let mut steps = Vec::new();
        let mut chars = rest.chars().peekable();
        loop {
            let mut key = String::new();
            while let Some(c) = chars.next_if(|c| !matches!(c, '.' | '[')) {
                if c == '\\' { key.extend(chars.next()) } else { key.push(c) }
            }
            if key.is_empty() {
                return Err(format!("{text:?} is no path of a value: a key is empty (write it as a.b[0].c)"));
            }
            steps.push(Step::Key(key));
            while chars.next_if_eq(&'[').is_some() {
                let digits: String = std::iter::from_fn(|| chars.next_if(char::is_ascii_digit)).collect();
                match (digits.parse(), chars.next()) {
                    (Ok(index), Some(']')) => steps.push(Step::Index(index)),
                    _ => return Err(format!("{text:?} is no path of a value: after [ comes a number and ]")),
                }
            }
            match chars.next() {
                None => return Ok(Self(steps)),
                Some('.') => {}
                Some(c) => return Err(format!("{text:?} is no path of a value: {c:?} follows ]")),
            }
        }
    }

    /// Appends a key to this path.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        let mut steps = self.0.clone();
        steps.push(Step::Key(key.to_owned()));
        Self(steps)
    }

    /// Prepends keys to this path.
    #[must_use]
    pub fn below<S: AsRef<str>>(&self, keys: &[S]) -> Self {
        let keys = keys.iter().map(|k| Step::Key(k.as_ref().to_owned()));
        Self(keys.chain(self.0.iter().cloned()).collect())
    }

    /// The first key, if the path starts with one.
    #[must_use]
    pub fn first(&self) -> Option<&str> {
        match self.0.first() {
            Some(Step::Key(key)) => Some(key),
            _ => None,
        }
    }

    /// The value at the path.
    #[must_use]
    pub fn find<'d>(&self, map: &'d Map) -> Option<&'d Data> {
        let (first, rest) = self.0.split_first()?;
        let Step::Key(first) = first else { return None };
        rest.iter().try_fold(map.get(first)?, |at, step| match step {
            Step::Key(key) => at.get(key),
            // A JSON pointer does not distinguish a key of digits from an index.
            Step::Index(index) => at.get(&index.to_string()).or_else(|| at.as_list()?.get(*index)),
        })
    }
}

/// The most parts of a path from which a tree of maps is made.
pub const MAX_PARTS: usize = 500;

/// The parts of a path with dots, without escapes: those of `import-values`. Trees that are made of one are as deep as it has parts,
/// and walks of them take as much stack.
///
/// # Errors
/// It has more than [`MAX_PARTS`]; the text begins with those.
pub fn dotted(text: &str) -> Result<Vec<&str>, String> {
    let parts: Vec<&str> = text.split('.').take(MAX_PARTS + 1).collect();
    if parts.len() > MAX_PARTS {
        let shown: String = text.chars().take(40).collect();
        return Err(format!("the path {shown}… has more than {MAX_PARTS} parts"));
    }
    Ok(parts)
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) => {
                    if i > 0 {
                        f.write_str(".")?;
                    }
                    for c in key.chars() {
                        if matches!(c, '.' | '[' | '\\') {
                            f.write_str("\\")?;
                        }
                        write!(f, "{c}")?;
                    }
                }
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Path, Step};

    #[test]
    fn paths_are_read_and_written() {
        let key = |k: &str| Step::Key(k.to_owned());
        let table = [
            ("a.b", vec![key("a"), key("b")], "a.b"),
            (".Values.a", vec![key("a")], "a"),
            ("Values.a[0][12].b", vec![key("a"), Step::Index(0), Step::Index(12), key("b")], "a[0][12].b"),
            ("a.b\\.c/d", vec![key("a"), key("b.c/d")], "a.b\\.c/d"),
            ("", vec![], ""),
            (".Values", vec![], ""),
        ];
        for (text, steps, shown) in table {
            let path = Path::parse(text).unwrap();
            assert_eq!(path.0, steps, "{text}");
            assert_eq!(path.to_string(), shown, "{text}");
        }
        for bad in ["a..b", "a[x]", "a[1", "a[1]b", "[0]"] {
            assert!(Path::parse(bad).unwrap_err().contains(bad), "{bad}");
        }
    }
}
