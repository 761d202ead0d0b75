//! One replica: which requests it takes, what each of its steps does, and how long that takes.

use std::collections::VecDeque;
use std::sync::Arc;

use rand_pcg::Pcg64Mcg;

use super::blocks::{KvBlocks, contents};
use super::conversation::PromptSegment;
use super::costs::StepCosts;
use super::job::{Job, Jobs};
use super::rules::{ReplicaRole, ServerRules};
use super::tables::StepCost;
use super::waiting::WaitingQueue;

/// What a replica counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StepCounts {
    /// Seconds of its steps.
    pub(super) busy: f64,
    /// Joules of its steps beyond what its chips draw at any load.
    pub(super) joules: f64,
    /// Steps.
    pub(super) steps: u64,
    /// Tokens of prompts that were read.
    pub(super) read: u64,
    /// Tokens of prompts that were looked up among known blocks.
    pub(super) looked_up: u64,
    /// Those that were found.
    pub(super) found: u64,
    /// Sequences that lost their blocks.
    pub(super) preemptions: u64,
    /// The most blocks in use.
    pub(super) most_blocks: u64,
}

/// What a replica does next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum NextStep {
    /// A step that ends then.
    Ends(f64),
    /// Nothing until the host is done with a request.
    Waits(f64),
    /// Nothing until a request comes.
    Idles,
}

/// Tokens that a request got.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Emission {
    /// The request's place.
    pub(super) place: u32,
    /// When.
    pub(super) at: f64,
    /// How many.
    pub(super) tokens: u32,
}

/// A step under way.
#[derive(Clone, Debug, Default)]
enum Work {
    #[default]
    Nothing,
    /// Prompts that are read whole, with the time of each one's end.
    Prompts(Vec<(u32, f64)>),
    /// Pieces of prompts, tokens of each, beside all sequences that decode.
    Mixed(Vec<(u32, u32)>),
}

/// One replica of a model.
#[derive(Clone, Debug)]
pub(super) struct Replica {
    pub(super) model: usize,
    pub(super) role: ReplicaRole,
    pub(super) costs: Arc<StepCosts>,
    pub(super) rules: Arc<ServerRules>,
    pub(super) blocks: KvBlocks,
    pub(super) waiting: WaitingQueue,
    /// Requests whose prompts are not read yet, in the order in which they were taken.
    prompting: VecDeque<u32>,
    /// Requests that decode, likewise.
    decoding: Vec<u32>,
    /// Kept tokens of those that decode.
    context: u64,
    work: Work,
    pub(super) counts: StepCounts,
    /// Seconds that the next step waits for the host's memory.
    swapping: f64,
    random: Pcg64Mcg,
}

impl Replica {
    pub(super) fn new(
        model: usize,
        role: ReplicaRole,
        costs: &Arc<StepCosts>,
        rules: &Arc<ServerRules>,
        random: Pcg64Mcg,
    ) -> Self {
        let room = (costs.room / f64::from(rules.block)) as u64;
        Self {
            model,
            role,
            costs: Arc::clone(costs),
            rules: Arc::clone(rules),
            blocks: KvBlocks::new(rules.blocks.unwrap_or(room), rules.block),
            waiting: WaitingQueue::new(rules.by_priority),
            prompting: VecDeque::new(),
            decoding: Vec::new(),
            context: 0,
            work: Work::Nothing,
            counts: StepCounts::default(),
            swapping: 0.0,
            random,
        }
    }

    /// Requests that it works on.
    pub(super) fn running(&self) -> usize {
        let reading = if let Work::Prompts(prompts) = &self.work { prompts.len() } else { 0 };
        self.prompting.len() + self.decoding.len() + reading
    }

    /// Tokens of the longest sequence that it can serve alone.
    pub(super) fn longest(&self) -> u64 {
        (self.blocks.total() * u64::from(self.rules.block)).saturating_sub(u64::from(self.ahead()))
    }

    /// Requests that it has, waiting ones too.
    pub(super) fn outstanding(&self) -> usize {
        self.running() + self.waiting.len()
    }

