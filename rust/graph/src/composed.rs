//! Time without values of what is too large for one schedule: equal regions are compiled once, and their times summed.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use trn3_compiler::{CompileOptions, CompileReport, compile_cores};
use trn3_machine::arch::ArchSpec;
use trn3_machine::core::NeuronCore;
use trn3_machine::engine::Engine;
use trn3_machine::time::Picos;
use trn3_numerics::{check_interrupt, num_threads};

use crate::account::{AccountRow, account_rows, busy_by_engine, part_of};
use crate::body_plan::{BodyPlan, LoweringStep, PlanSetting};
use crate::by_instructions::{makespan, profile_of};
use crate::emitter::Emitter;
use crate::error::{GraphError, Result};
use crate::graph::{Body, Graph, GraphNode};
use crate::lowering::{BodyViews, Lowering};
use crate::meetings::Meetings;
use crate::node_types::as_any;
use crate::operations::While;
use crate::options::ExecutionOptions;
use crate::region_key::KeyWriter;
use crate::repeats::{CutStep, RegionSizes, cut};
use crate::template::{OperationRun, TemplateKind};
use crate::tensor::Tensor;
use crate::turns::turns;

/// A region of a composed step: what was compiled once.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionCost {
    /// The first and the last operation of its first place, as their instructions are labelled.
    pub operations: (String, String),
    /// How often the step has it.
    pub times: u64,
    /// Instructions of one.
    pub instructions: u64,
    /// Time of one.
    pub latency: Picos,
    /// Between which times the hardware's is expected of one, in microseconds.
    pub band_us: (f64, f64),
    /// The most bytes of a partition in use, of SBUF and PSUM.
    pub peak_bytes: (u64, u64),
}

/// What of a body is compiled, and how often.
struct Outline<'g> {
    body: &'g Body,
    plan: Arc<BodyPlan>,
    parts: Vec<OutlinePart<'g>>,
    instructions: u64,
}

enum OutlinePart<'g> {
    /// Steps that are the region of this number.
    Region(Range<usize>, usize),
    /// An operation by its place, its turns, and what it turns on.
    Loop { place: u32, turns: u64, condition: Box<Outline<'g>>, body: Box<Outline<'g>> },
}

/// Where a region stands first.
struct RegionPlace<'g> {
    body: &'g Body,
    plan: Arc<BodyPlan>,
    /// What the inputs are the first time, as far as that is known.
    first: Vec<Option<Tensor>>,
    steps: Range<usize>,
    instructions: u64,
    times: u64,
}

/// A region, compiled.
struct RegionRun {
    cost: RegionCost,
    busy: BTreeMap<Engine, Picos>,
    /// In the order of the steps' nodes.
    rows: Vec<AccountRow>,
    cores: Vec<NeuronCore>,
    reports: Vec<CompileReport>,
}

/// What regions of a step take together.
#[derive(Default)]
struct Total {
    latency: Picos,
    high_us: f64,
    busy: BTreeMap<Engine, Picos>,
    cores: u32,
    instructions: u64,
    hbm_bytes: u64,
    macs: u64,
}

impl Total {
    fn add(&mut self, other: &Total, times: u64) {
        self.cores = self.cores.max(other.cores);
        self.latency += Picos(other.latency.0 * times);
        self.high_us += other.high_us * times as f64;
        self.instructions += other.instructions * times;
        self.hbm_bytes += other.hbm_bytes * times;
        self.macs += other.macs * times;
        for (&engine, &busy) in &other.busy {
            *self.busy.entry(engine).or_insert(Picos::ZERO) += Picos(busy.0 * times);
        }
    }

    fn longest(&self) -> (Picos, Option<Engine>) {
        let longest = self.busy.iter().max_by_key(|&(&engine, &busy)| (busy, std::cmp::Reverse(engine)));
        longest.map_or((Picos::ZERO, None), |(&engine, &busy)| (busy, Some(engine)))
    }
}

/// A step that was composed.
pub(crate) struct Composed {
    pub(crate) latency: Picos,
    pub(crate) band_us: (f64, f64),
    pub(crate) account: Vec<AccountRow>,
    pub(crate) regions: Vec<RegionCost>,
    /// Instructions, those by which cores meet among them.
    pub(crate) instructions: u64,
    /// The cores of the region that takes most of the step, with what the compiler did.
    pub(crate) cores: Vec<NeuronCore>,
    pub(crate) reports: Vec<CompileReport>,
}

