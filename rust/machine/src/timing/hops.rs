//! Spans of the spec between one instruction and the next, in picoseconds.

use super::hazard::Waits;
use super::record::Cause;
use super::tensor_array::Bound;
use crate::arch::ArchSpec;
use crate::engine::Engine;
use crate::time::Picos;

/// From a result to the start of what depends on it, and what triggers and table loads take.
#[derive(Clone, Debug)]
pub(super) struct Hops {
    pub(super) same_engine: u64,
    pub(super) semaphore: u64,
    pub(super) dma: u64,
    pub(super) table_load: u64,
    pub(super) trigger: u64,
    pub(super) trigger_gpsimd: u64,
    pub(super) dynamic: [u64; Engine::ALL.len()],
}

impl Hops {
    pub(super) fn new(arch: &ArchSpec) -> Self {
        let nanoseconds = |figure: f64| Picos::from_nanoseconds(figure).0;
        Self {
            same_engine: nanoseconds(arch.same_engine_ns),
            semaphore: nanoseconds(arch.semaphore_ns),
            dma: nanoseconds(arch.dma_semaphore_ns),
            table_load: nanoseconds(arch.activation_table_load_ns),
            trigger: nanoseconds(arch.dma_trigger_ns),
            trigger_gpsimd: nanoseconds(arch.dma_trigger_gpsimd_ns),
            dynamic: Engine::ALL.map(|engine| {
                let clock = match engine {
                    Engine::Tensor => arch.tensor_clock(),
                    Engine::Vector => arch.vector_clock(),
                    Engine::Scalar => arch.scalar_clock(),
                    Engine::GpSimd => arch.gpsimd_clock(),
                    Engine::Sync | Engine::Dma => arch.sync_clock(),
                };
                clock.cycles(arch.dynamic_interval_cycles).0
            }),
        }
    }

    pub(super) fn from(&self, producer: Engine, consumer: Engine) -> u64 {
        if producer == Engine::Dma {
            self.dma
        } else if producer == consumer {
            self.same_engine
        } else {
            self.semaphore
        }
    }

    pub(super) fn bound(&self, waits: &Waits, consumer: Engine) -> Bound {
        let mut bound = Bound::START;
        for access in waits.accesses() {
            let cause = if access.engine == Engine::Dma { Cause::Dma } else { Cause::Engine(access.engine) };
            bound.raise(access.end.saturating_add(self.from(access.engine, consumer)), cause, access.id);
        }
        bound
    }
}
