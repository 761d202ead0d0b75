//! HBM bytes over time.

use crate::columns::{InstructionColumns, TransferColumns};
use crate::intervals::{Span, sum_by_bin};
use crate::run_columns::RunColumns;

/// HBM bytes, read and written, that move between edges in picoseconds. An instruction's bytes are spread over its
/// transfers by their size, and each transfer's evenly over its time; without transfers, over the time from start to end.
pub(crate) fn by_bin(columns: &RunColumns, edges_ps: &[f64]) -> Vec<f64> {
    of_columns(&columns.instructions, &columns.transfers, edges_ps)
}

/// As [`by_bin`], of the columns that it takes.
pub(crate) fn of_columns(instructions: &InstructionColumns, transfers: &TransferColumns, edges_ps: &[f64]) -> Vec<f64> {
    let hbm_bytes_of = |row: usize| instructions.hbm_read[row].saturating_add(instructions.hbm_write[row]);
    let mut moved = vec![0u64; instructions.len()];
    for (&row, &bytes) in transfers.instruction.iter().zip(&transfers.bytes) {
        moved[row as usize] = moved[row as usize].saturating_add(bytes);
    }
    let rate = |row: u32| match moved[row as usize] {
        0 => 0.0,
        moved => hbm_bytes_of(row as usize) as f64 / moved as f64,
    };
    let spans: Vec<Span> = transfers.start_ps.iter().copied().zip(transfers.end_ps.iter().copied()).collect();
    let shared = transfers.instruction.iter().zip(&transfers.bytes);
    let shares: Vec<f64> = shared.map(|(&row, &bytes)| bytes as f64 * rate(row)).collect();
    let mut sums = sum_by_bin(&spans, &shares, edges_ps);
    let alone = (0..instructions.len()).filter(|&row| moved[row] == 0 && hbm_bytes_of(row) > 0);
    let (spans, amounts): (Vec<Span>, Vec<f64>) =
        alone.map(|row| ((instructions.start_ps[row], instructions.end_ps[row]), hbm_bytes_of(row) as f64)).unzip();
    for (sum, more) in sums.iter_mut().zip(sum_by_bin(&spans, &amounts, edges_ps)) {
        *sum += more;
    }
    sums
}

/// `count` + 1 edges of bins of one width, from 0 to an end.
pub(crate) fn even_edges(end: f64, count: usize) -> Vec<f64> {
    let step = end / count as f64;
    (0..count).map(|number| number as f64 * step).chain([end]).collect()
}
