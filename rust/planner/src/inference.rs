//! Serving: time to the first token, time for each other, throughput, memory.

use serde::Serialize;

use super::assumptions::described;
use super::communication::{Communication, LevelCosts};
use super::constants::Constants;
use super::hardware::{Machine, Rank};
use super::layout::{Layout, tensor_degrees};
use super::machine_times::MachineTimes;
use super::memory::{Footprint, Load, MemoryTable, footprint};
use super::operations::operations_of;
use super::phase::{Costs, ServingPhase, StepPart, decode_bytes, supported};
use super::recipe::{PlanClass, ServedPhase, ServingRecipe};
use super::roofline::{Split, TokenStep};
use super::settings::{Calibration, MemoryRate, ServingSettings, Speculation, Workload};
use super::shapes::Model;
use trn3_system::{Error, Result};

/// What a layout does under a workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// The layout.
    pub layout: Layout,
    /// The workload.
    pub workload: Workload,
    /// Chips of all replicas.
    pub chips: u64,
    /// Memory of a rank of the fullest stage.
    pub memory: MemoryTable,
    /// Reading one prompt, on one stage.
    pub prefill: ServingPhase,
    /// One step of decoding (of checking guesses, with speculation), on one stage.
    pub decode: ServingPhase,
    /// Seconds from a prompt's start to its first token, without waiting.
    pub ttft: f64,
    /// Seconds between tokens of one sequence.
    pub tpot: f64,
    /// Tokens a second for one sequence.
    pub tokens_per_second_per_user: f64,
    /// Generated tokens a second of all replicas while they decode.
    pub tokens_per_second: f64,
    /// The same for each chip.
    pub tokens_per_second_per_chip: f64,
    /// Generated tokens a second a chip if the same ranks read the prompts too; `None` without an output length.
    pub served_tokens_per_second_per_chip: Option<f64>,
    /// Requests a second of all replicas, likewise.
    pub requests_per_second: Option<f64>,
    /// Share of the time to the first token that its arithmetic takes at the array's peak for its formats.
    pub prefill_mfu: f64,
    /// Share of the memory's peak that the bytes of [`decode_bytes`] take while decoding.
    pub decode_mbu: f64,
    /// Bytes that a step of decoding must read at least, over the replica.
    pub floor_bytes: f64,
    /// Seconds for them at the peak of the replica's memory.
    pub floor_seconds: f64,
}

/// A model on a system: evaluates layouts.
///
/// ```
/// use trn3_planner::*;
///
/// let machine = Machine::built_in("gen2").unwrap();
/// let model = built_in_model("gpt-oss-120b").unwrap();
/// let settings = ServingSettings::new(TensorPrecision::named(DataType::MxFp4, true));
/// let planner = Planner::new(&machine, &model, 2, settings).unwrap();
/// let layout = Layout { split: Split { tp: 8, ep: 8, ..Split::WHOLE }, replicas: 1, lnc: 2 };
/// let plan = planner.evaluate(layout, Workload { batch: 8, input: 10_000, output: 3_000 }).unwrap();
/// assert!(plan.memory.fits && plan.tpot > plan.floor_seconds);
/// ```
pub struct Planner<'a> {
    machine: &'a Machine,
    model: &'a Model,
    settings: ServingSettings,
    rank: Rank,
    communication: Box<dyn Communication + 'a>,
    constants: Constants,
    recipe: ServingRecipe,
    assumptions: Vec<String>,
    machine_times: Option<MachineTimes>,
}

impl<'a> Planner<'a> {
    /// A planner for logical cores of `lnc` physical ones; collectives are priced by [`LevelCosts`].
    ///
    /// # Errors
    /// [`Error::Value`] if the chip has no such logical cores, or a setting is out of range.
    pub fn new(machine: &'a Machine, model: &'a Model, lnc: u32, settings: ServingSettings) -> Result<Self> {
        let rank = machine.chip.rank(lnc)?;
        let costs = LevelCosts::new(machine, &rank)?;
        Self::with_communication(machine, model, lnc, settings, Box::new(costs))
    }

