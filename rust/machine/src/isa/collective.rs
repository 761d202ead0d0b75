//! One core's part of a collective: ranks hand in operands, the fabric's model says how long it takes, and
//! [`crate::meeting::collective`] runs the parts side by side.
//!
//! - **(choice)** A core's collectives run in DMA queues of their own, one for each priority, as
//!   [`crate::timing::service`] says; their traffic takes nothing from the core's other transfers, nor they
//!   from it.

use crate::arch::ArchSpec;
use crate::check::{Check, DMA};
use crate::engine::Engine;
use crate::error::Result;
use crate::isa::rank_call::RankOperation;
use crate::isa::{Instruction, OperandRole};
use crate::state::State;
use crate::storage::Buffer;
use crate::time::Picos;
use crate::timing::work::{CollectivePart, Work};
use crate::view::View;

/// Every collective, as `nki.collectives` spells it.
pub const NAMES: [&str; RankOperation::ALL.len()] = {
    let mut names = [""; RankOperation::ALL.len()];
    let mut number = 0;
    while number < names.len() {
        names[number] = RankOperation::ALL[number].name();
        number += 1;
    }
    names
};

/// One core's part of a collective.
#[derive(Clone, Debug)]
pub struct Collective {
    /// One of [`NAMES`].
    pub name: &'static str,
    /// What goes out, in HBM or SBUF.
    pub srcs: Vec<View>,
    /// Where what comes in goes, in HBM or SBUF.
    pub dsts: Vec<View>,
    /// From when the last rank is ready until the results are there.
    pub duration: Picos,
    /// Class of service, 0 first; None: the last.
    pub priority: Option<u8>,
    /// Bytes of the sources that this core sends.
    pub sent: u64,
    /// Bytes of the results that this core gets.
    pub received: u64,
}

impl Instruction for Collective {
    fn name(&self) -> &'static str {
        self.name
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Dma
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        for view in &self.srcs {
            visit(OperandRole::Read, view);
        }
        for view in &self.dsts {
            visit(OperandRole::Write, view);
        }
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name };
        for (operand, views) in [("srcs", &self.srcs), ("dsts", &self.dsts)] {
            for view in views {
                check.memory(operand, view, DMA)?;
                check.no_columns(operand, view)?;
            }
        }
        Ok(())
    }

    fn work(&self, _arch: &ArchSpec) -> Work {
        let in_hbm = self.srcs.first().is_some_and(|view| view.storage.buffer != Buffer::Sbuf);
        let of_hbm = |bytes: u64| if in_hbm { bytes } else { 0 };
        Work::Collective(CollectivePart {
            duration: self.duration,
            priority: self.priority,
            bytes: self.sent.max(self.received),
            hbm_read: of_hbm(self.sent),
            hbm_write: of_hbm(self.received),
        })
    }

    /// Nothing: the ranks' values are moved where they meet.
    fn execute(&self, _state: &mut State) -> Result<()> {
        Ok(())
    }
}
