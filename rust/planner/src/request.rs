//! Requests: what to plan, as front ends ask for it.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::answer::{KeyedOperation, PlanSummary, SearchSummary, Searched};
use super::communication::{Communication, LevelCosts};
use super::dtype::DataType;
use super::economics::PriceSource;
use super::inference::{Evaluation, Planner, expert_degree};
use super::layout::Layout;
use super::machine_times::MachineTimes;
use super::networks::taken;
use super::phase::LayerExchange;
use super::recipe::ServingRecipe;
use super::roofline::{LayerOperation, Split};
use super::schedule_costs::ScheduleCosts;
use super::search::{Constraints, ServingObjective, search};
use super::settings::{Calibration, MemoryRate, ServingSettings, Speculation, Workload};
use super::shapes::Model;
use super::sources::{DtypeSource, ModelSource, SpeculationSource, SystemSource};
use super::tensor_class::TensorClass;
use super::uncertainty::Uncertainty;
use trn3_system::{Error, Result};

/// Times of operations that a search knows alone.
const ROOFLINE: &str = "roofline";

/// A request: what to plan, on what, under which promises.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of Settings, Workload and Constraints, by the same names")]
pub struct PlanRequest {
    pub model: ModelSource,
    pub system: SystemSource,
    #[serde(default)]
    pub dtype: Option<DtypeSource>,
    #[serde(default)]
    pub batch: Option<u64>,
    #[serde(default)]
    pub input: u64,
    #[serde(default)]
    pub output: u64,
    #[serde(default)]
    pub tp: Option<u64>,
    #[serde(default)]
    pub cp: Option<u64>,
    #[serde(default)]
    pub dp: Option<u64>,
    #[serde(default)]
    pub ep: Option<u64>,
    #[serde(default)]
    pub pp: Option<u64>,
    #[serde(default)]
    pub replicas: Option<u64>,
    #[serde(default)]
    pub lnc: Option<u32>,
    #[serde(default)]
    pub ttft_slo: Option<f64>,
    #[serde(default)]
    pub tpot_slo: Option<f64>,
    #[serde(default)]
    pub chips: Option<u64>,
    #[serde(default)]
    pub memory: Option<f64>,
    #[serde(default)]
    pub objective: Option<String>,
    #[serde(default)]
    pub calibration: Option<String>,
    #[serde(default)]
    pub memory_rate: Option<String>,
    #[serde(default)]
    pub collectives: Option<String>,
    #[serde(default)]
    pub layer_overhead: Option<f64>,
    /// `roofline`, or `machine`: products are timed on the simulated core.
    #[serde(default)]
    pub times: Option<String>,
    #[serde(default)]
    pub kernel_times: BTreeMap<String, f64>,
    #[serde(default)]
    pub speculation: Option<SpeculationSource>,
    #[serde(default)]
    pub profiling: bool,
    /// Answer with a plan that does not fit instead of refusing it.
    #[serde(default)]
    pub report_overflow: bool,
    #[serde(default)]
    pub tdp: Option<f64>,
    #[serde(default)]
    pub price: Option<PriceSource>,
    /// How many plans of a search to return.
    #[serde(default)]
    pub keep: Option<usize>,
    /// How often to draw the constants that nobody publishes.
    #[serde(default)]
    pub uncertainty: Option<u32>,
    /// What decides the draws.
    #[serde(default)]
    pub seed: u64,
}

