//! What Windlass leaves when things go wrong: it is killed, its requests fail, the servers die. Asked again, it must
//! always come to the same end. And what it asks of a server when nothing does.

// Helpers outside `#[test]` functions fail like the tests that they serve.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod crash;
mod economy;
mod life;
mod operator_crash;
mod proxy;
mod requests;
mod servers;
mod temper;

/// Numbers by chance, the same for the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap_or_default() % bound
    }
}

/// A number of the environment: `make crash N=200 SEED=7`.
fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}
