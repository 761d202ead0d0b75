//! What a planned step says of itself: rates, shares, memory, energy, cost, and what it rests on.

use serde::Serialize;

use super::exchange::Exposed;
use super::layout::TrainingLayout;
use super::recipe::{Recipe, Recompute, TrainingSettings};
use super::schedule::TrainingSchedule;
use super::step::Times;
use crate::band::TrainingBand;
use crate::communication::Communication;
use crate::dtype::DataType;
use crate::hardware::{Machine, Rank};
use crate::memory::MemoryTable;
use crate::shapes::Model;
use crate::tensor_class::TensorClass;
use crate::uncertainty::Uncertainty;
use trn3_system::energy::cost::{SystemCost, rent};
use trn3_system::energy::{self, Energy, EnergyWork};
use trn3_system::{Error, Result};

/// A part of a step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrainingPhase {
    /// `forward`, `backward`, `recompute`, `tensor parallel`, ...
    pub name: &'static str,
    /// Seconds that it adds to the step.
    pub seconds: f64,
    /// Its share of the step.
    pub share: f64,
    /// Seconds of it that run under other work.
    pub hidden: f64,
    /// What limits it: `compute`, `memory`, a level of the fabric, `stages`.
    pub binding: String,
}

/// One training step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrainingPlan {
    /// The model.
    pub model: String,
    /// The system.
    pub system: String,
    /// Degrees of parallelism.
    pub layout: TrainingLayout,
    /// Chips that it takes.
    pub chips: u64,
    /// Sequences of a step.
    pub global_batch: u64,
    /// Tokens of a sequence.
    pub sequence: u64,
    /// Micro-batches that each replica accumulates.
    pub micro_batches: u64,
    /// Seconds of a step.
    pub step_time: f64,
    /// Sequences a second.
    pub sequences_per_second: f64,
    /// Tokens a second.
    pub tokens_per_second: f64,
    /// Tokens a second and chip.
    pub tokens_per_second_per_chip: f64,
    /// 6 operations for each active weight and token, over the peak.
    pub mfu: f64,
    /// The same with the operations of attention on top.
    pub mfu_with_attention: f64,
    /// Operations that are executed, those that are computed again included, over the peak.
    pub hfu: f64,
    /// The peak of all chips that these shares are of, operations a second.
    pub peak: f64,
    /// Waiting of the pipeline over its work: `(pp - 1) / (interleave * micro_batches)`.
    pub bubble: f64,
    /// Pipeline, recomputation, formats and network.
    pub schedule: TrainingSchedule,
    /// Parts of the step, the longest first.
    pub phases: Vec<TrainingPhase>,
    /// What limits the longest part.
    pub binding: String,
    /// Memory by class.
    pub memory: MemoryTable,
    /// Energy of one chip in a step; none if the chip has no published TDP and none was given.
    pub energy: Option<Energy>,
    /// Average power of all chips, watts.
    pub watts: Option<f64>,
    /// Joules of all chips for a token.
    pub joules_per_token: Option<f64>,
    /// Cost of renting the chips, at the price that was given.
    pub cost: Option<SystemCost>,
    /// What is not in it.
    pub not_included: Vec<String>,
    /// What it rests on.
    pub assumptions: Vec<String>,
    /// Between which figures it is expected.
    #[serde(flatten)]
    pub expected: TrainingBand,
    /// What the figures would be under other constants, where it was asked for.
    pub uncertainty: Option<Uncertainty>,
}

