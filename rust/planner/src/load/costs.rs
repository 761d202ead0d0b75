//! What a step of a replica takes: tables over batch, context and length of prompts, read off the planner once.

use super::room;
use super::tables::{StepCost, StepCurve, StepSurface};
use crate::economics::dynamic_joules;
use crate::phase::{ServingPhase, StepPart};
use crate::roofline::TokenStep;
use crate::{Layout, Planner, ServingRecipe, Workload};
use trn3_system::Result;
use trn3_system::energy::EnergyModel;

/// Ratio of neighbouring contexts of a table; between them costs are straight lines, as those of decoding are.
const CONTEXT_RATIO: f64 = 1.25;

/// Ratio of neighbouring lengths of prompts where none are compiled: the square of a length is 0.3 % off between two.
const PROMPT_RATIO: f64 = 1.1;

/// The shapes that a server's steps have.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StepShapes {
    /// The most sequences of a step.
    pub(super) sequences: u64,
    /// The longest sequence, prompt and answer.
    pub(super) longest: u64,
    /// Lengths of prompts that tables hold to the last digit.
    pub(super) prompts: Vec<u64>,
    /// Whether prompts are read in pieces, beside sequences that decode.
    pub(super) chunked: bool,
}

/// Times and energies of the steps of one replica.
#[derive(Clone, Debug)]
pub(super) struct StepCosts {
    /// Stages of its pipeline.
    pub(super) stages: f64,
    /// Prompts that it reads side by side.
    pub(super) groups: usize,
    /// Seconds of the host before a prompt is read.
    pub(super) request_start: f64,
    /// Watts of its chips at any load.
    pub(super) static_watts: f64,
    /// Tokens of keys and values that it has room for.
    pub(super) room: f64,
    /// Bytes of keys and values of a token, of all ranks.
    pub(super) kv_bytes: f64,
    /// Bytes of weights, of all ranks.
    pub(super) weight_bytes: f64,
    decode: Vec<(u64, StepCurve)>,
    pads_batch: bool,
    recipe: ServingRecipe,
    prompt: StepSurface,
    mixed: Option<MixedCosts>,
}

/// What steps of pieces of prompts and of sequences that decode are made of.
#[derive(Clone, Debug)]
struct MixedCosts {
    /// All but attention and the logits of sequences that decode, by tokens of a group.
    linear: StepCurve,
    /// Logits of so many sequences.
    logits: StepCurve,
    /// Attention of a piece of a prompt.
    prompt: StepSurface,
    /// Attention of sequences that decode.
    decode: Vec<(u64, StepCurve)>,
}

impl StepCosts {
    /// The tables of a layout.
    ///
    /// # Errors
    /// Those of the energy model's arithmetic.
    pub(super) fn new(
        planner: &Planner<'_>,
        layout: &Layout,
        energy: Option<&EnergyModel>,
        shapes: &StepShapes,
    ) -> Result<Self> {
        let split = &layout.split;
        let recipe = planner.recipe();
        // Shares of chips where a replica is no whole number of them.
        let chips = split.ranks() as f64 / f64::from(planner.rank().per_chip);
        let cost = |phase: &ServingPhase| -> Result<StepCost> {
            let joules = energy.map_or(Ok(0.0), |energy| dynamic_joules(energy, &phase.activity))?;
            Ok(StepCost { seconds: phase.seconds, joules: joules * chips })
        };
        let contexts = rising(1.0, shapes.longest as f64, CONTEXT_RATIO, window(planner));
        let batches = batches(shapes.sequences);
        let decode = |part: StepPart| -> Result<Vec<(u64, StepCurve)>> {
            batches
                .iter()
                .map(|&batch| {
                    let at = |context: f64| match part {
                        StepPart::All => cost(&planner.decode_phase(split, batch, context)),
                        _ => {
                            cost(&planner.step_part(split, planner.decode_step_at(split, batch, context), false, part))
                        }
                    };
                    Ok((batch, StepCurve::new(&contexts, at)?))
                })
                .collect()
        };
        let lengths = if recipe.least_bucket > 1 {
            compiled(recipe, shapes.longest)
        } else {
            rising(1.0, shapes.longest as f64, PROMPT_RATIO, shapes.prompts.iter().map(|&length| length as f64))
        };
        let kept = std::iter::once(0.0).chain(rising(64.0, shapes.longest as f64, 1.6, window(planner)));
        let kept: Vec<f64> = kept.collect();
        let piece = |tokens: f64, past: f64| TokenStep { past, ..TokenStep::prefill(split.dp as f64, tokens) };
        let prompts = |part: StepPart| {
            let at = |tokens, past| cost(&planner.step_part(split, piece(tokens, past), true, part));
            StepSurface::new(&lengths, &kept, at)
        };
        let mixed = if shapes.chunked {
            let most = (shapes.longest + shapes.sequences) as f64;
            let rows = rising(1.0, most, PROMPT_RATIO, std::iter::empty());
            let of_rows = |rows: f64| cost(&planner.step_part(split, piece(rows, 0.0), true, StepPart::Linear));
            let counts: Vec<f64> = std::iter::once(0.0).chain(batches.iter().map(|&batch| batch as f64)).collect();
            // What more logits add to a step; those of every group.
            let with_logits = |count: f64| {
                let step = TokenStep { logits: count / split.dp as f64, ..piece(1.0, 0.0) };
                cost(&planner.step_part(split, step, true, StepPart::Linear))
            };
            let logits = |count: f64| Ok(with_logits(count)? + with_logits(0.0)? * -1.0);
            Some(MixedCosts {
                linear: StepCurve::new(&rows, of_rows)?,
                logits: StepCurve::new(&counts, logits)?,
                prompt: prompts(StepPart::Attention)?,
                decode: decode(StepPart::Attention)?,
            })
        } else {
            None
        };
        let longest = Workload { batch: shapes.sequences, input: shapes.longest, output: 0 };
        Ok(Self {
            stages: split.pp as f64,
            groups: split.dp as usize,
            request_start: recipe.request_start,
            static_watts: energy.map_or(0.0, |energy| energy.static_watts * chips),
            room: room::tokens(planner, layout, longest),
            kv_bytes: room::bytes_of_token(planner, layout, shapes.longest as f64),
            weight_bytes: room::weight_bytes(planner, layout),
            decode: decode(StepPart::All)?,
            pads_batch: recipe.least_bucket > 1,
            recipe: recipe.clone(),
            prompt: prompts(StepPart::All)?,
            mixed,
        })
    }

