//! Choices of a generator: drawn from a seed, recorded, and replayed from a shorter record.
//!
//! A generator puts its simplest alternative first. A record of smaller and fewer numbers then gives a simpler case, which is
//! all that shrinking needs to know.

/// Where a generator gets its choices from.
pub struct Choices {
    state: u64,
    tape: Vec<u32>,
    at: usize,
    replay: bool,
}

impl Choices {
    /// Choices drawn from a seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self { state: seed, tape: Vec::new(), at: 0, replay: false }
    }

    /// The choices of a record; when it ends, always the first alternative.
    #[must_use]
    pub fn replayed(tape: Vec<u32>) -> Self {
        Self { state: 0, tape, at: 0, replay: true }
    }

    /// What was chosen until now.
    #[must_use]
    pub fn tape(self) -> Vec<u32> {
        self.tape
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        let drawn = if self.replay {
            self.tape.get(self.at).map_or(0, |v| *v as usize)
        } else {
            usize::try_from(self.next() >> 32).unwrap_or(0)
        };
        let chosen = drawn % n.max(1);
        if !self.replay {
            self.tape.push(u32::try_from(chosen).unwrap_or(0));
        }
        self.at += 1;
        chosen
    }

    /// True in one of `n` cases; for the largest number, never.
    pub fn one_in(&mut self, n: usize) -> bool {
        n != usize::MAX && self.below(n) == n - 1
    }

    /// One of the items.
    pub fn of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// A number to seed further choices with.
    pub(crate) fn seed(mut self) -> u64 {
        self.next()
    }

    /// `SplitMix64`.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
