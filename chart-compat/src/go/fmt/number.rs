//! Verbs of numbers: integers in every base, floats in every layout, and their flags.

use super::{Printer, format_g, special};
use crate::go::value::Value;
use crate::go::{strconv, unicode};

/// More digits than any float has. Beyond it, a format gets zeros.
const DIGITS: usize = 1100;

impl Printer<'_> {
    /// Formats an integer from its magnitude and sign (`fmtInteger`).
    pub(super) fn integer(&mut self, value: Value<'_>, n: u64, negative: bool, verb: char) {
        let unsigned = matches!(value, Value::Uint64(_));
        let (digits, base) = match verb {
            'v' if self.flags.sharp_v && unsigned => (format!("{n:x}"), 16),
            'v' | 'd' => (n.to_string(), 10),
            'b' => (format!("{n:b}"), 2),
            'o' | 'O' => (format!("{n:o}"), 8),
            'x' => (format!("{n:x}"), 16),
            'X' => (format!("{n:X}"), 16),
            'c' | 'q' => return self.character(n, negative, verb),
            'U' => return self.code_point(if negative { n.wrapping_neg() } else { n }),
            _ => return self.bad_verb(value, verb),
        };
        let sign = match () {
            () if negative => "-",
            () if self.flags.plus => "+",
            () if self.flags.space => " ",
            () => "",
        };
        if self.flags.prec == Some(0) && n == 0 {
            return self.pad_with_blanks("");
        }
        let want = match self.flags.prec {
            Some(prec) => prec,
            None if self.flags.zero && !self.flags.minus => {
                self.flags.width.unwrap_or(0).saturating_sub(sign.len())
            }
            None => 0,
        };
        let zeros = "0".repeat(want.saturating_sub(digits.len()));
        let sharp = self.flags.sharp || verb == 'v';
        let prefix = match base {
            8 if verb == 'O' && sharp && zeros.is_empty() && !digits.starts_with('0') => "0o0",
            8 if verb == 'O' => "0o",
            8 if sharp && zeros.is_empty() && !digits.starts_with('0') => "0",
            16 if sharp => {
                if verb == 'X' {
                    "0X"
                } else {
                    "0x"
                }
            }
            2 if sharp => "0b",
            _ => "",
        };
        self.pad_with_blanks(&format!("{sign}{prefix}{zeros}{digits}"));
    }

    fn character(&mut self, n: u64, negative: bool, verb: char) {
        let c = u32::try_from(n).ok().filter(|_| !negative).and_then(char::from_u32);
        let c = c.unwrap_or(char::REPLACEMENT_CHARACTER);
        let text = match (verb, c) {
            ('c', _) => c.to_string(),
            (_, c) if self.flags.plus && !c.is_ascii() => {
                let shown = strconv::quote_to_ascii(c.to_string().as_bytes());
                shown.replace('"', "'")
            }
            _ => strconv::quote_rune(c),
        };
        self.pad(text.as_bytes());
    }

    /// `U+0041`; with the sharp flag also the character.
    fn code_point(&mut self, n: u64) {
        let width = self.flags.prec.unwrap_or(4).max(4);
        let c = u32::try_from(n).ok().and_then(char::from_u32);
        let shown = c.filter(|c| self.flags.sharp && unicode::is_print(*c));
        let shown = shown.map_or_else(String::new, |c| format!(" '{c}'"));
        let digits = format!("{n:X}");
        let zeros = "0".repeat(width.saturating_sub(digits.len()));
        self.pad_with_blanks(&format!("U+{zeros}{digits}{shown}"));
    }

    /// Formats a float (`fmtFloat`).
    pub(super) fn float(&mut self, value: Value<'_>, f: f64, verb: char) {
        let layout = match verb {
            'v' => 'g',
            'F' => 'f',
            'b' | 'g' | 'G' | 'x' | 'X' | 'e' | 'E' | 'f' => verb,
            _ => return self.bad_verb(value, verb),
        };
        let prec = match layout {
            'e' | 'E' | 'f' => Some(self.flags.prec.unwrap_or(6)),
            _ => self.flags.prec,
        };
        let sign = match () {
            () if f.is_sign_negative() && !f.is_nan() => "-",
            () if self.flags.space && !self.flags.plus => " ",
            () => "+",
        };
        if let Some(name) = special(f) {
            let bare = f.is_nan() && !self.flags.space && !self.flags.plus;
            let sign = if bare { "" } else { sign };
            return self.pad_with_blanks(&format!("{sign}{}", name.trim_start_matches(['+', '-'])));
        }
        let mut digits = laid_out(f.abs(), layout, prec);
        if self.flags.sharp && layout != 'b' {
            digits = sharp(&digits, layout, self.flags.prec);
        }
        let sign = if sign == "+" && !self.flags.plus { "" } else { sign };
        let width = self.flags.width.unwrap_or(0);
        if self.flags.zero && !self.flags.minus && !sign.is_empty() && width > sign.len() + digits.len() {
            let zeros = "0".repeat(width - sign.len() - digits.len());
            self.out.extend_from_slice(format!("{sign}{zeros}{digits}").as_bytes());
        } else {
            self.pad(format!("{sign}{digits}").as_bytes());
        }
    }

    /// Pads with blanks, never with zeros.
    fn pad_with_blanks(&mut self, text: &str) {
        let zero = std::mem::take(&mut self.flags.zero);
        self.pad(text.as_bytes());
        self.flags.zero = zero;
    }
}