    /// A step in which `batch` sequences decode, each after `context` tokens on average.
    pub(super) fn decode(&self, batch: u64, context: f64) -> StepCost {
        at_batch(&self.decode, batch, context, self.pads_batch) * self.stages
    }

    /// A stage of reading prompts of up to `tokens` tokens, after `past` others that are kept.
    pub(super) fn prompt(&self, tokens: u64, past: u64) -> StepCost {
        self.prompt.at(self.recipe.bucket(tokens) as f64, past as f64)
    }

    /// A step that reads pieces of prompts, `(tokens, past)` each, while `batch` sequences decode.
    pub(super) fn mixed(&self, pieces: &[(u64, u64)], batch: u64, context: f64) -> StepCost {
        let Some(costs) = &self.mixed else { return self.decode(batch, context) };
        let groups = self.groups as f64;
        let read: u64 = pieces.iter().map(|piece| piece.0).sum();
        let rows = self.recipe.bucket(read + batch) as f64;
        let mut cost = costs.linear.at(rows / groups) + costs.logits.at(batch as f64);
        for &(tokens, past) in pieces {
            // The table's step reads one piece in each group; this one is in one of them.
            cost = cost + costs.prompt.at(tokens as f64, past as f64) * (1.0 / groups);
        }
        if batch > 0 {
            cost = cost + at_batch(&costs.decode, batch, context, self.pads_batch);
        }
        cost * self.stages
    }

    /// The same with every time of prompts and of decoding multiplied.
    pub(super) fn scaled(&self, prompt: f64, decode: f64) -> Self {
        let all = |curves: &[(u64, StepCurve)], factor: f64| {
            curves.iter().map(|(batch, curve)| (*batch, curve.slower(factor))).collect()
        };
        Self {
            request_start: self.request_start * prompt,
            decode: all(&self.decode, decode),
            prompt: self.prompt.slower(prompt),
            mixed: self.mixed.as_ref().map(|mixed| MixedCosts {
                linear: mixed.linear.slower(prompt),
                logits: mixed.logits.slower(decode),
                prompt: mixed.prompt.slower(prompt),
                decode: all(&mixed.decode, decode),
            }),
            ..self.clone()
        }
    }
}

/// The cost of a batch: of the next compiled one, or between two.
fn at_batch(curves: &[(u64, StepCurve)], batch: u64, context: f64, pads: bool) -> StepCost {
    let index = curves.partition_point(|(known, _)| *known < batch).min(curves.len() - 1);
    let (above, curve) = &curves[index];
    if pads || *above <= batch || index == 0 {
        return curve.at(context);
    }
    let (below, lower) = &curves[index - 1];
    let share = (batch - below) as f64 / (above - below) as f64;
    lower.at(context) * (1.0 - share) + curve.at(context) * share
}

/// Compiled batches: powers of two, and the most **(choice)**.
fn batches(most: u64) -> Vec<u64> {
    let powers = std::iter::successors(Some(1_u64), |batch| Some(batch * 2)).take_while(|&batch| batch < most);
    powers.chain([most]).collect()
}

/// Lengths of prompts that are compiled, up to the one that holds the longest.
fn compiled(recipe: &ServingRecipe, longest: u64) -> Vec<f64> {
    let last = recipe.bucket(longest);
    let next = |length: &u64| Some(recipe.bucket(length + 1));
    let all = std::iter::successors(Some(recipe.least_bucket), next).take_while(|length| *length < last);
    all.chain([last]).map(|length| length as f64).collect()
}

/// Where costs have a kink: the length of a window of attention.
fn window(planner: &Planner<'_>) -> impl Iterator<Item = f64> {
    planner.model().window.map(|window| window.tokens as f64).into_iter()
}

/// Numbers from `low` to `high`, each a ratio larger than the one before, with some more between them.
fn rising(low: f64, high: f64, ratio: f64, more: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut all: Vec<f64> = std::iter::successors(Some(low), |value| Some((value * ratio).ceil().max(value + 1.0)))
        .take_while(|value| *value < high)
        .chain([high])
        .chain(more.filter(|value| (low..=high).contains(value)))
        .collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    all
}
