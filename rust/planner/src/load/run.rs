//! A service from the first request of its traffic to the last token.

use trn3_system::{Error, Result, check_interrupt};

use super::deployment::{Deployment, RequestSizes};
use super::job::Job;
use super::replica::{Emission, Replica};
use super::request::{LoadRequest, ServiceLimits};
use super::rules::ReplicaRole;
use super::service::{ServedModel, Service, Watcher};
use super::statistics::{WaitBins, WaitSummary};

/// Events between two looks for a signal.
const EVENTS_A_LOOK: u64 = 1 << 14;

/// What users of a run waited for.
#[derive(Clone, Debug, Default)]
pub(super) struct RunWaits {
    ttft: Vec<f64>,
    tpot: Vec<f64>,
    e2el: Vec<f64>,
    itl: WaitBins,
    limits: Option<ServiceLimits>,
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) good: u64,
    pub(super) completed: u64,
    pub(super) last: f64,
}

impl Watcher for RunWaits {
    fn tokens(&mut self, job: &Job, emission: &Emission, is_last: bool) {
        self.output += u64::from(emission.tokens);
        if job.made != emission.tokens {
            self.itl.add(emission.at - job.last);
        }
        if !is_last {
            return;
        }
        self.completed += 1;
        self.last = self.last.max(emission.at);
        self.input += u64::from(job.turn.input);
        let (first, last) = (job.first - job.sent, emission.at - job.sent);
        self.ttft.push(first);
        self.e2el.push(last);
        let token = (job.made > 1).then(|| (last - first) / f64::from(job.made - 1));
        self.tpot.extend(token);
        if let Some(limits) = &self.limits {
            let within = |limit: Option<f64>, seconds: f64| limit.is_none_or(|limit| 1e3 * seconds <= limit);
            let good =
                within(limits.ttft, first) && within(limits.tpot, token.unwrap_or(0.0)) && within(limits.e2el, last);
            self.good += u64::from(good);
        }
    }
}

impl RunWaits {
    pub(super) fn new(limits: Option<ServiceLimits>) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Whether there are limits that make requests good.
    pub(super) fn limited(&self) -> bool {
        self.limits.is_some()
    }

    /// `ttft`, `tpot`, `itl` and `e2el`.
    pub(super) fn summaries(mut self) -> [(&'static str, WaitSummary); 4] {
        [
            ("ttft", WaitSummary::of(&mut self.ttft)),
            ("tpot", WaitSummary::of(&mut self.tpot)),
            ("itl", self.itl.waits()),
            ("e2el", WaitSummary::of(&mut self.e2el)),
        ]
    }
}

/// Sizes of the requests of each model of a traffic.
pub(super) fn sizes(request: &LoadRequest) -> Result<Vec<RequestSizes>> {
    let mut all = vec![RequestSizes::default(); request.models.len()];
    for (number, conversation) in request.traffic.traffic(request.seed)?.enumerate() {
        let model = conversation.model as usize;
        let Some(sizes) = all.get_mut(model) else {
            return Err(Error::Value(format!(
                "request {number} is for model {model}; there are {}: give as many shares of traffic as models",
                request.models.len()
            )));
        };
        for turn in &conversation.turns {
            sizes.requests += 1;
            sizes.input += f64::from(turn.input);
            sizes.output += f64::from(turn.output);
            sizes.longest_input = sizes.longest_input.max(u64::from(turn.input));
            sizes.longest = sizes.longest.max(u64::from(turn.input) + u64::from(turn.output));
        }
    }
    for (place, sizes) in all.iter_mut().enumerate() {
        if sizes.requests == 0 {
            return Err(Error::Value(format!(
                "no request is for model {place}: its share of the traffic is too small"
            )));
        }
        sizes.input /= sizes.requests as f64;
        sizes.output /= sizes.requests as f64;
    }
    Ok(all)
}

/// The service of deployments.
pub(super) fn service<W: Watcher>(deployments: &[Deployment], request: &LoadRequest, watcher: W) -> Service<W> {
    let mut replicas = Vec::new();
    let mut models = Vec::new();
    for (model, deployment) in deployments.iter().enumerate() {
        let counts = deployment.counts;
        let both = match deployment.autoscaling {
            Some(scaling) => scaling.most,
            None if counts.prefill == 0 => counts.both.max(1),
            None => 0,
        };
        let roles =
            [(ReplicaRole::Both, both), (ReplicaRole::Prefill, counts.prefill), (ReplicaRole::Decode, counts.decode)];
        for (role, count) in roles {
            for place in 0..count {
                let random = Service::<W>::random(request.seed, replicas.len());
                let replica = Replica::new(model, role, &deployment.costs, &deployment.rules, random);
                let serves = deployment.autoscaling.is_none_or(|scaling| place < scaling.least);
                replicas.push((replica, serves));
            }
        }
        models.push(ServedModel::new(
            deployment.router,
            deployment.links.clone(),
            deployment.autoscaling,
            deployment.startup,
            deployment.queue,
        ));
    }
    Service::new(models, replicas, watcher)
}

/// Serves all of the traffic.
///
/// # Errors
/// Those of the traffic; [`Error::Interrupted`] after a signal.
pub(super) fn run(deployments: &[Deployment], request: &LoadRequest) -> Result<Service<RunWaits>> {
    let mut service = service(deployments, request, RunWaits::new(request.goodput));
    let traffic = request.traffic.traffic(request.seed)?;
    let (users, most) = (traffic.users(), traffic.max_concurrency().unwrap_or(u64::MAX));
    let mut traffic = traffic.peekable();
    let mut events = 0_u64;
    loop {
        events += 1;
        if events.is_multiple_of(EVENTS_A_LOOK) {
            check_interrupt().map_err(Error::from)?;
        }
        if let Some(users) = users {
            // A user who is done comes back as another one.
            while service.talking < users
                && let Some(next) = traffic.next()
            {
                let after = next.at;
                service.begin(next, after);
            }
        }
        let open = users.is_none() && service.under_way < most;
        let arrival = if open { traffic.peek().map(|next| next.at.max(service.now)) } else { None };
        match (arrival, service.next()) {
            (Some(at), event) if event.is_none_or(|event| at <= event) => {
                service.go_to(at);
                if let Some(next) = traffic.next() {
                    service.begin(next, 0.0);
                }
            }
            (_, Some(_)) => service.step(),
            (_, None) => break,
        }
    }
    service.count_until_now();
    Ok(service)
}
