//! dma_compute: tiles summed on the way.

use super::Options;
use crate::arch::ArchSpec;
use crate::check::{Check, DMA};
use crate::engine::Engine;
use crate::error::Result;
use crate::isa::alu::AluOp;
use crate::isa::{Instruction, OperandRole};
use crate::memory::OutOfBounds;
use crate::state::State;
use crate::storage::Buffer;
use crate::timing::work::Work;
use crate::view::View;

/// Most tiles of one sum.
const SOURCES: usize = 16;

/// `dma_compute(dst, srcs, reduce_op, ...)`: `dst = sum of srcs`, in float32 in the order of the list **(choice)**, rounded to
/// the type of `dst` at the end.
///
/// With rows picked by an index tile it reads, adds and writes: a scatter where `dst` and one source are the same picked
/// rows of HBM and the other source lies in SBUF, a gather where `dst` in SBUF is one source and picked rows the other.
#[derive(Debug)]
pub struct DmaCompute {
    /// Where the sum goes.
    pub dst: View,
    /// What is added, at most 16.
    pub srcs: Vec<View>,
    /// The operator: add.
    pub reduce_op: AluOp,
    /// One factor for each source, all 1; None: the same.
    pub scales: Option<Vec<f64>>,
    /// The kernel's word that no row is picked twice.
    pub unique_indices: bool,
    /// What becomes of picked rows outside the tensor.
    pub options: Options,
}

/// Whether two views are the same elements.
fn same(one: &View, other: &View) -> bool {
    let places = |view: &View| (view.storage.id, view.offset, view.dtype);
    let index = |view: &View| view.index_view().map(|index| (index.storage.id, index.offset, index.strides.clone()));
    let register = |view: &View| view.index_register().map(|register| register.id);
    places(one) == places(other)
        && one.shape == other.shape
        && one.strides == other.strides
        && index(one) == index(other)
        && register(one) == register(other)
}

impl DmaCompute {
    fn is_indirect(&self) -> bool {
        self.srcs.iter().chain([&self.dst]).any(super::picks_rows)
    }

    /// Sources that are not the destination itself, which the engine reads as it writes.
    fn moved(&self) -> Vec<&View> {
        let mut others: Vec<&View> = self.srcs.iter().filter(|source| !same(source, &self.dst)).collect();
        if others.is_empty() {
            others.push(&self.dst);
        }
        others
    }

    fn check_indirect(&self, check: &Check<'_>) -> Result<()> {
        let [one, other] = &self.srcs[..] else {
            let got = format!("has {} sources", self.srcs.len());
            return Err(check.refuse("srcs", got, "exactly 2 with a vector_offset"));
        };
        if !self.unique_indices {
            return Err(check.refuse("unique_indices", "is False", "True: duplicates are not summed"));
        }
        let rest = match (same(one, &self.dst), same(other, &self.dst)) {
            (true, _) => other,
            (_, true) => one,
            _ => {
                let allowed = "with a vector_offset one source is dst itself";
                return Err(check.refuse("srcs", "does not hold dst", allowed));
            }
        };
        let sbuf = |view: &View| view.storage.buffer == Buffer::Sbuf;
        let scatter = super::picks_rows(&self.dst) && sbuf(rest);
        let gather = sbuf(&self.dst) && super::picks_rows(rest);
        if scatter || gather {
            return Ok(());
        }
        let allowed = "dst of picked HBM rows and an SBUF source, or dst in SBUF and a source of picked HBM rows";
        Err(check.refuse("srcs", "mixes picked rows otherwise", allowed))
    }
}

impl Instruction for DmaCompute {
    fn name(&self) -> &'static str {
        "dma_compute"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Dma
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        self.srcs.iter().for_each(|source| visit(OperandRole::Read, source));
        visit(OperandRole::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        if self.reduce_op != AluOp::Add {
            return Err(check.refuse("reduce_op", format!("is {}", self.reduce_op), "add"));
        }
        if self.srcs.is_empty() || self.srcs.len() > SOURCES {
            let got = format!("has {} sources", self.srcs.len());
            return Err(check.refuse("srcs", got, format!("1 to {SOURCES}")));
        }
        if let Some(scales) = &self.scales
            && (scales.len() != self.srcs.len() || scales.iter().any(|scale| *scale != 1.0))
        {
            return Err(check.refuse("scales", format!("is {scales:?}"), "None, or 1.0 for each source"));
        }
        check.memory("dst", &self.dst, DMA)?;
        check.unpacked("dst", &self.dst)?;
        super::check_partitions(&check, "dst", &self.dst)?;
        for source in &self.srcs {
            check.memory("srcs", source, DMA)?;
            check.unpacked("srcs", source)?;
            super::check_partitions(&check, "srcs", source)?;
            super::check_counts(&check, &self.dst, source)?;
        }
        let views: Vec<(&'static str, &View)> =
            self.srcs.iter().map(|source| ("srcs", source)).chain([("dst", &self.dst)]).collect();
        self.options.check(&check, &views)?;
        if self.is_indirect() { self.check_indirect(&check) } else { Ok(()) }
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let moved = self.moved();
        let pieces = moved.iter().map(|source| super::run(source)).chain([super::run(&self.dst)]).min().unwrap_or(1);
        let mut transfer = super::transfer(arch, &self.options, &self.dst, &moved, pieces, arch.dma_compute_share);
        if moved.len() < self.srcs.len() && self.dst.storage.buffer != Buffer::Sbuf {
            transfer.hbm_read += (self.dst.len() * self.dst.dtype.size()) as u64;
        }
        Work::Dma(transfer)
    }

    fn out_of_bounds(&self) -> OutOfBounds {
        self.options.out_of_bounds
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        for view in self.srcs.iter().chain([&self.dst]) {
            if self.options.is_skipped(state, view)? {
                return Ok(());
            }
        }
        let mut performed = None;
        let (mut sum, mut term) = (state.buffer(self.dst.len()), state.buffer(self.dst.len()));
        for (index, source) in self.srcs.iter().enumerate() {
            let source = self.options.operand(source);
            let values = if index == 0 { &mut sum } else { &mut term };
            state.memory.read_f32(source, values, state.site)?;
            if index > 0 {
                sum.iter_mut().zip(&term).for_each(|(sum, term)| *sum += term);
            }
            performed = performed.or(state.memory.performed_rows(source)?);
        }
        let dst = self.options.operand(&self.dst);
        match performed {
            None => state.memory.write_f32(dst, &sum, Default::default())?,
            Some(rows) => {
                let mask = super::element_mask(&rows, sum.len());
                state.memory.write_f32_where(dst, &sum, &mask, Default::default())?;
            }
        }
        state.keep(sum);
        state.keep(term);
        Ok(())
    }
}
