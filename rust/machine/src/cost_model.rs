//! What instructions cost, where a host may put figures of its own.

use crate::arch::ArchSpec;
use crate::engine::Engine;
use crate::isa::Instruction;
use crate::timing::work::Work;

/// What instructions cost. A host with figures of its own, measured or of other hardware, puts its model in the place of
/// [`ArchCost`]; hazards, queues and shared ports stay the timeline's.
///
/// ```
/// use trn3_machine::host::ArchCost;
/// use trn3_machine::arch::ArchSpec;
/// use trn3_machine::isa::Instruction;
/// use trn3_machine::time::Picos;
/// use trn3_machine::timing::work::Work;
/// use trn3_machine::host::CostModel;
///
/// /// As the machine's own, with every latency doubled.
/// struct Slow;
///
/// impl CostModel for Slow {
///     fn work(&self, instruction: &dyn Instruction, arch: &ArchSpec) -> Work {
///         match ArchCost.work(instruction, arch) {
///             Work::Compute { interval, latency, table } => {
///                 Work::Compute { interval, latency: Picos(2 * latency.0), table }
///             }
///             other => other,
///         }
///     }
/// }
///
/// let model: Box<dyn CostModel> = Box::new(Slow);
/// # let _ = model;
/// ```
pub trait CostModel: Send + Sync {
    /// What the timeline needs to know of an instruction: spans of time, and of transfers their bytes.
    fn work(&self, instruction: &dyn Instruction, arch: &ArchSpec) -> Work;

    /// Cycles of its engine's clock that an instruction holds the issue slot; of a transfer, which has bytes instead, None.
    fn cycles(&self, instruction: &dyn Instruction, arch: &ArchSpec) -> Option<u64> {
        let interval = match self.work(instruction, arch) {
            Work::Compute { interval, .. } => interval,
            Work::Matmul { multiply, .. } => multiply,
            Work::Dma(_) | Work::Collective(_) => return None,
        };
        let clock = match instruction.engine(arch) {
            Engine::Tensor => arch.tensor_clock(),
            Engine::Vector => arch.vector_clock(),
            Engine::Scalar => arch.scalar_clock(),
            Engine::GpSimd => arch.gpsimd_clock(),
            Engine::Sync | Engine::Dma => arch.sync_clock(),
        };
        let cycles = (u128::from(interval.0) * u128::from(clock.megahertz) + 500_000) / 1_000_000;
        u64::try_from(cycles).ok()
    }
}

/// The machine's own costs: figures of the spec, rules of each instruction.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArchCost;

impl CostModel for ArchCost {
    fn work(&self, instruction: &dyn Instruction, arch: &ArchSpec) -> Work {
        instruction.work(arch)
    }
}
