//! A service whose requests come from outside, while it runs: what a server of HTTP or another simulator drives.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use trn3_system::{Error, Result};

use super::blocks::mixed;
use super::conversation::{PromptSegment, Turn};
use super::deployment::{Deployment, RequestSizes};
use super::job::Job;
use super::replica::Emission;
use super::request::{DeploymentRequest, LoadRequest};
use super::run;
use super::service::{Service, Watcher};
use super::traffic_request::TrafficRequest;

/// No turn of a conversation.
const NO_CONVERSATION: usize = usize::MAX;

/// What to serve.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LiveRequest {
    /// The model; the input and output of its plan are usual sizes of a request, for which a layout is looked for.
    pub model: DeploymentRequest,
    /// What decides everything that is drawn.
    #[serde(default)]
    pub seed: u64,
}

/// A prompt: its tokens, or how many there are.
#[derive(Clone, Copy, Debug)]
pub enum LivePrompt<'a> {
    /// So many tokens, which no other prompt has.
    Count(u32),
    /// The tokens, by which the prefix cache knows them.
    Tokens(&'a [u32]),
}

/// Tokens that a request got.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LiveTokens {
    /// The request.
    pub request: u64,
    /// When, in simulated seconds.
    pub at: f64,
    /// How many.
    pub tokens: u32,
    /// Whether they are its last.
    pub finished: bool,
}

/// The state of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LiveState {
    /// Requests that a replica works on.
    pub running: u64,
    /// Requests that wait.
    pub waiting: u64,
    /// Share of the blocks of keys and values in use.
    pub kv_cache_usage: f64,
    /// Sequences that lost their blocks so far.
    pub preemptions: u64,
    /// Tokens of prompts looked up in the prefix cache.
    pub prefix_cache_queries: u64,
    /// Those that were found.
    pub prefix_cache_hits: u64,
}

/// Keeps what requests get until it is asked for.
#[derive(Debug, Default)]
struct Delivery {
    tokens: Vec<LiveTokens>,
    ended: Vec<u64>,
}

impl Watcher for Delivery {
    fn tokens(&mut self, job: &Job, emission: &Emission, is_last: bool) {
        if is_last {
            self.ended.push(job.number);
        }
        if !job.left {
            let (at, tokens) = (emission.at, emission.tokens);
            self.tokens.push(LiveTokens { request: job.number, at, tokens, finished: is_last });
        }
    }
}

/// A service that is driven from outside.
///
/// ```
/// use trn3_planner::load::{LivePrompt, LiveRequest, LiveService};
///
/// let request: LiveRequest = serde_json::from_str(
///     r#"{"model": {"plan": {"model": {"name": "llama-3-8b"}, "system": {"name": "trn2_instance"}, "tp": 8,
///                            "input": 512, "output": 64}}}"#,
/// )
/// .unwrap();
/// let mut service = LiveService::new(&request).unwrap();
/// let request = service.submit(0.0, LivePrompt::Count(100), 3, 0).unwrap().expect("no queue is full");
/// let tokens = service.advance(10.0).unwrap();
/// assert_eq!(tokens.iter().map(|one| one.tokens).sum::<u32>(), 3);
/// assert!(tokens[2].finished && tokens[2].request == request && service.next_event().is_none());
/// ```
pub struct LiveService {
    service: Service<Delivery>,
    places: HashMap<u64, u32>,
    /// The model's name.
    pub model: String,
    /// Tokens of a sequence at most, prompt and answer: what the model allows and the cache holds.
    pub longest: u64,
    /// Every number that nobody documents.
    pub assumptions: Vec<String>,
    /// Tokens of a block.
    block: usize,
}

impl LiveService {
    /// A service that waits for requests.
    ///
    /// # Errors
    /// Those of the plan; [`Error::Memory`] if the model does not fit.
    pub fn new(request: &LiveRequest) -> Result<Self> {
        let mut model = request.model.clone();
        model.open_ended = true;
        let (input, output) = (model.plan.input, model.plan.output);
        let sizes = RequestSizes {
            requests: 1,
            input: input as f64,
            output: output as f64,
            longest_input: input,
            longest: input + output,
        };
        let deployment = Deployment::new(&model, sizes)?;
        let request = LoadRequest {
            models: vec![model],
            traffic: TrafficRequest::default(),
            goodput: None,
            seed: request.seed,
            bands: false,
        };
        let service = run::service(std::slice::from_ref(&deployment), &request, Delivery::default());
        let held = service.replicas.first().map_or(0, |replica| replica.longest());
        Ok(Self {
            service,
            places: HashMap::new(),
            model: deployment.model.clone(),
            longest: deployment.longest_context.min(held),
            assumptions: deployment.assumptions.clone(),
            block: deployment.rules.block as usize,
        })
    }

