//! What is wrong with an expression, in one line.

use cel::{ExecutionError, ParseErrors};

use crate::device::PoolDevice;
use crate::error::guess;
use crate::selector::functions;

/// How much of a cause is told.
const CAUSE: usize = 200;

/// Words of the language that hints may offer beside Kubernetes' functions.
const WORDS: [&str; 7] = ["device", "size", "contains", "startsWith", "endsWith", "matches", "has"];

/// Why a text is no expression, with the place of the first mistake.
pub(super) fn of_reading(expression: &str, errors: &ParseErrors) -> String {
    let (mut line, mut column) = errors.errors.first().map_or((0, 0), |error| error.pos);
    let lines: Vec<&str> = expression.lines().collect();
    // Where the text ends too early, the parser gives no place, or one behind the blanks at the end.
    let written: Vec<&str> = expression.trim_end().lines().collect();
    let end = (written.len().max(1) as isize, written.last().map_or(0, |last| last.chars().count()) as isize + 1);
    if line < 1 || column < 1 || (line, column) > end {
        (line, column) = end;
    }
    let text = one_line(expression);
    let there = lines.get(line as usize - 1).and_then(|source| source.chars().nth(column as usize - 1));
    let optional = there == Some('?') || text.contains(".?") || text.contains("[?");
    let hint = if optional { "; optional selection with ? is not supported, has(...) is" } else { "" };
    format!("line {line}, column {column}: cannot be read: {text}{hint}")
}

/// Why an expression fails on a device.
pub(super) fn of_evaluation(error: &ExecutionError, device: &PoolDevice) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => missing(key, device),
        ExecutionError::UndeclaredReference(name) => undeclared(name),
        ExecutionError::NoSuchOverload(overload) => mismatch(overload.argument_types(), device),
        ExecutionError::UnsupportedBinaryOperator(_, left, right)
        | ExecutionError::ValuesNotComparable(left, right) => {
            mismatch(&[left, right].map(|value| value.type_of().to_string()), device)
        }
        ExecutionError::UnexpectedType { .. } | ExecutionError::UnsupportedTargetType { .. } => mismatch(&[], device),
        ExecutionError::FunctionError { message, .. } => fails(message, device),
        ExecutionError::DivisionByZero(_) => fails("division by zero", device),
        ExecutionError::RemainderByZero(_) => fails("modulo by zero", device),
        ExecutionError::IndexOutOfBounds(_) => fails("list index out of range", device),
        ExecutionError::Overflow(..) => fails("overflow", device),
        other => fails(&other.to_string(), device),
    }
}

fn fails(cause: &str, device: &PoolDevice) -> String {
    let cause: String = one_line(cause).chars().take(CAUSE).collect();
    format!("fails for {device}: {cause}")
}

/// A text without line breaks.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn undeclared(name: &str) -> String {
    let known = WORDS.into_iter().chain(functions::NAMES);
    format!("{name} is neither a variable nor a function{}", guess(name, known))
}

fn mismatch(types: &[String], device: &PoolDevice) -> String {
    let mut found: Vec<&str> = Vec::new();
    for name in types {
        let name = if name == "float" { "double" } else { name };
        if !found.contains(&name) {
            found.push(name);
        }
    }
    let found = if found.is_empty() { String::new() } else { format!(" ({})", found.join(" and ")) };
    format!("operands of types that do not go together{found}, for {device}")
}

fn sorted(mut words: Vec<&str>) -> Vec<&str> {
    words.sort_unstable();
    words.dedup();
    words
}

fn missing(key: &str, device: &PoolDevice) -> String {
    let attributes = device.attributes.iter().map(|(name, _)| name);
    let names: Vec<_> = attributes.chain(device.capacity.iter().map(|(name, _)| name)).collect();
    let holders = sorted(names.iter().filter(|(_, name)| name == key).map(|(domain, _)| domain.as_str()).collect());
    if let Some(first) = holders.first() {
        return format!(
            "{device} has {key} in the domain {} alone; write device.attributes['{first}'].{key}",
            holders.join(" and ")
        );
    }
    let known = sorted(names.iter().map(|(_, name)| name.as_str()).collect());
    let domains = sorted(names.iter().map(|(domain, _)| domain.as_str()).collect());
    format!(
        "{device} has no attribute {key}{} (it has {}; domains {}); has(...) asks whether one is there",
        guess(key, known.iter().copied()),
        known.join(", "),
        domains.join(", ")
    )
}
