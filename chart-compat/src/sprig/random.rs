//! Functions with random results. All randomness comes from the [`World`], which can record results for later renders.

use super::args::{Out, bytes, fail, int, runes};
use super::base::encode64;
use crate::go::{Value, fmt};
use crate::template::{Error, Exec, Func, Type};
use crate::world::World;

use Type::{Int, String as Str};

pub(super) const FUNCS: &[Func] = &[
    Func::new("randAlphaNum", &[Int], |x, a| {
        random_text(x, "randAlphaNum", a, |c| c.is_ascii_alphanumeric())
    }),
    Func::new("randAlpha", &[Int], |x, a| random_text(x, "randAlpha", a, |c| c.is_ascii_alphabetic())),
    Func::new("randAscii", &[Int], |x, a| random_text(x, "randAscii", a, |c| (b' '..=b'~').contains(&c))),
    Func::new("randNumeric", &[Int], |x, a| random_text(x, "randNumeric", a, |c| c.is_ascii_digit())),
    Func::new("randBytes", &[Int], rand_bytes),
    Func::new("randInt", &[Int, Int], rand_int),
    Func::new("shuffle", &[Str], shuffle),
    Func::new("uuidv4", &[], uuid),
];

/// The generated value of a function, or the recorded one of an earlier render.
pub(super) fn remembered<'a>(
    x: &mut Exec<'a>,
    name: &'static str,
    args: &[Value<'a>],
    make: impl Fn(&dyn World) -> Vec<u8>,
) -> Vec<u8> {
    let world = x.world();
    let texts: Vec<Vec<u8>> = args.iter().map(|a| fmt::sprint(*a)).collect();
    let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    world.remember(&x.call_site(name, &texts, None), &mut || make(world))
}

/// Uniform random numbers, from the world's random bytes.
pub(super) struct RandomSource<'w> {
    world: &'w dyn World,
    pool: [u8; 256],
    at: usize,
}

impl<'w> RandomSource<'w> {
    pub(super) fn new(world: &'w dyn World) -> Self {
        Self { world, pool: [0; 256], at: 256 }
    }

    fn byte(&mut self) -> u8 {
        if self.at == self.pool.len() {
            self.world.random(&mut self.pool);
            self.at = 0;
        }
        self.at += 1;
        self.pool[self.at - 1]
    }

    /// A uniform random number in `0..bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        let used = 8 * u32::from(bound > 256).max(1);
        let take = if bound > 256 { 8 } else { 1 };
        let range: u128 = 1 << (if take == 8 { 64 } else { used });
        // Larger numbers would make small results more likely.
        let fair = range - range % u128::from(bound.max(1));
        loop {
            let n = (0..take).fold(0u64, |n, _| n << 8 | u64::from(self.byte()));
            if u128::from(n) < fair {
                return n % bound.max(1);
            }
        }
    }
}

fn random_text<'a>(x: &mut Exec<'a>, name: &'static str, a: &[Value<'a>], ok: fn(u8) -> bool) -> Out<'a> {
    // goutils rejects a negative count, and sprig ignores the error.
    let count = usize::try_from(int(a[0])).unwrap_or(0);
    let alphabet: Vec<u8> = (b' '..=b'~').filter(|c| ok(*c)).collect();
    let text = remembered(x, name, a, |world| {
        let mut source = RandomSource::new(world);
        let bound = alphabet.len() as u64;
        let mut pick = || usize::try_from(source.below(bound)).ok().and_then(|i| alphabet.get(i).copied());
        (0..count).filter_map(|_| pick()).collect()
    });
    Ok(Value::str(x.arena, text))
}

fn rand_bytes<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let Ok(count) = usize::try_from(int(a[0])) else {
        return fail("runtime error: makeslice: len out of range");
    };
    let text = remembered(x, "randBytes", a, |world| {
        let mut buffer = vec![0; count];
        world.random(&mut buffer);
        encode64(&buffer)
    });
    Ok(Value::str(x.arena, text))
}

fn rand_int<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let (min, max) = (int(a[0]), int(a[1]));
    let Some(span) = max.checked_sub(min).and_then(|s| u64::try_from(s).ok()).filter(|s| *s > 0) else {
        return fail("invalid argument to Intn");
    };
    let text = remembered(x, "randInt", a, |world| {
        let n = min.saturating_add_unsigned(RandomSource::new(world).below(span));
        n.to_string().into_bytes()
    });
    let text = String::from_utf8_lossy(&text);
    text.parse()
        .map(Value::Int)
        .map_err(|_| Error::new(format!("randInt: the remembered answer is no number: {text}")))
}

fn shuffle<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let text = remembered(x, "shuffle", a, |world| {
        let mut source = RandomSource::new(world);
        let mut chars: Vec<char> = runes(bytes(a[0])).collect();
        for i in (1..chars.len()).rev() {
            let other = source.below(i as u64 + 1);
            chars.swap(i, usize::try_from(other).unwrap_or(i));
        }
        chars.into_iter().collect::<String>().into_bytes()
    });
    Ok(Value::str(x.arena, text))
}

fn uuid<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let text = remembered(x, "uuidv4", a, |world| {
        let mut b = [0u8; 16];
        world.random(&mut b);
        b[6] = b[6] & 0x0f | 0x40;
        b[8] = b[8] & 0x3f | 0x80;
        let hex = super::hashes::hex(&b);
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-").into_bytes()
    });
    Ok(Value::str(x.arena, text))
}
