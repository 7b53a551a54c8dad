//! Pairwise combinations of choices: each two of them occur together in some combination.
//!
//! Owns the order of combinations, and what follows from those that fail. Knows no chart: a choice is a number.

use std::collections::{BTreeSet, VecDeque};

/// A setting of a switch: the index of the switch, and that of the setting.
pub type Choice = (usize, usize);

/// Yields combinations: none of the choices, each alone, then as many together as cover all pairs.
///
/// A combination that fails says nothing of its pairs, so later ones are smaller; a pair that fails alone is given up.
#[derive(Clone, Debug)]
pub struct Pairwise {
    /// The number of settings of each switch.
    counts: Vec<usize>,
    /// Combinations of at most one choice that are still due.
    single: VecDeque<Vec<Choice>>,
    /// Choices that fail alone.
    broken: BTreeSet<Choice>,
    /// Pairs that no combination had so far.
    uncovered: BTreeSet<(Choice, Choice)>,
    /// The largest combination.
    limit: usize,
}

impl Pairwise {
    /// The combinations of switches with so many settings each.
    #[must_use]
    pub fn new(counts: &[usize]) -> Self {
        let choices: Vec<Choice> =
            counts.iter().enumerate().flat_map(|(at, count)| (0..*count).map(move |n| (at, n))).collect();
        let single = std::iter::once(Vec::new()).chain(choices.iter().map(|choice| vec![*choice])).collect();
        let mut uncovered = BTreeSet::new();
        for (at, one) in choices.iter().enumerate() {
            uncovered.extend(choices[at + 1..].iter().filter(|other| other.0 != one.0).map(|o| (*one, *o)));
        }
        Self { counts: counts.to_vec(), single, broken: BTreeSet::new(), uncovered, limit: counts.len() }
    }

    /// The next combination, sorted; `None` after the last one. [`Self::report`] has to follow.
    pub fn next_combination(&mut self) -> Option<Vec<Choice>> {
        if let Some(single) = self.single.pop_front() {
            return Some(single);
        }
        let works = |(a, b): &&(Choice, Choice)| !self.broken.contains(a) && !self.broken.contains(b);
        let Some((a, b)) = self.uncovered.iter().find(works) else {
            // What fails alone can work beside what it requires.
            return self.uncovered.first().map(|(a, b)| vec![*a, *b]);
        };
        let mut row = vec![*a, *b];
        for (switch, count) in self.counts.iter().enumerate() {
            if row.len() >= self.limit {
                break;
            }
            if row.iter().any(|choice| choice.0 == switch) {
                continue;
            }
            let settings = (0..*count).map(|n| (switch, n)).filter(|choice| !self.broken.contains(choice));
            let gain = |choice: Choice| row.iter().filter(|other| self.is_uncovered(choice, **other)).count();
            let best = settings.map(|choice| (gain(choice), choice)).max_by_key(|(gain, (_, n))| {
                // Of equal ones the first.
                (*gain, std::cmp::Reverse(*n))
            });
            row.extend(best.filter(|(gain, _)| *gain > 0).map(|(_, choice)| choice));
        }
        row.sort_unstable();
        Some(row)
    }

    /// Tells whether a combination can be used.
    pub fn report(&mut self, row: &[Choice], usable: bool) {
        if usable {
            for (at, one) in row.iter().enumerate() {
                for other in &row[at + 1..] {
                    self.uncovered.remove(&(*one, *other));
                }
            }
            self.limit = (self.limit * 2).clamp(2, self.counts.len().max(2));
            return;
        }
        match row {
            [] => {}
            [one] => drop(self.broken.insert(*one)),
            [one, other] => drop(self.uncovered.remove(&(*one, *other))),
            _ => self.limit = (row.len() / 2).max(2),
        }
    }

    /// The number of pairs that no combination had so far.
    #[must_use]
    pub fn uncovered(&self) -> usize {
        self.uncovered.len()
    }

    fn is_uncovered(&self, one: Choice, other: Choice) -> bool {
        self.uncovered.contains(&(one.min(other), one.max(other)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs all combinations. Gives their number, and those that were usable.
    fn run(counts: &[usize], usable: impl Fn(&[Choice]) -> bool) -> (usize, Vec<Vec<Choice>>) {
        let mut pairs = Pairwise::new(counts);
        let (mut all, mut used) = (0, Vec::new());
        while let Some(row) = pairs.next_combination() {
            all += 1;
            assert!(all < 100_000, "it does not end");
            let switches: BTreeSet<usize> = row.iter().map(|choice| choice.0).collect();
            assert_eq!(switches.len(), row.len(), "a switch has two settings: {row:?}");
            let good = usable(&row);
            pairs.report(&row, good);
            if good {
                used.push(row);
            }
        }
        assert_eq!(pairs.uncovered(), 0);
        (all, used)
    }

    fn has(rows: &[Vec<Choice>], choices: &[Choice]) -> bool {
        rows.iter().any(|row| choices.iter().all(|choice| row.contains(choice)))
    }

    #[test]
    fn all_pairs_are_covered_by_few_combinations() {
        for (counts, most) in [(&[][..], 1), (&[1], 2), (&[1, 1, 1], 5), (&[2, 3, 1], 16), (&[1; 256], 258)] {
            let (all, used) = run(counts, |_| true);
            assert!(all <= most, "{counts:?}: {all}");
            assert_eq!(used[0], []);
            for a in 0..counts.len() {
                for b in a + 1..counts.len() {
                    for (m, n) in (0..counts[a]).flat_map(|m| (0..counts[b]).map(move |n| (m, n))) {
                        assert!(has(&used, &[(a, m), (b, n)]), "{counts:?}: {a}.{m} {b}.{n}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_fails_together_is_tried_apart() {
        let contrary = |row: &[Choice]| !(row.contains(&(3, 0)) && row.contains(&(7, 0)));
        let (all, used) = run(&[1; 20], contrary);
        assert!(all < 80, "{all}");
        assert!(
            has(&used, &[(3, 0), (8, 0)]) && has(&used, &[(7, 0), (8, 0)]) && !has(&used, &[(3, 0), (7, 0)])
        );
    }

    #[test]
    fn what_fails_alone_is_tried_with_each_other_one() {
        let requires = |row: &[Choice]| !row.contains(&(2, 0)) || row.contains(&(4, 0));
        let (all, used) = run(&[1; 6], requires);
        assert!(all < 30, "{all}");
        assert!(has(&used, &[(2, 0), (4, 0)]));
    }

    #[test]
    fn nothing_usable_ends() {
        let (all, used) = run(&[2; 8], |_| false);
        assert_eq!((all, used.len()), (1 + 16 + 112, 0));
    }
}
