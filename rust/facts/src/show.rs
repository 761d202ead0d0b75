//! Numbers as people read them.

use crate::value::Value;

/// A number without the digits that only binary fractions have: 705.6 for 705.6000000000001.
///
/// ```
/// assert_eq!(trn3_facts::rounded(0.1 + 0.2), 0.3);
/// ```
pub fn rounded(value: f64) -> f64 {
    significant(value, 12)
}

/// The nearest number of so many significant digits.
pub(crate) fn significant(value: f64, digits: usize) -> f64 {
    format!("{value:.*e}", digits - 1).parse().unwrap_or(value)
}

/// Rounds to a number of decimals, of tens where it is negative; halves go to even.
pub(crate) fn round_half_even(value: f64, decimals: i32) -> f64 {
    if decimals >= 0 {
        return format!("{value:.*}", decimals as usize).parse().unwrap_or(value);
    }
    let unit = 10f64.powi(-decimals);
    (value / unit).round_ties_even() * unit
}

/// A value as text: numbers with separators and at most five digits after the point.
///
/// ```
/// use trn3_facts::{Value, shown};
///
/// let number = |value| shown(&Value::Number(value));
/// assert_eq!([number(2516.5824), number(1e6), number(0.5)], ["2,516.6", "1,000,000", "0.5"]);
/// assert_eq!(shown(&Value::List(vec![Value::Text("4:16".into()), Value::Bool(true)])), "4:16, yes");
/// ```
pub fn shown(value: &Value) -> String {
    match value {
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Text(text) => text.clone(),
        Value::List(values) => values.iter().map(shown).collect::<Vec<_>>().join(", "),
        Value::Number(number) if number.fract() == 0.0 => separated(&format!("{number:.0}")),
        Value::Number(number) if number.abs() >= 1000.0 => separated(&format!("{number:.1}")),
        Value::Number(number) if number.abs() >= 1e-4 => general(*number, 5),
        Value::Number(number) => general(*number, 3),
    }
}

/// Puts a comma before every third digit from the point.
fn separated(text: &str) -> String {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    let (whole, rest) = digits.split_once('.').map_or((digits, None), |(whole, rest)| (whole, Some(rest)));
    let mut out = sign.to_owned();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    rest.map_or(out.clone(), |rest| format!("{out}.{rest}"))
}

/// So many significant digits, none of them a trailing zero; with an exponent where C's `%g` has one.
pub fn general(value: f64, digits: usize) -> String {
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    let text = format!("{value:.*e}", digits - 1);
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..digits as i32).contains(&exponent) {
        return trimmed(&format!("{value:.*}", (digits as i32 - 1 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_numbers_read_as_c_prints_them() {
        for (value, text) in [
            (0.938_123, "0.93812"),
            (999.999_9, "1000"),
            (1_234.56, "1,234.6"),
            (-1_234_567.0, "-1,234,567"),
            (0.000_012_345, "1.23e-05"),
            (78.643_2, "78.643"),
            (0.0, "0"),
            (5.5e10, "55,000,000,000"),
        ] {
            assert_eq!(shown(&Value::Number(value)), text);
        }
    }

    #[test]
    fn test_halves_are_rounded_to_even() {
        assert_eq!([round_half_even(2.5, 0), round_half_even(3.5, 0), round_half_even(0.125, 2)], [2.0, 4.0, 0.12]);
        assert_eq!([round_half_even(2_516.6, -1), round_half_even(2_516.6, -3)], [2_520.0, 3_000.0]);
    }
}