impl PlanRequest {
    /// A request from its JSON text.
    ///
    /// # Errors
    /// [`Error::Value`] if it is none; the text names the key.
    pub fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| Error::Value(format!("the request is wrong: {error}")))
    }

    fn settings(&self, model: &Model, recipe: &ServingRecipe) -> Result<ServingSettings> {
        let calibration = match self.calibration.as_deref() {
            None | Some("fitted") => Calibration::Fitted,
            Some("peak") => Calibration::Peak,
            Some(other) => return Err(Error::unknown("calibration", other, ["fitted", "peak"])),
        };
        let memory_rate = match self.memory_rate.as_deref() {
            None | Some("engines") => MemoryRate::Engines,
            Some("peak") => MemoryRate::Peak,
            Some(other) => return Err(Error::unknown("memory_rate", other, ["engines", "peak"])),
        };
        let speculation = match &self.speculation {
            None => None,
            Some(SpeculationSource { length, accepted, draft, draft_share }) => Some(Speculation {
                length: *length,
                accepted: *accepted,
                draft: draft.as_ref().map(ModelSource::load).transpose()?,
                draft_share: match (draft, draft_share) {
                    (None, None) => {
                        return Err(Error::Value(
                            "speculation needs draft (a model) or draft_share (the time of a guess as a share of a \
                             step, for example 0.05)"
                                .to_owned(),
                        ));
                    }
                    (_, share) => share.unwrap_or(0.0),
                },
            }),
        };
        let mut precision = DtypeSource::of_transformer(self.dtype.as_ref(), model)?;
        let narrow = precision.of(TensorClass::Attention) == DataType::Fp8;
        if recipe.kv_as_weights && narrow && !matches!(self.dtype, Some(DtypeSource::Classes(_))) {
            precision.kv = DataType::Fp8;
        }
        Ok(ServingSettings {
            calibration,
            memory_rate,
            layer_overhead: self.layer_overhead,
            speculation,
            kernel_times: self.kernel_times.clone(),
            profiling: self.profiling,
            ..ServingSettings::new(precision)
        })
    }

    fn workload(&self) -> Workload {
        Workload { batch: self.batch.unwrap_or(1), input: self.input, output: self.output }
    }

    fn constraints(&self) -> Constraints {
        Constraints {
            ttft: self.ttft_slo,
            tpot: self.tpot_slo,
            chips: self.chips,
            memory: self.memory,
            batch: self.batch,
            tp: self.tp,
            cp: self.cp,
            dp: self.dp,
            ep: self.ep,
            pp: self.pp,
            replicas: self.replicas,
        }
    }

    pub(super) fn with_planner<T>(&self, work: impl FnOnce(&Planner<'_>) -> Result<T>) -> Result<T> {
        let (model, machine) = (self.model.load()?, self.system.load()?);
        if !model.causal {
            return Err(Error::Value(format!(
                "{} ({}) generates nothing: serving needs a model that does, like gpt2 or llama; training=... would work",
                model.name, model.family
            )));
        }
        let lnc = self.lnc.unwrap_or(machine.chip.lnc_modes.last().copied().unwrap_or(1));
        let recipe = ServingRecipe::of(&machine.chip)?;
        let (settings, rank) = (self.settings(&model, &recipe)?, machine.chip.rank(lnc)?);
        let communication: Box<dyn Communication> = match self.collectives.as_deref() {
            None | Some("levels") => Box::new(LevelCosts::new(&machine, &rank)?),
            Some("schedules") => Box::new(ScheduleCosts::new(&machine, &rank)?),
            Some(other) => return Err(Error::unknown("collectives", other, ["levels", "schedules"])),
        };
        let mut planner = Planner::with_communication(&machine, &model, lnc, settings, communication)?;
        match self.times.as_deref() {
            None | Some(ROOFLINE) => {}
            Some("machine") => planner = planner.on_machine()?,
            Some(other) => {
                return Err(Error::Value(format!("times is '{other}'; allowed: 'roofline', 'machine'")));
            }
        }
        if let (Some(longest), asked) = (model.longest_context, self.input + self.output)
            && asked > longest
        {
            return Err(Error::Value(format!(
                "{asked} tokens (input {} + output {}) exceed the {longest} that {} allows",
                self.input, self.output, model.name
            )));
        }
        let done = work(&planner)?;
        planner.machine_times().map_or(Ok(()), MachineTimes::check)?;
        Ok(done)
    }

    /// A layout from the degrees that are given; the others are 1, experts go as wide as they can, replicas fill the
    /// system.
    fn layout(&self, planner: &Planner<'_>) -> Layout {
        let split = Split {
            tp: self.tp.unwrap_or(1),
            cp: self.cp.unwrap_or(1),
            dp: self.dp.unwrap_or(1),
            ep: 1,
            pp: self.pp.unwrap_or(1),
        };
        let widest = planner.model().experts.as_ref().and_then(|experts| expert_degree(experts, &split));
        let split = Split { ep: self.ep.or(widest).unwrap_or(1), ..split };
        let rank = planner.rank();
        let there = u64::from(planner.machine().chips) * u64::from(rank.per_chip);
        let most = self.chips.map_or(there, |chips| there.min(chips.saturating_mul(u64::from(rank.per_chip))));
        let room = planner.machine().room(split.ranks(), u64::from(rank.per_chip), most).max(1);
        Layout { split, replicas: self.replicas.unwrap_or(room), lnc: rank.lnc }
    }

    /// One plan: of the degrees that are given, or the best one where none is.
    ///
    /// # Errors
    /// Those of the model, the system, the layout and the search; [`Error::Memory`] if it does not fit, unless
    /// `report_overflow` is set.
    pub fn plan(&self) -> Result<PlanSummary> {
        let found = self.planned()?;
        let Some(samples) = self.uncertainty else { return Ok(found) };
        // A draw is of this plan, whether it would be the best one then or not, and of its times on the core.
        let of_plan = self.of_layout(&found);
        let kernel_times = of_plan.machine_times()?;
        let fixed = Self { report_overflow: true, times: None, kernel_times, ..of_plan };
        let names = ["tpot", "ttft", "tokens_per_second_per_chip"];
        let drawn = Uncertainty::of((samples, self.seed), names, || {
            let plan = fixed.planned()?.into_evaluation();
            Ok([plan.tpot, plan.ttft, plan.tokens_per_second_per_chip])
        })?;
        Ok(found.with_uncertainty(drawn))
    }

    /// The request for the layout of a plan.
    pub(super) fn of_layout(&self, found: &PlanSummary) -> Self {
        let Layout { split: Split { tp, cp, dp, ep, pp }, replicas, lnc } = found.layout();
        Self {
            tp: Some(tp),
            cp: Some(cp),
            dp: Some(dp),
            ep: Some(ep),
            pp: Some(pp),
            replicas: Some(replicas),
            lnc: Some(lnc),
            batch: Some(found.batch()),
            objective: None,
            ..self.clone()
        }
    }

    /// Times that are given or, of the products of the layout that is asked for, timed on the simulated core.
    fn machine_times(&self) -> Result<BTreeMap<String, f64>> {
        self.with_planner(|planner| {
            let mut times = self.kernel_times.clone();
            if let Some(machine) = planner.machine_times() {
                let operations = planner.operations(&self.layout(planner).split, self.workload());
                for operation in operations.iter().flatten() {
                    if let Some(seconds) = machine.time(operation) {
                        times.entry(operation.key()).or_insert(seconds);
                    }
                }
            }
            Ok(times)
        })
    }

    pub(super) fn planned(&self) -> Result<PlanSummary> {
        self.with_planner(|planner| {
            let searches = !self.constraints().fix_layout() && self.replicas.is_none();
            if searches || self.objective.is_some() {
                match self.search_with(planner, 1) {
                    // A table of the nearest thing helps more than a refusal, if asked for.
                    Err(Error::Memory(_)) if self.report_overflow => {}
                    found => return Ok(found?.best),
                }
            }
            let (layout, workload) = (self.layout(planner), self.workload());
            let plan = planner.evaluate(layout, workload)?;
            let advice = || planner.advice(&layout, workload);
            if !self.report_overflow {
                plan.memory.check(&planner.what(&layout, workload), advice)?;
                self.constraints().check_plan(planner, &plan)?;
            }
            self.summary(planner, plan, None)
        })
    }

    /// The best plans for an objective.
    ///
    /// # Errors
    /// Those of [`PlanRequest::plan`].
    pub fn search(&self) -> Result<SearchSummary> {
        self.with_planner(|planner| self.search_with(planner, self.keep.unwrap_or(10)))
    }

    /// Keys of the operations of a plan's layout, with how often a step has each and what the roofline says: what a
    /// front end measures to fill `kernel_times`.
    ///
    /// # Errors
    /// Those of [`PlanRequest::plan`].
    pub fn operations(&self) -> Result<Vec<KeyedOperation>> {
        self.with_planner(|planner| {
            let (layout, workload) = (self.layout(planner), self.workload());
            planner.evaluate(layout, workload)?;
            let [prefill, decode] = planner.operations(&layout.split, workload);
            let list = |phase: &'static str, operations: Vec<LayerOperation>| {
                operations.into_iter().map(move |operation| {
                    let seconds = planner.time(&operation).seconds / operation.count.max(f64::MIN_POSITIVE);
                    KeyedOperation { phase, key: operation.key(), seconds, operation }
                })
            };
            Ok(list("prefill", prefill).chain(list("decode", decode)).collect())
        })
    }

    /// The collectives of a plan's layout by phase: what, how often, of which ranks, how large.
    ///
    /// # Errors
    /// Those of [`PlanRequest::plan`].
    pub fn exchanges(&self) -> Result<BTreeMap<&'static str, Vec<LayerExchange>>> {
        self.with_planner(|planner| {
            let (layout, workload) = (self.layout(planner), self.workload());
            planner.evaluate(layout, workload)?;
            let [prefill, decode] = planner.exchanges(&layout.split, workload);
            Ok(BTreeMap::from([("prefill", prefill), ("decode", decode)]))
        })
    }

    fn search_with(&self, planner: &Planner<'_>, keep: usize) -> Result<SearchSummary> {
        let objective = ServingObjective::parse(self.objective.as_deref().unwrap_or("throughput"))?;
        let found = search(planner, self.workload(), objective, &self.constraints(), keep)?;
        let searched =
            Searched { objective, evaluated: found.evaluated, refused: found.refused, frontier: found.frontier };
        let best = self.summary(planner, found.best, Some(searched))?;
        let ranked: Result<Vec<_>> =
            found.ranked.into_iter().skip(1).map(|plan| self.summary(planner, plan, None)).collect();
        Ok(SearchSummary { ranked: ranked?, best })
    }

    fn summary(
        &self,
        planner: &Planner<'_>,
        evaluation: Evaluation,
        searched: Option<Searched>,
    ) -> Result<PlanSummary> {
        let said = match planner.machine_times() {
            Some(times) => {
                times.said(planner.operations(&evaluation.layout.split, evaluation.workload).iter().flatten())
            }
            None => self.times.iter().map(|times| format!("times of operations: {times}")).collect(),
        };
        let model = planner.model();
        let unknown = model.unknown_dtype.iter().map(|unknown| {
            format!("{} as if it were published in the given dtype: its {unknown}, which is not understood", model.name)
        });
        let draft = planner.settings().speculation.as_ref().and_then(|speculation| speculation.draft.as_ref());
        let named = [Some(model), draft].into_iter().flatten();
        let said = named.filter_map(|model| taken(&model.name, model.asked.as_ref())).chain(said).chain(unknown);
        let asked = (self.tdp, self.price.as_ref(), self.system.instances);
        Ok(PlanSummary::new(planner, evaluation, searched, asked)?.saying(said))
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
