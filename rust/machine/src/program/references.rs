//! Which tensors a step names, without reading it: what lifetimes are counted from, and what is renamed.

use serde_json::{Map, Value};

use super::meeting;
use crate::isa::table::{Description, Kind, describe, program_key};

/// Entries that steps of several instructions hold of arguments under another name.
const HELD: [(&str, &str); 1] = [("range_select", "on_true")];

/// Whether a plain text of a step's entry is a tensor's name, rather than a word.
struct Texts {
    row: Option<&'static Description>,
    is_meeting: bool,
}

impl Texts {
    fn of(op: &str) -> Self {
        Self { row: describe(op), is_meeting: meeting::is_meeting(op) }
    }

    fn are_tensors(&self, op: &str, key: &str) -> bool {
        match key {
            "op" | "label" | "after" => false,
            // Of a reduction, and of an index.
            "tensor" => op == "fresh",
            _ if op == super::call::NAME => matches!(key, "inputs" | "outputs"),
            _ if self.is_meeting => matches!(key, "srcs" | "srcs1" | "dsts" | "metadata_tensor"),
            _ => self.row.is_some_and(|row| {
                let is_tile = |kind| matches!(kind, Kind::Tile | Kind::MaybeTile | Kind::Tiles);
                row.arguments.iter().any(|argument| program_key(argument.name) == key && is_tile(argument.kind))
                    || HELD.contains(&(row.name, key))
            }),
        }
    }
}

/// Entries of an operand's or an argument's object whose plain text is a tensor's name.
const INNER: [&str; 5] = ["tensor", "element", "rows", "columns", "result"];

macro_rules! visitor {
    ($visit:ident, $within:ident, $step:ty, $value:ty, $text:ty) => {
        /// Calls `visit` with every name of a tensor that a step has where its entries have tensors.
        pub(super) fn $visit<'a>(step: $step, visit: &mut dyn FnMut($text)) {
            let op = step.get("op").and_then(Value::as_str).unwrap_or_default().to_owned();
            let texts = Texts::of(&op);
            for (key, value) in step {
                if key != "op" && key != "label" {
                    $within(value, texts.are_tensors(&op, key), visit);
                }
            }
        }

        fn $within<'a>(value: $value, is_tensor: bool, visit: &mut dyn FnMut($text)) {
            match value {
                Value::String(name) if is_tensor => visit(name),
                Value::Array(items) => {
                    for item in items {
                        $within(item, is_tensor, visit);
                    }
                }
                Value::Object(map) => {
                    for (key, inner) in map {
                        $within(inner, INNER.contains(&key.as_str()), visit);
                    }
                }
                _ => {}
            }
        }
    };
}

/// As [`visit_names`], of the words for a view.
pub(super) fn visit_value_names<'a>(view: &'a Value, visit: &mut dyn FnMut(&'a str)) {
    names_within(view, true, visit);
}

/// As [`visit_names_mut`], of the words for a view.
pub(super) fn visit_value_names_mut(view: &mut Value, visit: &mut dyn FnMut(&mut String)) {
    names_within_mut(view, true, visit);
}

visitor!(visit_names, names_within, &'a Map<String, Value>, &'a Value, &'a str);
visitor!(visit_names_mut, names_within_mut, &'a mut Map<String, Value>, &'a mut Value, &mut String);