    /// Tokens that a step may add to a sequence.
    fn ahead(&self) -> u32 {
        self.rules.acceptance.as_ref().map_or(1, super::acceptance::Acceptance::most)
    }

    /// Begins what is next at a time.
    pub(super) fn begin(&mut self, now: f64, jobs: &mut Jobs) -> NextStep {
        self.admit(now, jobs);
        let cost = if self.rules.chunked { self.begin_mixed(now, jobs) } else { self.begin_whole(now, jobs) };
        let Some(cost) = cost else {
            let ready = self.prompting.iter().map(|&place| jobs[place].ready).min_by(f64::total_cmp);
            return ready.map_or(NextStep::Idles, NextStep::Waits);
        };
        let seconds = cost.seconds + std::mem::take(&mut self.swapping);
        self.counts.busy += seconds;
        self.counts.joules += cost.joules;
        self.counts.steps += 1;
        self.counts.most_blocks = self.counts.most_blocks.max(self.blocks.used());
        NextStep::Ends(now + seconds)
    }

    /// Takes requests that wait while there are places and blocks for them.
    fn admit(&mut self, now: f64, jobs: &mut Jobs) {
        while self.running() < self.rules.sequences {
            let Some(place) = self.waiting.first() else { return };
            let job = &jobs[place];
            let mut known = Vec::new();
            let handed = job.decodes();
            let tokens = if handed { job.kept } else { job.goal };
            if self.rules.prefix_caching && !handed {
                // The last token is read at least: it makes the first of the answer.
                let most = (job.goal - 1) / self.rules.block;
                known = contents(job.turn.segments.iter().copied(), self.rules.block).take(most as usize).collect();
            }
            let (found, unused) = self.blocks.find(known.iter().copied());
            let needed = self.blocks.of_tokens(tokens) - found;
            if needed + unused > self.blocks.available() {
                return;
            }
            self.waiting.take_first();
            known.truncate(found as usize);
            self.blocks.share(&known);
            self.blocks.take(needed);
            let job = &mut jobs[place];
            if self.rules.prefix_caching && !handed {
                self.counts.looked_up += u64::from(job.goal);
                self.counts.found += found * u64::from(self.rules.block);
            }
            (job.own, job.shared) = (needed, known);
            if handed {
                if job.begun
                    && let Some(rate) = self.rules.swap_rate
                {
                    self.swapping += f64::from(job.kept) * self.costs.kv_bytes / rate;
                }
                job.begun = true;
                self.context += u64::from(job.kept);
                self.decoding.push(place);
            } else {
                job.kept = found as u32 * self.rules.block;
                job.ready = if job.begun { now } else { now + self.costs.request_start };
                job.begun = true;
                self.prompting.push_back(place);
            }
        }
    }

    /// Prompts that the host is done with, one in each group and stage, else a token for all that decode.
    fn begin_whole(&mut self, now: f64, jobs: &mut Jobs) -> Option<StepCost> {
        let (groups, stages) = (self.costs.groups, self.costs.stages);
        let most = groups * stages as usize;
        let mut taken: Vec<u32> = Vec::new();
        let (mut tokens, mut longest, mut past) = (0, 0, 0);
        for &place in self.prompting.iter().filter(|place| jobs[**place].ready <= now).take(most) {
            let unread = u64::from(jobs[place].unread());
            if !taken.is_empty() && tokens + unread > self.rules.batched_tokens {
                break;
            }
            tokens += unread;
            (longest, past) = (unread.max(longest), u64::from(jobs[place].kept).max(past));
            taken.push(place);
        }
        if taken.is_empty() {
            return self.begin_decoding(jobs);
        }
        self.prompting.retain(|place| !taken.contains(place));
        let one = self.costs.prompt(longest, past);
        let end = |wave: usize| now + self.swapping + one.seconds * (stages + wave as f64);
        let waves = taken.len().div_ceil(groups);
        let ends = taken.iter().enumerate().map(|(index, &place)| (place, end(index / groups)));
        self.work = Work::Prompts(ends.collect());
        let seconds = one.seconds * (stages + waves as f64 - 1.0);
        Some(StepCost { seconds, joules: one.joules * stages * waves as f64 })
    }