/// Cuts a graph into regions, counts its instructions, and composes its time.
pub(crate) struct Composer<'g> {
    graph: &'g Graph,
    arch: &'g Arc<ArchSpec>,
    options: &'g ExecutionOptions,
    sizes: RegionSizes,
    /// By what is the same of equal steps: a number, and instructions.
    kinds: HashMap<String, (u32, u64)>,
    numbers: HashMap<String, usize>,
    places: Vec<RegionPlace<'g>>,
    outline: Option<Outline<'g>>,
}

impl<'g> Composer<'g> {
    /// A graph's regions; each distinct step is lowered once, to count its instructions.
    ///
    /// # Errors
    /// As [`Graph::run_on_core`].
    pub(crate) fn new(
        graph: &'g Graph,
        arch: &'g Arc<ArchSpec>,
        options: &'g ExecutionOptions,
        sizes: RegionSizes,
    ) -> Result<Self> {
        let (kinds, numbers) = (HashMap::new(), HashMap::new());
        let mut composer = Self { graph, arch, options, sizes, kinds, numbers, places: Vec::new(), outline: None };
        let first = vec![None; graph.body.inputs().len()];
        let outline = composer.outlined(graph.canonical(), first.clone(), &first)?;
        composer.outline = Some(outline);
        Ok(composer)
    }

    /// Instructions of the whole graph, its loops unrolled.
    pub(crate) fn instructions(&self) -> u64 {
        self.outline.as_ref().map_or(0, |outline| outline.instructions)
    }

