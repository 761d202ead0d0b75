//! Plans as texts: a request in JSON, the plan in JSON. The form that front ends use.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::communication::{Communication, LevelCosts};
use super::config::{built_in_model, model_from_json, model_from_toml};
use super::dtype::{DataType, Precision};
use super::economics::{PlanCost, PlanEnergy, Price, cost, energy};
use super::hardware::Machine;
use super::inference::{Calibration, Evaluation, MemoryRate, Planner, Settings, Speculation, Workload};
use super::layout::Layout;
use super::roofline::Split;
use super::schedule_costs::ScheduleCosts;
use super::search::{Constraints, FrontierPoint, Objective, search};
use super::shapes::{Model, Parameters};
use trn3_facts::Facts;
use trn3_system::fabric::LinkProfile;
use trn3_system::{Error, Result};

/// A model: by name, or the text of its configuration.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ModelSource {
    /// A model of the crate.
    Name(String),
    /// A `config.json`: what messages call it, its text.
    Json(String, String),
    /// A TOML form of one: likewise.
    Toml(String, String),
}

impl ModelSource {
    /// The shapes.
    ///
    /// # Errors
    /// Those of [`built_in_model`] and [`model_from_json`].
    pub fn load(&self) -> Result<Model> {
        match self {
            Self::Name(name) => built_in_model(name),
            Self::Json(name, text) => model_from_json(name, text),
            Self::Toml(name, text) => model_from_toml(name, text),
        }
    }
}

/// A system: by name, or the text of a spec file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SystemSource {
    /// Name of a system of the crate, or of the one in the text.
    pub name: String,
    /// A spec file: what messages call it, its text.
    #[serde(default)]
    pub toml: Option<(String, String)>,
    /// `docs` or `headline`.
    #[serde(default)]
    pub links: Option<String>,
    /// How many of it, joined by its network.
    #[serde(default)]
    pub instances: Option<u32>,
}

impl SystemSource {
    /// The system.
    ///
    /// # Errors
    /// Those of [`Machine::built_in`] and [`Facts::parse`].
    pub fn load(&self) -> Result<Machine> {
        let profile = LinkProfile::parse(self.links.as_deref().unwrap_or("docs"))?;
        let machine = match &self.toml {
            Some((file, text)) => {
                let systems = Facts::parse(file, text)?;
                let found = systems.iter().find(|facts| facts.name == self.name).ok_or_else(|| {
                    Error::unknown("system", &self.name, systems.iter().map(|facts| facts.name.as_str()))
                })?;
                Machine::from_facts(found, profile)?
            }
            None => Machine::built_in_with(&self.name, profile)?,
        };
        machine.cluster(self.instances.unwrap_or(1))
    }
}

/// One format for all, or one for each class.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum DtypeSource {
    /// As [`Precision::named`].
    Name(String),
    /// As [`Precision::by_class`].
    Classes(BTreeMap<String, String>),
}

/// Speculative decoding, as a request has it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpeculationSource {
    /// Tokens guessed a step.
    pub length: u64,
    /// Tokens that a step yields on average.
    pub accepted: f64,
    /// The small model.
    #[serde(default)]
    pub draft: Option<ModelSource>,
    /// Without one: the time of a guess as a share of a step.
    #[serde(default)]
    pub draft_share: Option<f64>,
}

/// A request: what to plan, on what, under which promises.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of Settings, Workload and Constraints, by the same names")]
pub struct Request {
    pub model: ModelSource,
    pub system: SystemSource,
    #[serde(default)]
    pub dtype: Option<DtypeSource>,
    #[serde(default)]
    pub batch: Option<u64>,
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
    pub price: Option<Price>,
    /// How many plans of a search to return.
    #[serde(default)]
    pub keep: Option<usize>,
}

/// A model in a result.
#[derive(Clone, Debug, Serialize)]
pub struct ModelSummary {
    #[serde(flatten)]
    model: Model,
    parameters: u64,
    parameters_active: u64,
    parameters_by_class: BTreeMap<&'static str, u64>,
}

impl ModelSummary {
    /// A model and its counts.
    pub fn new(model: &Model) -> Self {
        let counts: Parameters = model.parameters();
        Self {
            model: model.clone(),
            parameters: counts.total(),
            parameters_active: counts.active,
            parameters_by_class: counts.by_class(),
        }
    }
}

