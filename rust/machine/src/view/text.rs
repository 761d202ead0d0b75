//! Views as text.

use std::fmt;

use crate::view::{Dynamic, ScalarIndex, View};

/// Numbers as Python prints a tuple: `(4, 12)`, `(4,)`.
pub fn tuple_text<T: fmt::Display>(values: &[T]) -> String {
    match values {
        [one] => format!("({one},)"),
        _ => format!("({})", values.iter().map(T::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// `name='x', shape=(4, 12), dtype=float32, buffer=sbuf, strides=(12, 1), offset=0`, and for an indirect view what its
/// address comes from. Front ends put their class's name around it.
impl fmt::Display for View {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "name='{}', shape={}, dtype={}, buffer={}, strides={}, offset={}",
            self.storage.name,
            tuple_text(&self.shape),
            self.dtype,
            self.storage.buffer,
            tuple_text(&self.strides),
            self.offset
        )?;
        match self.dynamic.as_deref() {
            None => Ok(()),
            Some(Dynamic::Scalar { index: ScalarIndex::Element(view), stride, .. }) => {
                write!(formatter, ", plus {stride} * value of '{}'", view.storage.name)
            }
            Some(Dynamic::Scalar { index: ScalarIndex::Register(register), stride, .. }) => {
                write!(formatter, ", plus {stride} * register {}", register.id)
            }
            Some(Dynamic::Rows { index, stride, .. }) => {
                write!(formatter, ", rows at {stride} * values of '{}'", index.storage.name)
            }
            Some(Dynamic::Columns { index, .. }) => {
                write!(formatter, ", columns at values of '{}'", index.storage.name)
            }
        }
    }
}
