//! What graphs may hold: each operation's name, the front ends' names for it, its template, how it is read.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::{
    binary, collective, compare, constant, control, convert, convolution, custom_call, dot, dynamic, gather, layout,
    mx_dot, prune, random, reduce, reduce_window, scatter, select, select_and_scatter, sort, stochastic_convert, unary,
};
use crate::error::{GraphError, Result};
use crate::row::OperationRow;

/// Rows of every file of operations.
pub const OPERATIONS: &[&[OperationRow]] = &[
    unary::ROWS,
    binary::ROWS,
    compare::ROWS,
    select::ROWS,
    convert::ROWS,
    constant::ROWS,
    layout::ROWS,
    dot::ROWS,
    reduce::ROWS,
    control::ROWS,
    convolution::ROWS,
    custom_call::ROWS,
    dynamic::ROWS,
    gather::ROWS,
    random::ROWS,
    reduce_window::ROWS,
    scatter::ROWS,
    select_and_scatter::ROWS,
    sort::ROWS,
    collective::ROWS,
    mx_dot::ROWS,
    prune::ROWS,
    stochastic_convert::ROWS,
];

/// Every operation, in the table's order.
pub fn rows() -> impl Iterator<Item = &'static OperationRow> {
    OPERATIONS.iter().copied().flatten()
}

/// The operation of this name.
///
/// # Errors
/// [`GraphError::Format`] where there is none.
pub fn find(name: &str) -> Result<&'static OperationRow> {
    static BY_NAME: OnceLock<HashMap<&'static str, &'static OperationRow>> = OnceLock::new();
    let by_name = BY_NAME.get_or_init(|| rows().map(|row| (row.name, row)).collect());
    by_name.get(name).copied().ok_or_else(|| GraphError::Format("is no operation of graphs".to_owned()))
}
