//! What takes instructions: for their values, for their time, for both.

use std::sync::Arc;

use trn3_numerics::with_default_environment;

use crate::arch::ArchSpec;
use crate::core::{At, NeuronCore, instruction_issue};
use crate::cost_model::CostModel;
use crate::error::Result;
use crate::isa::Instruction;
use crate::state::State;
use crate::timing::timeline::{Span, Timeline, TimelineOptions};

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
/// use trn3_machine::host::{ArchCost, Functional, Timed};
/// use trn3_machine::arch::ArchSpec;
/// use trn3_machine::core::{CoreOptions, NeuronCore};
/// use trn3_machine::dtype::DType;
/// use trn3_machine::isa::copy::Memset;
/// use trn3_machine::memory::Request;
/// use trn3_machine::storage::Buffer;
/// use trn3_machine::view::View;
/// use trn3_machine::host::InstructionSink;
///
/// let arch = Arc::new(ArchSpec::load("trn3")?);
/// let mut core = NeuronCore::new(arch.clone(), CoreOptions::default())?;
/// let tile = View::whole(core.allocate(&Request::unsited("x", &[128, 8], DType::Float32, Buffer::Sbuf))?);
/// let memset = Memset { dst: tile.clone(), value: 2.5, engine: None };
///
/// // Values only, time only, both.
/// let span = {
///     let mut timed = Timed::new(arch, Box::new(ArchCost));
///     let mut engines: [&mut dyn InstructionSink; 2] = [&mut Functional(&mut core.state), &mut timed];
///     engines.each_mut().map(|engine| engine.issue(&memset)).into_iter().last().expect("two")?.span
/// };
/// assert_eq!(core.state.read(&tile)?[0], 2.5);
/// InstructionSink::issue(&mut core, &memset)?;
/// assert_eq!(core.makespan(), span.expect("timed").end);
/// # Ok::<(), trn3_machine::Error>(())
/// ```
pub trait InstructionSink {
    /// Takes the next instruction.
    ///
    /// # Errors
    /// What the checks refuse and the memories report.
    fn issue(&mut self, instruction: &dyn Instruction) -> Result<Issue>;
}

/// Values and time.
impl InstructionSink for NeuronCore {
    fn issue(&mut self, instruction: &dyn Instruction) -> Result<Issue> {
        Ok(Issue { number: NeuronCore::issue(self, instruction, At::default())?, span: None })
    }
}

/// Values only: checks and computes.
pub struct Functional<'a>(
    /// The memories and engine registers that it computes with.
    pub &'a mut State,
);

impl InstructionSink for Functional<'_> {
    fn issue(&mut self, instruction: &dyn Instruction) -> Result<Issue> {
        let arch = Arc::clone(&self.0.arch);
        instruction.check(&arch)?;
        self.0.start(instruction.engine(&arch));
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

impl InstructionSink for Timed {
    fn issue(&mut self, instruction: &dyn Instruction) -> Result<Issue> {
        instruction.check(&self.arch)?;
        let work = self.cost.work(instruction, &self.arch);
        let span = instruction_issue(instruction, &self.arch, work, |issue| self.timeline.issue(issue));
        Ok(Issue { number: span.id, span: Some(span) })
    }
}
