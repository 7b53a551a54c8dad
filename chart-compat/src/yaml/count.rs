//! The number of nodes of a document, aliases resolved, without building any.

use std::borrow::Cow;

use super::sink::{Key, Sink};

#[derive(Default)]
struct Counter(usize);

impl Sink for Counter {
    fn null(&mut self) {
        self.0 += 1;
    }

    fn bool(&mut self, _: bool) {
        self.0 += 1;
    }

    fn int(&mut self, _: i64) {
        self.0 += 1;
    }

    fn uint(&mut self, _: u64) {
        self.0 += 1;
    }

    fn float(&mut self, _: f64) {
        self.0 += 1;
    }

    fn string(&mut self, _: Cow<'_, str>) {
        self.0 += 1;
    }

    fn begin_list(&mut self) {
        self.0 += 1;
    }

    fn end_list(&mut self) {}

    fn begin_map(&mut self) {
        self.0 += 1;
    }

    fn key(&mut self, _: Key<'_>) {
        self.0 += 1;
    }

    fn end_map(&mut self) {}
}

/// The number of values and keys in the first document. On a syntax error it counts the nodes before the error.
#[must_use]
pub fn count_nodes(text: &[u8]) -> usize {
    let mut counter = Counter::default();
    match super::read::read(text, &mut counter, false, &super::Room::default()) {
        Ok(_) | Err(_) => counter.0,
    }
}

#[cfg(test)]
mod tests {
    use super::count_nodes;

    #[test]
    fn keys_values_and_aliases_count() {
        for (text, nodes) in
            [("", 0), ("a", 1), ("a: 1\nb: [x, y]\n", 7), ("a: &x [1, 2]\nb: *x\n", 9), ("a: [1, 2\n", 5)]
        {
            assert_eq!(count_nodes(text.as_bytes()), nodes, "{text:?}");
        }
    }
}
