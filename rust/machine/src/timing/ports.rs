//! Ports of the on-chip memories that two engines share, and who held them last.

use super::issue::TimedInstruction;
use super::record::{Cause, NO_INSTRUCTION};
use super::region::Space;
use super::tensor_array::Bound;
use crate::arch::ArchSpec;
use crate::engine::Engine;

/// Where instructions of one engine and another meet in a memory, and the last of each that used it.
#[derive(Clone, Debug)]
pub(super) struct SharedPorts {
    generation: u64,
    bank_bytes: u64,
    /// Of each PSUM bank, VectorE's and ScalarE's last slot.
    banks: Vec<[(u64, u32); 2]>,
    /// VectorE's and GpSimdE's last slot with an operand in SBUF.
    sbuf: [(u64, u32); 2],
}

impl SharedPorts {
    pub(super) fn new(arch: &ArchSpec) -> Self {
        // On generation 2 any two PSUM accesses exclude each other, as if there were one bank.
        let one = arch.generation == 2;
        let bank_bytes = if one { u64::MAX } else { arch.psum_bank_bytes };
        let banks = if one { 1 } else { arch.psum_banks as usize };
        let none = (0, NO_INSTRUCTION);
        Self { generation: arch.generation, bank_bytes, banks: vec![[none; 2]; banks], sbuf: [none; 2] }
    }

    fn each_bank(&mut self, issue: &TimedInstruction, mut visit: impl FnMut(&mut [(u64, u32); 2])) {
        for region in issue.reads.iter().chain(issue.writes).filter(|region| region.space == Space::Psum) {
            for columns in region.rects.iter().map(|rect| &rect.columns).filter(|columns| !columns.is_empty()) {
                let first = (columns.start / self.bank_bytes) as usize;
                let last = ((columns.end - 1) / self.bank_bytes) as usize;
                self.banks.iter_mut().take(last.saturating_add(1)).skip(first).for_each(&mut visit);
            }
        }
    }

    fn sides(&self, engine: Engine, issue: &TimedInstruction) -> (Option<usize>, Option<usize>) {
        let psum = match engine {
            Engine::Vector => Some(0),
            Engine::Scalar => Some(1),
            _ => None,
        };
        let in_sbuf = || issue.reads.iter().chain(issue.writes).any(|region| region.space == Space::Sbuf);
        let sbuf = match engine {
            Engine::Vector if self.generation == 2 && in_sbuf() => Some(0),
            Engine::GpSimd if self.generation == 2 && in_sbuf() => Some(1),
            _ => None,
        };
        (psum, sbuf)
    }

    pub(super) fn wait(&mut self, engine: Engine, issue: &TimedInstruction, bound: &mut Bound) {
        let (psum, sbuf) = self.sides(engine, issue);
        if let Some(side) = psum {
            self.each_bank(issue, |slots| bound.raise(slots[1 - side].0, Cause::PsumBank, slots[1 - side].1));
        }
        if let Some(side) = sbuf {
            let other = if side == 0 { Engine::GpSimd } else { Engine::Vector };
            bound.raise(self.sbuf[1 - side].0, Cause::Engine(other), self.sbuf[1 - side].1);
        }
    }

    pub(super) fn hold(&mut self, engine: Engine, issue: &TimedInstruction, slot_end: u64, id: u32) {
        let (psum, sbuf) = self.sides(engine, issue);
        if let Some(side) = psum {
            self.each_bank(issue, |slots| slots[side] = (slot_end, id));
        }
        if let Some(side) = sbuf {
            self.sbuf[side] = (slot_end, id);
        }
    }
}
