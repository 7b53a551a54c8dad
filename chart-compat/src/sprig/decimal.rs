//! Decimal numbers of any size (shopspring/decimal). Only what sprig's float arithmetic needs.

use num_bigint::BigInt;

/// `value * 10^exponent`
#[derive(Clone)]
pub(super) struct Decimal {
    value: BigInt,
    exponent: i32,
}

/// Digits after the decimal point of a quotient (`DivisionPrecision`).
const DIVISION_PLACES: i32 = 16;

fn power_of_ten(n: i32) -> BigInt {
    BigInt::from(10).pow(n.unsigned_abs())
}

impl Decimal {
    /// The shortest decimal that parses as `f`; `None` for infinity and NaN.
    pub(super) fn from_f64(f: f64) -> Option<Self> {
        let text = format!("{f:e}");
        let (digits, exponent) = text.split_once('e')?;
        let places = digits.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        Some(Self {
            value: digits.replace('.', "").parse().ok()?,
            exponent: exponent.parse::<i32>().ok()? - i32::try_from(places).ok()?,
        })
    }

    /// The nearest float.
    pub(super) fn to_f64(&self) -> f64 {
        format!("{}e{}", self.value, self.exponent).parse().unwrap_or(f64::NAN)
    }

    /// Both values, scaled to the smaller exponent.
    fn aligned(&self, other: &Self) -> (BigInt, BigInt, i32) {
        let exponent = self.exponent.min(other.exponent);
        let at = |d: &Self| &d.value * power_of_ten(d.exponent - exponent);
        (at(self), at(other), exponent)
    }

    pub(super) fn add(&self, other: &Self) -> Self {
        let (a, b, exponent) = self.aligned(other);
        Self { value: a + b, exponent }
    }

    pub(super) fn sub(&self, other: &Self) -> Self {
        let (a, b, exponent) = self.aligned(other);
        Self { value: a - b, exponent }
    }

    pub(super) fn mul(&self, other: &Self) -> Self {
        Self { value: &self.value * &other.value, exponent: self.exponent + other.exponent }
    }

    /// The quotient, rounded half away from zero; `None` for a division by zero.
    pub(super) fn div(&self, other: &Self) -> Option<Self> {
        let zero = BigInt::from(0);
        if other.value == zero {
            return None;
        }
        let shift = self.exponent - other.exponent + DIVISION_PLACES;
        let (mut over, mut under) = (self.value.clone(), other.value.clone());
        if shift >= 0 {
            over *= power_of_ten(shift);
        } else {
            under *= power_of_ten(shift);
        }
        let mut value = &over / &under;
        let rest = &over - &value * &under;
        if BigInt::from(rest.magnitude() * 2u32) >= BigInt::from(under.magnitude().clone()) {
            value += if (over < zero) == (under < zero) { 1 } else { -1 };
        }
        Some(Self { value, exponent: -DIVISION_PLACES })
    }
}