/// A plan in a result.
#[derive(Clone, Debug, Serialize)]
struct PlanSummary {
    model: ModelSummary,
    system: SystemSummary,
    dtypes: BTreeMap<&'static str, &'static str>,
    #[serde(flatten)]
    evaluation: Evaluation,
    fits: bool,
    /// Why not, and what would.
    why_not: Option<String>,
    largest_batch: u64,
    energy: Option<PlanEnergy>,
    cost: Option<PlanCost>,
    /// How the layout was found, where it was not given.
    searched: Option<Searched>,
    assumptions: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
struct SystemSummary {
    name: String,
    title: String,
    chip: String,
    chips: u32,
    logical_cores: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Searched {
    objective: Objective,
    evaluated: usize,
    refused: BTreeMap<&'static str, usize>,
    frontier: Vec<FrontierPoint>,
}

#[derive(Clone, Debug, Serialize)]
struct SearchSummary {
    best: PlanSummary,
    ranked: Vec<PlanSummary>,
}

impl Request {
    /// A request from its JSON text.
    ///
    /// # Errors
    /// [`Error::Value`] if it is none; the text names the key.
    pub fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| Error::Value(format!("the request is wrong: {error}")))
    }

    fn precision(&self, model: &Model) -> Result<Precision> {
        let has_experts = model.experts.is_some();
        match &self.dtype {
            Some(DtypeSource::Name(name)) => Ok(Precision::named(DataType::parse(name)?, has_experts)),
            Some(DtypeSource::Classes(classes)) => Precision::by_class(classes),
            None => Ok(Precision::named(model.published_dtype.unwrap_or(DataType::Bf16), has_experts)),
        }
    }

