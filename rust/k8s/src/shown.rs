//! Values in messages: written as Python writes them, since most who read these messages wrote it there.

use serde_json::Value;

/// A value as source text would have it: `'4'`, `True`, `None`, `{'a': 1}`.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(flag) => if *flag { "True" } else { "False" }.to_owned(),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(real) => shown_real(real),
            None => number.to_string(),
        },
        Value::String(text) => quoted(text),
        Value::Array(values) => format!("[{}]", values.iter().map(shown).collect::<Vec<_>>().join(", ")),
        Value::Object(entries) => {
            let entries: Vec<_> =
                entries.iter().map(|(key, value)| format!("{}: {}", quoted(key), shown(value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

/// A value as text: texts as they are, all others as [`shown`].
pub(crate) fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| shown(value), str::to_owned)
}

/// The name of a value's type.
pub(crate) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "NoneType",
        Value::Bool(_) => "bool",
        Value::Number(number) => {
            if number.is_f64() {
                "float"
            } else {
                "int"
            }
        }
        Value::String(_) => "str",
        Value::Array(_) => "list",
        Value::Object(_) => "dict",
    }
}

/// Whether a value counts as nothing: absent, zero, empty.
pub(crate) fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Object(entries) => entries.is_empty(),
    }
}

/// A text in quotes, with what a terminal would obey escaped.
pub(crate) fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for letter in text.chars() {
        match letter {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            _ if letter == quote => {
                out.push('\\');
                out.push(letter);
            }
            _ if letter.is_control() => out.push_str(&format!("\\x{:02x}", u32::from(letter))),
            _ => out.push(letter),
        }
    }
    out.push(quote);
    out
}

fn shown_real(value: f64) -> String {
    let small = value != 0.0 && value.abs() < 1e-4;
    let text = if small { format!("{value:e}") } else { format!("{value:?}") };
    // An exponent has a sign and two digits.
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
    format!("{digits}e{sign}{exponent:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn test_values_are_written_as_python_writes_them() {
        for (value, text) in [
            (json!(null), "None"),
            (json!(true), "True"),
            (json!(-1), "-1"),
            (json!(1.0), "1.0"),
            (json!(1e16), "1e+16"),
            (json!(0.00001), "1e-05"),
            (json!("it's"), "\"it's\""),
            (json!("a\n\u{1b}\\'\""), "'a\\n\\x1b\\\\\\'\"'"),
            (json!({"a": [1, "x"]}), "{'a': [1, 'x']}"),
        ] {
            assert_eq!(shown(&value), text);
        }
        assert_eq!(text_of(&json!("x")), "x");
        assert_eq!(type_of(&json!(42)), "int");
        assert!(is_nothing(&json!({})) && !is_nothing(&json!("0")));
    }
}