pub(super) fn report(
    model: &Model,
    machine: &Machine,
    recipe: &Recipe,
    layout: &TrainingLayout,
    memory: MemoryTable,
    times: &Times,
    communication: &dyn Communication,
    settings: &TrainingSettings,
) -> Result<TrainingPlan> {
    let rank = machine.chip.rank(layout.lnc)?;
    let chips = layout.ranks().div_ceil(u64::from(rank.per_chip));
    let tokens = recipe.tokens();
    let main = main_format(times);
    let peak = machine.chip.peak(main).or_else(|_| machine.chip.peak(DataType::Bf16))? * layout.ranks() as f64
        / f64::from(rank.per_chip);
    let share = |flops: f64| flops / (times.step * peak);
    let six = six_per_token(model) * tokens;
    let attention = 3.0 * model.attention_flops(recipe.sequence as f64, 0.0) * recipe.global_batch as f64;
    let executed: f64 = times.flops.iter().sum::<f64>() * layout.ranks() as f64;
    let phases = phases(times);
    let binding = phases.first().map_or_else(String::new, |phase| phase.binding.clone());
    let mut not_included = Vec::new();
    let energy = energy_of(machine, &rank, recipe, times, &mut not_included)?;
    let watts = energy.as_ref().map(|energy| energy.watts * chips as f64);
    let cost = match recipe.price {
        Some(price) => Some(rent(price, chips as usize, 1.0, None, Some(tokens / times.step))?),
        None => {
            not_included.push("cost (no price of a chip and hour given)".to_owned());
            None
        }
    };
    not_included.push("loading of data, checkpoints, failures".to_owned());
    Ok(TrainingPlan {
        model: model.name.clone(),
        system: machine.title.clone(),
        layout: *layout,
        chips,
        global_batch: recipe.global_batch,
        sequence: recipe.sequence,
        micro_batches: layout.micro_batches(recipe),
        step_time: times.step,
        sequences_per_second: recipe.global_batch as f64 / times.step,
        tokens_per_second: tokens / times.step,
        tokens_per_second_per_chip: tokens / times.step / chips as f64,
        mfu: share(six),
        mfu_with_attention: share(six + attention),
        hfu: share(executed),
        peak,
        bubble: layout.bubble(recipe),
        schedule: TrainingSchedule::of(model, machine, recipe, layout, times, settings),
        phases,
        binding,
        memory,
        joules_per_token: watts.map(|watts| watts * times.step / tokens),
        watts,
        assumptions: assumptions(model, machine, recipe, layout, times, communication, settings, energy.as_ref(), main),
        energy,
        cost,
        not_included,
        expected: TrainingBand::of(&machine.chip.measured_as(), times.step, recipe.global_batch as f64)?,
        uncertainty: None,
    })
}

/// Six operations for each weight that a token meets, the table at the input included.
fn six_per_token(model: &Model) -> f64 {
    let parameters = model.parameters();
    let idle = model.experts.as_ref().map_or(0.0, |experts| {
        let of_experts = parameters.of(TensorClass::Experts) as f64;
        of_experts * (1.0 - experts.active as f64 / experts.count as f64)
    });
    6.0 * (parameters.total() as f64 - idle)
}

/// The format in which most operations are done.
fn main_format(times: &Times) -> DataType {
    let most = |best: DataType, next: DataType| {
        if times.flops[next.index()] > times.flops[best.index()] { next } else { best }
    };
    DataType::ALL.into_iter().fold(DataType::Bf16, most)
}

fn phases(times: &Times) -> Vec<TrainingPhase> {
    let unit = if times.arithmetic_share >= 0.5 { "compute" } else { "memory" };
    let plain = |name, seconds: f64, binding: &str| TrainingPhase {
        name,
        seconds,
        share: seconds / times.step,
        hidden: 0.0,
        binding: binding.to_owned(),
    };
    let collective = |name, part: &Exposed| TrainingPhase {
        hidden: part.total - part.exposed,
        ..plain(name, part.exposed, &part.binding)
    };
    let mut phases = vec![
        plain("forward", times.forward, unit),
        plain("backward", times.backward, unit),
        plain("recompute", times.recompute, unit),
        collective("tensor parallel", &times.tensor),
        collective("context parallel", &times.context),
        collective("expert parallel", &times.experts),
        collective("pipeline messages", &times.pipeline),
        collective("data parallel", &times.data),
        plain("pipeline bubble", times.bubble, "stages"),
        plain("optimizer", times.optimizer, "memory"),
        plain("contention", times.contention, "memory"),
    ];
    phases.retain(|phase| phase.seconds > 0.0 || phase.hidden > 0.0);
    phases.sort_by(|left, right| right.seconds.total_cmp(&left.seconds));
    phases
}

