//! Plans of training as front ends ask for them.

use serde::Deserialize;

use super::{
    LayoutSpace, Moments, Recipe, TrainingLayout, TrainingObjective, TrainingSearchResult, TrainingSettings,
    search_with, step,
};
use crate::communication::{Communication, LevelCosts};
use crate::dtype::{DataType, TensorPrecision};
use crate::hardware::{Machine, Rank};
use crate::networks::taken;
use crate::schedule_costs::ScheduleCosts;
use crate::shapes::Model;
use crate::sources::{DtypeSource, ModelSource, SystemSource};
use crate::uncertainty::Uncertainty;
use trn3_system::{Error, Result};

/// A request: what is trained, on what, and which degrees are fixed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of Recipe and Space, by the same names")]
pub struct TrainingRequest {
    pub model: ModelSource,
    /// A system; without `instances` it is taken as often as chips or degrees need.
    pub system: SystemSource,
    /// How many times more enters the network's lowest nodes than leaves them.
    #[serde(default)]
    pub oversubscription: Option<f64>,
    pub global_batch: u64,
    pub sequence: u64,
    #[serde(default)]
    pub dtype: Option<DtypeSource>,
    #[serde(default)]
    pub optimizer: Moments,
    #[serde(default)]
    pub tdp: Option<f64>,
    #[serde(default)]
    pub price: Option<f64>,
    #[serde(default)]
    pub objective: Option<String>,
    /// `levels` or `schedules`: where times of collectives come from.
    #[serde(default)]
    pub collectives: Option<String>,
    #[serde(default)]
    pub space: LayoutSpace,
    /// How often to draw the constants that nobody publishes, for the best plan.
    #[serde(default)]
    pub uncertainty: Option<u32>,
    /// What decides the draws.
    #[serde(default)]
    pub seed: u64,
}

impl TrainingRequest {
    /// Reads a request.
    ///
    /// # Errors
    /// [`Error::Value`] if the text is no request.
    pub fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| Error::Value(format!("the training request is wrong: {error}")))
    }

    /// The best plans.
    ///
    /// # Errors
    /// Those of [`search_with`].
    ///
    /// ```
    /// use trn3_planner::training::TrainingRequest;
    ///
    /// let text = r#"{"model": {"name": "llama-3-8b"}, "system": {"name": "gen2"}, "global_batch": 1152, "sequence": 4096}"#;
    /// assert!(TrainingRequest::parse(text).unwrap().search().unwrap().fitting > 0);
    /// ```
    pub fn search(&self) -> Result<TrainingSearchResult> {
        let (model, mut machine) = (self.model.load()?, self.machine()?);
        machine.assumptions.extend(taken(&model.name, model.asked.as_ref()));
        let recipe = self.recipe(&model)?;
        let objective = self.objective.as_deref().map_or(Ok(TrainingObjective::StepTime), TrainingObjective::parse)?;
        let lnc = self.space.lnc.or(machine.chip.lnc_modes.last().copied()).unwrap_or(1);
        let rank = machine.chip.rank(lnc)?;
        let costs = self.costs(&machine, &rank)?;
        let mut found = search_with(&model, &machine, &recipe, objective, &self.space, &*costs)?;
        if let (Some(samples), Some(best)) = (self.uncertainty, found.plans.first_mut()) {
            best.uncertainty = Some(self.drawn(samples, &model, &recipe, &best.layout)?);
        }
        Ok(found)
    }

    /// A layout's figures under drawn constants.
    fn drawn(&self, samples: u32, model: &Model, recipe: &Recipe, layout: &TrainingLayout) -> Result<Uncertainty> {
        let tokens = recipe.tokens();
        let names = ["step_time", "sequences_per_second", "tokens_per_second"];
        Uncertainty::of((samples, self.seed), names, || {
            let machine = self.machine()?;
            let settings = TrainingSettings::load()?.on(machine.chip.like());
            let rank = machine.chip.rank(layout.lnc)?;
            let (costs, strict) = (self.costs(&machine, &rank)?, settings.strict(machine.chip.like()));
            let time = step(model, &rank, recipe, layout, &*costs, &settings, strict).step;
            Ok([time, recipe.global_batch as f64 / time, tokens / time])
        })
    }

    fn recipe(&self, model: &Model) -> Result<Recipe> {
        Ok(Recipe {
            precision: self.precision(model)?,
            moments: self.optimizer,
            tdp: self.tdp,
            price: self.price,
            ..Recipe::new(self.global_batch, self.sequence)
        })
    }

    fn costs<'a>(&self, machine: &'a Machine, rank: &Rank) -> Result<Box<dyn Communication + 'a>> {
        Ok(match self.collectives.as_deref() {
            None | Some("levels") => Box::new(LevelCosts::new(machine, rank)?),
            Some("schedules") => Box::new(ScheduleCosts::new(machine, rank)?),
            Some(other) => return Err(Error::unknown("collectives", other, ["levels", "schedules"])),
        })
    }

    fn precision(&self, model: &Model) -> Result<TensorPrecision> {
        match &self.dtype {
            None => Ok(TensorPrecision::uniform(DataType::Bf16)),
            Some(DtypeSource::Name(name)) => {
                Ok(TensorPrecision::named(DataType::parse(name)?, model.experts.is_some()))
            }
            Some(DtypeSource::Classes(names)) => TensorPrecision::by_class(names),
        }
    }

    fn machine(&self) -> Result<Machine> {
        let mut machine = self.system.load()?;
        if self.system.instances.is_none() {
            let count = self.chips(&machine)?.div_ceil(u64::from(machine.chips)).max(1);
            machine = machine.cluster(u32::try_from(count).unwrap_or(u32::MAX))?;
        }
        if let Some(factor) = self.oversubscription {
            narrow(&mut machine, factor)?;
        }
        Ok(machine)
    }

    /// Chips that were asked for, or that the degrees asked for take.
    fn chips(&self, machine: &Machine) -> Result<u64> {
        let space = &self.space;
        Ok(match (space.chips, space.dp, space.tp.as_slice(), space.pp.as_slice()) {
            (Some(chips), ..) => chips,
            (None, Some(dp), &[tp], &[pp]) => {
                let lnc = space.lnc.or(machine.chip.lnc_modes.last().copied()).unwrap_or(1);
                let per_chip = u64::from(machine.chip.rank(lnc)?.per_chip);
                let cp = space.cp.first().copied().unwrap_or(1);
                [dp, tp, pp, cp].into_iter().fold(1, u64::saturating_mul).div_ceil(per_chip)
            }
            _ => u64::from(machine.chips),
        })
    }
}

/// Narrows the network between systems by the factor of its lowest nodes: all that leaves a system is taken to leave
/// its node too.
fn narrow(machine: &mut Machine, factor: f64) -> Result<()> {
    if !(factor.is_finite() && factor >= 1.0) {
        return Err(Error::Value(format!("oversubscription is {factor}; it must be a finite number of at least 1")));
    }
    let name = machine.network.as_ref().map(|network| network.name.clone());
    for level in machine.levels.iter_mut().filter(|level| Some(&level.name) == name.as_ref()) {
        level.rate /= factor;
        level.uniform /= factor;
        if factor > 1.0 {
            machine.assumptions.push(format!(
                "everything between systems shares {} narrowed {factor} times, wherever it goes (choice)",
                level.name
            ));
        }
    }
    Ok(())
}
