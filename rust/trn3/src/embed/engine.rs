//! What takes instructions: for their values, for their time, for both.

use std::sync::Arc;

use trn3_numerics::with_default_environment;

use crate::error::Result;
use crate::machine::arch::ArchSpec;
use crate::machine::core::{At, NeuronCore, State, instruction_issue};
use crate::machine::isa::Instruction;
use crate::machine::timing::timeline::{Span, Timeline, TimelineOptions};
use crate::machine::timing::work::Work;

/// An instruction taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Its number in program order.
    pub number: u32,
    /// When it runs, where that is known at once: a [`NeuronCore`] lets the last instructions wait for edges.
    pub span: Option<Span>,
}

/// What takes instructions in program order.
///
/// ```
/// use std::sync::Arc;
/// use trn3::embed::{ArchCost, Functional, Timed};
/// use trn3::machine::arch::ArchSpec;
/// use trn3::machine::core::{CoreOptions, NeuronCore};
/// use trn3::machine::dtype::DType;
/// use trn3::machine::isa::copy::Memset;
/// use trn3::machine::memory::Request;
/// use trn3::machine::storage::Buffer;
/// use trn3::machine::view::View;
/// use trn3::Engine;
///
/// let arch = Arc::new(ArchSpec::load("trn3")?);
/// let mut core = NeuronCore::new(arch.clone(), CoreOptions::default())?;
/// let tile = View::whole(core.allocate(&Request::unsited("x", &[128, 8], DType::Float32, Buffer::Sbuf))?);
/// let memset = Memset { dst: tile.clone(), value: 2.5, engine: None };
///
/// // Values only, time only, both.
/// let span = {
///     let mut timed = Timed::new(arch, Box::new(ArchCost));
///     let mut engines: [&mut dyn Engine; 2] = [&mut Functional(&mut core.state), &mut timed];
///     engines.each_mut().map(|engine| engine.issue(&memset)).into_iter().last().expect("two")?.span
/// };
/// assert_eq!(core.state.read(&tile)?[0], 2.5);
/// Engine::issue(&mut core, &memset)?;
/// assert_eq!(core.makespan(), span.expect("timed").end);
/// # Ok::<(), trn3::Error>(())
/// ```
pub trait Engine {
    /// Takes the next instruction.
    ///
    /// # Errors
    /// What the checks refuse and the memories report.
    fn issue(&mut self, instruction: &dyn Instruction) -> Result<Issue>;
}

/// Values and time.
impl Engine for NeuronCore {
    fn issue(&mut self, instruction: &dyn Instruction) -> Result<Issue> {
        Ok(Issue { number: NeuronCore::issue(self, instruction, At::default())?, span: None })
    }
}

/// Values only: checks and computes.
pub struct Functional<'a>(
    /// The memories and engine registers that it computes with.
    pub &'a mut State,
);

impl Engine for Functional<'_> {
    fn issue(&mut self, instruction: &dyn Instruction) -> Result<Issue> {
        let arch = Arc::clone(&self.0.arch);
        instruction.check(&arch)?;
        with_default_environment(|| instruction.execute(self.0))?;
        Ok(Issue { number: 0, span: None })
    }
}

/// Time only: checks and counts. It knows no values, so that addresses count as all they may be.
pub struct Timed {
    arch: Arc<ArchSpec>,
    cost: Box<dyn CostModel>,
    /// When everything runs.
    pub timeline: Timeline,
}

impl Timed {
    /// An idle machine whose costs are a model's.
    pub fn new(arch: Arc<ArchSpec>, cost: Box<dyn CostModel>) -> Self {
        let timeline = Timeline::new(Arc::clone(&arch), TimelineOptions::default());
        Self { arch, cost, timeline }
    }
}

impl Engine for Timed {
    fn issue(&mut self, instruction: &dyn Instruction) -> Result<Issue> {
        instruction.check(&self.arch)?;
        let work = self.cost.work(instruction, &self.arch);
        let span = instruction_issue(instruction, &self.arch, work, |issue| self.timeline.issue(issue));
        Ok(Issue { number: span.id, span: Some(span) })
    }
}

/// What instructions cost. A host with figures of its own, measured or of other hardware, puts its model in the place of
/// [`ArchCost`]; hazards, queues and shared ports stay the timeline's.
///
/// ```
/// use trn3::embed::ArchCost;
/// use trn3::machine::arch::ArchSpec;
/// use trn3::machine::isa::Instruction;
/// use trn3::machine::time::Picos;
/// use trn3::machine::timing::work::Work;
/// use trn3::CostModel;
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
        use crate::machine::engine::Engine;
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
