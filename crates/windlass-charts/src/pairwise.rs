//! Pairwise combinations of choices: each two of them occur together in some combination.
//!
//! Owns the order of combinations, and what follows from those that fail: the two choices that exclude each other are searched for, and
//! what fails alone is tried in company. Knows no chart: a choice is a number.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A setting of a switch: the index of the switch, and that of the setting.
pub type Choice = (usize, usize);

/// A set of choices that are used together, sorted.
type Row = Vec<Choice>;

/// Yields combinations: none of the choices, each alone, then as many together as cover all pairs.
#[derive(Clone, Debug)]
pub struct Pairwise {
    /// All choices.
    choices: Vec<Choice>,
    /// Combinations of at most one choice that are still due.
    single: VecDeque<Row>,
    /// Pairs that no combination had so far.
    uncovered: BTreeSet<(Choice, Choice)>,
    /// Pairs that exclude each other in larger combinations.
    apart: BTreeSet<(Choice, Choice)>,
    /// The search for two choices that exclude each other.
    search: Option<Search>,
    /// Choices that fail alone, and have not been tried in company.
    broken: VecDeque<Choice>,
    /// The company to try a broken choice in.
    trial: Option<(Choice, VecDeque<Row>)>,
    /// What choices that fail alone work with; empty for those that do not.
    company: BTreeMap<Choice, Row>,
}

/// A binary search in a combination that fails. Its first `good` choices work, its first `bad` fail; with `culprit` beside them once
/// that is known.
#[derive(Clone, Debug)]
struct Search {
    row: Row,
    good: usize,
    bad: usize,
    culprit: Option<Choice>,
}

impl Search {
    fn is_over(&self) -> bool {
        self.culprit.is_some() && self.bad - self.good <= 1
    }

    fn combination(&self) -> Row {
        let middle = self.good.midpoint(self.bad);
        // Of two choices that exclude each other one is the culprit, and the other one the last of those that fail beside it.
        let row = if self.is_over() { &self.row[self.good..self.bad] } else { &self.row[..middle] };
        sorted(row.iter().copied().chain(self.culprit))
    }

    fn report(&mut self, usable: bool) {
        let middle = self.good.midpoint(self.bad);
        if usable {
            self.good = middle;
        } else {
            self.bad = middle;
        }
        if self.culprit.is_none() && self.bad - self.good <= 1 {
            self.culprit = self.row.get(self.bad - 1).copied();
            self.row.truncate(self.bad - 1);
            (self.good, self.bad) = (0, self.row.len());
        }
    }
}

impl Pairwise {
    /// The combinations of switches with so many settings each.
    #[must_use]
    pub fn new(counts: &[usize]) -> Self {
        let choices: Row =
            counts.iter().enumerate().flat_map(|(at, count)| (0..*count).map(move |n| (at, n))).collect();
        let single = std::iter::once(Vec::new()).chain(choices.iter().map(|choice| vec![*choice])).collect();
        let mut uncovered = BTreeSet::new();
        for (at, one) in choices.iter().enumerate() {
            uncovered.extend(choices[at + 1..].iter().filter(|other| other.0 != one.0).map(|o| (*one, *o)));
        }
        Self {
            choices,
            single,
            uncovered,
            apart: BTreeSet::new(),
            search: None,
            broken: VecDeque::new(),
            trial: None,
            company: BTreeMap::new(),
        }
    }

    /// The next combination, sorted; `None` after the last one. [`Self::report`] has to follow.
    pub fn next_combination(&mut self) -> Option<Vec<Choice>> {
        if let Some(single) = self.single.front() {
            return Some(single.clone());
        }
        if let Some(search) = &self.search {
            return Some(search.combination());
        }
        if let Some((a, b)) = self.uncovered.iter().find(|(a, b)| self.works(*a) && self.works(*b)) {
            return Some(self.grown(vec![*a, *b]));
        }
        if self.trial.is_none()
            && let Some(choice) = self.broken.pop_front()
        {
            self.trial = Some((choice, self.companies(choice)));
        }
        if let Some((choice, parts)) = &self.trial {
            return Some(sorted(parts.front().into_iter().flatten().copied().chain([*choice])));
        }
        // Those that need company are together with both companies.
        let (a, b) = *self.uncovered.first()?;
        let mut row = vec![a, b];
        for choice in [a, b].iter().flat_map(|choice| self.company.get(choice)).flatten() {
            if self.fits(&row, *choice) {
                row.push(*choice);
            }
        }
        Some(sorted(row))
    }

    /// Tells whether the combination can be used.
    pub fn report(&mut self, row: &[Choice], usable: bool) {
        if usable {
            for (at, one) in row.iter().enumerate() {
                for other in &row[at + 1..] {
                    self.uncovered.remove(&(*one, *other));
                }
            }
        }
        if self.single.pop_front().is_some() {
            if let ([choice], false) = (row, usable) {
                self.company.insert(*choice, Vec::new());
                self.broken.push_back(*choice);
            }
        } else if self.search.is_some() {
            self.report_search(row, usable);
        } else if self.trial.is_some() {
            self.report_trial(usable);
        } else if !usable {
            self.report_row(row);
        }
    }

    /// The number of pairs that no combination had so far.
    #[must_use]
    pub fn uncovered(&self) -> usize {
        self.uncovered.len()
    }

