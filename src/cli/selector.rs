//! Label selectors, in the syntax of `list --selector` (`labels.Parse`).

/// One requirement on the labels.
#[derive(Debug, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Missing(String),
}

/// A parsed selector: all its requirements must match.
#[derive(Debug, Default)]
pub(super) struct Selector(Vec<Requirement>);

impl Selector {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        split(text)
            .into_iter()
            .filter(|part| !part.is_empty())
            .map(requirement)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub(super) fn matches(&self, label: impl Fn(&str) -> Option<String>) -> bool {
        self.0.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => label(key).is_some_and(|v| values.contains(&v)),
            Requirement::NotIn(key, values) => label(key).is_none_or(|v| !values.contains(&v)),
            Requirement::Exists(key) => label(key).is_some(),
            Requirement::Missing(key) => label(key).is_none(),
        })
    }
}

/// Splits at commas outside parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0;
    text.split(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    })
    .map(str::trim)
    .collect()
}

fn requirement(text: &str) -> Result<Requirement, String> {
    let bad = || format!("unable to parse requirement: {text:?} is not a label requirement");
    let key = |key: &str| {
        let key = key.trim();
        let fine = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        if !key.is_empty() && key.chars().all(fine) { Ok(key.to_owned()) } else { Err(bad()) }
    };
    if let Some((name, value)) = text.split_once("!=") {
        return Ok(Requirement::NotIn(key(name)?, vec![value.trim().to_owned()]));
    }
    if let Some((name, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Ok(Requirement::In(key(name)?, vec![value.trim().to_owned()]));
    }
    if let Some(list) = text.strip_suffix(')') {
        let (head, values) = list.split_once('(').ok_or_else(bad)?;
        let values = values.split(',').map(|v| v.trim().to_owned()).collect();
        return match head.split_whitespace().collect::<Vec<_>>()[..] {
            [name, "in"] => Ok(Requirement::In(key(name)?, values)),
            [name, "notin"] => Ok(Requirement::NotIn(key(name)?, values)),
            _ => Err(bad()),
        };
    }
    match text.strip_prefix('!') {
        Some(name) => Ok(Requirement::Missing(key(name)?)),
        None => Ok(Requirement::Exists(key(text)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn matches_as_kubernetes_does() {
        let labels = BTreeMap::from([("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())]);
        let cases = [
            ("", true),
            ("a=1", true),
            ("a==1,b=2", true),
            ("a=1,b=1", false),
            ("a!=1", false),
            ("c!=1", true),
            ("a in (1, 3),b notin (1,3)", true),
            ("a in (2)", false),
            ("c notin (2)", true),
            ("a,!c", true),
            ("c", false),
            ("!a", false),
        ];
        for (text, expected) in cases {
            assert_eq!(
                Selector::parse(text).unwrap().matches(|name| labels.get(name).cloned()),
                expected,
                "{text}"
            );
        }
        for text in ["a b", "a within (1)", "a in 1)"] {
            assert!(Selector::parse(text).is_err(), "{text}");
        }
    }
}
