//! Exact decimal numbers, for comparison and division as Go does with fractions of any size.

use std::cmp::Ordering;

use num_bigint::BigInt;

/// The largest supported power of ten. No float comes near; a schema's literal beyond it is not a number.
const MAX_EXPONENT: i64 = 10_000;

/// `digits × 10^exponent`, without trailing zeros in the digits, so that equal numbers have equal fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    digits: BigInt,
    exponent: i64,
}

impl Decimal {
    /// Parses a number in the syntax of JSON or Go.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |t| (true, t));
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let fraction = fraction.trim_end_matches('0');
        let mut digits = format!("{whole}{fraction}");
        let mut exponent = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?;
        while digits.len() > 1 && digits.ends_with('0') {
            digits.pop();
            exponent = exponent.checked_add(1)?;
        }
        let digits: BigInt = digits.parse().ok()?;
        if digits == BigInt::ZERO {
            return Some(Self { digits, exponent: 0 });
        }
        let digits = if negative { -digits } else { digits };
        (exponent.abs() <= MAX_EXPONENT).then_some(Self { digits, exponent })
    }

    /// The canonical text: the same for equal numbers only.
    pub(super) fn canonical(&self) -> String {
        format!("{}e{}", self.digits, self.exponent)
    }

    pub(super) fn is_integer(&self) -> bool {
        self.exponent >= 0
    }

    /// The number, if it is an integer; clamped to the range of `i64`.
    pub(super) fn as_count(&self) -> Option<i64> {
        if !self.is_integer() {
            return None;
        }
        let value = self.scaled(0);
        let limit = if value < BigInt::ZERO { i64::MIN } else { i64::MAX };
        Some(i64::try_from(value).unwrap_or(limit))
    }

    /// Whether the quotient of both is an integer; nothing is a multiple of zero.
    pub(super) fn is_multiple_of(&self, of: &Self) -> bool {
        let exponent = self.exponent.min(of.exponent);
        let of = of.scaled(exponent);
        of != BigInt::ZERO && self.scaled(exponent) % of == BigInt::ZERO
    }

    /// The digits for another, smaller exponent.
    fn scaled(&self, exponent: i64) -> BigInt {
        let by = u32::try_from(self.exponent - exponent).unwrap_or_default();
        &self.digits * BigInt::from(10u8).pow(by)
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let exponent = self.exponent.min(other.exponent);
        self.scaled(exponent).cmp(&other.scaled(exponent))
    }
}