fn energy_of(
    machine: &Machine,
    rank: &Rank,
    recipe: &Recipe,
    times: &Times,
    not_included: &mut Vec<String>,
) -> Result<Option<Energy>> {
    let model = match machine.chip.energy(recipe.tdp) {
        Ok(model) => model,
        Err(Error::Value(text) | Error::Spec(text)) if recipe.tdp.is_none() => {
            not_included.push(format!("energy ({text})"));
            return Ok(None);
        }
        Err(Error::Unknown { .. }) => {
            not_included.push(format!("energy ({} has no energy model)", machine.chip.title));
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let ranks = f64::from(rank.per_chip);
    let bytes = times.hbm_bytes * ranks;
    let mut work = EnergyWork {
        hbm_bytes: bytes,
        link_bytes: times.link_bytes,
        sbuf_bytes: 2.0 * bytes,
        seconds: times.step,
        ..EnergyWork::default()
    };
    for dtype in DataType::ALL.into_iter().filter(|dtype| times.flops[dtype.index()] > 0.0) {
        work.add(dtype.name(), times.flops[dtype.index()] * ranks)?;
    }
    energy::estimate(&model, &work).map(Some)
}

fn assumptions(
    model: &Model,
    machine: &Machine,
    recipe: &Recipe,
    layout: &TrainingLayout,
    times: &Times,
    communication: &dyn Communication,
    settings: &TrainingSettings,
    energy: Option<&Energy>,
    main: DataType,
) -> Vec<String> {
    let mut list = vec![
        format!(
            "products reach {} of the array's peak (fitted: runs on Trainium1; all other systems are predictions), and \
             traffic of an operation follows at the memory's peak",
            settings.achieved_fraction
        ),
        "times of operations: roofline, from shapes and rates; no kernel was run".to_owned(),
        format!("shares are of the {} peak of the arrays, array x clock", main.name()),
        "a backward pass takes twice a forward one; activations are BF16, without dropout (choice)".to_owned(),
        format!(
            "optimizer: {}",
            match recipe.moments.name() {
                "master" => "Adam, moments and master weights in FP32, gradients in FP32",
                "stochastic_rounding" =>
                    "Adam, moments and gradients in FP32, BF16 weights rounded stochastically, no master",
                _ => "Adam, moments, gradients and weights in BF16, rounded stochastically, no master",
            }
        ),
        "ranks: tp beside each other, then cp, dp, and pp outermost (choice)".to_owned(),
    ];
    if let Some(network) =
        machine.levels.iter().find(|level| machine.network.as_ref().is_some_and(|n| n.name == level.name))
    {
        list.push(format!(
            "the job spans several systems: what crosses them goes over {} at {} GB/s a chip, non-blocking (choice)",
            network.name,
            network.rate / 1e9
        ));
    }
    let narrow: Vec<&str> = recipe.narrow_classes(model).map(TensorClass::name).collect();
    if !narrow.is_empty() {
        list.push(format!(
            "{} is multiplied in {} in both passes; masters, gradients, optimizer, norms, tables, scores of attention, \
             activations and what passes between ranks are not; a rank keeps two narrow copies of these weights, one for \
             each direction, made once a step (choice)",
            narrow.join(", "),
            main.name()
        ));
    }
    if machine.chip.fp8_is_assumed && recipe.precision.uses(DataType::Fp8) {
        list.push(format!("{}: no rate of FP8 is published: that of BF16", machine.chip.title));
    }
    list.push(if settings.fuses_attention(recipe.sequence) {
        "attention is one kernel: its scores stay on the chip (choice)".to_owned()
    } else {
        format!(
            "attention over fewer than {} tokens is not fused on {}: its scores pass {} times through memory in FP32, \
             and all pairs are computed (fitted)",
            settings.fused_from(),
            machine.chip.title,
            settings.score_passes[0] + settings.score_passes[1]
        )
    });
    if layout.recompute == Recompute::None {
        list.push("scores of attention are kept for the backward pass".to_owned());
    }
    if layout.tp > 1 || layout.ep > 1 || layout.cp > 1 {
        list.push(if settings.tp_overlap > 0.0 {
            format!("{} of collectives of tp, cp and ep run under arithmetic (choice)", settings.tp_overlap)
        } else {
            "collectives of tp, cp and ep hide under nothing (choice)".to_owned()
        });
    }
    if layout.data_ranks() > 1 {
        list.push(format!(
            "gradients are reduced in buckets of {} MB, which hide under {} of a backward pass except for the last one; \
             weights that are gathered behind the optimizer hide under nothing; gradients of {} micro-batches are added \
             before {} (choice)",
            settings.gradient_bucket / 1e6,
            settings.dp_overlap,
            layout.micro_batches(recipe),
            if layout.zero > 1 { "the weights are updated, and reduced for each" } else { "they are reduced, once" }
        ));
    }
    if layout.pp > 1 {
        list.push("messages between stages hide except while the pipeline fills and drains (choice)".to_owned());
    }
    list.push(if settings.strict(machine.chip.like()) {
        "hidden collectives take nothing from arithmetic: DMA classes have strict priority".to_owned()
    } else {
        format!(
            "hidden collectives slow arithmetic by their traffic to memory, {:.3} s a step (choice)",
            times.contention
        )
    });
    list.extend(communication.assumptions());
    list.extend(machine.assumptions.iter().cloned());
    if let Some(energy) = energy {
        list.extend(energy.assumptions.iter().cloned());
        list.push(
            "energy: every byte of memory passes SBUF twice; hosts, switches and cooling not counted (choice)"
                .to_owned(),
        );
    }
    list
}