    /// Simulated seconds since the beginning.
    pub fn now(&self) -> f64 {
        self.service.now
    }

    /// Sends a request and returns its number; `None` if the queue is full.
    ///
    /// `at` is in simulated seconds; what was to happen before has to have been asked for by [`LiveService::advance`]: an
    /// earlier time than now is now.
    ///
    /// # Errors
    /// [`Error::Value`] if it has no tokens, or more than [`LiveService::longest`].
    pub fn submit(&mut self, at: f64, prompt: LivePrompt<'_>, output: u32, priority: i32) -> Result<Option<u64>> {
        let (input, segments) = match prompt {
            LivePrompt::Count(count) => (count, Vec::new()),
            LivePrompt::Tokens(tokens) => (u32::try_from(tokens.len()).unwrap_or(u32::MAX), self.segments(tokens)),
        };
        let total = u64::from(input) + u64::from(output);
        if input == 0 || output == 0 || total > self.longest {
            return Err(Error::Value(format!(
                "the request has {input} tokens of a prompt and {output} of an answer; needed: at least one of each, at most \
                 {} together",
                self.longest
            )));
        }
        self.service.go_to(at);
        let number = self.service.sent;
        let turn = Turn { input, output, priority, segments, answer: None };
        let Some(place) = self.service.submit(turn, 0, NO_CONVERSATION) else {
            self.service.refused += 1;
            return Ok(None);
        };
        self.places.insert(number, place);
        Ok(Some(number))
    }

    /// Full blocks of a prompt, each known by its tokens.
    fn segments(&self, tokens: &[u32]) -> Vec<PromptSegment> {
        let number = |block: &[u32]| block.iter().fold(0, |known, token| mixed(known ^ u64::from(*token)));
        let blocks = tokens.chunks_exact(self.block);
        blocks.map(|block| PromptSegment { number: number(block), tokens: self.block as u32 }).collect()
    }

    /// A client has left: its request gets no more tokens. Requests that are over are passed over.
    pub fn cancel(&mut self, request: u64, at: f64) {
        self.service.go_to(at);
        if let Some(place) = self.places.remove(&request) {
            self.service.cancel(place);
        }
    }

    /// Goes on until a time, and returns what requests got, in order of time.
    ///
    /// # Errors
    /// [`Error::Value`] if the time is no number.
    pub fn advance(&mut self, until: f64) -> Result<Vec<LiveTokens>> {
        if until.is_nan() {
            return Err(Error::Value("until is no number; needed: simulated seconds".to_owned()));
        }
        while self.service.next().is_some_and(|at| at <= until) {
            self.service.step();
        }
        if until.is_finite() {
            self.service.go_to(until);
        }
        for number in self.service.watcher.ended.drain(..) {
            self.places.remove(&number);
        }
        let mut tokens = std::mem::take(&mut self.service.watcher.tokens);
        tokens.sort_by(|left, right| left.at.total_cmp(&right.at));
        Ok(tokens)
    }

    /// When the next thing happens if nothing else comes; `None` if there is nothing to do.
    pub fn next_event(&self) -> Option<f64> {
        self.service.next()
    }

    /// How full it is.
    pub fn state(&self) -> LiveState {
        let mut state = LiveState::default();
        let (mut used, mut total) = (0, 0);
        for replica in &self.service.replicas {
            state.running += replica.running() as u64;
            state.waiting += replica.waiting.len() as u64;
            state.preemptions += replica.counts.preemptions;
            state.prefix_cache_queries += replica.counts.looked_up;
            state.prefix_cache_hits += replica.counts.found;
            used += replica.blocks.used();
            total += replica.blocks.total();
        }
        state.kv_cache_usage = used as f64 / total.max(1) as f64;
        state
    }
}
