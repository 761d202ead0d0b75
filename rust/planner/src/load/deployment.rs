//! One model of a service on its chips: layout, costs of steps, links, prices.

use std::sync::Arc;

use trn3_facts::parameters;
use trn3_system::{Error, Result};

use super::acceptance::Acceptance;
use super::costs::{StepCosts, StepShapes};
use super::handover::HandoverLinks;
use super::request::{DeploymentRequest, ReplicaCounts, ServerRequest};
use super::router::RoutingPolicy;
use super::rules::{PreemptionMode, ServerRules};
use super::scaling::Autoscaling;
use crate::{Layout, PlanRequest, PlanSummary, Planner, ServingBand};

/// Sizes of a model's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct RequestSizes {
    pub(super) requests: u64,
    pub(super) input: f64,
    pub(super) output: f64,
    pub(super) longest_input: u64,
    /// Prompt and answer together.
    pub(super) longest: u64,
}

/// One model, ready to serve.
#[derive(Clone, Debug)]
pub(super) struct Deployment {
    /// The plan of its layout: one replica, one request at a time.
    pub(super) plan: PlanSummary,
    /// Its name.
    pub(super) model: String,
    pub(super) costs: Arc<StepCosts>,
    pub(super) rules: Arc<ServerRules>,
    pub(super) counts: ReplicaCounts,
    pub(super) router: RoutingPolicy,
    pub(super) links: Option<HandoverLinks>,
    pub(super) autoscaling: Option<Autoscaling>,
    pub(super) startup: f64,
    pub(super) queue: Option<usize>,
    /// Chips of one replica, a share of one where it is smaller.
    pub(super) chips: f64,
    /// The longest sequence that the model allows.
    pub(super) longest_context: u64,
    /// How far times of prompts and of decoding may be off: factors of the least and the most.
    pub(super) widths: [[f64; 2]; 2],
    /// Whether joules are known.
    pub(super) has_energy: bool,
    pub(super) assumptions: Vec<String>,
}

impl Deployment {
    /// A deployment for requests of these sizes.
    ///
    /// # Errors
    /// Those of the plan, [`Error::Memory`] if it does not fit among them; [`Error::Value`] if an option is out of range
    /// or the longest request has no room.
    pub(super) fn new(request: &DeploymentRequest, sizes: RequestSizes) -> Result<Self> {
        let whole = |value: f64| (value.round() as u64).max(1);
        let asked = PlanRequest {
            input: whole(sizes.input),
            output: whole(sizes.output),
            batch: Some(1),
            ..request.plan.clone()
        };
        let replicas = request.replicas.check(request.autoscaling.as_ref())?;
        // Without degrees the layout is the one that a plan finds, of as many replicas as are asked for.
        let found = asked.planned()?;
        let layout = Layout { replicas, ..found.layout() };
        let asked = PlanRequest { replicas: Some(1), ..asked.of_layout(&found) };
        let plan = asked.planned()?;
        asked.with_planner(|planner| Self::on(planner, request, sizes, layout, plan.clone()))
    }

    fn on(
        planner: &Planner<'_>,
        request: &DeploymentRequest,
        sizes: RequestSizes,
        layout: Layout,
        plan: PlanSummary,
    ) -> Result<Self> {
        let (machine, model) = (planner.machine(), planner.model());
        let replicas = if request.any_machines { 1 } else { layout.replicas };
        Layout { replicas, ..layout }.check(model, machine)?;
        let constants = parameters("load")?;
        let server = &request.server;
        let longest_context = server.longest_context(model.longest_context)?;
        if sizes.longest > longest_context {
            return Err(Error::Value(format!(
                "a request has {} tokens, prompt and answer; {} allows {longest_context}",
                sizes.longest, model.name
            )));
        }
        let mut assumptions = plan.assumptions().to_vec();
        let is_compiled = planner.recipe().least_bucket > 1;
        let sequences = server.max_num_seqs.map_or_else(|| constants.si("sequences").map(|value| value as u64), Ok)?;
        if !(1..=1 << 16).contains(&sequences) {
            return Err(Error::Value(format!("max_num_seqs is {sequences}; needed: from 1 to 65536")));
        }
        // Neuron compiles prompts whole; vLLM on GPUs mixes pieces of them with decoding.
        let chunked = server.chunked_prefill.unwrap_or(!is_compiled);
        assumptions.push(match (server.chunked_prefill.is_some(), chunked) {
            (true, true) => "prompts are read in pieces, beside sequences that decode (given)".to_owned(),
            (true, false) => "prompts are read whole, before sequences that decode go on (given)".to_owned(),
            (false, true) => "prompts are read in pieces, as vLLM does on GPUs (choice)".to_owned(),
            (false, false) => {
                "prompts are read whole at compiled lengths while decoding waits, as on Neuron (choice)".to_owned()
            }
        });
        if is_compiled {
            assumptions
                .push("decoding runs at compiled batches: powers of two and the most sequences (choice)".to_owned());
        }
        let longest = if request.open_ended { longest_context } else { sizes.longest };
        let shapes = StepShapes {
            sequences,
            longest,
            prompts: [sizes.input.round() as u64, sizes.longest_input].into(),
            chunked,
        };
        let energy = machine.chip.energy(request.plan.tdp).ok();
        let costs = StepCosts::new(planner, &layout, energy.as_ref(), &shapes)?;
        let chips = layout.split.ranks() as f64 / f64::from(planner.rank().per_chip);
        let rules = rules(planner, server, sequences, chunked, chips)?;
        let room = rules.blocks.map_or(costs.room, |blocks| blocks as f64 * f64::from(rules.block));
        let ahead = rules.acceptance.as_ref().map_or(1, Acceptance::most);
        let needed = sizes.longest + u64::from(ahead + rules.block);
        if (room as u64) < needed {
            return Err(Error::Memory(format!(
                "{} tokens of keys and values fit beside {} with {}: a request of {} tokens needs {needed}; a larger tp or \
                 pp, a narrower dtype or shorter requests would fit",
                room as u64,
                model.name,
                planner.what(&layout, crate::Workload { batch: 1, input: longest, output: 0 }),
                sizes.longest
            )));
        }
        let weights = costs.weight_bytes / (chips * constants.si("weight_rate")?);
        let startup = constants.si("start_time")? + weights;
        if request.autoscaling.is_some_and(|scaling| scaling.startup.is_none()) {
            assumptions.push(format!(
                "a new replica serves after {startup:.0} s: {:.0} s of its process and {weights:.0} s of weights (choices)",
                startup - weights
            ));
        }
        let links = (request.replicas.prefill > 0).then(|| HandoverLinks::new(planner, &layout));
        if links.is_some() {
            assumptions.push(
                "keys and values cross the links between replicas that lie side by side, one transfer at a time into and \
                 out of each (choice)"
                    .to_owned(),
            );
        }
        let widths = widths(planner, &plan, sequences)?;
        Ok(Self {
            model: model.name.clone(),
            plan,
            costs: Arc::new(costs),
            rules: Arc::new(rules),
            counts: request.replicas,
            router: RoutingPolicy::parse(request.router.as_deref())?,
            links,
            autoscaling: request.autoscaling,
            startup,
            queue: server.max_queue,
            chips,
            longest_context,
            widths,
            has_energy: energy.is_some(),
            assumptions,
        })
    }

