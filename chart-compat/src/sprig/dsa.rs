//! DSA keys of 2048 and 256 bits, which nothing but sprig makes any more.

use num_bigint::BigUint;

use super::der;
use crate::world::World;

/// Rounds of the Miller-Rabin test.
const ROUNDS: usize = 32;

fn random(world: &dyn World, bytes: usize) -> Vec<u8> {
    let mut out = vec![0; bytes];
    world.random(&mut out);
    out
}

/// A random number with the top bit set.
fn candidate(world: &dyn World, bits: usize) -> BigUint {
    let mut bytes = random(world, bits / 8);
    if let Some(first) = bytes.first_mut() {
        *first |= 0x80;
    }
    BigUint::from_bytes_be(&bytes)
}

/// Whether `n`, odd and large, is prime in all likelihood.
fn is_prime(world: &dyn World, n: &BigUint) -> bool {
    // Most composites have a small factor.
    for small in (3u32..2000).step_by(2) {
        if n % small == BigUint::ZERO {
            return false;
        }
    }
    let one = BigUint::from(1u32);
    let last = n - &one;
    let twos = last.trailing_zeros().unwrap_or(0);
    let odd = &last >> twos;
    (0..ROUNDS).all(|_| {
        let base = BigUint::from_bytes_be(&random(world, 32)) + 2u32;
        let mut x = base.modpow(&odd, n);
        if x == one || x == last {
            return true;
        }
        for _ in 1..twos {
            x = &x * &x % n;
            if x == last {
                return true;
            }
        }
        false
    })
}

/// A new key as the structure that sprig prints: 0, p, q, g, y, x.
pub(super) fn generate(world: &dyn World) -> Vec<u8> {
    let one = BigUint::from(1u32);
    let q = loop {
        let q = candidate(world, 256) | &one;
        if is_prime(world, &q) {
            break q;
        }
    };
    let p = loop {
        // p - 1 must be a multiple of 2q.
        let p = candidate(world, 2048) | &one;
        let past = &p % (&q * 2u32);
        let p = p - past + &one;
        if p.bits() == 2048 && is_prime(world, &p) {
            break p;
        }
    };
    let power = (&p - &one) / &q;
    let mut base = BigUint::from(2u32);
    let g = loop {
        let g = base.modpow(&power, &p);
        if g != one {
            break g;
        }
        base += 1u32;
    };
    let x = BigUint::from_bytes_be(&random(world, 40)) % (&q - &one) + &one;
    let y = g.modpow(&x, &p);
    let parts: Vec<Vec<u8>> =
        [BigUint::ZERO, p, q, g, y, x].iter().map(|n| der::integer(&n.to_bytes_be())).collect();
    der::element(der::SEQUENCE, &parts.concat())
}
