//! dma_copy: elements moved, gathered, scattered and cast.

use super::Options;
use crate::arch::ArchSpec;
use crate::check::Check;
use crate::dtype::DType;
use crate::engine::Engine;
use crate::error::Result;
use crate::isa::{Instruction, OperandRole, wide};
use crate::memory::OutOfBounds;
use crate::state::State;
use crate::timing::work::{DescriptorMode, Work};
use crate::view::View;

/// `dma_copy(dst, src, ...)` between HBM and SBUF in any direction; bits between equal types, through float32 otherwise.
/// Shapes may differ: elements are taken in C order.
#[derive(Debug)]
pub struct DmaCopy {
    /// Where to; with rows picked by an index tile a scatter, of duplicates the last written stays **(choice)**.
    pub dst: View,
    /// Where from; with rows picked by an index tile a gather.
    pub src: View,
    /// Class of service, descriptors, bounds.
    pub options: Options,
    /// Sequencer that triggers it, with hardware descriptors: sync or scalar.
    pub engine: Option<Engine>,
}

impl DmaCopy {
    /// Whether its author could name the sequencer that triggers it, with descriptors made in hardware, and did not.
    pub(crate) fn takes_trigger(&self, arch: &ArchSpec) -> bool {
        let is_static = self.dst.dynamic.is_none() && self.src.dynamic.is_none();
        let is_open = self.engine.is_none() && self.options.mode.is_none() && is_static;
        is_open && arch.hardware_dge > 0 && self.dst.dtype == self.src.dtype
    }
}

/// A view of words as the packed quads that the other side has, if it has such of their size.
fn packed_as(view: &View, other: &View) -> Result<Option<View>> {
    let is_words = matches!(view.dtype, DType::UInt16 | DType::UInt32);
    let quads = other.dtype.is_packed() && view.dtype.size() == other.dtype.size();
    if is_words && quads { view.reinterpret(other.dtype).map(Some) } else { Ok(None) }
}

impl Instruction for DmaCopy {
    fn name(&self) -> &'static str {
        "dma_copy"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Dma
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.src);
        visit(OperandRole::Write, &self.dst);
    }

    /// Frameworks that lack the packed types pass unsigned integers in their place: words whose other side is packed quads
    /// of their size are these quads.
    fn prepare(&mut self, _arch: &ArchSpec) -> Result<()> {
        let (dst, src) = (packed_as(&self.dst, &self.src)?, packed_as(&self.src, &self.dst)?);
        if let Some(dst) = dst {
            self.dst = dst;
        }
        if let Some(src) = src {
            self.src = src;
        }
        Ok(())
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        super::check_memories(&check, &self.dst, &self.src)?;
        super::check_counts(&check, &self.dst, &self.src)?;
        for (name, view) in [("dst", &self.dst), ("src", &self.src)] {
            super::check_partitions(&check, name, view)?;
        }
        if let Some(error) = super::packed_mix(&check, &self.dst, &self.src) {
            return Err(error);
        }
        self.options.check(&check, &[("dst", &self.dst), ("src", &self.src)])?;
        if super::picks_rows(&self.dst) && super::picks_rows(&self.src) {
            return Err(check.refuse("vector_offset", "is on src and dst", "one of them"));
        }
        let hardware = self.options.mode == Some(DescriptorMode::Hardware);
        if hardware && self.dst.dtype != self.src.dtype {
            let got = format!("has dtype {} where src has {}", self.dst.dtype, self.src.dtype);
            return Err(check.refuse("dst", got, "equal dtypes with dge_mode hwdge"));
        }
        match self.engine {
            None => Ok(()),
            Some(engine) if !hardware => {
                Err(check.refuse("engine", format!("is {engine} without dge_mode hwdge"), "engine with dge_mode hwdge"))
            }
            Some(Engine::Sync | Engine::Scalar) => Ok(()),
            Some(engine) => Err(check.refuse("engine", format!("is {engine}"), "sync or scalar")),
        }
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let pieces = super::run(&self.dst).min(super::run(&self.src));
        let mut transfer = super::transfer(arch, &self.options, &self.dst, &[&self.src], pieces, 1.0);
        transfer.trigger = self.engine;
        Work::Dma(transfer)
    }

    fn out_of_bounds(&self) -> OutOfBounds {
        self.options.out_of_bounds
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        for view in [&self.dst, &self.src] {
            if self.options.is_skipped(state, view)? {
                return Ok(());
            }
        }
        let (dst, src) = (self.options.operand(&self.dst), self.options.operand(&self.src));
        if self.dst.dtype == self.src.dtype {
            return state.memory.copy_bits(dst, src, state.site);
        }
        let mut values = state.buffer(self.src.len());
        state.memory.read_f32(src, &mut values, state.site)?;
        match state.memory.performed_rows(src)? {
            None => state.memory.write_f32(dst, &values, Default::default())?,
            Some(rows) => {
                let mask = super::element_mask(&rows, values.len());
                state.memory.write_f32_where(dst, &values, &mask, Default::default())?;
            }
        }
        state.keep(values);
        Ok(())
    }

    fn execute_wide(&self, state: &mut State) -> Result<()> {
        if self.dst.dtype == self.src.dtype || self.src.is_indirect() || self.dst.is_indirect() {
            return self.execute(state);
        }
        let values = wide::read(state, &self.src)?;
        state.memory.write_f64(&self.dst, &values)
    }
}
