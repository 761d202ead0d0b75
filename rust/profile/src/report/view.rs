//! What a run recorded, at the level that ran or as written: both have the same columns.

use crate::columns::{EdgeColumns, InstructionColumns, OccupancyColumns, TensorColumns, TransferColumns, UseColumns};
use crate::run_columns::RunColumns;

/// What a run recorded, at the level that ran or as written.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunView<'a> {
    pub(super) columns: &'a RunColumns,
    pub(super) latency_ps: u64,
    pub(super) instructions: &'a InstructionColumns,
    pub(super) transfers: &'a TransferColumns,
    pub(super) occupancy: &'a OccupancyColumns,
    pub(super) critical: &'a [u32],
    pub(super) tensors: &'a TensorColumns,
    pub(super) uses: &'a UseColumns,
    pub(super) edges: &'a EdgeColumns,
}

impl<'a> RunView<'a> {
    pub(super) fn of(columns: &'a RunColumns) -> Self {
        Self {
            columns,
            latency_ps: columns.latency_ps,
            instructions: &columns.instructions,
            transfers: &columns.transfers,
            occupancy: &columns.occupancy,
            critical: &columns.critical,
            tensors: &columns.recorded.tensors,
            uses: &columns.recorded.uses,
            edges: &columns.recorded.edges,
        }
    }

    pub(super) fn as_written(columns: &'a RunColumns) -> Option<Self> {
        let written = columns.recorded.as_written.as_deref()?;
        Some(Self {
            columns,
            latency_ps: written.latency_ps,
            instructions: &written.instructions,
            transfers: &written.transfers,
            occupancy: &written.occupancy,
            critical: &written.critical,
            tensors: &written.tensors,
            uses: &written.uses,
            edges: &written.edges,
        })
    }
}
