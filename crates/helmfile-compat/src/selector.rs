//! Selectors of releases: `key=value,key!=value`.

use std::collections::BTreeMap;

use super::error::Error;

/// One selector: all of its terms must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    equal: Vec<(String, String)>,
    unequal: Vec<(String, String)>,
}

impl Selector {
    /// Parses a selector.
    ///
    /// # Errors
    /// A term is neither `k=v` nor `k!=v`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut out = Self::default();
        let is_word = |word: &str| {
            !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"_./+-".contains(&b))
        };
        for term in text.split(',') {
            let (list, pair) = match term.split_once("!=") {
                Some(pair) => (&mut out.unequal, Some(pair)),
                None => (&mut out.equal, term.split_once('=')),
            };
            match pair {
                Some((key, value)) if is_word(key) && is_word(value) => {
                    list.push((key.to_owned(), value.to_owned()));
                }
                _ => {
                    return Err(Error::Invalid(format!(
                        "malformed label: {term}. Expected label in form k=v or k!=v"
                    )));
                }
            }
        }
        Ok(out)
    }

    /// Whether labels match. A missing label is unequal to everything.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.equal.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.unequal.iter().all(|(key, value)| labels.get(key) != Some(value))
    }

    /// Whether some release could match both selectors, as far as equal terms tell.
    #[must_use]
    pub fn is_compatible(&self, other: &Self) -> bool {
        !self.equal.iter().any(|(key, value)| other.equal.iter().any(|(k, v)| k == key && v != value))
    }
}

/// Whether any of some selectors is compatible with any of others; texts that are not selectors count as compatible.
#[must_use]
pub fn are_compatible(some: &[String], others: &[String]) -> bool {
    let parse =
        |texts: &[String]| texts.iter().map(|text| Selector::parse(text)).collect::<Result<Vec<_>, _>>();
    let (Ok(some), Ok(others)) = (parse(some), parse(others)) else { return true };
    some.is_empty() || others.is_empty() || some.iter().any(|a| others.iter().any(|b| a.is_compatible(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_match_labels() {
        let labels: BTreeMap<String, String> =
            [("tier", "front"), ("name", "a")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let table = [
            ("tier=front", true),
            ("tier=front,name!=b", true),
            ("tier!=front", false),
            ("absent!=x", true),
            ("absent=x", false),
        ];
        for (text, expected) in table {
            assert_eq!(Selector::parse(text).unwrap().matches(&labels), expected, "{text}");
        }
        for text in ["", "a", "a=b=c", "a=", "a b=c"] {
            assert!(Selector::parse(text).is_err(), "{text}");
        }
        assert!(!are_compatible(&["a=b".to_owned()], &["a=c".to_owned()]));
    }
}
