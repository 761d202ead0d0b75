//! Serving under load as front ends ask for it.

use serde::{Deserialize, Serialize};
use trn3_system::{Error, Result};

use super::scaling::Autoscaling;
use super::traffic_request::TrafficRequest;
use crate::PlanRequest;

/// What is served, where, and what comes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadRequest {
    /// The models of the service, in the order of the traffic's shares; often one.
    pub models: Vec<DeploymentRequest>,
    /// What comes.
    #[serde(default)]
    pub traffic: TrafficRequest,
    /// Which requests are good: those within these limits.
    #[serde(default)]
    pub goodput: Option<ServiceLimits>,
    /// What decides everything that is drawn.
    #[serde(default)]
    pub seed: u64,
    /// Whether it is simulated again at the ends of the bands of the plan's times.
    #[serde(default = "yes")]
    pub bands: bool,
}

/// One model of a service.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeploymentRequest {
    /// Model, system and layout; input, output and batch are the traffic's.
    pub plan: PlanRequest,
    /// How a replica batches.
    #[serde(default)]
    pub server: ServerRequest,
    /// How many replicas.
    #[serde(default)]
    pub replicas: ReplicaCounts,
    /// How requests are shared out, by the name of a [`RoutingPolicy`](super::router::RoutingPolicy).
    #[serde(default)]
    pub router: Option<String>,
    /// How replicas come and go.
    #[serde(default)]
    pub autoscaling: Option<Autoscaling>,
    /// Whether requests of any length up to the model's may come, not only those of the traffic.
    #[serde(default)]
    pub open_ended: bool,
    /// Whether there may be more replicas than one system has room for: a fleet of as many as it takes.
    #[serde(default)]
    pub any_machines: bool,
}

/// Replicas by what they do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicaCounts {
    /// That read prompts and generate; 1 where none of any kind is asked for.
    #[serde(default)]
    pub both: u64,
    /// That read prompts.
    #[serde(default)]
    pub prefill: u64,
    /// That generate.
    #[serde(default)]
    pub decode: u64,
}

impl ReplicaCounts {
    /// How many there are in all.
    ///
    /// # Errors
    /// [`Error::Value`] if prompts and generation do not fit together.
    pub(super) fn check(&self, autoscaling: Option<&Autoscaling>) -> Result<u64> {
        let Self { both, prefill, decode } = *self;
        if (prefill > 0) != (decode > 0) || (prefill > 0 && both > 0) {
            return Err(Error::Value(format!(
                "replicas are {both} for both, {prefill} for prefill and {decode} for decode; needed: those for both alone, \
                 or some for prefill and some for decode"
            )));
        }
        match autoscaling {
            Some(_) if prefill > 0 => Err(Error::Value(
                "autoscaling works on replicas that read prompts and generate, not on prefill and decode apart"
                    .to_owned(),
            )),
            Some(scaling) => scaling.check().map(|()| scaling.most),
            None => Ok((both + prefill + decode).max(1)),
        }
    }
}

/// Options of a server, by vLLM's names.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerRequest {
    /// Sequences of a step at most.
    pub max_num_seqs: Option<u64>,
    /// Tokens of a step at most.
    pub max_num_batched_tokens: Option<u64>,
    /// Tokens of a sequence at most.
    pub max_model_len: Option<u64>,
    /// Whether prompts are read in pieces beside sequences that decode.
    pub chunked_prefill: Option<bool>,
    /// Whether blocks of prompts are kept for others that begin alike.
    pub prefix_caching: bool,
    /// Tokens of a block of keys and values.
    pub block_size: Option<u32>,
    /// Blocks of a replica, instead of those that memory has room for.
    pub kv_blocks: Option<u64>,
    /// `fcfs` or `priority`.
    pub scheduling_policy: Option<String>,
    /// What happens to a sequence whose blocks another needs: `recompute` or `swap`.
    pub preemption_mode: Option<String>,
    /// Requests that wait at a replica at most; others fail.
    pub max_queue: Option<usize>,
    /// With speculation: the chance that each guess is kept, given that those before it were.
    pub acceptance: Option<Vec<f64>>,
}

impl ServerRequest {
    pub(super) fn by_priority(&self) -> Result<bool> {
        match self.scheduling_policy.as_deref() {
            None | Some("fcfs") => Ok(false),
            Some("priority") => Ok(true),
            Some(other) => Err(Error::unknown("scheduling_policy", other, ["fcfs", "priority"])),
        }
    }

    /// Tokens of a sequence at most: what is asked for, within what the model allows.
    pub(super) fn longest_context(&self, of_model: Option<u64>) -> Result<u64> {
        match (self.max_model_len, of_model) {
            (Some(asked), Some(longest)) if asked > longest => {
                Err(Error::Value(format!("max_model_len is {asked}; the model allows {longest}")))
            }
            (Some(0), _) => Err(Error::Value("max_model_len is 0; needed: at least 1".to_owned())),
            (asked, longest) => Ok(asked.or(longest).unwrap_or(1 << 30)),
        }
    }
}

/// Longest waits of a good request, milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServiceLimits {
    /// To the first token.
    pub ttft: Option<f64>,
    /// A token.
    pub tpot: Option<f64>,
    /// To the last.
    pub e2el: Option<f64>,
}

fn yes() -> bool {
    true
}
