//! What stands between a front end and a core: edges that instructions get by name, and the program that is written down.

use std::sync::Arc;

use crate::core::{At, NeuronCore};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::isa::rank_call::RankCall;
use crate::isa::{Instruction, NOTHING};
use crate::joint::Joint;
use crate::lineage::Lineage;
use crate::memory::{Examined, Request};
use crate::named_edges::NamedEdges;
use crate::program::{Mark, Program, Recorder, Step};
use crate::site::SiteId;
use crate::storage::{Buffer, Storage};
use crate::trace::LoopKind;
use crate::view::View;

/// Gives a core what a kernel says, in program order.
///
/// ```
/// use std::sync::Arc;
/// use trn3_machine::arch::ArchSpec;
/// use trn3_machine::conductor::Conductor;
/// use trn3_machine::core::{CoreOptions, NeuronCore};
/// use trn3_machine::dtype::DType;
/// use trn3_machine::isa::copy::Memset;
/// use trn3_machine::memory::Request;
/// use trn3_machine::site::SiteId;
/// use trn3_machine::storage::Buffer;
/// use trn3_machine::view::View;
///
/// let mut core = NeuronCore::new(Arc::new(ArchSpec::load("trn3")?), CoreOptions::default())?;
/// let mut conductor = Conductor::default();
/// conductor.record(&core, "ones");
/// let tile = conductor.allocate(&mut core, &Request::unsited("tile", &[128, 4], DType::Float32, Buffer::Sbuf))?;
/// let mut memset = Memset { dst: View::whole(tile), value: 1.0, engine: None };
/// conductor.issue(&mut core, &mut memset, SiteId::default(), None)?;
/// let program = conductor.recorded(&[], &[])?;
/// assert_eq!(program.steps.len(), 2); // The tensor comes, and is set.
/// # Ok::<(), trn3_machine::Error>(())
/// ```
#[derive(Default)]
pub struct Conductor {
    /// Edges that instructions get by name.
    pub edges: NamedEdges,
    recorder: Option<Box<Recorder>>,
    lineage: Option<Box<Lineage>>,
}

impl Conductor {
    /// Issues an instruction of a line; `name` is its label, by which edges find it.
    ///
    /// # Errors
    /// Those of [`NeuronCore::issue`]; [`Error::NotModelled`] for what a program that is recorded cannot hold.
    pub fn issue(
        &mut self,
        core: &mut NeuronCore,
        instruction: &mut dyn Instruction,
        site: SiteId,
        name: Option<&str>,
    ) -> Result<u32> {
        let examined = core.examine(instruction)?;
        self.issue_examined(core, instruction, examined, site, name)
    }

    /// As [`Conductor::issue`], where the core has [examined](NeuronCore::examine) the instruction already.
    ///
    /// # Errors
    /// As [`Conductor::issue`].
    pub fn issue_examined(
        &mut self,
        core: &mut NeuronCore,
        instruction: &mut dyn Instruction,
        examined: Examined,
        site: SiteId,
        name: Option<&str>,
    ) -> Result<u32> {
        if examined.is_idle {
            self.edges.note(name, NOTHING);
            return Ok(NOTHING);
        }
        instruction.prepare(core.arch())?;
        let after = self.edges.producers(name);
        let step = self.recorder.as_mut().map(|recorder| recorder.encode(instruction, name, &after)).transpose()?;
        let id = core.issue_examined(instruction, At { site, label: name, after: &after })?;
        self.edges.note(name, id);
        if let (Some(recorder), Some(step)) = (&mut self.recorder, step) {
            recorder.commit(step);
        }
        if let Some(lineage) = &mut self.lineage {
            lineage.note(instruction);
        }
        Ok(id)
    }

    /// A loop of the kernel begins on the line that the core stands on: of this kind, and so many iterations, if that is known.
    pub fn begin_loop(&mut self, core: &mut NeuronCore, kind: LoopKind, trip: Option<u32>) {
        let site = core.state.site;
        core.begin_loop(kind, trip, site);
        self.mark(Mark::Loop { kind, trip });
    }

    /// The next iteration of the innermost loop begins; the first one too.
    pub fn next_iteration(&mut self, core: &mut NeuronCore) {
        core.next_iteration();
        self.mark(Mark::Iteration);
    }

    /// The innermost loop has ended.
    pub fn end_loop(&mut self, core: &mut NeuronCore) {
        core.end_loop();
        self.mark(Mark::EndLoop);
    }

    /// The author orders what is issued from here on, or no longer.
    pub fn set_ordered(&mut self, core: &mut NeuronCore, is_ordered: bool) {
        core.set_ordered(is_ordered);
        self.mark(if is_ordered { Mark::NoReorder } else { Mark::EndNoReorder });
    }

    fn mark(&mut self, mark: Mark) {
        if let Some(recorder) = &mut self.recorder {
            recorder.mark(mark);
        }
    }

    /// Whether somebody wants to know of loops: a trace that the core keeps, or a program that is written down with them.
    pub fn notes_loops(&self, core: &NeuronCore) -> bool {
        core.keeps_trace() || self.recorder.as_ref().is_some_and(|recorder| recorder.notes_marks())
    }

