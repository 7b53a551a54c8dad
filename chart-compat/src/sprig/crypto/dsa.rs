//! DSA keys of 2048 and 256 bits, implemented here because libraries no longer generate them. DSA is obsolete, but sprig offers
//! it.

use num_bigint::BigUint;

use super::der;
use crate::world::World;

const L: u64 = 2048;
const N: u64 = 256;
/// Rounds of the primality test. A composite passes a round with a probability of at most 1/4.
const ROUNDS: usize = 64;

/// Generates a private key in OpenSSL's format: version, p, q, g, y, x.
pub(super) fn generate(world: &dyn World) -> Vec<u8> {
    let sieve = small_primes();
    let one = BigUint::from(1u8);
    let (p, q) = primes(world, &sieve);
    let exponent = (&p - &one) / &q;
    let mut h = BigUint::from(2u8);
    let g = loop {
        let g = h.modpow(&exponent, &p);
        if g != one {
            break g;
        }
        h += 1u8;
    };
    let x = loop {
        let x = random(world, N);
        if x != BigUint::ZERO && x < q {
            break x;
        }
    };
    let y = g.modpow(&x, &p);
    let numbers = [p, q, g, y, x].map(|n| der::integer(&n.to_bytes_be()));
    der::sequence(&[&der::integer(&[]), &numbers.concat()])
}

/// Primes q of 256 bits and p of 2048 bits such that q divides p − 1.
fn primes(world: &dyn World, sieve: &[u64]) -> (BigUint, BigUint) {
    loop {
        let mut q = random(world, N);
        q.set_bit(0, true);
        q.set_bit(N - 1, true);
        if !is_prime(world, sieve, &q) {
            continue;
        }
        let step = &q << 1;
        for _ in 0..4 * L {
            let mut p = random(world, L);
            p.set_bit(L - 1, true);
            // Round down to a number that is 1 modulo 2q.
            let rest = &p % &step;
            p = p - rest + 1u8;
            if p.bits() == L && is_prime(world, sieve, &p) {
                return (p, q);
            }
        }
    }
}

fn random(world: &dyn World, bits: u64) -> BigUint {
    let mut bytes = vec![0; usize::try_from(bits / 8).unwrap_or_default()];
    world.random(&mut bytes);
    BigUint::from_bytes_be(&bytes)
}

/// The odd primes below 4,000. Most composites have a divisor among them.
fn small_primes() -> Vec<u64> {
    (3..4000)
        .step_by(2)
        .filter(|n| (3..).step_by(2).take_while(|d| d * d <= *n).all(|d| n % d != 0))
        .collect()
}

/// The Miller-Rabin test with random bases, for large odd numbers.
fn is_prime(world: &dyn World, sieve: &[u64], n: &BigUint) -> bool {
    if sieve.iter().any(|p| (n % *p) == BigUint::ZERO) {
        return false;
    }
    let one = BigUint::from(1u8);
    let two = BigUint::from(2u8);
    let last = n - &one;
    let twos = last.trailing_zeros().unwrap_or_default();
    let odd = &last >> twos;
    (0..ROUNDS).all(|_| {
        let base = random(world, n.bits()) % (n - 3u8) + &two;
        let mut power = base.modpow(&odd, n);
        if power == one || power == last {
            return true;
        }
        (1..twos).any(|_| {
            power = power.modpow(&two, n);
            power == last
        })
    })
}