    fn report_search(&mut self, row: &[Choice], usable: bool) {
        let Some(search) = &mut self.search else { return };
        if !search.is_over() {
            return search.report(usable);
        }
        self.search = None;
        if let [one, other] = row {
            self.uncovered.remove(&(*one, *other));
            self.apart.insert((*one, *other));
        }
    }

    fn report_trial(&mut self, usable: bool) {
        let Some((choice, parts)) = &mut self.trial else { return };
        let (choice, part) = (*choice, parts.pop_front());
        if usable {
            self.company.insert(choice, part.unwrap_or_default());
            self.trial = None;
        } else if parts.is_empty() {
            self.uncovered.retain(|(a, b)| *a != choice && *b != choice);
            self.trial = None;
        }
    }

    fn report_row(&mut self, row: &[Choice]) {
        if row.len() > 2 && row.iter().all(|choice| self.works(*choice)) {
            self.search = Some(Search { row: row.to_vec(), good: 1, bad: row.len(), culprit: None });
            return;
        }
        // A pair, or two with their company: the pair is the first one that is not covered.
        if let [one, other] = row {
            self.uncovered.remove(&(*one, *other));
            self.apart.insert((*one, *other));
        } else {
            self.uncovered.pop_first();
        }
    }

    fn works(&self, choice: Choice) -> bool {
        !self.company.contains_key(&choice)
    }

    /// Whether a choice can be added to a combination.
    fn fits(&self, row: &[Choice], choice: Choice) -> bool {
        row.iter().all(|other| other.0 != choice.0 && !self.apart.contains(&ordered(*other, choice)))
    }

    /// A combination with further choices that cover more pairs.
    fn grown(&self, mut row: Row) -> Row {
        let mut rest = self.choices.as_slice();
        while let Some(first) = rest.first() {
            let settings = rest.iter().take_while(|choice| choice.0 == first.0).count();
            let (own, later) = rest.split_at(settings);
            rest = later;
            let gain = |choice: Choice| {
                row.iter().filter(|other| self.uncovered.contains(&ordered(choice, **other))).count()
            };
            let usable = own.iter().filter(|choice| self.works(**choice) && self.fits(&row, **choice));
            // Of equal ones the first.
            let best = usable
                .map(|choice| (gain(*choice), *choice))
                .max_by_key(|(gain, (_, n))| (*gain, usize::MAX - n));
            row.extend(best.filter(|(gain, _)| *gain > 0).map(|(_, choice)| choice));
        }
        sorted(row)
    }

    /// The company to try a choice in: all that works together, its halves, its quarters.
    fn companies(&self, choice: Choice) -> VecDeque<Row> {
        let mut all = Vec::new();
        for other in self.choices.iter().filter(|other| other.0 != choice.0 && self.works(**other)) {
            if self.fits(&all, *other) {
                all.push(*other);
            }
        }
        let parts = |n: usize| all.chunks(all.len().div_ceil(n).max(1)).map(<[Choice]>::to_vec);
        let mut rows: VecDeque<Row> = parts(1).chain(parts(2)).chain(parts(4)).collect();
        if rows.is_empty() {
            rows.push_back(Vec::new());
        }
        rows
    }
}

fn ordered(one: Choice, other: Choice) -> (Choice, Choice) {
    (one.min(other), one.max(other))
}

fn sorted(row: impl IntoIterator<Item = Choice>) -> Row {
    let mut row: Row = row.into_iter().collect();
    row.sort_unstable();
    row
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
        assert!(all < 40, "{all}");
        assert!(
            has(&used, &[(3, 0), (8, 0)]) && has(&used, &[(7, 0), (8, 0)]) && !has(&used, &[(3, 0), (7, 0)])
        );
    }

    #[test]
    fn what_fails_alone_is_tried_in_company() {
        let requires = |row: &[Choice]| !row.contains(&(2, 0)) || row.contains(&(4, 0));
        let (all, used) = run(&[1; 60], requires);
        assert!(all < 70, "{all}");
        assert!(has(&used, &[(2, 0), (4, 0), (59, 0)]));
        // What never works costs little.
        let (all, used) = run(&[1; 60], |row| row.iter().all(|choice| choice.0 % 20 != 7));
        assert!(all < 90, "{all}");
        assert!(has(&used, &[(2, 0), (4, 0), (59, 0)]) && !has(&used, &[(7, 0)]));
    }

    #[test]
    fn several_that_exclude_each_other_are_found() {
        // Any two of the first three, and a triple.
        let excluded = |row: &[Choice]| {
            let first = row.iter().filter(|choice| choice.0 < 3).count();
            first < 2 && ![10, 20, 30].iter().all(|at| row.contains(&(*at, 0)))
        };
        let (all, used) = run(&[1; 40], excluded);
        assert!(all < 160, "{all}");
        for (a, b) in [(0, 10), (1, 39), (10, 20), (20, 30), (10, 30)] {
            assert!(has(&used, &[(a, 0), (b, 0)]), "{a} {b}");
        }
    }

    #[test]
    fn nothing_usable_ends() {
        let (all, used) = run(&[2; 8], |_| false);
        assert!(all < 40 && used.is_empty(), "{all}");
    }
}
