//! The order in which go-yaml writes the keys of a mapping.
//!
//! Owns the comparison, and a sort that tolerates it: the comparison is not a total order. Among "2", "10" and "1a" it is cyclic.

use std::cmp::Ordering;

use crate::go::unicode::{is_digit, is_letter};

/// go-yaml v2's comparison of two keys: by character, with letters after other characters, and runs of digits as numbers.
#[must_use]
pub fn compare_keys(a: &str, b: &str) -> Ordering {
    compare(a, b, false)
}

/// go-yaml v3's comparison of two keys: like v2's, but letters come first after a common digit.
#[must_use]
pub fn compare_keys_pretty(a: &str, b: &str) -> Ordering {
    compare(a, b, true)
}

fn compare(a: &str, b: &str, pretty: bool) -> Ordering {
    let common = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    // The first different byte can be inside a character.
    let at = (0..=common).rev().find(|&i| a.is_char_boundary(i) && b.is_char_boundary(i)).unwrap_or(0);
    let (head, tail_a) = a.split_at(at);
    let tail_b = b.get(at..).unwrap_or_default();
    let (first_a, first_b) = match (tail_a.chars().next(), tail_b.chars().next()) {
        (Some(a), Some(b)) => (a, b),
        (a, b) => return a.is_some().cmp(&b.is_some()),
    };
    match (is_letter(first_a), is_letter(first_b)) {
        (true, true) => return first_a.cmp(&first_b),
        (false, false) => {}
        (letter_a, _) => {
            let after_digit = pretty && head.chars().next_back().is_some_and(is_digit);
            return if letter_a == after_digit { Ordering::Less } else { Ordering::Greater };
        }
    }
    // Whether a zero is a leading zero depends on the digits before it.
    let zero = first_a == '0' || first_b == '0';
    let inside = zero && head.chars().rev().take_while(|c| is_digit(*c)).any(|c| c != '0');
    let (value_a, length_a) = digits(tail_a, inside);
    let (value_b, length_b) = digits(tail_b, inside);
    value_a.cmp(&value_b).then(length_a.cmp(&length_b)).then(first_a.cmp(&first_b))
}

/// Value and number of the leading digits. As in Go, the value is an `int64` that wraps on overflow.
fn digits(text: &str, inside: bool) -> (i64, usize) {
    let mut value = i64::from(inside);
    let mut length = 0;
    for c in text.chars().take_while(|c| is_digit(*c)) {
        value = value.wrapping_mul(10).wrapping_add(i64::from(u32::from(c)) - i64::from(u32::from('0')));
        length += 1;
    }
    (value, length)
}

/// Sorts entries by key. The sort is stable and does not panic if `compare` is not a total order.
pub fn sort_by_key<T>(entries: &mut Vec<T>, key: impl Fn(&T) -> &str, compare: fn(&str, &str) -> Ordering) {
    let in_order = |a: &T, b: &T| compare(key(a), key(b)) != Ordering::Greater;
    if entries.is_sorted_by(in_order) {
        return;
    }
    // A bottom-up merge sort, over runs of 1, 2, 4, … entries.
    let mut from: Vec<Option<T>> = entries.drain(..).map(Some).collect();
    let mut width = 1;
    while width < from.len() {
        let mut to = Vec::with_capacity(from.len());
        for run in from.chunks_mut(width * 2) {
            let (left, right) = run.split_at_mut(width.min(run.len()));
            let (mut left, mut right) = (left.iter_mut().peekable(), right.iter_mut().peekable());
            loop {
                let take_left = match (left.peek(), right.peek()) {
                    (Some(Some(a)), Some(Some(b))) => in_order(a, b),
                    (Some(_), _) => true,
                    (None, Some(_)) => false,
                    (None, None) => break,
                };
                let next = if take_left { left.next() } else { right.next() };
                to.push(next.and_then(Option::take));
            }
        }
        from = to;
        width *= 2;
    }
    entries.extend(from.into_iter().flatten());
}
