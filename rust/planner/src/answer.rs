//! What requests are answered with.

use std::collections::BTreeMap;

use serde::Serialize;

use super::band::ServingBand;
use super::economics::{PlanCost, PlanEnergy, PriceSource, cost, energy};
use super::inference::{Evaluation, Planner};
use super::layout::{Layout, pads_heads};
use super::networks::Architecture;
use super::roofline::LayerOperation;
use super::search::{FrontierPoint, ServingObjective};
use super::shapes::{Model, Parameters};
use super::uncertainty::Uncertainty;
use trn3_system::Result;

/// A model in a result.
#[derive(Clone, Debug, Serialize)]
pub struct ModelSummary {
    #[serde(flatten)]
    model: Architecture,
    #[serde(flatten)]
    counts: Option<Counts>,
}

/// The counts of a transformer; other models have theirs already.
#[derive(Clone, Debug, Serialize)]
struct Counts {
    parameters: u64,
    parameters_active: u64,
    parameters_by_class: BTreeMap<&'static str, u64>,
}

impl ModelSummary {
    /// A model and its counts.
    pub fn new(model: &Model) -> Self {
        Self::of(&Architecture::Transformer(model.clone()))
    }

    /// A model of any kind and its counts.
    pub fn of(model: &Architecture) -> Self {
        let counts = match model {
            Architecture::Transformer(model) => {
                let counts: Parameters = model.parameters();
                Some(Counts {
                    parameters: counts.total(),
                    parameters_active: counts.active,
                    parameters_by_class: counts.by_class(),
                })
            }
            Architecture::Network(_) => None,
        };
        Self { model: model.clone(), counts }
    }
}

/// A plan in a result.
#[derive(Clone, Debug, Serialize)]
pub struct PlanSummary {
    model: ModelSummary,
    system: SystemSummary,
    dtypes: BTreeMap<&'static str, &'static str>,
    #[serde(flatten)]
    evaluation: Evaluation,
    #[serde(flatten)]
    expected: ServingBand,
    fits: bool,
    /// Why not, and what would.
    why_not: Option<String>,
    largest_batch: u64,
    /// Generated tokens a second for a million watts of chips, prompts included where an output length is given.
    tokens_per_second_per_megawatt: Option<f64>,
    /// Joules of chips for a request with its prompt; none without an output length.
    joules_per_request: Option<f64>,
    energy: Option<PlanEnergy>,
    cost: Option<PlanCost>,
    /// How the layout was found, where it was not given.
    searched: Option<Searched>,
    assumptions: Vec<String>,
    /// What the figures would be under other constants, where it was asked for.
    uncertainty: Option<Uncertainty>,
}

#[derive(Clone, Debug, Serialize)]
struct SystemSummary {
    name: String,
    title: String,
    chip: String,
    chips: u32,
    logical_cores: u64,
}

/// How a layout was found.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Searched {
    pub(super) objective: ServingObjective,
    pub(super) evaluated: usize,
    pub(super) refused: BTreeMap<&'static str, usize>,
    pub(super) frontier: Vec<FrontierPoint>,
}

/// What a search found.
#[derive(Clone, Debug, Serialize)]
pub struct SearchSummary {
    /// The best plan.
    pub best: PlanSummary,
    /// The next ones, the better first.
    pub ranked: Vec<PlanSummary>,
}

impl PlanSummary {
    /// What the plan's layout does.
    pub fn into_evaluation(self) -> Evaluation {
        self.evaluation
    }

    /// What the plan's layout does, still in the plan.
    pub(super) fn evaluation(&self) -> &Evaluation {
        &self.evaluation
    }

    /// Between which times the plan's are expected.
    pub fn expected(&self) -> &ServingBand {
        &self.expected
    }

    /// What it costs, at a price that is given or the usual one.
    pub(super) fn cost(&self) -> Option<&PlanCost> {
        self.cost.as_ref()
    }

    /// Every number that nobody documents, in words.
    pub(super) fn assumptions(&self) -> &[String] {
        &self.assumptions
    }

    pub(super) fn layout(&self) -> Layout {
        self.evaluation.layout
    }

