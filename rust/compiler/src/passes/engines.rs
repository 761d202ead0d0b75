//! Operations whose engine nobody named go to the one that is done with them soonest.
//!
//! Invariant: a step moves only to an engine that its alternatives name: one that may run it, with the same bits. What it
//! reads and writes stays, and so does its place in the trace.
//!
//! **(choice)** In program order each engine has so much work so far; a step goes where that, what it waits for and what it
//! takes there add up to the earliest end, the hop to another engine and back included. What was idle long ago helps
//! nobody now: after every so many steps all engines count as equally far. On the second generation VectorE and GpSimdE
//! exclude each other from SBUF, so that giving work to the slower one gains nothing: as published profiles show, additions,
//! scans and products of tiles stay with VectorE there.

use smallvec::SmallVec;
use trn3_machine::Result;
use trn3_machine::arch::ArchSpec;
use trn3_machine::engine::Engine;
use trn3_machine::storage::Buffer;
use trn3_machine::time::Picos;
use trn3_machine::timing::work::Work;
use trn3_machine::trace::{Home, Trace, TraceStep};

use super::Pass;
use super::noted::Noted;
use crate::costs::{latency_of, slot_of};
use crate::level::Level;
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

    fn levels(&self) -> &'static [Level] {
        &[Level::NeuronxCc]
    }

    fn run(&self, trace: &mut Trace, report: &mut PassReport) -> Result<()> {
        let movable = |step: &TraceStep| step.alternatives.as_ref().is_some_and(|other| !other.engines.is_empty());
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
            let in_sbuf = uses_sbuf(trace, step);
            let own = estimate.end(step.engine, &step.work, &behind, in_sbuf);
            let others = step.alternatives.iter().flat_map(|other| other.engines.iter().enumerate());
            let others = others.filter(|_| !step.marks.is_fence && !step.marks.draws && !step.meets());
            let best = others
                .map(|(place, (engine, work))| {
                    let end = estimate.end(*engine, work, &behind, in_sbuf).saturating_add(estimate.hop_back);
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
            estimate.run(step.engine, &step.work, &behind, in_sbuf);
        }
        noted.report(trace, report);
        Ok(())
    }
}

fn count_of(engine: Engine) -> &'static str {
    match engine {
        Engine::Vector => "to_vector",
        Engine::Scalar => "to_scalar",
        Engine::GpSimd => "to_gpsimd",
        Engine::Tensor | Engine::Sync | Engine::Dma => "to_others",
    }
}

fn uses_sbuf(trace: &Trace, step: &TraceStep) -> bool {
    step.operands.iter().any(|operand| {
        matches!(trace.tensors[operand.tensor as usize].home, Home::Open(Buffer::Sbuf) | Home::Addressed(Buffer::Sbuf))
    })
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
    /// Work on what VectorE and GpSimdE hold by turns, where they do.
    shared: Option<u64>,
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
            shared: (arch.generation == 2).then_some(0),
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
        self.shared = self.shared.map(|_| farthest);
    }

    fn start(&self, engine: Engine, behind: &[(u64, Engine)], in_sbuf: bool) -> u64 {
        let ready = behind.iter().map(|&(end, from)| {
            // Transfers are started early enough.
            let hop = if from == engine || from == Engine::Dma { self.same_engine } else { self.semaphore };
            end.saturating_add(hop)
        });
        let shared = self.shared.filter(|_| in_sbuf && takes_turns(engine)).unwrap_or(0);
        ready.max().unwrap_or(0).max(self.busy[engine as usize]).max(shared)
    }

    fn end(&self, engine: Engine, work: &Work, behind: &[(u64, Engine)], in_sbuf: bool) -> u64 {
        self.start(engine, behind, in_sbuf).saturating_add(latency_of(work).0)
    }

    fn run(&mut self, engine: Engine, work: &Work, behind: &[(u64, Engine)], in_sbuf: bool) {
        self.ended.push((self.end(engine, work, behind, in_sbuf), engine));
        self.busy[engine as usize] += slot_of(work).0;
        if in_sbuf && takes_turns(engine) {
            self.shared = self.shared.map(|shared| shared + slot_of(work).0);
        }
    }
}

fn takes_turns(engine: Engine) -> bool {
    matches!(engine, Engine::Vector | Engine::GpSimd)
}