    /// A planner whose collectives something else prices.
    ///
    /// # Errors
    /// As [`Planner::new`].
    pub fn with_communication(
        machine: &'a Machine,
        model: &'a Model,
        lnc: u32,
        mut settings: ServingSettings,
        communication: Box<dyn Communication + 'a>,
    ) -> Result<Self> {
        check(&settings)?;
        let constants = Constants::load()?;
        let mut assumptions = machine.assumptions.clone();
        settings.precision = supported(&settings.precision, &machine.chip, &mut assumptions);
        let mut rank = machine.chip.rank(lnc)?;
        let mut recipe = ServingRecipe::of(&machine.chip)?;
        if settings.calibration == Calibration::Peak {
            recipe = recipe.peak();
        }
        if let Some(seconds) = settings.layer_overhead {
            (recipe.layer_overhead, recipe.prompt_layer_overhead) = (seconds, seconds);
            recipe.layer_overhead_range = [seconds, seconds];
        }
        if settings.memory_rate == MemoryRate::Peak || recipe.streams_at_peak {
            rank.memory_rate = rank.hbm_rate;
        }
        assumptions.extend(described(&machine.chip, &rank, model, &recipe, &settings, &constants, &*communication));
        Ok(Self { machine, model, settings, rank, communication, constants, recipe, assumptions, machine_times: None })
    }

    /// The same, with products timed on the simulated core, whatever layout they belong to.
    ///
    /// # Errors
    /// [`Error::Value`] for a chip whose core is not simulated.
    pub(super) fn on_machine(mut self) -> Result<Self> {
        self.machine_times = Some(MachineTimes::new(&self.machine.chip, self.rank.lnc)?);
        Ok(self)
    }

    /// Times on the simulated core, if plans have them.
    pub(super) fn machine_times(&self) -> Option<&MachineTimes> {
        self.machine_times.as_ref()
    }