    fn settings(&self, model: &Model) -> Result<Settings> {
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
        Ok(Settings {
            calibration,
            memory_rate,
            layer_overhead: self.layer_overhead,
            speculation,
            kernel_times: self.kernel_times.clone(),
            profiling: self.profiling,
            ..Settings::new(self.precision(model)?)
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

    fn with_planner<T>(&self, work: impl FnOnce(&Planner<'_>) -> Result<T>) -> Result<T> {
        let (model, machine) = (self.model.load()?, self.system.load()?);
        if !model.causal {
            return Err(Error::Value(format!(
                "{} ({}) generates nothing: serving needs a model that does, like gpt2 or llama; training=... would work",
                model.name, model.family
            )));
        }
        let lnc = self.lnc.unwrap_or(machine.chip.lnc_modes.last().copied().unwrap_or(1));
        let (settings, rank) = (self.settings(&model)?, machine.chip.rank(lnc)?);
        let communication: Box<dyn Communication> = match self.collectives.as_deref() {
            None | Some("levels") => Box::new(LevelCosts::new(&machine, &rank)?),
            Some("schedules") => Box::new(ScheduleCosts::new(&machine, &rank)?),
            Some(other) => return Err(Error::unknown("collectives", other, ["levels", "schedules"])),
        };
        let planner = Planner::with_communication(&machine, &model, lnc, settings, communication)?;
        if let (Some(longest), asked) = (model.longest_context, self.input + self.output)
            && asked > longest
        {
            return Err(Error::Value(format!(
                "{asked} tokens (input {} + output {}) exceed the {longest} that {} allows",
                self.input, self.output, model.name
            )));
        }
        work(&planner)
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
        let widest =
            planner.model().experts.as_ref().and_then(|experts| super::inference::expert_degree(experts, &split));
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
    pub fn plan(&self) -> Result<String> {
        self.with_planner(|planner| {
            let searches = !self.constraints().fix_layout() && self.replicas.is_none();
            if searches || self.objective.is_some() {
                match self.search_with(planner, 1) {
                    // A table of the nearest thing helps more than a refusal, if asked for.
                    Err(Error::Memory(_)) if self.report_overflow => {}
                    found => return json(&found?.best),
                }
            }
            let (layout, workload) = (self.layout(planner), self.workload());
            let plan = planner.evaluate(layout, workload)?;
            let advice = || planner.advice(&layout, workload);
            if !self.report_overflow {
                plan.memory.check(&planner.what(&layout, workload), advice)?;
                self.constraints().check_plan(planner, &plan)?;
            }
            json(&self.summary(planner, plan, None)?)
        })
    }

    /// The best plans for an objective.
    ///
    /// # Errors
    /// Those of [`Request::plan`].
    pub fn search(&self) -> Result<String> {
        self.with_planner(|planner| json(&self.search_with(planner, self.keep.unwrap_or(10))?))
    }

    /// Keys of the operations of a plan's layout, with how often a step has each and what the roofline says: what a
    /// front end measures to fill `kernel_times`.
    ///
    /// # Errors
    /// Those of [`Request::plan`].
    pub fn operations(&self) -> Result<String> {
        self.with_planner(|planner| {
            let (layout, workload) = (self.layout(planner), self.workload());
            planner.evaluate(layout, workload)?;
            let [prefill, decode] = planner.operations(&layout.split, workload);
            let list = |phase: &'static str, operations: Vec<super::Operation>| {
                operations.into_iter().map(move |operation| {
                    let seconds = planner.time(&operation).seconds / operation.count.max(f64::MIN_POSITIVE);
                    KeyedOperation { phase, key: operation.key(), seconds, operation }
                })
            };
            json(&list("prefill", prefill).chain(list("decode", decode)).collect::<Vec<_>>())
        })
    }

    /// The collectives of a plan's layout by phase: what, how often, of which ranks, how large.
    ///
    /// # Errors
    /// Those of [`Request::plan`].
    pub fn exchanges(&self) -> Result<String> {
        self.with_planner(|planner| {
            let (layout, workload) = (self.layout(planner), self.workload());
            planner.evaluate(layout, workload)?;
            let [prefill, decode] = planner.exchanges(&layout.split, workload);
            json(&BTreeMap::from([("prefill", prefill), ("decode", decode)]))
        })
    }

    fn search_with(&self, planner: &Planner<'_>, keep: usize) -> Result<SearchSummary> {
        let objective = Objective::parse(self.objective.as_deref().unwrap_or("throughput"))?;
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
        let machine = planner.machine();
        let (layout, workload, chip) = (evaluation.layout, evaluation.workload, &machine.chip);
        let mut assumptions = planner.assumptions().to_vec();
        let energy = match (energy(&evaluation, &chip.name, self.tdp), self.tdp) {
            (Ok(energy), _) => Some(energy),
            (Err(error), Some(_)) => return Err(error),
            (Err(error), None) => {
                assumptions.push(format!("no energy: {error}"));
                None
            }
        };
        let cost = cost(&evaluation, &chip.name, self.price.as_ref())?;
        let whole = u64::from(machine.chips) / u64::from(self.system.instances.unwrap_or(1).max(1));
        let replica = layout.split.ranks().div_ceil(u64::from(planner.rank().per_chip));
        if replica > whole {
            assumptions.push(format!(
                "a replica has {replica} chips, more than the {whole} of one system: its collectives cross the network \
                 between systems"
            ));
        }
        assumptions.extend(energy.iter().flat_map(|energy| energy.assumptions.clone()));
        assumptions.extend(cost.iter().flat_map(|cost| cost.assumptions.clone()));
        let fits = evaluation.memory.fits;
        let why_not = (!fits).then(|| {
            evaluation.memory.refusal(&planner.what(&layout, workload), &planner.advice(&layout, workload)).to_string()
        });
        Ok(PlanSummary {
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
            evaluation,
            energy,
            cost,
            searched,
            assumptions,
        })
    }
}

#[derive(Serialize)]
struct KeyedOperation {
    phase: &'static str,
    key: String,
    seconds: f64,
    #[serde(flatten)]
    operation: super::Operation,
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::Value(format!("a plan as JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(body: &str) -> Result<serde_json::Value> {
        let request = Request::parse(&format!("{{{body}}}"))?;
        Ok(serde_json::from_str(&request.plan()?).expect("JSON"))
    }

    const GPT: &str = r#""model": {"name": "gpt-oss-120b"}, "system": {"name": "gen2"}"#;

    #[test]
    fn test_plan_has_everything_a_screen_needs() {
        let plan = planned(&format!(r#"{GPT}, "input": 10000, "output": 3000, "tp": 8, "batch": 8"#)).expect("fits");
        assert_eq!((plan["layout"]["ep"].as_u64(), plan["layout"]["replicas"].as_u64()), (Some(8), Some(72)));
        assert_eq!(plan["dtypes"]["experts"], "mxfp4");
        for path in ["ttft", "tpot", "tokens_per_second_per_chip", "served_tokens_per_second_per_chip"] {
            assert!(plan[path].as_f64().is_some_and(|number| number > 0.0), "{path}");
        }
        assert!(plan["energy"]["watts_per_chip"].as_f64().is_some_and(|watts| (300.0..1100.0).contains(&watts)));
        assert!(plan["cost"]["per_million_tokens"].as_f64().is_some_and(|dollars| dollars > 0.0));
        let said = plan["assumptions"].as_array().expect("a list");
        for needle in ["layer overhead: 180 us", "TDP of trainium3", "price: 1 USD", "DMA engines"] {
            assert!(said.iter().any(|text| text.as_str().is_some_and(|text| text.contains(needle))), "{needle}");
        }
    }

    #[test]
    fn test_plan_without_degrees_searches() {
        let plan = planned(&format!(r#"{GPT}, "input": 10000, "output": 3000, "ttft_slo": 1.0"#)).expect("some");
        assert!(plan["ttft"].as_f64().is_some_and(|seconds| seconds <= 1.0));
        assert!(plan["searched"]["evaluated"].as_u64().is_some_and(|count| count > 100));
    }

    #[test]
    fn test_requests_are_refused_by_key() {
        for (body, needle) in [
            (format!(r#"{GPT}, "input": 0"#), "input is 0"),
            (format!(r#"{GPT}, "input": 10, "batch": 0, "tp": 8"#), "batch is 0"),
            (format!(r#"{GPT}, "input": 10, "lnc": 4"#), "lnc is 4"),
            (format!(r#"{GPT}, "input": 10, "tq": 4"#), "tq"),
            (format!(r#"{GPT}, "input": 200000"#), "131072"),
            (format!(r#"{GPT}, "input": 10, "dtype": "int3""#), "int3"),
            (format!(r#"{GPT}, "input": 10, "objective": "speed""#), "speed"),
            (format!(r#"{GPT}, "input": 10, "tp": 8, "collectives": "guess""#), "schedules"),
            (format!(r#"{GPT}, "input": 10, "tp": 8, "tdp": -1"#), "tdp"),
            (format!(r#"{GPT}, "input": 10, "tp": 8, "price": "free""#), "free"),
            (format!(r#"{GPT}, "input": 10, "speculation": {{"length": 5, "accepted": 3}}"#), "draft"),
            (
                r#""model": {"name": "bert-large"}, "system": {"name": "gen2"}, "input": 1"#.to_owned(),
                "generates nothing",
            ),
            (r#""model": {"name": "gpt5"}, "system": {"name": "gen2"}, "input": 1"#.to_owned(), "gpt5"),
            (r#""model": {"name": "gpt-oss"}, "system": {"name": "gen9"}, "input": 1"#.to_owned(), "gen9"),
        ] {
            let said = planned(&body).expect_err(&body).to_string();
            assert!(said.contains(needle), "{body}: {said}");
        }
    }

    #[test]
    fn test_schedules_and_levels_agree_about_a_plan() {
        let tpot = |how: &str| {
            let body = format!(r#"{GPT}, "input": 10000, "tp": 8, "batch": 64, "collectives": "{how}""#);
            planned(&body).expect("fits")["tpot"].as_f64().expect("a number")
        };
        let ratio = tpot("schedules") / tpot("levels");
        assert!((0.9..1.1).contains(&ratio), "{ratio}");
    }

    #[test]
    fn test_replicas_beyond_one_system_say_so() {
        let body = r#""model": {"name": "llama-3.1-405b"}, "system": {"name": "trn2", "instances": 2}, "input": 8000,
            "pp": 2, "tp": 64"#;
        let plan = planned(body).expect("fits");
        let said = plan["assumptions"].to_string();
        assert!(said.contains("cross the network between systems"), "{said}");
    }

    #[test]
    fn test_overflow_is_reported_on_request() {
        let body = r#""model": {"name": "gpt-oss-120b"}, "system": {"name": "trn2"}, "input": 10000, "tp": 8"#;
        assert!(matches!(planned(body), Err(Error::Memory(_))));
        let plan = planned(&format!(r#"{body}, "report_overflow": true"#)).expect("reported");
        assert_eq!(plan["fits"], false);
        assert!(plan["why_not"].as_str().is_some_and(|text| text.contains("the smallest replica")));
    }
}