    /// The same with other numbers of replicas, of the same kinds.
    pub(super) fn with_replicas(&self, counts: ReplicaCounts) -> Self {
        Self { counts, ..self.clone() }
    }

    /// The same with times at an end of their band: 0 the least, 1 the most.
    pub(super) fn at_end(&self, end: usize) -> Self {
        let [prompt, decode] = self.widths.map(|width| width[end]);
        Self { costs: Arc::new(self.costs.scaled(prompt, decode)), ..self.clone() }
    }
}

/// Factors of times of prompts and of decoding: the ends of the plan's bands.
fn widths(planner: &Planner<'_>, plan: &PlanSummary, sequences: u64) -> Result<[[f64; 2]; 2]> {
    let evaluation = plan.evaluation();
    let guesses = planner.settings().speculation.is_some();
    let batch = sequences.min(2);
    let chip = planner.machine().chip.measured_as();
    let band = ServingBand::of(&chip, batch, guesses, evaluation.tpot, evaluation.ttft)?;
    let (tpot, ttft) = (evaluation.tpot, evaluation.ttft);
    Ok([[band.ttft_low / ttft, band.ttft_high / ttft], [band.tpot_low / tpot, band.tpot_high / tpot]])
}

fn rules(
    planner: &Planner<'_>,
    server: &ServerRequest,
    sequences: u64,
    chunked: bool,
    chips: f64,
) -> Result<ServerRules> {
    let constants = parameters("load")?;
    let block = server.block_size.map_or_else(|| constants.si("block").map(|tokens| tokens as u32), Ok)?;
    if !(1..=4096).contains(&block) {
        return Err(Error::Value(format!("block_size is {block}; needed: from 1 to 4096 tokens")));
    }
    let usual = if chunked { constants.si("batched_tokens")? as u64 } else { u64::MAX };
    let batched_tokens = server.max_num_batched_tokens.unwrap_or(usual);
    if batched_tokens < 1 || (chunked && batched_tokens < sequences) {
        return Err(Error::Value(format!(
            "max_num_batched_tokens is {batched_tokens}; needed: at least max_num_seqs, which is {sequences}"
        )));
    }
    let swap_rate = match PreemptionMode::parse(server.preemption_mode.as_deref())? {
        PreemptionMode::Recompute => None,
        PreemptionMode::Swap => Some(chips * constants.si("host_rate")?),
    };
    let speculation = planner.settings().speculation.as_ref();
    let acceptance = match (speculation, &server.acceptance) {
        (None, None) => None,
        (None, Some(_)) => {
            return Err(Error::Value(
                "acceptance has a meaning only with speculation, whose length it needs".to_owned(),
            ));
        }
        (Some(speculation), None) => Some(Acceptance::of_mean(speculation.accepted, speculation.length)),
        (Some(speculation), Some(chances)) => Some(Acceptance::by_position(chances, speculation.length)?),
    };
    Ok(ServerRules {
        sequences: sequences as usize,
        batched_tokens,
        chunked,
        prefix_caching: server.prefix_caching,
        by_priority: server.by_priority()?,
        swap_rate,
        acceptance,
        block,
        blocks: server.kv_blocks,
    })
}
