//! The dynamic part of views, evaluated when an operand is used.

use std::sync::PoisonError;

use super::bounds::OutOfBounds;
use super::resolve::{Operand, Start};
use super::{Finding, Memory, convert};
use crate::error::{Error, Result};
use crate::site::SiteId;
use crate::view::{Dynamic, ScalarIndex, View};

impl Memory {
    pub(super) fn evaluate(&mut self, operand: Operand<'_>, dynamic: &Dynamic, reader: SiteId) -> Result<Start> {
        let view = operand.view;
        let name = &view.storage.name;
        let outside = |what: &str, value: i64, bound: usize| {
            let text =
                format!("Out-of-bound access for tensor `{name}`: {what} {value} exceed dimension size of {bound}");
            Error::OutOfBounds(text)
        };
        let is_inside = |value: i64, bound: usize| usize::try_from(value).is_ok_and(|value| value < bound);
        match dynamic {
            Dynamic::Scalar { index, stride, bound } => {
                let value = self.index_value(name, index, reader)?;
                if !is_inside(value, *bound) {
                    return Err(outside("dynamic index", value, *bound));
                }
                Ok(Start::Shift(value.saturating_mul(*stride)))
            }
            Dynamic::Rows { index, stride, bound } => {
                let rows = view.shape.first().copied().unwrap_or(1);
                let indices = self.indices(name, index, reader)?;
                if indices.len() < rows {
                    let count = indices.len();
                    return Err(Error::Value(format!("view of `{name}`: {count} row indices for {rows} rows")));
                }
                // Indices lie partition after partition, then column after column.
                let (height, width) = (index.partitions(), index.free_size());
                let mut starts = Vec::with_capacity(rows);
                let mut skipped = None;
                for row in 0..rows {
                    let value = indices[(row % height) * width + row / height];
                    if is_inside(value, *bound) {
                        starts.push(Some(value.saturating_mul(*stride)));
                    } else if operand.addressing.out_of_bounds == OutOfBounds::Skip {
                        let (_, count) = skipped.get_or_insert((value, 0usize));
                        *count += 1;
                        starts.push(None);
                    } else {
                        return Err(outside("row index", value, *bound));
                    }
                }
                if let Some((index, count)) = skipped {
                    let tensor = name.clone();
                    self.note(&view.storage, Finding::OutOfBoundsSkipped { tensor, reader, index, count });
                }
                Ok(Start::Rows(starts))
            }
            Dynamic::Columns { index, bound } => {
                let (rows, columns) = (view.partitions(), view.free_size());
                let indices = self.indices(name, index, reader)?;
                let (height, width) = (index.partitions(), index.free_size());
                let group = operand.addressing.group.max(1);
                if height < rows {
                    let text = format!("view of `{name}`: column indices of {height} partitions for {rows} partitions");
                    return Err(Error::Value(text));
                }
                let list = |first: usize| {
                    let size = group.min(height - first);
                    if columns > size * width {
                        let text = format!("view of `{name}`: {} column indices for {columns} columns", size * width);
                        return Err(Error::Value(text));
                    }
                    let picked = |column: usize| indices[(first + column % size) * width + column / size];
                    match (0..columns).map(picked).find(|value| !is_inside(*value, *bound)) {
                        Some(value) => Err(outside("column index", value, *bound)),
                        None => Ok((0..columns).map(picked).collect()),
                    }
                };
                Ok(Start::Columns { group, lists: (0..rows).step_by(group).map(list).collect::<Result<_>>()? })
            }
        }
    }

    fn index_value(&mut self, name: &str, index: &ScalarIndex, reader: SiteId) -> Result<i64> {
        match index {
            ScalarIndex::Register(register) => {
                let value = *register.value.lock().unwrap_or_else(PoisonError::into_inner);
                value.ok_or_else(|| {
                    let text = format!("view of `{name}`: register {} was never written", register.id);
                    if self.options.values { Error::Value(text) } else { Error::SkippedValue(text) }
                })
            }
            ScalarIndex::Element(view) => match self.indices(name, view, reader)?.as_slice() {
                [value] => Ok(*value),
                values => Err(Error::Value(format!(
                    "view of `{name}`: dynamic index has {} elements; one is needed",
                    values.len()
                ))),
            },
        }
    }

    /// The values of an index tile, in C order.
    fn indices(&mut self, name: &str, index: &View, reader: SiteId) -> Result<Vec<i64>> {
        if !index.dtype.is_integer() {
            let text = format!("view of `{name}`: dynamic index has type {}; an integer is needed", index.dtype);
            return Err(Error::Type(text));
        }
        if index.dynamic.is_some() {
            let text = format!("view of `{name}`: its index is addressed dynamically itself; one such step is allowed");
            return Err(Error::Value(text));
        }
        let mut bits = Vec::new();
        self.read_bits(index, &mut bits, reader)?;
        Ok(bits.into_iter().map(|bits| convert::integer(index.dtype, bits)).collect())
    }
}
