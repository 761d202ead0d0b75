//! Operations whose engine nobody named go to the one that is done with them soonest.
//!
//! Invariant: a step moves only to an engine that its alternatives name: one that may run it, with the same bits. What it
//! reads and writes stays, and so does its place in the trace.
//!
//! **(choice)** In program order each engine has so much work so far; a step goes where that, what it waits for and what it
//! takes there add up to the earliest end, the hop to another engine and back included. What was idle long ago helps
//! nobody now: after every so many steps all engines count as equally far. Only copies, casts and fills move: additions, scans
//! and products of tiles stay with VectorE, which the published profiles show at work for 92 to 99.6 percent of the time of
//! kernels that GpSimdE could have helped. On the second generation, where VectorE and GpSimdE exclude each other from SBUF,
//! nothing goes from one to the other.

use smallvec::SmallVec;
use trn3_machine::Result;
use trn3_machine::arch::ArchSpec;
use trn3_machine::engine::Engine;
use trn3_machine::isa::table::{Family, describe};
use trn3_machine::time::Picos;
use trn3_machine::timing::work::Work;
use trn3_machine::trace::{Trace, TraceStep};

use super::Pass;
use super::noted::Noted;
use crate::costs::{latency_of, slot_of};
use crate::level::CompileLevel;
use crate::producers::Producers;
use crate::report::{ChangeKind, PassReport};

/// Steps after which all engines count as equally far.
const WINDOW: usize = 256;
const ENGINES: usize = Engine::ALL.len();

/// Gives steps to engines.
pub(super) struct EnginesPass;

impl Pass for EnginesPass {
    fn name(&self) -> &'static str {
        "engines"
    }

    fn levels(&self) -> &'static [CompileLevel] {
        &[CompileLevel::NeuronxCc]
    }

    fn run(&self, trace: &mut Trace, report: &mut PassReport) -> Result<()> {
        let copies: Vec<bool> = trace.names.opcodes().iter().map(|name| is_copy(name)).collect();
        let movable = |step: &TraceStep| {
            let has_others = step.alternatives.as_ref().is_some_and(|other| !other.engines.is_empty());
            has_others && copies.get(usize::from(step.opcode)).is_some_and(|copies| *copies)
        };
        // Random numbers are an engine's own.
        if trace.draws || !trace.steps.iter().any(movable) {
            return Ok(());
        }
        let producers = Producers::of(trace);
        let mut estimate = Estimate::new(trace);
        let mut noted = Noted::default();
        for number in 0..trace.steps.len() {
            if number.is_multiple_of(WINDOW) {
                estimate.level();
            }
            let step = &trace.steps[number];
            let behind: SmallVec<[(u64, Engine); 8]> =
                producers.needed(trace, number).map(|write| estimate.ended(producers.writer(write))).collect();
            let own = estimate.end(step.engine, &step.work, &behind);
            let others = step.alternatives.iter().flat_map(|other| other.engines.iter().enumerate());
            let others = others.filter(|(_, (engine, _))| movable(step) && may_move(trace, step, *engine));
            let best = others
                .map(|(place, (engine, work))| {
                    let end = estimate.end(*engine, work, &behind).saturating_add(estimate.hop_back);
                    (end, place)
                })
                .min()
                .filter(|(end, _)| *end < own);
            if let Some((_, place)) = best {
                let engine = change(&mut trace.steps[number], place);
                let site = trace.steps[number].site;
                noted.add(trace, ChangeKind::Moved, (site, None), None, Some(engine));
                report.add("steps", 1);
                report.add(count_of(engine), 1);
            }
            let step = &trace.steps[number];
            estimate.run(step.engine, &step.work, &behind);
        }
        noted.report(trace, report);
        Ok(())
    }
}

/// Whether an instruction copies or fills: the others stay where they are.
fn is_copy(name: &str) -> bool {
    describe(name).is_some_and(|description| description.family == Family::CopySet)
}

fn count_of(engine: Engine) -> &'static str {
    match engine {
        Engine::Vector => "to_vector",
        Engine::Scalar => "to_scalar",
        Engine::GpSimd => "to_gpsimd",
        Engine::Tensor | Engine::Sync | Engine::Dma => "to_others",
    }
}

/// Whether a step may go to one of the engines that would give the same bits.
fn may_move(trace: &Trace, step: &TraceStep, engine: Engine) -> bool {
    let in_turns = |engine: Engine| matches!(engine, Engine::Vector | Engine::GpSimd);
    let is_held = trace.arch.generation == 2 && in_turns(step.engine) && in_turns(engine);
    !is_held && !step.marks.is_fence && !step.marks.draws && !step.meets()
}

/// A step moves, and may move back.
fn change(step: &mut TraceStep, place: usize) -> Engine {
    let Some(alternatives) = &mut step.alternatives else { return step.engine };
    let (engine, work) = &mut alternatives.engines[place];
    std::mem::swap(&mut step.work, work);
    std::mem::swap(&mut step.engine, engine);
    // What forwarded inputs cost is known of the engine that they were found for alone.
    alternatives.forwarded.clear();
    step.engine
}

/// When engines would be done.
struct Estimate {
    /// Work that each engine was given.
    busy: [u64; ENGINES],
    /// When each step's results are there, and from which engine.
    ended: Vec<(u64, Engine)>,
    same_engine: u64,
    semaphore: u64,
    /// What it costs at least that a result comes from another engine.
    hop_back: u64,
}

impl Estimate {
    fn new(trace: &Trace) -> Self {
        let arch: &ArchSpec = &trace.arch;
        let nanoseconds = |figure: f64| Picos::from_nanoseconds(figure).0;
        let (same_engine, semaphore) = (nanoseconds(arch.same_engine_ns), nanoseconds(arch.semaphore_ns));
        Self {
            busy: [0; ENGINES],
            ended: Vec::with_capacity(trace.steps.len()),
            same_engine,
            semaphore,
            hop_back: semaphore.saturating_sub(same_engine),
        }
    }

    fn ended(&self, step: u32) -> (u64, Engine) {
        self.ended[step as usize]
    }

    /// All engines are equally far.
    fn level(&mut self) {
        let farthest = self.busy.into_iter().max().unwrap_or(0);
        self.busy = [farthest; ENGINES];
    }

    fn start(&self, engine: Engine, behind: &[(u64, Engine)]) -> u64 {
        let ready = behind.iter().map(|&(end, from)| {
            // Transfers are started early enough.
            let hop = if from == engine || from == Engine::Dma { self.same_engine } else { self.semaphore };
            end.saturating_add(hop)
        });
        ready.max().unwrap_or(0).max(self.busy[engine as usize])
    }

    fn end(&self, engine: Engine, work: &Work, behind: &[(u64, Engine)]) -> u64 {
        self.start(engine, behind).saturating_add(latency_of(work).0)
    }

    fn run(&mut self, engine: Engine, work: &Work, behind: &[(u64, Engine)]) {
        self.ended.push((self.end(engine, work, behind), engine));
        self.busy[engine as usize] += slot_of(work).0;
    }
}