    fn begin_decoding(&mut self, jobs: &mut Jobs) -> Option<StepCost> {
        self.make_room(jobs);
        if self.decoding.is_empty() {
            return None;
        }
        self.work = Work::Mixed(Vec::new());
        let batch = self.decoding.len() as u64;
        Some(self.costs.decode(batch, self.context as f64 / batch as f64))
    }

    /// A token for all that decode, and pieces of prompts as far as the tokens of a step go.
    fn begin_mixed(&mut self, now: f64, jobs: &mut Jobs) -> Option<StepCost> {
        self.make_room(jobs);
        let batch = self.decoding.len() as u64;
        let mut left = self.rules.batched_tokens.saturating_sub(batch * u64::from(self.ahead()));
        let mut pieces = Vec::new();
        for &place in self.prompting.iter().filter(|place| jobs[**place].ready <= now) {
            let tokens = left.min(u64::from(jobs[place].unread()));
            if tokens == 0 {
                break;
            }
            left -= tokens;
            pieces.push((place, tokens as u32));
        }
        let context = if batch == 0 { 0.0 } else { self.context as f64 / batch as f64 };
        let cost = match (pieces.is_empty(), batch) {
            (true, 0) => return None,
            (true, _) => self.costs.decode(batch, context),
            _ => {
                let read = |&(place, tokens): &(u32, u32)| (u64::from(tokens), u64::from(jobs[place].kept));
                let read: Vec<(u64, u64)> = pieces.iter().map(read).collect();
                self.costs.mixed(&read, batch, context)
            }
        };
        self.work = Work::Mixed(pieces);
        Some(cost)
    }

    /// Blocks for the tokens that the next step adds; where there are none, sequences lose theirs, the last ones first.
    fn make_room(&mut self, jobs: &mut Jobs) {
        let ahead = self.ahead();
        let mut index = 0;
        while index < self.decoding.len() {
            let job = &jobs[self.decoding[index]];
            let has = job.own + job.shared.len() as u64;
            let needed = self.blocks.of_tokens(job.kept + ahead).saturating_sub(has);
            if needed <= self.blocks.available() {
                if needed > 0 {
                    self.blocks.take(needed);
                    jobs[self.decoding[index]].own += needed;
                }
                index += 1;
                continue;
            }
            let victim = self.victim(jobs);
            let before = self.decoding[..index].contains(&victim);
            self.preempt(victim, jobs);
            index -= usize::from(before);
        }
    }

    /// Who loses its blocks: the last that was taken, or the one of the largest priority.
    fn victim(&self, jobs: &Jobs) -> u32 {
        let all = self.decoding.iter().chain(&self.prompting).copied();
        let last = if self.rules.by_priority {
            all.max_by_key(|&place| (jobs[place].turn.priority, jobs[place].number))
        } else {
            all.last()
        };
        last.unwrap_or_default()
    }

    fn preempt(&mut self, place: u32, jobs: &mut Jobs) {
        self.counts.preemptions += 1;
        let was_decoding = self.forget(place, jobs);
        let job = &mut jobs[place];
        match self.rules.swap_rate {
            Some(rate) if was_decoding => self.swapping += f64::from(job.kept) * self.costs.kv_bytes / rate,
            _ => (job.goal, job.kept) = (job.turn.input + job.made, 0),
        }
        let (priority, number) = (job.turn.priority, job.number);
        self.waiting.put_back(place, priority, number);
    }

    /// Takes the blocks of a request and its place in the batch; whether it decoded.
    fn forget(&mut self, place: u32, jobs: &mut Jobs) -> bool {
        let job = &mut jobs[place];
        self.blocks.give_back(std::mem::take(&mut job.own));
        self.blocks.release(&std::mem::take(&mut job.shared));
        if let Some(index) = self.decoding.iter().position(|one| *one == place) {
            self.context -= u64::from(job.kept);
            self.decoding.remove(index);
            return true;
        }
        self.prompting.retain(|one| *one != place);
        false
    }

