//! The members of a JSON object.
//!
//! Owns their order and the lookup. Most objects of a schema have a few members: a sorted list takes a fifth of the memory of
//! a tree's first node.

use super::json::Json;

/// The members of an object, in order of their keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Members(Box<[(String, Json)]>);

type Pair = fn(&(String, Json)) -> (&String, &Json);

type Iter<'m> = std::iter::Map<std::slice::Iter<'m, (String, Json)>, Pair>;

impl Members {
    pub(super) fn get(&self, key: &str) -> Option<&Json> {
        let found = self.0.binary_search_by(|m| m.0.as_str().cmp(key)).ok()?;
        self.0.get(found).map(|m| &m.1)
    }

    pub(super) fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> Iter<'_> {
        let pair: Pair = |m| (&m.0, &m.1);
        self.0.iter().map(pair)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &String> {
        self.0.iter().map(|m| &m.0)
    }
}

impl FromIterator<(String, Json)> for Members {
    /// Of two members with the same key, the later wins.
    fn from_iter<I: IntoIterator<Item = (String, Json)>>(members: I) -> Self {
        let mut members: Vec<_> = members.into_iter().collect();
        members.sort_by(|a, b| a.0.cmp(&b.0));
        members.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                std::mem::swap(later, kept);
            }
            same
        });
        Self(members.into_boxed_slice())
    }
}

impl<'m> IntoIterator for &'m Members {
    type Item = (&'m String, &'m Json);
    type IntoIter = Iter<'m>;

    fn into_iter(self) -> Iter<'m> {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_and_the_last_of_a_key_counts() {
        let given = ["b", "a", "c", "a", "a"].iter().zip([1, 2, 3, 4, 5]);
        let members: Members =
            given.map(|(k, n)| ((*k).to_owned(), Json::Number(n.to_string().into()))).collect();
        let shown: Vec<String> = members.iter().map(|(k, v)| format!("{k}{v:?}")).collect();
        assert_eq!(shown, ["aNumber(\"5\")", "bNumber(\"1\")", "cNumber(\"3\")"]);
        assert!(members.contains_key("c") && !members.contains_key("d") && !members.contains_key(""));
    }
}