    /// `fixed` are the inputs that are the same each time the body runs.
    fn outlined(
        &mut self,
        body: &'g Body,
        first: Vec<Option<Tensor>>,
        fixed: &[Option<Tensor>],
    ) -> Result<Outline<'g>> {
        let setting = PlanSetting::new(self.arch, false, 0);
        let plan = Arc::new(BodyPlan::new(self.graph, body, self.options, &setting)?);
        let mut keys = KeyWriter::new(body, &plan);
        let mut steps: Vec<CutStep> = Vec::with_capacity(plan.steps.len());
        let mut loops: HashMap<usize, OutlinePart<'g>> = HashMap::new();
        let mut instructions = 0u64;
        for (number, step) in plan.steps.iter().enumerate() {
            check_interrupt()?;
            let node = &body.nodes()[step.nodes()[0] as usize];
            if let Some(operation) = as_any(node).downcast_ref::<While>() {
                let located = |error| self.graph.located(node, error);
                let carried = |value: &u32| match fixed.get(*value as usize) {
                    Some(known) => known.clone(),
                    None => plan.known(*value).cloned(),
                };
                let initial: Vec<Option<Tensor>> = node.operands.iter().map(carried).collect();
                let turns = turns(self.graph, operation, &initial, self.options).map_err(located)?;
                let part = self.looped(step.nodes()[0], operation, turns, initial)?;
                if let OutlinePart::Loop { condition, body, .. } = &part {
                    let once = condition.instructions + body.instructions;
                    instructions += once * turns + condition.instructions;
                }
                loops.insert(number, part);
                steps.push(None);
                continue;
            }
            let key = keys.key(std::slice::from_ref(step));
            let kind = match self.kinds.get(&key) {
                Some(&kind) => kind,
                None => {
                    let place = (body, &plan, &first[..]);
                    let kind = (self.kinds.len() as u32, self.count(place, std::slice::from_ref(step))?);
                    *self.kinds.entry(key).or_insert(kind)
                }
            };
            instructions += kind.1;
            steps.push(Some(kind));
        }
        let mut parts = Vec::new();
        for range in cut(&steps, self.sizes) {
            if let Some(part) = loops.remove(&range.start) {
                parts.push(part);
                continue;
            }
            let key = keys.key(&plan.steps[range.clone()]);
            let next = self.places.len();
            let number = *self.numbers.entry(key).or_insert(next);
            if number == next {
                let instructions = steps[range.clone()].iter().flatten().map(|kind| kind.1).sum();
                let (plan, first) = (Arc::clone(&plan), first.clone());
                self.places.push(RegionPlace { body, plan, first, steps: range.clone(), instructions, times: 0 });
            }
            parts.push(OutlinePart::Region(range, number));
        }
        drop(keys);
        Ok(Outline { body, plan, parts, instructions })
    }

    fn looped(
        &mut self,
        place: u32,
        operation: &'g While,
        turns: u64,
        initial: Vec<Option<Tensor>>,
    ) -> Result<OutlinePart<'g>> {
        let passed = operation.body.outputs();
        let is_fixed =
            |(number, value): (usize, &Option<Tensor>)| value.clone().filter(|_| passed[number] as usize == number);
        let fixed: Vec<Option<Tensor>> = initial.iter().enumerate().map(is_fixed).collect();
        let condition = Box::new(self.outlined(&operation.condition, initial.clone(), &fixed)?);
        let body = Box::new(self.outlined(&operation.body, initial, &fixed)?);
        Ok(OutlinePart::Loop { place, turns, condition, body })
    }

    /// Lowers steps on a core of their own.
    fn lowered(
        &self,
        (body, plan, first): (&'g Body, &Arc<BodyPlan>, &[Option<Tensor>]),
        steps: &[LoweringStep],
        emitter: Emitter,
    ) -> Result<Lowering<'g>> {
        let mut lowering = Lowering::new(self.graph, self.options, emitter, Meetings::none());
        let mut known = BodyViews::new(Arc::clone(plan));
        for (number, value) in first.iter().enumerate().filter(|(_, value)| value.is_some()) {
            let view = lowering.emitter.given(&format!("input.{number}"), &body.types()[number], value.as_ref())?;
            known.views[number] = Some(view);
        }
        lowering.steps(body, steps, &mut known)?;
        Ok(lowering)
    }

    fn count(&self, place: (&'g Body, &Arc<BodyPlan>, &[Option<Tensor>]), steps: &[LoweringStep]) -> Result<u64> {
        let lowering = self.lowered(place, steps, Emitter::untimed(Arc::clone(self.arch), self.options)?)?;
        Ok(lowering.emitter.issued())
    }

    fn compiled(&self, place: &RegionPlace<'g>, compile: &CompileOptions) -> Result<RegionRun> {
        let emitter = Emitter::on_cores(Arc::clone(self.arch), false, self.options)?;
        let steps = &place.plan.steps[place.steps.clone()];
        let (mut emitter, operations) = self.lowered((place.body, &place.plan, &place.first), steps, emitter)?.finish();
        let mut found: HashMap<u32, OperationRun> = operations.into_iter().collect();
        let nodes = steps.iter().flat_map(LoweringStep::nodes).map(|node| &place.body.nodes()[node as usize]);
        let runs: Vec<_> = nodes.filter_map(|node| found.remove(&node.first_result)).collect();
        // What comes next may need any of it on any core.
        emitter.barrier()?;
        let mut cores = emitter.into_cores();
        let reports = compile_cores(&mut cores.iter_mut().collect::<Vec<_>>(), compile)?;
        let rows = account_rows(&mut cores, &runs);
        let profile = profile_of(&mut cores, &self.graph.name)?;
        let latency_us = profile.latency_us();
        let label = |run: Option<&AccountRow>| run.map(|run| run.label.clone()).unwrap_or_default();
        let cost = RegionCost {
            operations: (label(rows.first()), label(rows.last())),
            times: place.times,
            instructions: cores.iter().map(NeuronCore::issued).sum(),
            latency: makespan(&mut cores),
            band_us: (profile.latency_low_us().unwrap_or(latency_us), profile.latency_high_us().unwrap_or(latency_us)),
            peak_bytes: (profile.sbuf_peak_bytes(), profile.psum_peak_bytes()),
        };
        Ok(RegionRun { cost, busy: busy_by_engine(&mut cores), rows, cores, reports })
    }

    /// The time of the step. Regions follow one another without overlap **(choice)**: the upper bound is that of their sum,
    /// the lower one that of the engine that is busy longest, whose work could at best hide all else.
    ///
    /// # Errors
    /// As [`Graph::run_on_core`].
    pub(crate) fn composed(mut self, compile: &CompileOptions) -> Result<Composed> {
        let missing = || GraphError::Format("nothing of the graph has instructions".to_owned());
        let outline = self.outline.take().ok_or_else(missing)?;
        count_times(&outline, 1, &mut self.places);
        let mut order: Vec<usize> = (0..self.places.len()).collect();
        // Those of a length side by side: threads wait for the longer one.
        order.sort_by_key(|&number| std::cmp::Reverse(self.places[number].instructions));
        let mut runs: Vec<Option<(RegionCost, Total, Vec<AccountRow>)>> = self.places.iter().map(|_| None).collect();
        let mut longest: Option<(Picos, Vec<NeuronCore>, Vec<CompileReport>)> = None;
        for numbers in order.chunks(num_threads()?) {
            check_interrupt()?;
            let compiled: Vec<Result<RegionRun>> =
                numbers.par_iter().map(|&number| self.compiled(&self.places[number], compile)).collect();
            for (&number, run) in numbers.iter().zip(compiled) {
                let RegionRun { cost, busy, rows, cores, reports } = run?;
                let all = Picos(cost.latency.0 * cost.times);
                if longest.as_ref().is_none_or(|(most, ..)| all > *most) {
                    longest = Some((all, cores, reports));
                }
                let total = Total {
                    latency: cost.latency,
                    high_us: cost.band_us.1,
                    busy,
                    cores: rows.iter().map(|row| row.cores).max().unwrap_or(0),
                    instructions: cost.instructions,
                    hbm_bytes: rows.iter().map(|row| row.hbm_bytes).sum(),
                    macs: rows.iter().map(|row| row.macs).sum(),
                };
                runs[number] = Some((cost, total, rows));
            }
        }
        let runs: Vec<(RegionCost, Total, Vec<AccountRow>)> = runs.into_iter().flatten().collect();
        let mut account = BTreeMap::new();
        let total = self.summed(&outline, &runs, Some(&mut account));
        let (_, cores, reports) = longest.ok_or_else(missing)?;
        let latency_us = total.latency.microseconds();
        let widest = if latency_us > 0.0 { total.high_us / latency_us } else { 1.0 };
        let low_us = total.longest().0.microseconds() / widest;
        let mut regions: Vec<RegionCost> = runs.into_iter().map(|(cost, ..)| cost).collect();
        regions.sort_by_key(|cost| std::cmp::Reverse(cost.latency.0 * cost.times));
        // Those that passes took out stand in the account too.
        let mut rows: HashMap<String, AccountRow> =
            account.into_values().map(|row: AccountRow| (row.label.clone(), row)).collect();
        let removed = |node: &GraphNode| self.row(node, TemplateKind::Removed, &Total::default());
        let nodes = self.graph.body.nodes().iter();
        let account = nodes.map(|node| rows.remove(&node.label()).unwrap_or_else(|| removed(node))).collect();
        let (latency, band_us) = (total.latency, (low_us, total.high_us));
        Ok(Composed { latency, band_us, account, regions, instructions: total.instructions, cores, reports })
    }

    /// What a body takes; the rows of its operations go into an account, by their places.
    fn summed(
        &self,
        outline: &Outline<'g>,
        runs: &[(RegionCost, Total, Vec<AccountRow>)],
        mut account: Option<&mut BTreeMap<u32, AccountRow>>,
    ) -> Total {
        let mut total = Total::default();
        let nodes = outline.body.nodes();
        for &place in &outline.plan.worked_out {
            let row = self.row(&nodes[place as usize], TemplateKind::Folded, &Total::default());
            account.iter_mut().for_each(|account| drop(account.insert(place, row.clone())));
        }
        for part in &outline.parts {
            match part {
                OutlinePart::Region(steps, number) => {
                    let (_, taken, rows) = &runs[*number];
                    total.add(taken, 1);
                    let places = outline.plan.steps[steps.clone()].iter().flat_map(LoweringStep::nodes);
                    for (place, row) in places.zip(rows) {
                        let node = &nodes[place as usize];
                        let (label, location) = (node.label(), self.graph.location(node).cloned());
                        let row = AccountRow { label, location, ..row.clone() };
                        account.iter_mut().for_each(|account| drop(account.insert(place, row.clone())));
                    }
                }
                OutlinePart::Loop { place, turns, condition, body } => {
                    let mut taken = Total::default();
                    taken.add(&self.summed(condition, runs, None), turns + 1);
                    taken.add(&self.summed(body, runs, None), *turns);
                    let row = self.row(&nodes[*place as usize], TemplateKind::Body, &taken);
                    account.iter_mut().for_each(|account| drop(account.insert(*place, row.clone())));
                    total.add(&taken, 1);
                }
            }
        }
        total
    }

    fn row(&self, node: &GraphNode, template: TemplateKind, taken: &Total) -> AccountRow {
        let (busy, engine) = taken.longest();
        AccountRow {
            label: node.label(),
            location: self.graph.location(node).cloned(),
            template,
            is_fallback: false,
            cores: taken.cores,
            instructions: taken.instructions,
            engine,
            busy,
            span: taken.latency,
            hbm_bytes: taken.hbm_bytes,
            macs: taken.macs,
            utilisation: part_of(busy, taken.latency),
        }
    }
}

fn count_times(outline: &Outline<'_>, times: u64, places: &mut [RegionPlace<'_>]) {
    for part in &outline.parts {
        match part {
            OutlinePart::Region(_, number) => places[*number].times += times,
            OutlinePart::Loop { turns, condition, body, .. } => {
                count_times(condition, times * (turns + 1), places);
                count_times(body, times * turns, places);
            }
        }
    }
}