    /// Ends the step under way and says what it made; `finished` and `handed` get those that leave.
    pub(super) fn end(
        &mut self,
        now: f64,
        jobs: &mut Jobs,
        emissions: &mut Vec<Emission>,
        finished: &mut Vec<u32>,
        handed: &mut Vec<u32>,
    ) {
        match std::mem::take(&mut self.work) {
            Work::Nothing => {}
            Work::Prompts(prompts) => {
                for (place, at) in prompts {
                    self.counts.read += u64::from(jobs[place].unread());
                    self.end_prompt(place, at, jobs, emissions, finished, handed);
                }
            }
            Work::Mixed(pieces) => {
                self.end_decoding(now, jobs, emissions, finished);
                for (place, tokens) in pieces {
                    let job = &mut jobs[place];
                    self.counts.read += u64::from(tokens);
                    job.kept += tokens;
                    if job.unread() == 0 {
                        self.prompting.retain(|one| *one != place);
                        self.end_prompt(place, now, jobs, emissions, finished, handed);
                    }
                }
            }
        }
    }

    fn end_prompt(
        &mut self,
        place: u32,
        at: f64,
        jobs: &mut Jobs,
        emissions: &mut Vec<Emission>,
        finished: &mut Vec<u32>,
        handed: &mut Vec<u32>,
    ) {
        let job = &mut jobs[place];
        job.kept = job.goal;
        if self.rules.prefix_caching {
            let segments = job.turn.segments.iter().copied();
            let full = (job.goal.min(job.turn.input) / self.rules.block) as usize;
            publish(&mut self.blocks, job, contents(segments, self.rules.block).take(full).collect());
        }
        let job = &mut jobs[place];
        job.made += 1;
        emissions.push(Emission { place, at, tokens: 1 });
        if job.made == job.turn.output {
            finished.push(place);
        } else if self.role == ReplicaRole::Prefill {
            handed.push(place);
        } else {
            self.context += u64::from(job.kept);
            self.decoding.push(place);
        }
    }

    fn end_decoding(&mut self, now: f64, jobs: &mut Jobs, emissions: &mut Vec<Emission>, finished: &mut Vec<u32>) {
        let (rules, random, context) = (&self.rules, &mut self.random, &mut self.context);
        self.decoding.retain(|&place| {
            let job = &mut jobs[place];
            let drawn = rules.acceptance.as_ref().map_or(1, |acceptance| acceptance.draw(random));
            let tokens = drawn.min(job.turn.output - job.made);
            job.kept += tokens;
            job.made += tokens;
            *context += u64::from(tokens);
            emissions.push(Emission { place, at: now, tokens });
            let ends = job.made == job.turn.output;
            if ends {
                *context -= u64::from(job.kept);
                finished.push(place);
            }
            !ends
        });
    }

    /// Gives the blocks of a request back that has left; with what it made, if later prompts have that.
    pub(super) fn close(&mut self, place: u32, jobs: &mut Jobs) {
        let job = &mut jobs[place];
        let labelled: u32 = job.turn.segments.iter().map(|segment| segment.tokens).sum();
        if self.rules.prefix_caching
            && let Some(number) = job.turn.answer
            && labelled >= job.turn.input
        {
            // What was made last is not kept yet.
            let full = job.kept.min(job.turn.input + job.made - 1) / self.rules.block;
            let answer = PromptSegment { number, tokens: job.made };
            let all = job.turn.segments.iter().copied().chain([answer]);
            let all = contents(all, self.rules.block).take(full as usize).collect();
            publish(&mut self.blocks, job, all);
        }
        self.blocks.give_back(std::mem::take(&mut job.own));
        self.blocks.release(&std::mem::take(&mut job.shared));
    }
}

/// Makes the full blocks of a sequence known, beyond those that it shares already.
fn publish(blocks: &mut KvBlocks, job: &mut Job, all: Vec<u64>) {
    for content in all.into_iter().skip(job.shared.len()) {
        if job.own == 0 {
            return;
        }
        blocks.publish(content);
        job.own -= 1;
        job.shared.push(content);
    }
}
