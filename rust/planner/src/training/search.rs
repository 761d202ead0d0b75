//! The best layout for an objective.

use serde::{Deserialize, Serialize};

use super::layout::TrainingLayout;
use super::memory::footprint;
use super::recipe::{Recipe, Recompute, TrainingSettings};
use super::report::TrainingPlan;
use super::step::{Times, step};
use crate::communication::{Communication, LevelCosts};
use crate::dtype::DataType;
use crate::hardware::{Machine, Rank};
use crate::layout::{divisors, tensor_degrees};
use crate::memory::MemoryTable;
use crate::shapes::Model;
use trn3_system::energy::{EnergyModel, EnergyWork, estimate};
use trn3_system::{Error, Result, check_interrupt};

/// What is to be least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrainingObjective {
    /// The time of a step; on given chips its cost too, and one over MFU.
    #[default]
    StepTime,
    /// Joules of a step.
    Energy,
    /// Bytes on the fullest bank.
    Memory,
}

impl TrainingObjective {
    /// The objective of a name: `step_time`, `energy`, `memory`, or what is the same on given chips as the first:
    /// `throughput`, `tokens_per_second`, `mfu`, `cost`.
    ///
    /// # Errors
    /// [`Error::Unknown`] for any other.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "step_time" | "throughput" | "tokens_per_second" | "tokens_per_second_per_chip" | "mfu" | "cost" => {
                Ok(Self::StepTime)
            }
            "energy" => Ok(Self::Energy),
            "memory" => Ok(Self::Memory),
            _ => Err(Error::unknown(
                "objective",
                name,
                ["step_time", "throughput", "tokens_per_second", "mfu", "cost", "energy", "memory"],
            )),
        }
    }
}

/// Where to look; an empty list means every value that makes sense.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LayoutSpace {
    /// Chips to use; all of the system without.
    pub chips: Option<u64>,
    /// Physical cores of a logical one; the chip's default without.
    pub lnc: Option<u32>,
    /// Tensor parallelism.
    pub tp: Vec<u64>,
    /// Stages.
    pub pp: Vec<u64>,
    /// Replicas; as many as the chips have room for without.
    pub dp: Option<u64>,
    /// Context parallelism: 1 to 8 unless given.
    pub cp: Vec<u64>,
    /// Expert parallelism.
    pub ep: Vec<u64>,
    /// Interleaving: 1, 2, 4 unless given.
    pub interleave: Vec<u64>,
    /// Sharding: 0, 1, 3 unless given.
    pub zero: Vec<u8>,
    /// Sequences at a time: 1, 2, 4, 8, 16 unless given.
    pub micro_batch: Vec<u64>,
    /// Recomputation.
    pub recompute: Vec<Recompute>,
    /// Whether norms are split along the sequence; they are without.
    pub sequence_parallel: Option<bool>,
    /// How many plans to return, the best first; 1 without.
    pub keep: Option<usize>,
}

