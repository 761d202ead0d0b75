//! What steps take by themselves, by the machine's own figures.

use std::collections::HashMap;
use std::sync::Arc;

use trn3_machine::arch::ArchSpec;
use trn3_machine::engine::Engine;
use trn3_machine::site::SiteId;
use trn3_machine::time::Picos;
use trn3_machine::timing::timeline::{TimedInstruction, Timeline, TimelineOptions};
use trn3_machine::timing::work::{DescriptorMode, Route, Transfer, Work};
use trn3_machine::trace::{Trace, TraceStep};

/// The engine that a step's result comes from.
pub(crate) fn producer(step: &TraceStep) -> Engine {
    match step.work {
        Work::Compute { .. } => step.engine,
        Work::Matmul { .. } => Engine::Tensor,
        Work::Dma(_) | Work::Collective(_) => Engine::Dma,
    }
}

/// The engine that waits for what a step needs.
pub(crate) fn consumer(step: &TraceStep) -> Engine {
    match &step.work {
        Work::Dma(transfer) => transfer.trigger.map_or(Engine::Dma, |_| sequencer(transfer)),
        _ => producer(step),
    }
}

/// The engine whose issue slot triggers a transfer.
pub(crate) fn sequencer(transfer: &Transfer) -> Engine {
    match transfer.trigger {
        Some(Engine::Dma) => Engine::Sync,
        Some(engine) => engine,
        None if transfer.mode == DescriptorMode::Software => Engine::GpSimd,
        None => Engine::Sync,
    }
}

/// How long it takes until the result of a step is there that is no transfer; of one nothing.
pub(crate) fn latency(step: &TraceStep) -> Picos {
    latency_of(&step.work)
}

/// How long it takes until the result of work is there that is no transfer; of one nothing.
pub(crate) fn latency_of(work: &Work) -> Picos {
    match work {
        Work::Compute { interval, latency, .. } => (*latency).max(*interval),
        Work::Matmul { multiply, multiply_latency, .. } => (*multiply_latency).max(*multiply),
        Work::Dma(_) => Picos(0),
        Work::Collective(part) => part.duration,
    }
}

/// How long work holds its engine that is no transfer; of one nothing.
pub(crate) fn slot_of(work: &Work) -> Picos {
    match work {
        Work::Compute { interval, .. } => *interval,
        Work::Matmul { multiply, .. } => *multiply,
        Work::Dma(_) | Work::Collective(_) => Picos(0),
    }
}

/// A transfer by what its time depends on.
type TransferKey = (DescriptorMode, Route, [u64; 6], u64);

/// Spans in picoseconds, each looked up once.
#[derive(Debug)]
pub(crate) struct Costs {
    arch: Arc<ArchSpec>,
    same_engine: u64,
    semaphore: u64,
    dma: u64,
    trigger: u64,
    trigger_gpsimd: u64,
    /// Loading a function table into ScalarE.
    pub(crate) table_load: u64,
    transfers: HashMap<TransferKey, u64>,
}

impl Costs {
    pub(crate) fn new(arch: &Arc<ArchSpec>) -> Self {
        let nanoseconds = |figure: f64| Picos::from_nanoseconds(figure).0;
        Self {
            same_engine: nanoseconds(arch.same_engine_ns),
            semaphore: nanoseconds(arch.semaphore_ns),
            dma: nanoseconds(arch.dma_semaphore_ns),
            trigger: nanoseconds(arch.dma_trigger_ns),
            trigger_gpsimd: nanoseconds(arch.dma_trigger_gpsimd_ns),
            table_load: nanoseconds(arch.activation_table_load_ns),
            transfers: HashMap::new(),
            arch: Arc::clone(arch),
        }
    }

    /// From a result to the start of what needs it.
    pub(crate) fn hop(&self, producer: Engine, consumer: Engine) -> u64 {
        if producer == Engine::Dma {
            self.dma
        } else if producer == consumer {
            self.same_engine
        } else {
            self.semaphore
        }
    }

    /// How long a step holds its engine; a transfer the sequencer that triggers it.
    pub(crate) fn slot(&self, step: &TraceStep) -> u64 {
        match &step.work {
            Work::Compute { interval, .. } => interval.0,
            Work::Matmul { multiply, .. } => multiply.0,
            Work::Dma(transfer) => {
                let quick = transfer.mode == DescriptorMode::Software || sequencer(transfer) == Engine::GpSimd;
                if quick { self.trigger_gpsimd } else { self.trigger }
            }
            Work::Collective(part) => part.duration.0,
        }
    }

    /// From when all that a step needs is there until its result is, on an idle machine.
    pub(crate) fn latency(&mut self, step: &TraceStep) -> u64 {
        let Work::Dma(transfer) = &step.work else { return latency(step).0 };
        let figures = [
            transfer.first_row,
            transfer.rows,
            transfer.row_bytes,
            transfer.row_descriptors,
            transfer.hbm_read,
            transfer.hbm_write,
        ];
        let key = (transfer.mode, transfer.route, figures, transfer.rate_share.to_bits());
        let arch = &self.arch;
        *self.transfers.entry(key).or_insert_with(|| alone(arch, transfer))
    }

    /// How long a transfer holds the DMA engines or HBM, whichever is longer, if they share it evenly.
    pub(crate) fn pace(&self, transfer: &Transfer) -> u64 {
        let (engines, hbm) = self.bandwidth(transfer);
        Picos::from_nanoseconds(engines.max(hbm)).0
    }

    /// Nanoseconds that a transfer takes of all DMA engines together at least, and of HBM.
    pub(crate) fn bandwidth(&self, transfer: &Transfer) -> (f64, f64) {
        let bytes = transfer.rows.saturating_mul(transfer.row_bytes) as f64;
        let rate = self.arch.dma_engine_bytes_per_ns * self.arch.dma_engines as f64 * transfer.rate_share;
        let hbm = transfer.hbm_read.saturating_add(transfer.hbm_write) as f64;
        (bytes / rate, hbm / self.arch.hbm_gbps)
    }
}

/// What a transfer takes that waits for nothing, on an idle machine.
fn alone(arch: &Arc<ArchSpec>, transfer: &Transfer) -> u64 {
    let options = TimelineOptions { throttle: false, keep_records: false };
    let transfer = Transfer { trigger: None, priority: None, ..transfer.clone() };
    let issue = TimedInstruction {
        opcode: 0,
        engine: Engine::Dma,
        site: SiteId::default(),
        label: 0,
        work: Work::Dma(transfer),
        reads: &[],
        stationary_reads: &[],
        writes: &[],
        after: &[],
        dynamic: false,
        macs: 0,
        peak_macs_per_cycle: 0,
    };
    Timeline::new(Arc::clone(arch), options).issue(&issue).end.0
}

/// Of every step [how long it takes](Costs::latency).
pub(crate) fn latencies(trace: &Trace, costs: &mut Costs) -> Vec<u64> {
    trace.steps.iter().map(|step| costs.latency(step)).collect()
}