/// A float that is neither negative nor special, as `strconv.FormatFloat` formats it.
fn laid_out(f: f64, layout: char, prec: Option<usize>) -> String {
    match layout {
        'f' => {
            let prec = prec.unwrap_or(6);
            let kept = prec.min(DIGITS);
            format!("{f:.kept$}{}", "0".repeat(prec - kept))
        }
        'e' | 'E' => {
            let prec = prec.unwrap_or(6);
            let kept = prec.min(DIGITS);
            let scientific = format!("{f:.kept$e}");
            let (mantissa, exp) = scientific.split_once('e').unwrap_or((&scientific, "0"));
            let (sign, exp) = exp.strip_prefix('-').map_or(('+', exp), |e| ('-', e));
            format!("{mantissa}{}{layout}{sign}{exp:0>2}", "0".repeat(prec - kept))
        }
        'b' => {
            let (mantissa, exp) = parts(f);
            format!("{mantissa}p{:+}", exp - 52)
        }
        'x' => hexadecimal(f, prec),
        'X' => hexadecimal(f, prec).to_ascii_uppercase(),
        'G' => format_g(f, prec.map(|p| p.min(DIGITS))).to_ascii_uppercase(),
        _ => format_g(f, prec.map(|p| p.min(DIGITS))),
    }
}

/// The 53-bit mantissa of a float, and the exponent of its first bit.
fn parts(f: f64) -> (u64, i64) {
    let bits = f.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    match i64::try_from(bits >> 52 & 0x7ff).unwrap_or(0) {
        0 => (fraction, -1022),
        exp => (fraction | 1 << 52, exp - 1023),
    }
}

/// `0x1.8p+00`
fn hexadecimal(f: f64, prec: Option<usize>) -> String {
    let (mut mantissa, mut exp) = parts(f);
    if mantissa == 0 {
        exp = 0;
    }
    while mantissa != 0 && mantissa < 1 << 52 {
        mantissa <<= 1;
        exp -= 1;
    }
    if let Some(prec) = prec.filter(|p| *p < 13) {
        let drop = (13 - prec) * 4;
        let (rest, half) = (mantissa & ((1 << drop) - 1), 1 << (drop - 1));
        mantissa >>= drop;
        mantissa += u64::from(rest > half || rest == half && mantissa & 1 == 1);
        mantissa <<= drop;
        if mantissa >= 1 << 53 {
            mantissa >>= 1;
            exp += 1;
        }
    }
    let lead = mantissa >> 52;
    let digits = format!("{:013x}", mantissa & ((1 << 52) - 1));
    let digits = match prec {
        None => digits.trim_end_matches('0').to_owned(),
        Some(prec) => format!("{digits:0<prec$}").get(..prec).unwrap_or_default().to_owned(),
    };
    let point = if digits.is_empty() { "" } else { "." };
    let sign = if exp < 0 { '-' } else { '+' };
    format!("0x{lead}{point}{digits}p{sign}{:02}", exp.unsigned_abs())
}

/// The digits with the decimal point and the trailing zeros of the sharp flag.
fn sharp(digits: &str, layout: char, prec: Option<usize>) -> String {
    let end = match layout {
        'x' | 'X' => digits.find(['p', 'P']),
        _ => digits.find(['e', 'E']),
    };
    let (head, tail) = digits.split_at(end.unwrap_or(digits.len()));
    let mut want = if matches!(layout, 'g' | 'G' | 'x') { prec.unwrap_or(6) } else { 0 };
    let significant = head.chars().filter(|c| *c != '.').skip_while(|c| *c == '0').count();
    want = want.saturating_sub(significant);
    let mut out = head.to_owned();
    if !head.contains('.') {
        // A single zero counts as one digit.
        want = want.saturating_sub(usize::from(head == "0"));
        out.push('.');
    }
    out + &"0".repeat(want) + tail
}