    /// The model.
    pub fn model(&self) -> &'a Model {
        self.model
    }

    /// The system.
    pub fn machine(&self) -> &'a Machine {
        self.machine
    }

    /// What is taken for granted; formats are those that the chip has.
    pub fn settings(&self) -> &ServingSettings {
        &self.settings
    }

    /// The logical core that it plans for.
    pub fn rank(&self) -> &Rank {
        &self.rank
    }

    /// The serving stack that is assumed, as calibration and a given overhead leave it.
    pub fn recipe(&self) -> &ServingRecipe {
        &self.recipe
    }

    /// What prices its collectives.
    pub(super) fn communication(&self) -> &dyn Communication {
        self.communication.as_ref()
    }

    /// The classes of a plan's time to the first token and of its time a token.
    pub fn classes(&self, workload: Workload) -> [PlanClass; 2] {
        let guesses = self.settings.speculation.is_some();
        let decode = if guesses { ServedPhase::Speculation } else { ServedPhase::Decode };
        [ServedPhase::Prefill, decode].map(|phase| PlanClass {
            generation: self.recipe.name.clone(),
            phase,
            batched: phase != ServedPhase::Prefill && workload.batch > 1,
        })
    }

    /// Every number used that no page documents, as sentences.
    pub fn assumptions(&self) -> &[String] {
        &self.assumptions
    }

    fn costs<'s>(&'s self, model: &'s Model) -> Costs<'s> {
        Costs {
            model,
            precision: &self.settings.precision,
            rank: &self.rank,
            communication: self.communication.as_ref(),
            recipe: &self.recipe,
            expert_imbalance: self.constants.expert_imbalance,
            kernel_times: &self.settings.kernel_times,
            machine_times: self.machine_times.as_ref(),
        }
    }

    /// The operations of reading a prompt and of one step of decoding, on one rank.
    pub fn operations(&self, split: &Split, workload: Workload) -> [Vec<super::LayerOperation>; 2] {
        [self.prefill_step(split, workload), self.decode_step(split, workload)].map(|step| {
            operations_of(self.model, &self.settings.precision, split, step, &self.recipe, step.past == 0.0)
        })
    }

    /// The collectives of reading a prompt and of one step of decoding, of one stage.
    pub fn exchanges(&self, split: &Split, workload: Workload) -> [Vec<super::LayerExchange>; 2] {
        let costs = self.costs(self.model);
        [self.prefill_step(split, workload), self.decode_step(split, workload)].map(|step| costs.exchanges(split, step))
    }

    /// How long an operation takes by the roofline of this plan's logical core.
    pub fn time(&self, operation: &super::LayerOperation) -> super::OperationTiming {
        self.recipe.time(&self.rank, operation)
    }

    fn prefill_step(&self, split: &Split, workload: Workload) -> TokenStep {
        // Each data-parallel group reads a prompt of its own.
        TokenStep::prefill(split.dp as f64, self.recipe.bucket(workload.input) as f64)
    }

    fn decode_step(&self, split: &Split, workload: Workload) -> TokenStep {
        self.decode_step_at(split, workload.batch, workload.mean_context())
    }

    /// One step of decoding `batch` sequences of a replica after a context of this many tokens each.
    pub(super) fn decode_step_at(&self, split: &Split, batch: u64, context: f64) -> TokenStep {
        let sequences = batch.div_ceil(split.pp).div_ceil(split.dp) * split.dp;
        let tokens = self.settings.speculation.as_ref().map_or(1.0, |speculation| speculation.length as f64 + 1.0);
        TokenStep { sequences: sequences as f64, tokens, past: context, logits: tokens }
    }

    /// One stage of a step of decoding, guesses and their check included.
    pub(super) fn decode_phase(&self, split: &Split, batch: u64, context: f64) -> ServingPhase {
        let step = self.decode_step_at(split, batch, context);
        let mut decode = self.costs(self.model).phase(split, step);
        if let Some(speculation) = &self.settings.speculation {
            self.add_draft(&mut decode, speculation, split, step);
        }
        decode
    }

    /// A part of one stage of any step, without guesses and without the start of a request; of a piece of a prompt, if
    /// `is_prompt`.
    pub(super) fn step_part(&self, split: &Split, step: TokenStep, is_prompt: bool, part: StepPart) -> ServingPhase {
        self.costs(self.model).part_of(split, step, is_prompt, part)
    }

    /// Memory under a workload.
    pub fn memory(&self, layout: &Layout, workload: Workload) -> MemoryTable {
        let chip = &self.machine.chip;
        let load = Load {
            sequences: workload.batch as f64,
            context: workload.longest_context(),
            prompt: self.recipe.bucket(workload.input) as f64,
            profiling: self.settings.profiling,
        };
        let precision = &self.settings.precision;
        let of = |model| footprint(model, precision, &layout.split, chip, &self.rank, &load, &self.constants);
        let mut total: Footprint = of(self.model);
        if let Some(draft) = self.settings.speculation.as_ref().and_then(|speculation| speculation.draft.as_ref()) {
            use super::memory::Category;
            let small = of(draft);
            total.add(Category::Tensors, small.of(Category::Tensors));
            total.add(Category::KvCache, small.of(Category::KvCache));
        }
        MemoryTable::new(&total, chip, &self.rank, layout.split.ranks())
    }

    /// The largest batch of a replica that fits; zero if the weights alone do not.
    pub fn largest_batch(&self, layout: &Layout, workload: Workload) -> u64 {
        let fits = |batch: u64| self.memory(layout, Workload { batch, ..workload }).fits;
        if !fits(1) {
            return 0;
        }
        let mut low = 1;
        while low < 1 << 20 && fits(low * 2) {
            low *= 2;
        }
        let mut high = low * 2;
        while high - low > 1 {
            let middle = low.midpoint(high);
            if fits(middle) { low = middle } else { high = middle }
        }
        low
    }

    /// What a layout does, whether its memory fits or not.
    ///
    /// # Errors
    /// [`Error::Value`] if the layout does not divide the model or exceeds the system, or a count is out of range.
    pub fn evaluate(&self, layout: Layout, workload: Workload) -> Result<Evaluation> {
        layout.check(self.model, self.machine)?;
        workload.check()?;
        Ok(self.evaluate_checked(layout, workload))
    }

    pub(super) fn evaluate_checked(&self, layout: Layout, workload: Workload) -> Evaluation {
        let split = &layout.split;
        let costs = self.costs(self.model);
        let stages = split.pp as f64;
        let prefill = costs.phase(split, self.prefill_step(split, workload));
        let decode = self.decode_phase(split, workload.batch, workload.mean_context());
        let yielded = self.settings.speculation.as_ref().map_or(1.0, |speculation| speculation.accepted);
        let (ttft, tpot) = (stages * prefill.seconds, stages * decode.seconds / yielded);
        let (batch, replicas) = (workload.batch as f64, layout.replicas as f64);
        let chips = layout.chips(self.rank.per_chip);
        let tokens_per_second = batch * replicas / tpot;
        // A replica reads prompts as fast as its groups and stages let it, and decodes the rest of the time.
        // Hosts prepare a prompt while chips are at others.
        let reading = (ttft - self.recipe.request_start).max(0.0) / (split.dp as f64 * stages);
        let request = reading + workload.output as f64 * tpot / batch;
        let requests_per_second = (workload.output > 0).then(|| replicas / request);
        let served = requests_per_second.map(|rate| rate * workload.output as f64 / chips as f64);
        let share = split.ranks() as f64 / f64::from(self.rank.per_chip);
        let floor_bytes = decode_bytes(self.model, &self.settings.precision, batch, workload.mean_context());
        let floor_seconds = floor_bytes / (share * self.machine.chip.hbm_rate);
        let busy: f64 = super::DataType::ALL
            .into_iter()
            .filter_map(|dtype| {
                let flops = prefill.activity.flops.get(dtype.name())? / f64::from(self.rank.per_chip);
                Some(flops / self.rank.peaks[dtype.index()]?)
            })
            .sum();
        Evaluation {
            layout,
            workload,
            chips,
            memory: self.memory(&layout, workload),
            ttft,
            tpot,
            tokens_per_second_per_user: 1.0 / tpot,
            tokens_per_second,
            tokens_per_second_per_chip: tokens_per_second / chips as f64,
            served_tokens_per_second_per_chip: served,
            requests_per_second,
            prefill_mfu: busy / prefill.seconds,
            decode_mbu: floor_seconds / (tpot * yielded),
            floor_bytes,
            floor_seconds,
            prefill,
            decode,
        }
    }

    fn add_draft(&self, decode: &mut ServingPhase, speculation: &Speculation, split: &Split, step: TokenStep) {
        let guesses = speculation.length as f64;
        let one = TokenStep { tokens: 1.0, logits: 1.0, ..step };
        let seconds = match &speculation.draft {
            Some(draft) => {
                let split = Split { ep: 1, ..*split };
                let phase = self.costs(draft).phase(&split, one);
                decode.activity.hbm_bytes += guesses * phase.activity.hbm_bytes;
                decode.activity.link_bytes += guesses * phase.activity.link_bytes;
                for (dtype, flops) in phase.activity.flops {
                    *decode.activity.flops.entry(dtype).or_default() += guesses * flops;
                }
                guesses * phase.seconds
            }
            // A layer or two on top of the model, run as a program of their own.
            None => {
                let start = self.recipe.guess_start + self.recipe.layer_overhead;
                guesses * (speculation.draft_share * decode.seconds + start)
            }
        };
        decode.add("draft", seconds, "draft model");
    }

    /// The smallest layout, in ranks, whose memory holds a workload; `None` if the system has none.
    pub fn smallest_layout(&self, workload: Workload) -> Option<Layout> {
        let most = u64::from(self.machine.chips) * u64::from(self.rank.per_chip);
        let mut all: Vec<Layout> = Vec::new();
        for pp in super::layout::divisors(self.model.layers) {
            for tp in tensor_degrees(self.model, most / pp) {
                let split = Split { tp, pp, ..Split::WHOLE };
                let ep = self.model.experts.as_ref().map_or(Some(1), |experts| expert_degree(experts, &split));
                all.extend(ep.map(|ep| Layout { split: Split { ep, ..split }, replicas: 1, lnc: self.rank.lnc }));
            }
        }
        all.sort_by_key(|layout| (layout.ranks(), layout.split.pp));
        all.into_iter().find(|layout| self.memory(layout, workload).fits)
    }

    /// [`Planner::evaluate`], refused where the memory does not fit.
    ///
    /// # Errors
    /// [`Error::Memory`] with the table and the smallest layout that fits, beside those of [`Planner::evaluate`].
    pub fn plan(&self, layout: Layout, workload: Workload) -> Result<Evaluation> {
        let evaluation = self.evaluate(layout, workload)?;
        let what = self.what(&layout, workload);
        evaluation.memory.check(&what, || self.advice(&layout, workload))?;
        Ok(evaluation)
    }

    /// A plan in words, for messages.
    pub fn what(&self, layout: &Layout, workload: Workload) -> String {
        let Split { tp, cp, dp, ep, pp } = layout.split;
        format!(
            "{} on {} with tp {tp}, ep {ep}, pp {pp}, dp {dp}, cp {cp}, lnc {}, batch {}, {} tokens",
            self.model.name,
            self.machine.title,
            layout.lnc,
            workload.batch,
            workload.longest_context()
        )
    }

    /// What would fit instead: a batch, a layout, or nothing.
    pub fn advice(&self, layout: &Layout, workload: Workload) -> String {
        let mut advice = Vec::new();
        let batch = self.largest_batch(layout, workload);
        if batch > 0 {
            advice.push(format!("batch={batch} would fit"));
        }
        match self.smallest_layout(workload) {
            Some(Layout { split: Split { tp, ep, pp, .. }, .. }) => {
                let ranks = tp * pp;
                let per_chip = u64::from(self.rank.per_chip);
                advice.push(format!(
                    "the smallest replica that holds it has {ranks} logical cores ({} chips): tp={tp}, pp={pp}, ep={ep}",
                    ranks.div_ceil(per_chip)
                ));
            }
            None => advice.push(format!(
                "no replica on {} of {} holds it: fewer tokens, a narrower dtype or more instances would",
                if self.machine.chips == 1 { "one chip".to_owned() } else { format!("{} chips", self.machine.chips) },
                self.machine.title
            )),
        }
        advice.join("; ")
    }
}

