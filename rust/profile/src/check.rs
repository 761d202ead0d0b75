//! Columns that did not come from the machine are looked at before anything is formed from them.

use crate::cause::{BOUNDS, CAUSES, DMA, ENGINES};
use crate::columns::{InstructionColumns, OccupancyColumns, TransferColumns};
use crate::error::{Error, Result};
use crate::intervals::gaps;
use crate::run_columns::RunColumns;
use trn3_machine::timing::record::NO_INSTRUCTION;

/// Refuses a value that is not below a limit.
fn check_below<T: Into<u64>>(name: &str, column: impl IntoIterator<Item = T>, limit: u64, of_what: &str) -> Result<()> {
    let values = column.into_iter().map(Into::into);
    // Of the largest values, the first.
    let largest = values.enumerate().reduce(|most, next| if next.1 > most.1 { next } else { most });
    match largest {
        Some((place, value)) if value >= limit => {
            Err(Error::Value(format!("{name}[{place}] is {value}, but there are {limit} {of_what}")))
        }
        _ => Ok(()),
    }
}

fn check_order(earlier: (&str, &[u64]), later: (&str, &[u64])) -> Result<()> {
    let (before, after) = (earlier.1, later.1);
    match before.iter().zip(after).position(|(earlier, later)| earlier > later) {
        None => Ok(()),
        Some(i) => Err(Error::Value(format!(
            "{}[{i}] is {} ps, before {}[{i}], {} ps",
            later.0, after[i], earlier.0, before[i]
        ))),
    }
}

fn check_rising(name: &str, mut times: impl Iterator<Item = u64>) -> Result<()> {
    let Some(mut before) = times.next() else { return Ok(()) };
    for (place, time) in times.enumerate() {
        if time < before {
            let i = place + 1;
            return Err(Error::Value(format!("{name}[{i}] is {time} ps, before the {before} ps ahead of it")));
        }
        before = time;
    }
    Ok(())
}

/// Refuses columns of instructions that contradict one another.
///
/// # Errors
/// [`Error::Value`] names the column, the place, what came and what is allowed.
pub fn check_instructions(columns: &InstructionColumns) -> Result<()> {
    columns.check_lengths()?;
    check_below("instructions.engine", columns.engine.iter().copied(), ENGINES.len() as u64, "engines")?;
    check_below("instructions.cause", columns.cause.iter().copied(), CAUSES.len() as u64, "causes")?;
    check_below("instructions.bound", columns.bound.iter().copied(), BOUNDS.len() as u64, "bounds")?;
    let start = ("instructions.start_ps", &columns.start_ps[..]);
    check_order(start, ("instructions.slot_end_ps", &columns.slot_end_ps))?;
    check_order(start, ("instructions.end_ps", &columns.end_ps))?;
    let late = |(i, &on): (usize, &u32)| on != NO_INSTRUCTION && on as usize >= i;
    if let Some(i) = columns.waited_on.iter().enumerate().position(late) {
        return Err(Error::Value(format!(
            "instructions.waited_on[{i}] is {}; an instruction waits for an earlier one, or for none ({NO_INSTRUCTION:#x})",
            columns.waited_on[i]
        )));
    }
    let mut rates = columns.macs.iter().zip(&columns.peak_macs_per_cycle);
    if let Some(i) = rates.position(|(&macs, &peak)| macs > 0 && peak == 0) {
        return Err(Error::Value(format!(
            "instructions.peak_macs_per_cycle[{i}] is 0, but the instruction does {} multiply-accumulate operations",
            columns.macs[i]
        )));
    }
    Ok(())
}

