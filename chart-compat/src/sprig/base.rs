//! Base64 and base32 as Go's `encoding` packages encode and decode them. sprig returns the text of a decoding error as the
//! result.

use super::args::bytes;
use crate::go::Value;
use crate::template::{Func, Type};

use Type::String as Str;

pub(super) const FUNCS: &[Func] = &[
    Func::new("b64enc", &[Str], |x, a| Ok(Value::str(x.arena, encode64(bytes(a[0]))))),
    Func::new("b64dec", &[Str], |x, a| {
        Ok(Value::str(x.arena, decode64(bytes(a[0])).unwrap_or_else(String::into_bytes)))
    }),
    Func::new("b32enc", &[Str], |x, a| Ok(Value::str(x.arena, encode32(bytes(a[0]))))),
    Func::new("b32dec", &[Str], |x, a| {
        Ok(Value::str(x.arena, decode32(bytes(a[0])).unwrap_or_else(String::into_bytes)))
    }),
];

const ALPHABET64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const ALPHABET32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// The value of each byte in an alphabet; 0xff for other bytes.
const fn values(alphabet: &[u8]) -> [u8; 256] {
    let mut table = [0xff; 256];
    let mut i = 0;
    while i < alphabet.len() {
        #[allow(clippy::cast_possible_truncation)]
        {
            table[alphabet[i] as usize] = i as u8;
        }
        i += 1;
    }
    table
}

const VALUES64: [u8; 256] = values(ALPHABET64);
const VALUES32: [u8; 256] = values(ALPHABET32);

/// Standard base64 with padding.
pub(super) fn encode64(s: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(s.len().div_ceil(3) * 4);
    for chunk in s.chunks(3) {
        let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let digit = ALPHABET64[(bits >> (18 - 6 * i) & 63) as usize];
            out.push(if i <= chunk.len() { digit } else { b'=' });
        }
    }
    out
}

/// Decodes standard base64. Line feeds and carriage returns are skipped.
///
/// # Errors
/// Go's text, e.g. `illegal base64 data at input byte 4`.
pub(super) fn decode64(s: &[u8]) -> Result<Vec<u8>, String> {
    let corrupt = |at: usize| Err(format!("illegal base64 data at input byte {at}"));
    let newline = |b: &u8| matches!(b, b'\n' | b'\r');
    let mut out = Vec::with_capacity(s.len() / 4 * 3);
    let mut at = 0;
    loop {
        let mut bits = 0u32;
        let mut digits = 0;
        while digits < 4 {
            let Some(c) = s.get(at) else {
                return if digits == 0 { Ok(out) } else { corrupt(at - digits) };
            };
            at += 1;
            let value = VALUES64[usize::from(*c)];
            if value != 0xff {
                bits = bits << 6 | u32::from(value);
                digits += 1;
                continue;
            }
            if newline(c) {
                continue;
            }
            if *c != b'=' || digits < 2 {
                return corrupt(at - 1);
            }
            let skip = |mut at: usize| {
                while s.get(at).is_some_and(newline) {
                    at += 1;
                }
                at
            };
            if digits == 2 {
                at = skip(at);
                match s.get(at) {
                    None => return corrupt(s.len()),
                    Some(b'=') => at += 1,
                    Some(_) => return corrupt(at - 1),
                }
            }
            at = skip(at);
            if at < s.len() {
                return corrupt(at);
            }
            bits <<= 6 * (4 - digits);
            let bytes = bits.to_be_bytes();
            out.extend_from_slice(&bytes[1..digits]);
            return Ok(out);
        }
        out.extend_from_slice(&bits.to_be_bytes()[1..]);
    }
}

fn encode32(s: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(s.len().div_ceil(5) * 8);
    for chunk in s.chunks(5) {
        let mut bits = 0u64;
        for i in 0..5 {
            bits = bits << 8 | u64::from(chunk.get(i).copied().unwrap_or(0));
        }
        let used = (chunk.len() * 8).div_ceil(5);
        for i in 0..8 {
            let digit = ALPHABET32[(bits >> (35 - 5 * i) & 31) as usize];
            out.push(if i < used { digit } else { b'=' });
        }
    }
    out
}

fn decode32(s: &[u8]) -> Result<Vec<u8>, String> {
    let corrupt = |at: usize| Err(format!("illegal base32 data at input byte {at}"));
    let s: Vec<u8> = s.iter().copied().filter(|b| !matches!(b, b'\n' | b'\r')).collect();
    let mut out = Vec::with_capacity(s.len() / 8 * 5);
    let mut at = 0;
    while at < s.len() {
        let mut bits = 0u64;
        let mut digits = 0;
        let mut end = false;
        while digits < 8 {
            let Some(c) = s.get(at) else { return corrupt(at - digits) };
            at += 1;
            let left = s.len() - at;
            if *c == b'=' && digits >= 2 && left < 8 {
                if left + digits < 7 {
                    return corrupt(s.len());
                }
                for k in 0..7 - digits {
                    if s.get(at + k).is_some_and(|b| *b != b'=') {
                        return corrupt((at + k).saturating_sub(1));
                    }
                }
                if matches!(digits, 3 | 6) {
                    return corrupt(at - 1);
                }
                end = true;
                break;
            }
            let value = VALUES32[usize::from(*c)];
            if value == 0xff {
                return corrupt(at - 1);
            }
            bits = bits << 5 | u64::from(value);
            digits += 1;
        }
        bits <<= 5 * (8 - digits);
        out.extend_from_slice(&bits.to_be_bytes()[3..3 + digits * 5 / 8]);
        if end {
            break;
        }
    }
    Ok(out)
}