impl LayoutSpace {
    /// Whether any degree is given.
    fn fixes_degrees(&self) -> bool {
        let free = Self {
            chips: self.chips,
            lnc: self.lnc,
            sequence_parallel: self.sequence_parallel,
            keep: self.keep,
            ..Self::default()
        };
        *self != free
    }
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrainingSearchResult {
    /// The best plans, the best first.
    pub plans: Vec<TrainingPlan>,
    /// Layouts that divide and were timed or weighed.
    pub evaluated: u64,
    /// Of them, those that fit in memory.
    pub fitting: u64,
}

/// The best layouts of `model` on all chips of `machine`, or on those of `space`.
///
/// Ties go to the layout with the smaller degrees, so the answer is always the same.
///
/// # Errors
/// [`Error::Value`] if nothing divides; [`Error::Memory`] with the table of the smallest if nothing fits.
pub fn search(
    model: &Model,
    machine: &Machine,
    recipe: &Recipe,
    objective: TrainingObjective,
    space: &LayoutSpace,
) -> Result<TrainingSearchResult> {
    let rank = machine.chip.rank(lnc_of(machine, space)?)?;
    search_with(model, machine, recipe, objective, space, &LevelCosts::new(machine, &rank)?)
}

/// [`search`] with another source of collective times.
///
/// # Errors
/// As [`search`].
pub fn search_with(
    model: &Model,
    machine: &Machine,
    recipe: &Recipe,
    objective: TrainingObjective,
    space: &LayoutSpace,
    communication: &dyn Communication,
) -> Result<TrainingSearchResult> {
    recipe.check(model)?;
    recipe.check_formats(model, &machine.chip)?;
    let lnc = lnc_of(machine, space)?;
    let rank = machine.chip.rank(lnc)?;
    let chips = space.chips.unwrap_or(u64::from(machine.chips));
    if chips == 0 || chips > u64::from(machine.chips) {
        return Err(Error::Value(format!("chips is {chips}; {} has {}, so 1 to that", machine.title, machine.chips)));
    }
    let ranks = chips * u64::from(rank.per_chip);
    let settings = TrainingSettings::load()?.on(machine.chip.like());
    let strict = settings.strict(machine.chip.like());
    let power = machine.chip.energy(recipe.tdp);
    let mut best: Vec<(f64, TrainingLayout)> = Vec::new();
    let keep = space.keep.unwrap_or(1).max(1);
    let (mut evaluated, mut fitting) = (0, 0);
    let mut smallest: Option<(f64, TrainingLayout)> = None;
    let mut failure = None;
    each_layout(model, machine, recipe, space, ranks, lnc, &mut |layout| {
        if failure.is_some() || layout.check(model, machine, recipe).is_err() {
            return;
        }
        evaluated += 1;
        let weighed = check_interrupt().map_err(Error::from);
        let memory = match weighed.and_then(|()| table(model, machine, recipe, layout, &rank)) {
            Ok(memory) => memory,
            Err(error) => {
                failure = Some(error);
                return;
            }
        };
        if smallest.is_none_or(|(used, _)| memory.used < used) {
            smallest = Some((memory.used, *layout));
        }
        if !memory.fits {
            return;
        }
        fitting += 1;
        let score = if objective == TrainingObjective::Memory {
            Ok(memory.used)
        } else {
            let times = step(model, &rank, recipe, layout, communication, &settings, strict);
            if objective == TrainingObjective::Energy { joules(&power, &rank, &times) } else { Ok(times.step) }
        };
        match score {
            Ok(score) => insert(&mut best, keep, (score, *layout)),
            Err(error) => failure = Some(error),
        }
    });
    if let Some(error) = failure {
        return Err(error);
    }
    if best.is_empty() {
        let Some((_, layout)) = smallest else {
            return Err(nothing_divides(model, machine, recipe, space, ranks, lnc));
        };
        let memory = table(model, machine, recipe, &layout, &rank)?;
        if space.fixes_degrees()
            && let Some(text) = nearest_that_fits(model, machine, recipe, &layout)
        {
            return Err(memory.refusal(
                &format!("training {} on {chips} chips, at best with {},", model.name, layout.name()),
                &format!("{text} would fit"),
            ));
        }
        let more = (memory.used / memory.bank).log2().ceil().exp2() * chips as f64;
        return Err(memory.refusal(
            &format!("training {} on {chips} chips, at best with {},", model.name, layout.name()),
            &format!("about {more} chips would be needed"),
        ));
    }
    let plans = best
        .into_iter()
        .map(|(_, layout)| super::plan_with(model, machine, recipe, &layout, communication))
        .collect::<Result<Vec<_>>>()?;
    Ok(TrainingSearchResult { plans, evaluated, fitting })
}

/// Why no layout divides: the degree that was given and does not, or the number of chips.
fn nothing_divides(
    model: &Model,
    machine: &Machine,
    recipe: &Recipe,
    space: &LayoutSpace,
    ranks: u64,
    lnc: u32,
) -> Error {
    let first = |list: &[u64]| list.first().copied().unwrap_or(1);
    let (tp, pp, cp) = (first(&space.tp), first(&space.pp), first(&space.cp));
    let one = tp.saturating_mul(pp).saturating_mul(cp).max(1);
    let layout = TrainingLayout {
        tp,
        pp,
        cp,
        dp: space.dp.unwrap_or((ranks / one).max(1)),
        ep: first(&space.ep),
        interleave: first(&space.interleave),
        micro_batch: first(&space.micro_batch),
        zero: space.zero.first().copied().unwrap_or(0),
        ..TrainingLayout::one(lnc)
    };
    let batch = recipe.global_batch;
    // Replicas that nobody asked for must not be blamed for the batch.
    let even = if space.dp.is_some() { batch } else { layout.dp.saturating_mul(layout.micro_batch) };
    let neutral = Recipe { global_batch: even.max(1), ..recipe.clone() };
    if let Err(error) = layout.check(model, machine, &neutral) {
        return error;
    }
    let chips = ranks * u64::from(lnc) / u64::from(machine.chip.cores);
    let fewer = (1..=chips).rev().find(|&chips| batch.is_multiple_of(chips)).unwrap_or(1);
    let larger = batch.div_ceil(ranks) * ranks;
    Error::Value(format!(
        "no layout of {} shares {chips} chips ({ranks} logical cores) and a global batch of {batch} out evenly; \
         chips={fewer}, or a batch of {larger}, would work",
        model.name
    ))
}

fn lnc_of(machine: &Machine, space: &LayoutSpace) -> Result<u32> {
    let lnc = space.lnc.or(machine.chip.lnc_modes.last().copied()).unwrap_or(1);
    machine.chip.rank(lnc).map(|rank| rank.lnc)
}

fn table(
    model: &Model,
    machine: &Machine,
    recipe: &Recipe,
    layout: &TrainingLayout,
    rank: &Rank,
) -> Result<MemoryTable> {
    let footprint = footprint(model, recipe, layout, &machine.chip, rank)?;
    Ok(MemoryTable::new(&footprint, &machine.chip, rank, layout.replica_ranks()))
}

fn joules(power: &Result<EnergyModel>, rank: &Rank, times: &Times) -> Result<f64> {
    let ranks = f64::from(rank.per_chip);
    let mut work = EnergyWork {
        hbm_bytes: times.hbm_bytes * ranks,
        link_bytes: times.link_bytes,
        sbuf_bytes: 2.0 * times.hbm_bytes * ranks,
        seconds: times.step,
        ..EnergyWork::default()
    };
    for dtype in DataType::ALL.into_iter().filter(|dtype| times.flops[dtype.index()] > 0.0) {
        work.add(dtype.name(), times.flops[dtype.index()] * ranks)?;
    }
    Ok(estimate(power.as_ref().map_err(Clone::clone)?, &work)?.joules)
}

fn insert(best: &mut Vec<(f64, TrainingLayout)>, keep: usize, one: (f64, TrainingLayout)) {
    let order = |left: &(f64, TrainingLayout), right: &(f64, TrainingLayout)| {
        left.0.total_cmp(&right.0).then_with(|| left.1.cmp(&right.1))
    };
    let place = best.partition_point(|other| order(other, &one).is_lt());
    if place < keep {
        best.insert(place, one);
        best.truncate(keep);
    }
}

/// The values to try: those given, else those that make sense.
fn or<T: Copy>(given: &[T], usual: impl FnOnce() -> Vec<T>) -> Vec<T> {
    if given.is_empty() { usual() } else { given.to_vec() }
}

fn each_layout(
    model: &Model,
    machine: &Machine,
    recipe: &Recipe,
    space: &LayoutSpace,
    ranks: u64,
    lnc: u32,
    visit: &mut dyn FnMut(&TrainingLayout),
) {
    // A replica's tensor parallelism over a slow network is never worth its collectives.
    let inside =
        machine.levels.iter().rev().find(|level| Some(&level.name) != machine.network.as_ref().map(|n| &n.name));
    let near = inside.map_or(1, |level| u64::from(level.chips)) * ranks / u64::from(machine.chips).min(ranks).max(1);
    let tps = or(&space.tp, || tensor_degrees(model, near.max(1)));
    let pps = or(&space.pp, || divisors(model.layers));
    let cps = or(&space.cp, || vec![1, 2, 4, 8]);
    let interleaves = or(&space.interleave, || vec![1, 2, 4]);
    let zeros = or(&space.zero, || vec![0, 1, 3]);
    let batches = or(&space.micro_batch, || vec![1, 2, 4, 8, 16]);
    let modes = or(&space.recompute, || Recompute::ALL.to_vec());
    let plain =
        TrainingLayout { sequence_parallel: space.sequence_parallel.unwrap_or(true), ..TrainingLayout::one(lnc) };
    for &tp in &tps {
        for &pp in &pps {
            for &cp in &cps {
                let one = tp.saturating_mul(pp).saturating_mul(cp);
                if one == 0 || !recipe.sequence.is_multiple_of(cp.max(1)) {
                    continue;
                }
                let dp = match space.dp {
                    Some(dp) if dp.saturating_mul(one) <= ranks => dp,
                    None if ranks.is_multiple_of(one) => ranks / one,
                    _ => continue,
                };
                if dp == 0 || !recipe.global_batch.is_multiple_of(dp) {
                    continue;
                }
                let base = TrainingLayout { tp, pp, dp, cp, ..plain };
                for ep in or(&space.ep, || base.expert_degrees(model)) {
                    for &interleave in interleaves.iter().filter(|&&parts| parts == 1 || pp > 1) {
                        for &zero in zeros.iter().filter(|&&zero| zero == 0 || dp * cp > 1) {
                            for &micro_batch in &batches {
                                for &recompute in &modes {
                                    visit(&TrainingLayout { ep, interleave, zero, micro_batch, recompute, ..base });
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The layout nearest to one that does not fit, in words: one change first, then two, then the fastest of all.
pub(super) fn nearest_that_fits(
    model: &Model,
    machine: &Machine,
    recipe: &Recipe,
    layout: &TrainingLayout,
) -> Option<String> {
    let rank = machine.chip.rank(layout.lnc).ok()?;
    let fits = |layout: &TrainingLayout| {
        layout.check(model, machine, recipe).is_ok()
            && table(model, machine, recipe, layout, &rank).is_ok_and(|memory| memory.fits)
    };
    let changes: [fn(TrainingLayout) -> TrainingLayout; 8] = [
        |layout| TrainingLayout { recompute: layout.recompute.max(Recompute::Selective), ..layout },
        |layout| TrainingLayout { zero: layout.zero.max(1), ..layout },
        |layout| TrainingLayout { micro_batch: 1, ..layout },
        |layout| TrainingLayout { recompute: Recompute::Full, ..layout },
        |layout| TrainingLayout { zero: 3, ..layout },
        |layout| TrainingLayout { tp: layout.tp * 2, dp: layout.dp.div_ceil(2), ..layout },
        |layout| TrainingLayout { pp: layout.pp * 2, dp: layout.dp.div_ceil(2), ..layout },
        |layout| TrainingLayout { pp: layout.pp * 4, dp: layout.dp.div_ceil(4), ..layout },
    ];
    let one = changes.iter().map(|change| change(*layout)).find(&fits);
    let two = || {
        let pairs = changes.iter().flat_map(|first| changes.iter().map(move |second| second(first(*layout))));
        pairs.into_iter().find(&fits)
    };
    if let Some(found) = one.or_else(two) {
        return Some(found.name());
    }
    let space = LayoutSpace { lnc: Some(layout.lnc), ..LayoutSpace::default() };
    let found = search(model, machine, recipe, TrainingObjective::StepTime, &space).ok()?;
    found.plans.first().map(|plan| format!("{} on {} chips", plan.layout.name(), plan.chips))
}