    pub(super) fn batch(&self) -> u64 {
        self.evaluation.workload.batch
    }

    /// With what its figures would be under other constants.
    pub(super) fn with_uncertainty(self, drawn: Uncertainty) -> Self {
        Self { uncertainty: Some(drawn), ..self }
    }

    /// With sentences before its assumptions.
    pub(super) fn saying(mut self, said: impl IntoIterator<Item = String>) -> Self {
        self.assumptions.splice(0..0, said);
        self
    }

    /// Everything about an evaluated layout: how it was found, `tdp`, `price` and `instances` as asked.
    pub(super) fn new(
        planner: &Planner<'_>,
        evaluation: Evaluation,
        searched: Option<Searched>,
        (tdp, price, instances): (Option<f64>, Option<&PriceSource>, Option<u32>),
    ) -> Result<Self> {
        let machine = planner.machine();
        let (layout, workload, chip) = (evaluation.layout, evaluation.workload, &machine.chip);
        let mut assumptions = planner.assumptions().to_vec();
        let energy = match (energy(&evaluation, chip, tdp), tdp) {
            (Ok(energy), _) => Some(energy),
            (Err(error), Some(_)) => return Err(error),
            (Err(error), None) => {
                assumptions.push(format!("no energy: {error}"));
                None
            }
        };
        let cost = cost(&evaluation, chip, price)?;
        let whole = u64::from(machine.chips) / u64::from(instances.unwrap_or(1).max(1));
        let replica = layout.split.ranks().div_ceil(u64::from(planner.rank().per_chip));
        if replica > whole {
            assumptions.push(format!(
                "a replica has {replica} chips, more than the {whole} of one system: its collectives cross the network \
                 between systems"
            ));
        }
        assumptions.extend(energy.iter().flat_map(|energy| energy.assumptions.clone()));
        assumptions.extend(cost.iter().flat_map(|cost| cost.assumptions.clone()));
        let is_guessing = planner.settings().speculation.is_some();
        let expected =
            ServingBand::of(&chip.measured_as(), workload.batch, is_guessing, evaluation.tpot, evaluation.ttft)?;
        let fits = evaluation.memory.fits;
        if pads_heads(planner.model(), layout.split.tp) {
            let (attention, tp) = (&planner.model().attention, layout.split.tp);
            assumptions.push(format!(
                "the {} heads of queries are padded to {}, {} a rank, and those of keys and values to {} a rank, as Neuron \
                 pads them",
                attention.heads(),
                attention.heads_of_rank(tp) * tp,
                attention.heads_of_rank(tp),
                attention.kv_heads_of_rank(tp)
            ));
        }
        let megawatt = |energy: &PlanEnergy| 1e6 / energy.joules_per_token;
        let requests = |energy: &PlanEnergy| evaluation.requests_per_second.map(|rate| energy.watts / rate);
        let why_not = (!fits).then(|| {
            evaluation.memory.refusal(&planner.what(&layout, workload), &planner.advice(&layout, workload)).to_string()
        });
        Ok(Self {
            model: ModelSummary::new(planner.model()),
            system: SystemSummary {
                name: machine.name.clone(),
                title: machine.title.clone(),
                chip: chip.name.clone(),
                chips: machine.chips,
                logical_cores: u64::from(machine.chips) * u64::from(planner.rank().per_chip),
            },
            dtypes: planner.settings().precision.names(),
            fits,
            why_not,
            largest_batch: planner.largest_batch(&layout, workload),
            tokens_per_second_per_megawatt: energy.as_ref().map(megawatt),
            joules_per_request: energy.as_ref().and_then(requests),
            evaluation,
            expected,
            energy,
            cost,
            searched,
            assumptions,
            uncertainty: None,
        })
    }
}

/// An operation of a plan.
#[derive(Clone, Debug, Serialize)]
pub struct KeyedOperation {
    /// `prefill` or `decode`.
    pub phase: &'static str,
    /// Under which a measured time is given.
    pub key: String,
    /// Of one, by the roofline.
    pub seconds: f64,
    /// What it is.
    #[serde(flatten)]
    pub operation: LayerOperation,
}