/// The largest expert parallelism that a stage allows.
pub(super) fn expert_degree(experts: &super::Experts, split: &Split) -> Option<u64> {
    let stage = split.stage();
    let fits = |ep: &u64| stage.is_multiple_of(*ep) && experts.block.width.is_multiple_of(stage / ep);
    super::layout::divisors(experts.count).into_iter().rev().filter(|ep| *ep <= stage).find(fits)
}

fn check(settings: &ServingSettings) -> Result<()> {
    if let Some(seconds) = settings.layer_overhead
        && !(0.0..=1.0).contains(&seconds)
    {
        return Err(Error::Value(format!("layer_overhead is {seconds} s; needed: from 0 to 1")));
    }
    for (key, seconds) in &settings.kernel_times {
        if !seconds.is_finite() || *seconds <= 0.0 {
            return Err(Error::Value(format!("kernel_times[{key:?}] is {seconds} s; needed: a positive time")));
        }
    }
    if let Some(Speculation { length, accepted, draft_share, .. }) = &settings.speculation {
        let most = *length as f64 + 1.0;
        if !(1..=64).contains(length) {
            return Err(Error::Value(format!("speculation.length is {length}; needed: from 1 to 64")));
        }
        if !(1.0..=most).contains(accepted) {
            return Err(Error::Value(format!("speculation.accepted is {accepted}; needed: from 1 to {most}")));
        }
        if !(0.0..=1.0).contains(draft_share) {
            return Err(Error::Value(format!("speculation.draft_share is {draft_share}; needed: from 0 to 1")));
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "inference_tests.rs"]
mod tests;
