//! Arithmetic of HCL: numbers that neither wrap around nor end the program.
//!
//! Owns what `+`, `-`, `*`, `/` and `%` make of two numbers, as cty does, as far as JSON has the result: numbers pass through it. The crate's
//! own operators wrap around at 64 bits, and panic on a remainder of zero.

use hcl::eval::Func;
use hcl::expr::BinaryOperator;
use hcl::{Number, Value};

/// The operators, and the functions that stand for them.
pub(super) const OPERATORS: [(BinaryOperator, &str, Func); 5] = [
    (BinaryOperator::Plus, "windlass_add", |sides| called(BinaryOperator::Plus, &sides)),
    (BinaryOperator::Minus, "windlass_subtract", |sides| called(BinaryOperator::Minus, &sides)),
    (BinaryOperator::Mul, "windlass_multiply", |sides| called(BinaryOperator::Mul, &sides)),
    (BinaryOperator::Div, "windlass_divide", |sides| called(BinaryOperator::Div, &sides)),
    (BinaryOperator::Mod, "windlass_modulo", |sides| called(BinaryOperator::Mod, &sides)),
];

fn called(operator: BinaryOperator, sides: &[Value]) -> Result<Value, String> {
    match sides {
        [left, right] => result(operator, left, right),
        _ => Err(format!("operator `{operator}` has two sides, and not {}", sides.len())),
    }
}

/// What an operator makes of two values.
///
/// # Errors
/// They are no numbers, or the result is infinite or none.
fn result(operator: BinaryOperator, left: &Value, right: &Value) -> Result<Value, String> {
    let (Value::Number(a), Value::Number(b)) = (left, right) else {
        return Err(format!("binary operator `{operator}` is not applicable to `{left}` and `{right}`"));
    };
    if let (Some(a), Some(b)) = (whole(a), whole(b)) {
        let exact = match operator {
            BinaryOperator::Plus => a.checked_add(b),
            BinaryOperator::Minus => a.checked_sub(b),
            BinaryOperator::Mul => a.checked_mul(b),
            BinaryOperator::Mod if b == 0 => Some(a),
            BinaryOperator::Mod => a.checked_rem(b),
            _ => None,
        };
        if let Some(number) = exact.and_then(number_of) {
            return Ok(Value::Number(number));
        }
    }
    let (a, b) = (a.as_f64().unwrap_or(f64::NAN), b.as_f64().unwrap_or(f64::NAN));
    let made = match operator {
        BinaryOperator::Plus => a + b,
        BinaryOperator::Minus => a - b,
        BinaryOperator::Mul => a * b,
        BinaryOperator::Div if a == 0.0 && b == 0.0 => {
            return Err("can't divide zero by zero or infinity by infinity".to_owned());
        }
        BinaryOperator::Div => a / b,
        BinaryOperator::Mod if b == 0.0 => a,
        BinaryOperator::Mod => a % b,
        _ => f64::NAN,
    };
    let number = Number::from_f64(made);
    number.map(Value::Number).ok_or_else(|| format!("{a} {operator} {b} is not a valid JSON number"))
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

fn number_of(value: i128) -> Option<Number> {
    i64::try_from(value).map(Number::from).or_else(|_| u64::try_from(value).map(Number::from)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_those_of_cty_as_far_as_json_has_them() {
        let number = |text: &str| match text.parse::<i64>() {
            Ok(whole) => Value::from(whole),
            Err(_) => {
                text.parse::<u64>().map_or_else(|_| Value::from(text.parse::<f64>().unwrap()), Value::from)
            }
        };
        for (question, answer) in [
            ("1 + 2", "3"),
            ("1 - 2", "-1"),
            ("18446744073709551615 + 1", "1.8446744073709552e19"),
            ("9223372036854775807 + 1", "9223372036854775808"),
            ("5000000000 * 5000000000", "2.5e19"),
            ("-9223372036854775808 * -1", "9223372036854775808"),
            ("7 / 2", "3.5"),
            ("6 / 2", "3"),
            ("-7 % 3", "-1"),
            ("5 % 0", "5"),
            ("2.5 % 0", "2.5"),
            ("-9223372036854775808 % -1", "0"),
            ("1 / 0", "1 / 0 is not a valid JSON number"),
            ("0 / 0", "can't divide zero by zero or infinity by infinity"),
        ] {
            let parts: Vec<&str> = question.split(' ').collect();
            let operator = OPERATORS.iter().find(|(one, ..)| one.as_str() == parts[1]).unwrap().0;
            let told = match result(operator, &number(parts[0]), &number(parts[2])) {
                Ok(Value::Number(number)) => number.to_string(),
                Ok(other) => other.to_string(),
                Err(error) => error,
            };
            assert_eq!(told, answer, "{question}");
        }
        let told = result(BinaryOperator::Plus, &Value::from("a"), &Value::from(1)).unwrap_err();
        assert!(told.starts_with("binary operator `+` is not applicable to"), "{told}");
    }
}
