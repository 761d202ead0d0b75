//! What one core's run cost: sums over its columns, each formed when it is first asked for.

use std::sync::OnceLock;

use crate::engines::EngineTotal;
use crate::intervals::{Span, union_length};
use crate::lines::LineTotal;
use crate::run_columns::RunColumns;

/// The profile of a run on one core. Figures of it, and of several cores together, are [`crate::Profile`]'s.
#[derive(Debug)]
pub struct CoreProfile {
    columns: RunColumns,
    totals: OnceLock<Totals>,
    engines: OnceLock<Vec<EngineTotal>>,
    lines: OnceLock<Vec<LineTotal>>,
    dma_engine_ps: OnceLock<Vec<u64>>,
}

/// Sums over all instructions and transfers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) macs: u64,
    pub(crate) dma_bytes: u64,
    pub(crate) hbm_read: u64,
    pub(crate) hbm_write: u64,
    /// How long all matmuls would take at the peak of their element types, in TensorE's cycles.
    pub(crate) ideal_cycles: f64,
    /// How long transfers took, each for itself.
    pub(crate) transfer_ps: u64,
    pub(crate) transfer_bytes: u64,
}

impl CoreProfile {
    /// The profile of columns that do not contradict one another ([`RunColumns::check`]).
    pub fn new(columns: RunColumns) -> Self {
        Self {
            columns,
            totals: OnceLock::new(),
            engines: OnceLock::new(),
            lines: OnceLock::new(),
            dma_engine_ps: OnceLock::new(),
        }
    }

    /// What it is made from.
    pub fn columns(&self) -> &RunColumns {
        &self.columns
    }

    /// Length of the busy window, in microseconds.
    pub fn latency_us(&self) -> f64 {
        self.columns.latency_us()
    }

    /// How long all matmuls would take at the peak of their element types, in microseconds.
    pub(crate) fn ideal_matmul_us(&self) -> f64 {
        self.totals().ideal_cycles / self.columns.arch.tensor_clock_mhz
    }

    /// What DMA engines could move in the time that transfers took, each transfer for itself: those of two queues may
    /// overlap on one engine.
    pub(crate) fn dma_room(&self) -> f64 {
        self.totals().transfer_ps as f64 / 1e3 * self.columns.arch.dma_engine_bytes_per_ns
    }

    /// Bytes moved as part of that; None without transfers.
    pub(crate) fn dma_efficiency(&self) -> Option<f64> {
        let room = self.dma_room();
        (room > 0.0).then(|| self.totals().transfer_bytes as f64 / room)
    }

    pub(crate) fn totals(&self) -> &Totals {
        self.totals.get_or_init(|| {
            let (instructions, transfers) = (&self.columns.instructions, &self.columns.transfers);
            let sum = |column: &[u64]| column.iter().fold(0u64, |sum, &value| sum.saturating_add(value));
            let spans = transfers.start_ps.iter().zip(&transfers.end_ps);
            Totals {
                macs: sum(&instructions.macs),
                dma_bytes: sum(&instructions.dma_bytes),
                hbm_read: sum(&instructions.hbm_read),
                hbm_write: sum(&instructions.hbm_write),
                ideal_cycles: ideal_cycles(&instructions.macs, &instructions.peak_macs_per_cycle),
                transfer_ps: spans.fold(0, |sum: u64, (start, end)| sum.saturating_add(end - start)),
                transfer_bytes: sum(&transfers.bytes),
            }
        })
    }

    pub(crate) fn engines(&self) -> &[EngineTotal] {
        self.engines.get_or_init(|| crate::engines::of_run(&self.columns))
    }

    pub(crate) fn lines(&self) -> &[LineTotal] {
        self.lines.get_or_init(|| crate::lines::of_run(&self.columns))
    }

    /// How long each DMA engine moved bytes, in picoseconds.
    pub(crate) fn dma_engine_ps(&self) -> &[u64] {
        self.dma_engine_ps.get_or_init(|| {
            let transfers = &self.columns.transfers;
            let mut spans: Vec<Vec<Span>> = vec![Vec::new(); self.columns.arch.dma_engines as usize];
            for (row, &engine) in transfers.dma_engine.iter().enumerate() {
                spans[usize::from(engine)].push((transfers.start_ps[row], transfers.end_ps[row]));
            }
            spans.into_iter().map(union_length).collect()
        })
    }
}

/// Multiply-accumulates over what the array does in a cycle, in the order of the rates; matmuls of one rate are summed
/// as whole numbers.
fn ideal_cycles(macs: &[u64], peaks: &[u64]) -> f64 {
    let mut by_peak = std::collections::BTreeMap::<u64, u64>::new();
    for (&macs, &peak) in macs.iter().zip(peaks).filter(|(macs, _)| **macs > 0) {
        let sum = by_peak.entry(peak).or_default();
        *sum = sum.saturating_add(macs);
    }
    by_peak.into_iter().fold(0.0, |sum, (peak, macs)| sum + macs as f64 / peak as f64)
}
