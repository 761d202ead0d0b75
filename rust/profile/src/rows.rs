//! Which rows and spans of a run's columns a figure is made of.

use crate::cause::{DMA, ENGINES};
use crate::intervals::Span;
use crate::run_columns::RunColumns;

/// Picoseconds in a microsecond.
pub(crate) const PS_PER_US: f64 = 1e6;

impl RunColumns {
    /// Length of the busy window, in microseconds.
    pub fn latency_us(&self) -> f64 {
        self.latency_ps as f64 / PS_PER_US
    }

    /// File, line and function of an instruction.
    pub(crate) fn site_of(&self, instruction: usize) -> &(String, u32, String) {
        &self.sites[self.instructions.site[instruction] as usize]
    }

    /// Name of an instruction.
    pub(crate) fn opcode_of(&self, instruction: usize) -> &str {
        &self.opcodes[usize::from(self.instructions.opcode[instruction])]
    }

    /// Spans in which an engine held its issue slot; of DMA, in which bytes moved.
    pub(crate) fn busy_spans(&self, engine: u8) -> Vec<Span> {
        let (instructions, transfers) = (&self.instructions, &self.transfers);
        if engine == DMA {
            return transfers.start_ps.iter().copied().zip(transfers.end_ps.iter().copied()).collect();
        }
        let rows = self.rows_of(engine);
        rows.map(|row| (instructions.start_ps[row], instructions.slot_end_ps[row])).collect()
    }

    /// Instructions of an engine.
    pub(crate) fn rows_of(&self, engine: u8) -> impl Iterator<Item = usize> {
        let of_engine = move |(_, own): &(usize, &u8)| **own == engine;
        self.instructions.engine.iter().enumerate().filter(of_engine).map(|(row, _)| row)
    }

    /// HBM bytes of an instruction, read and written.
    pub(crate) fn hbm_bytes_of(&self, row: usize) -> u64 {
        self.instructions.hbm_read[row].saturating_add(self.instructions.hbm_write[row])
    }

    /// Picoseconds of each step of the critical path: up to the next one's start, or to the last one's end.
    pub(crate) fn critical_ps(&self) -> Vec<u64> {
        let instructions = &self.instructions;
        let start = |&row: &u32| instructions.start_ps[row as usize];
        let critical = &self.critical;
        let last = critical.last().map(|&row| instructions.end_ps[row as usize]);
        let ends = critical.iter().skip(1).map(start).chain(last);
        critical.iter().zip(ends).map(|(row, end)| end - start(row)).collect()
    }

    /// How much of the critical path each engine holds, in picoseconds.
    pub(crate) fn critical_engine_ps(&self) -> [u64; ENGINES.len()] {
        let mut held = [0; ENGINES.len()];
        for (&row, length) in self.critical.iter().zip(self.critical_ps()) {
            held[usize::from(self.instructions.engine[row as usize])] += length;
        }
        held
    }
}
