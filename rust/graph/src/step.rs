//! A step on one core: the schedule of the whole graph where that is small enough, else composed of its regions.

use std::sync::Arc;

use trn3_compiler::{CompileOptions, CompileReport};
use trn3_machine::arch::ArchSpec;
use trn3_machine::core::NeuronCore;
use trn3_machine::time::Picos;
use trn3_system::collective::PlacedRanks;

use crate::account::AccountRow;
use crate::by_instructions::{CoreRun, profile_of};
use crate::composed::{Composer, RegionCost};
use crate::error::Result;
use crate::graph::Graph;
use crate::options::ExecutionOptions;
use crate::repeats::RegionSizes;
use crate::step_memory::StepMemory;
use crate::tensor::Tensor;

/// Instructions from which on a step without values is composed of regions **(choice)**.
pub const WHOLE_BELOW: u64 = 2_000_000;

/// How a step's time was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StepTiming {
    /// It is the schedule of the whole graph.
    Whole,
    /// It is the sum over regions that were compiled once each.
    Composed,
}

impl StepTiming {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            StepTiming::Whole => "whole",
            StepTiming::Composed => "composed",
        }
    }
}

/// A step that ran on one core, or on two as one, or was timed there.
pub struct StepRun {
    /// What it gave; None for what a run without values does not know.
    pub results: Vec<Option<Tensor>>,
    /// How its time was found.
    pub timing: StepTiming,
    /// Its time.
    pub latency: Picos,
    /// Between which times the hardware's is expected, in microseconds.
    pub band_us: (f64, f64),
    /// Instructions.
    pub instructions: u64,
    /// What each operation of the graph's own body took, in their order.
    pub account: Vec<AccountRow>,
    /// What it holds.
    pub memory: StepMemory,
    /// What it is composed of, the one that takes most of it first; empty of a whole schedule.
    pub regions: Vec<RegionCost>,
    /// The cores with their timelines; of a composed step those of the region that takes most of it.
    pub cores: Vec<NeuronCore>,
    /// What the compiler did on each.
    pub reports: Vec<CompileReport>,
}

impl Graph {
    /// Runs the graph on one core, or on two as one, or times it there without inputs: by the schedule of the whole graph where it has fewer
    /// than `whole_below` instructions, else composed of regions. With values it is always the whole one.
    ///
    /// # Errors
    /// As [`Graph::run_on_core`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use trn3_compiler::CompileOptions;
    /// use trn3_graph::{ExecutionOptions, Graph, StepTiming, WHOLE_BELOW};
    /// use trn3_machine::arch::ArchSpec;
    ///
    /// let kind = r#"{"dtype": "bfloat16", "shape": [128, 128]}"#;
    /// let product = |left, right| format!(
    ///     r#"{{"op": "dot_general", "operands": [{left}, {right}], "results": [{kind}],
    ///         "attributes": {{"contracting": [[1], [0]]}}}}"#);
    /// let text = format!(
    ///     r#"{{"format": "trn3-graph", "version": 1, "inputs": [{kind}, {kind}],
    ///         "operations": [{}, {}], "outputs": [3]}}"#, product(0, 1), product(2, 1));
    /// let graph = Graph::from_json(text.as_bytes(), &[])?;
    /// let (arch, options) = (ArchSpec::shared("trn3")?, ExecutionOptions::default());
    /// let compile = CompileOptions::default();
    /// let whole = graph.run_step(&arch, None, &options, &compile, WHOLE_BELOW)?;
    /// assert_eq!((whole.timing, whole.account.len()), (StepTiming::Whole, 2));
    /// let composed = graph.run_step(&arch, None, &options, &compile, 0)?;
    /// assert_eq!(composed.timing, StepTiming::Composed);
    /// assert_eq!(composed.instructions, whole.instructions);
    /// # Ok::<(), trn3_graph::GraphError>(())
    /// ```
    pub fn run_step(
        &self,
        arch: &Arc<ArchSpec>,
        inputs: Option<Vec<Tensor>>,
        options: &ExecutionOptions,
        compile: &CompileOptions,
        whole_below: u64,
    ) -> Result<StepRun> {
        let memory = StepMemory::of(self, arch, options)?;
        if inputs.is_none() && self.ranks == 1 {
            let composer = Composer::new(self, arch, options, RegionSizes::default())?;
            let instructions = composer.instructions();
            if instructions >= whole_below.max(1) {
                let made = composer.composed(compile)?;
                let peak = |of: fn(&RegionCost) -> u64| made.regions.iter().map(of).max().unwrap_or(0);
                let memory = StepMemory {
                    sbuf_peak_bytes: peak(|region| region.peak_bytes.0),
                    psum_peak_bytes: peak(|region| region.peak_bytes.1),
                    ..memory
                };
                return Ok(StepRun {
                    results: vec![None; self.body.outputs().len()],
                    timing: StepTiming::Composed,
                    latency: made.latency,
                    band_us: made.band_us,
                    instructions: made.instructions,
                    account: made.account,
                    memory,
                    regions: made.regions,
                    cores: made.cores,
                    reports: made.reports,
                });
            }
        }
        self.whole_step(self.run_on_core(arch, inputs, options, compile)?, memory)
    }

    /// Runs one rank of the graph as [`Graph::run_rank_on_core`] does: its time is that of the whole schedule.
    ///
    /// # Errors
    /// As there.
    pub fn run_rank_step(
        &self,
        arch: &Arc<ArchSpec>,
        rank: (u32, &PlacedRanks),
        inputs: Option<Vec<Vec<Tensor>>>,
        options: &ExecutionOptions,
        compile: &CompileOptions,
    ) -> Result<StepRun> {
        let memory = StepMemory::of(self, arch, options)?;
        self.whole_step(self.run_rank_on_core(arch, rank, inputs, options, compile)?, memory)
    }

    fn whole_step(&self, mut run: CoreRun, memory: StepMemory) -> Result<StepRun> {
        let account = run.account(self);
        let profile = profile_of(&mut run.cores, &self.name)?;
        let latency_us = profile.latency_us();
        let memory = StepMemory {
            sbuf_peak_bytes: profile.sbuf_peak_bytes(),
            psum_peak_bytes: profile.psum_peak_bytes(),
            ..memory
        };
        Ok(StepRun {
            latency: run.makespan(),
            results: run.results,
            timing: StepTiming::Whole,
            band_us: (profile.latency_low_us().unwrap_or(latency_us), profile.latency_high_us().unwrap_or(latency_us)),
            instructions: run.cores.iter().map(NeuronCore::issued).sum(),
            account,
            memory,
            regions: Vec::new(),
            cores: run.cores,
            reports: run.reports,
        })
    }
}
