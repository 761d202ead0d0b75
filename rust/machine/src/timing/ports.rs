//! Ports of the on-chip memories that two engines share, and who held them last.

use super::issue::TimedInstruction;
use super::record::{Cause, NO_INSTRUCTION};
use super::region::Space;
use super::tensor_array::Bound;
use crate::arch::ArchSpec;
use crate::engine::Engine;

/// What of these ports an instruction uses: a bit a bank of PSUM, and one for SBUF.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PortUse(u64);

impl PortUse {
    /// As a number, small where banks are few.
    pub(super) fn bits(self) -> u64 {
        self.0.rotate_left(1)
    }

    /// What [`PortUse::bits`] gave.
    pub(super) fn of_bits(bits: u64) -> Self {
        Self(bits.rotate_right(1))
    }
}

const IN_SBUF: u64 = 1 << 63;
/// The last bank that has a bit of its own: any others share it.
const MOST_BANKS: u64 = 62;

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

    /// What of them an instruction uses.
    pub(super) fn used(&self, issue: &TimedInstruction) -> PortUse {
        let mut used = 0;
        for region in issue.reads.iter().chain(issue.writes) {
            match region.space {
                Space::Sbuf => used |= IN_SBUF,
                Space::Psum => {
                    for columns in region.rects.iter().map(|rect| &rect.columns).filter(|columns| !columns.is_empty()) {
                        let most = self.banks.len() as u64 - 1;
                        let banks = columns.start / self.bank_bytes..=((columns.end - 1) / self.bank_bytes).min(most);
                        banks.for_each(|bank| used |= 1 << bank.min(MOST_BANKS));
                    }
                }
                Space::Hbm(_) | Space::Register(_) => {}
            }
        }
        PortUse(used)
    }

    fn each_bank(&mut self, used: PortUse, mut visit: impl FnMut(&mut [(u64, u32); 2])) {
        let mut left = used.0 & !IN_SBUF;
        while left != 0 {
            if let Some(slots) = self.banks.get_mut(left.trailing_zeros() as usize) {
                visit(slots);
            }
            left &= left - 1;
        }
    }

    /// Calls with each moment that what runs later may depend on.
    pub(super) fn each_moment(&mut self, visit: &mut impl FnMut(&mut u64)) {
        self.banks.iter_mut().flatten().chain(&mut self.sbuf).for_each(|(until, _)| visit(until));
    }

    fn sides(&self, engine: Engine, used: PortUse) -> (Option<usize>, Option<usize>) {
        let psum = match engine {
            Engine::Vector => Some(0),
            Engine::Scalar => Some(1),
            _ => None,
        };
        let in_sbuf = used.0 & IN_SBUF != 0;
        let sbuf = match engine {
            Engine::Vector if self.generation == 2 && in_sbuf => Some(0),
            Engine::GpSimd if self.generation == 2 && in_sbuf => Some(1),
            _ => None,
        };
        (psum, sbuf)
    }

    pub(super) fn wait(&mut self, engine: Engine, used: PortUse, bound: &mut Bound) {
        let (psum, sbuf) = self.sides(engine, used);
        if let Some(side) = psum {
            self.each_bank(used, |slots| bound.raise(slots[1 - side].0, Cause::PsumBank, slots[1 - side].1));
        }
        if let Some(side) = sbuf {
            let other = if side == 0 { Engine::GpSimd } else { Engine::Vector };
            bound.raise(self.sbuf[1 - side].0, Cause::Engine(other), self.sbuf[1 - side].1);
        }
    }

    pub(super) fn hold(&mut self, engine: Engine, used: PortUse, slot_end: u64, id: u32) {
        let (psum, sbuf) = self.sides(engine, used);
        if let Some(side) = psum {
            self.each_bank(used, |slots| slots[side] = (slot_end, id));
        }
        if let Some(side) = sbuf {
            self.sbuf[side] = (slot_end, id);
        }
    }
}