/// Refuses waits longer than the gap they fill; waits of DMA queues may overlap.
///
/// # Errors
/// [`Error::Value`] names the instruction and its engine.
pub fn check_waits(columns: &InstructionColumns) -> Result<()> {
    for (number, name) in ENGINES.iter().enumerate().filter(|(number, _)| *number != usize::from(DMA)) {
        let of_engine = |row: &usize| usize::from(columns.engine[*row]) == number;
        let rows: Vec<usize> = (0..columns.len()).filter(of_engine).collect();
        let spans: Vec<_> = rows.iter().map(|&row| (columns.start_ps[row], columns.slot_end_ps[row])).collect();
        for (&row, room) in rows.iter().zip(gaps(&spans)) {
            if columns.wait_ps[row] > room {
                return Err(Error::Value(format!(
                    "instructions.wait_ps[{row}] is {} ps, but engine {name} stood idle for {room} ps before it",
                    columns.wait_ps[row]
                )));
            }
        }
    }
    Ok(())
}

/// Refuses columns of transfers that contradict one another.
///
/// # Errors
/// As [`check_instructions`].
pub fn check_transfers(columns: &TransferColumns) -> Result<()> {
    columns.check_lengths()?;
    check_order(("transfers.start_ps", &columns.start_ps), ("transfers.end_ps", &columns.end_ps))
}

/// Refuses memories in use that contradict one another.
///
/// # Errors
/// As [`check_instructions`].
pub fn check_occupancy(columns: &OccupancyColumns) -> Result<()> {
    let length = columns.time_ps.len();
    for (name, other) in [("sbuf_bytes", columns.sbuf_bytes.len()), ("psum_bytes", columns.psum_bytes.len())] {
        if other != length {
            return Err(Error::Value(format!(
                "occupancy.{name} has {other} entries, occupancy.time_ps has {length}; they must be as many"
            )));
        }
    }
    check_rising("occupancy.time_ps", columns.time_ps.iter())?;
    let above = |peak: u64| peak.saturating_add(1);
    check_below("occupancy.sbuf_bytes", &columns.sbuf_bytes, above(columns.sbuf_peak_bytes), "at peak")?;
    check_below("occupancy.psum_bytes", &columns.psum_bytes, above(columns.psum_peak_bytes), "at peak")
}

impl RunColumns {
    /// Refuses columns that contradict one another; those that [`RunColumns::of`] gives do not.
    ///
    /// # Errors
    /// [`Error::Value`] names the entry, what came and what is allowed.
    pub fn check(&self) -> Result<()> {
        check_instructions(&self.instructions)?;
        check_transfers(&self.transfers)?;
        check_occupancy(&self.occupancy)?;
        self.check_across()
    }

    /// As [`RunColumns::check`] of parts that were looked at, each for itself.
    ///
    /// # Errors
    /// As [`RunColumns::check`].
    pub fn check_across(&self) -> Result<()> {
        let instructions = &self.instructions;
        let count = instructions.len() as u64;
        check_below("instructions.opcode", instructions.opcode.iter().copied(), self.opcodes.len() as u64, "opcodes")?;
        check_below("instructions.label", instructions.label.iter().copied(), self.labels.len() as u64, "labels")?;
        check_below("instructions.site", instructions.site.iter().copied(), self.sites.len() as u64, "sites")?;
        check_below("transfers.instruction", self.transfers.instruction.iter().copied(), count, "instructions")?;
        let engines = self.arch.dma_engines as u64;
        check_below("transfers.dma_engine", self.transfers.dma_engine.iter().copied(), engines, "DMA engines")?;
        check_below("critical", self.critical.iter().copied(), count, "instructions")?;
        check_rising("start_ps of critical", self.critical.iter().map(|&row| instructions.start_ps[row as usize]))?;
        for (name, last) in [
            ("instructions.slot_end_ps", instructions.slot_end_ps.iter().max().copied()),
            ("instructions.end_ps", instructions.end_ps.iter().max().copied()),
            ("transfers.end_ps", self.transfers.end_ps.iter().max().copied()),
            ("occupancy.time_ps", self.occupancy.time_ps.iter().max()),
        ] {
            if let Some(last) = last.filter(|&last| last > self.latency_ps) {
                let latency = self.latency_ps;
                return Err(Error::Value(format!("{name} reaches {last} ps, after latency_ps, {latency}")));
            }
        }
        check_waits(instructions)?;
        self.recorded.check(instructions.len(), self.sites.len())
    }
}
