//! core_barrier and sendrecv: what the cores of a logical core do together. Each core has its own operands;
//! [`crate::meeting`] runs them side by side.

use super::dma;
use crate::arch::ArchSpec;
use crate::check::{Check, DMA, SBUF};
use crate::engine::Engine;
use crate::error::Result;
use crate::isa::{Instruction, OperandRole};
use crate::state::State;
use crate::time::Picos;
use crate::timing::work::Work;
use crate::view::View;

/// One core's part of `core_barrier(data, cores, engine)`.
#[derive(Debug)]
pub struct CoreBarrier {
    /// What is ordered: its uses before and after, in HBM or SBUF.
    pub data: View,
    /// The engine that waits; others go on.
    pub engine: Engine,
}

impl CoreBarrier {
    /// The engine that waits where the kernel leaves the choice open.
    pub const USUAL_ENGINE: Engine = Engine::GpSimd;
}

impl Instruction for CoreBarrier {
    fn name(&self) -> &'static str {
        "core_barrier"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        self.engine
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Update, &self.data);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        check.generation("", 3)?;
        check.memory("data", &self.data, DMA)?;
        if self.engine == Engine::Dma {
            return Err(check.refuse("engine", "is dma", "tensor, vector, scalar, gpsimd or sync"));
        }
        Ok(())
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let cost = arch.nanoseconds(arch.core_barrier_ns);
        Work::Compute { interval: cost, latency: cost, table: None }
    }

    /// Nothing moves.
    fn execute(&self, _state: &mut State) -> Result<()> {
        Ok(())
    }
}

/// One core's part of `sendrecv(src, dst, ...)`: its `src` goes to the other core's `dst`, its `dst` gets the other's
/// `src`.
#[derive(Debug)]
pub struct SendRecv {
    /// What goes out, in SBUF.
    pub src: View,
    /// Where what comes in goes, in SBUF.
    pub dst: View,
    /// GpSimdE's own DMA moves it, instead of the DMA engines.
    pub by_gpsimd: bool,
}

impl SendRecv {
    /// Refuses what the other core's part does not fit.
    ///
    /// # Errors
    /// [`crate::Error::Validation`] with both shapes and types.
    pub fn check_peer(&self, arch: &ArchSpec, other: &SendRecv) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        let words = |view: &View| format!("{:?} {}", &view.shape[..], view.dtype);
        if self.src.dtype != other.dst.dtype || self.src.shape != other.dst.shape {
            let got = format!("is {}, the other core's dst {}", words(&self.src), words(&other.dst));
            return Err(check.refuse("src", got, "both cores exchange tiles of one shape and dtype"));
        }
        if self.by_gpsimd != other.by_gpsimd {
            let got = "is dma on one core, gpsimd_dma on the other";
            return Err(check.refuse("dma_engine", got, "the same on both"));
        }
        Ok(())
    }
}

impl Instruction for SendRecv {
    fn name(&self) -> &'static str {
        "sendrecv"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        if self.by_gpsimd { Engine::GpSimd } else { Engine::Dma }
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.src);
        visit(OperandRole::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        check.generation("", 3)?;
        for (name, view) in [("src", &self.src), ("dst", &self.dst)] {
            check.memory(name, view, SBUF)?;
            dma::check_partitions(&check, name, view)?;
            check.no_columns(name, view)?;
        }
        if self.src.dtype != self.dst.dtype || self.src.shape != self.dst.shape {
            let words = |view: &View| format!("{:?} {}", &view.shape[..], view.dtype);
            let got = format!("is {}, dst {}", words(&self.src), words(&self.dst));
            return Err(check.refuse("src", got, "both have one shape and dtype"));
        }
        let (elements, most) = (self.src.free_size() as u64, arch.gpsimd_dma_elements);
        if self.by_gpsimd && elements > most {
            let got = format!("is gpsimd_dma for {elements} elements per partition");
            return Err(check.refuse("dma_engine", got, format!("at most {most} elements, or dma")));
        }
        Ok(())
    }

    /// What this core's side moves: its tile goes out while the other's comes in.
    fn work(&self, arch: &ArchSpec) -> Work {
        if self.by_gpsimd {
            let bytes = (self.src.len() * self.src.dtype.size()) as f64;
            let cost = arch.gpsimd_clock().cycles(arch.gpsimd_start_cycles)
                + Picos::from_nanoseconds(bytes / arch.gpsimd_dma_bytes_per_ns);
            return Work::Compute { interval: cost, latency: cost, table: None };
        }
        let pieces = dma::run(&self.dst).min(dma::run(&self.src));
        Work::Dma(dma::transfer(arch, &dma::Options::default(), &self.dst, &[&self.src], pieces, 1.0))
    }

    /// Nothing: [`crate::meeting::sendrecv`] moves the values of both cores.
    fn execute(&self, _state: &mut State) -> Result<()> {
        Ok(())
    }
}