    /// As [`Conductor::encode_call`], of the core's part of what the cores of a logical core do together.
    ///
    /// # Errors
    /// As [`Conductor::encode_call`].
    pub fn encode_part(&mut self, part: &Joint, name: Option<&str>, after: &[u32]) -> Result<Option<Step>> {
        self.recorder.as_mut().map(|recorder| recorder.encode_part(part, name, after)).transpose()
    }

    /// What a program that is written down says of a call at which the core meets others; None where none is.
    ///
    /// # Errors
    /// [`Error::NotModelled`] for what programs cannot hold.
    pub fn encode_call(&mut self, call: &RankCall, name: Option<&str>, after: &[u32]) -> Result<Option<Step>> {
        self.recorder.as_mut().map(|recorder| recorder.encode_call(call, name, after)).transpose()
    }

    /// The core met others in an instruction of that number.
    pub fn met(&mut self, name: Option<&str>, id: u32, step: Option<Step>) {
        self.edges.note(name, id);
        if let (Some(recorder), Some(step)) = (&mut self.recorder, step) {
            recorder.commit(step);
        }
        if let Some(lineage) = &mut self.lineage {
            lineage.note_meeting();
        }
    }

    /// Lets one instruction wait for another.
    ///
    /// # Errors
    /// Those of [`NeuronCore::order`].
    pub fn order(&mut self, core: &mut NeuronCore, consumer: u32, producer: u32) -> Result<()> {
        core.order(consumer, producer)?;
        if let Some(recorder) = self.recorder.as_mut().filter(|_| consumer != NOTHING && producer != NOTHING) {
            recorder.order(consumer, producer);
        }
        Ok(())
    }

    /// A new tensor.
    ///
    /// # Errors
    /// Those of [`NeuronCore::allocate`].
    pub fn allocate(&mut self, core: &mut NeuronCore, request: &Request<'_>) -> Result<Arc<Storage>> {
        let storage = core.allocate(request)?;
        if let Some(recorder) = &mut self.recorder {
            recorder.allocated(&storage, core.state.memory.allocated_afresh())?;
        }
        Ok(storage)
    }

    /// A tensor in HBM that holds what the host gives; without bytes, as timing-only runs are, its values are unknown.
    ///
    /// # Errors
    /// Those of the memory.
    pub fn input(
        &mut self,
        core: &mut NeuronCore,
        name: &str,
        (shape, dtype, buffer): (&[usize], DType, Buffer),
        bytes: Option<Vec<u8>>,
    ) -> Result<Arc<Storage>> {
        let site = core.state.site;
        let storage = core.state.memory.hbm_from_bytes(name, shape, dtype, buffer, bytes, site)?;
        if let Some(recorder) = &mut self.recorder {
            let contents = storage.hbm.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            recorder.input(&storage, contents.complete.then_some(&contents.bytes[..]))?;
        }
        Ok(storage)
    }

    /// Rounds results stochastically from here on, or to nearest again.
    ///
    /// # Errors
    /// Those of [`NeuronCore::set_stochastic_rounding`].
    pub fn set_stochastic_rounding(&mut self, core: &mut NeuronCore, seed: Option<u64>, place: usize) -> Result<()> {
        core.set_stochastic_rounding(seed, place)?;
        if let Some(recorder) = &mut self.recorder {
            recorder.stochastic_rounding(seed, place);
        }
        Ok(())
    }

    /// Follows from here on through which element types values come.
    pub fn follow_types(&mut self) {
        self.lineage = Some(Box::default());
    }

    /// The types on the way to each tensor, if they are followed.
    pub fn lineage(&self) -> Option<&Lineage> {
        self.lineage.as_deref()
    }

    /// Writes down from here on what the core is given, as a program of that name; where places have no limit, tensors that the
    /// author gave no address have none.
    pub fn record(&mut self, core: &NeuronCore, name: &str) {
        let mut recorder = Recorder::new(name, &core.arch().name);
        if core.options.unlimited {
            recorder.leave_places_open();
        }
        if core.keeps_trace() {
            recorder.note_marks();
        }
        self.recorder = Some(Box::new(recorder));
    }

    /// Writes loops, and what the author orders, down as well.
    pub fn record_loops(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            recorder.note_marks();
        }
    }

    /// The program written down, and the end of writing; arguments and results as of [`Recorder::finish_with`].
    ///
    /// # Errors
    /// [`Error::Value`] where nothing was.
    pub fn recorded(&mut self, arguments: &[(u64, bool)], results: &[(String, View)]) -> Result<Program> {
        self.take_recorder()?.finish_with(arguments, results)
    }

    /// What writes the program down, which it does no longer.
    ///
    /// # Errors
    /// As [`Conductor::recorded`].
    pub fn take_recorder(&mut self) -> Result<Recorder> {
        let recorder = self.recorder.take().map(|recorder| *recorder);
        recorder.ok_or_else(|| Error::Value("the core was not recorded: start_recording first".to_owned()))
    }

    /// Refuses what a program cannot hold, while one is written down.
    ///
    /// # Errors
    /// [`Error::NotModelled`] names it.
    pub fn refuse_recording(&self, what: &str) -> Result<()> {
        match self.recorder {
            Some(_) => Err(Error::NotModelled(format!("{what} cannot be part of a recorded program"))),
            None => Ok(()),
        }
    }
}
