//! Traffic as front ends ask for it.

use serde::Deserialize;
use trn3_system::{Error, Result};

use super::arrivals::Arrivals;
use super::lengths::Lengths;
use super::sessions::{SessionShape, SessionStreams, Sessions};
use super::spread::{NumberOrText, Spread};
use super::traces::TraceRequest;
use super::traffic::{Streams, Traffic, TrafficSource};
use super::weighted::Weighted;

/// Tokens of a prompt where none are given: as vLLM's benchmark.
const INPUT: f64 = 1024.0;

/// Tokens of an answer: likewise.
const OUTPUT: f64 = 128.0;

/// Requests: likewise.
const REQUESTS: u64 = 1000;

/// A range ratio for prompts and answers alike, or for each.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum RangeRatio {
    /// Of both.
    Both(f64),
    /// Of each.
    Each {
        /// Of prompts.
        input: f64,
        /// Of answers.
        output: f64,
    },
}

/// What arrives at a served model. Every field has a default; those that do not go together are refused by name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrafficRequest {
    /// Requests a second, or `inf`, which is the default of open loops: all arrive at second 0.
    pub rate: Option<NumberOrText>,
    /// A name of [`super::ArrivalProcess::NAMES`]; `poisson`, or `gamma` where a burstiness is given.
    pub arrival: Option<String>,
    /// Shape of gamma arrivals: 1 is Poisson, less is burstier.
    pub burstiness: Option<f64>,
    /// Requests of a burst.
    pub burst_size: Option<u64>,
    /// Seconds of activity of on-off arrivals.
    pub on: Option<f64>,
    /// Seconds of silence of on-off arrivals.
    pub off: Option<f64>,
    /// Seconds of a period of diurnal arrivals; a day.
    pub period: Option<f64>,
    /// The greatest rate of diurnal arrivals over the mean one, 1 to 2; 2.
    pub peak_to_mean: Option<f64>,
    /// Whether poisson, gamma and constant arrivals are stretched to last `requests / rate` seconds exactly, as vLLM's
    /// benchmark does.
    pub normalize: bool,
    /// New tokens of a prompt, as [`Lengths::new`] reads them; 1024.
    pub input: Option<NumberOrText>,
    /// Tokens of an answer; 128.
    pub output: Option<NumberOrText>,
    /// Makes ranges of numbers of `input` and `output`: [`Lengths::around`].
    pub range_ratio: Option<RangeRatio>,
    /// Where unbounded lengths of prompts are cut; [`super::lengths::LONGEST`].
    pub longest_input: Option<u32>,
    /// Where unbounded lengths of answers are cut; likewise.
    pub longest_output: Option<u32>,
    /// Tokens that a prompt and its answer have together at most: conversations end before a turn that would have more.
    pub longest_context: Option<u32>,
    /// Tokens that prompts begin with and share, on top of `input`; 0.
    pub prefix: Option<u32>,
    /// How many such prefixes there are, each as likely; 1.
    pub prefixes: Option<u64>,
    /// Turns of a conversation, as lengths; 1.
    pub turns: Option<NumberOrText>,
    /// Seconds that a user thinks before each turn, as [`Spread::new`] reads them, drawn once a conversation; 0.
    pub pause: Option<NumberOrText>,
    /// Priorities of conversations and their shares, `0@0.9,-1@0.1`; 0.
    pub priorities: Option<String>,
    /// Shares of the models of a fleet, in their order.
    pub models: Option<Vec<f64>>,
    /// How many requests, each turn one; 1000, or all of a trace.
    pub requests: Option<u64>,
    /// Users of a closed loop, each of whom sends when the answer is there and the pause over.
    pub users: Option<u64>,
    /// Requests that are under way at most; others wait with their senders.
    pub max_concurrency: Option<u64>,
    /// A trace to replay: its times, too, unless there are a rate or users.
    pub trace: Option<TraceRequest>,
}

impl TrafficRequest {
    /// The traffic; one seed gives one traffic, and a field that changes one thing leaves the others as they were.
    ///
    /// # Errors
    /// [`Error::Value`] that names the field for figures out of range and fields that do not go together,
    /// [`Error::Unknown`] for an arrival that there is not; those of [`TraceRequest::read`].
    ///
    /// ```
    /// use trn3_planner::load::TrafficRequest;
    ///
    /// let request: TrafficRequest = serde_json::from_str(r#"{"rate": 10, "input": "uniform:100:900"}"#).unwrap();
    /// let traffic = request.traffic(7).unwrap();
    /// assert_eq!((traffic.requests(), traffic.rate()), (1000, Some(10.0)));
    /// let last = traffic.last().unwrap();
    /// assert!((90.0..110.0).contains(&last.at) && last.turns[0].output == 128);
    /// ```
    pub fn traffic(&self, seed: u64) -> Result<Traffic> {
        self.traffic_counting(seed, None)
    }

    /// [`TrafficRequest::traffic`] with a function that counts the tokens of a text, for traces that hold texts.
    ///
    /// # Errors
    /// Those of [`TrafficRequest::traffic`].
    pub fn traffic_counting(&self, seed: u64, count: Option<&dyn Fn(&str) -> u64>) -> Result<Traffic> {
        self.check()?;
        let streams = Streams::new(seed);
        let (source, conversations, requests, said) = match &self.trace {
            Some(trace) => self.recorded(trace, &streams, count)?,
            None => self.drawn(&streams)?,
        };
        let recorded = if let TrafficSource::Recorded(recorded, _) = &source { Some(recorded) } else { None };
        let owns = |field: &str, own: bool, given: bool| match own && given {
            true => Err(Error::Value(format!("the trace says {field} itself; give none"))),
            false => Ok(()),
        };
        owns("models", recorded.is_some_and(|trace| trace.models() > 1), self.models.is_some())?;
        owns("priorities", recorded.is_some_and(|trace| trace.has_priorities()), self.priorities.is_some())?;
        let timed = recorded.is_some_and(|trace| trace.is_timed());
        let rate = if self.users.is_some() || timed { None } else { Some(self.rate()?) };
        let arrivals = match rate {
            Some(rate) => {
                let arrivals =
                    Arrivals::new(self.process()?, rate * conversations / requests as f64, streams.arrivals)?;
                Some(if self.normalize { arrivals.stretched(conversations as u64) } else { arrivals })
            }
            None => None,
        };
        let models = self.models.as_ref().map(|shares| {
            let numbers = (0..shares.len() as u32).collect();
            Ok::<_, Error>((Weighted::new("models", numbers, shares.clone())?, streams.models))
        });
        let priorities = self
            .priorities
            .as_ref()
            .map(|text| Ok::<_, Error>((Weighted::parse("priorities", text, "an integer")?, streams.priorities)));
        let pause = self.pause.as_ref().map_or(Ok(Spread::Fixed(0.0)), |pause| Spread::new("pause", pause))?;
        Ok(Traffic {
            source,
            arrivals,
            pauses: (pause, streams.pauses),
            models: models.transpose()?,
            priorities: priorities.transpose()?,
            requests,
            left: requests,
            rate,
            users: self.users,
            max_concurrency: self.max_concurrency,
            said,
        })
    }

    /// What is drawn, its mean number of conversations and its requests.
    fn drawn(&self, streams: &Streams) -> Result<(TrafficSource, f64, u64, Vec<String>)> {
        let lengths = |what: &str, given: &Option<NumberOrText>, tokens: f64, longest| {
            Lengths::new(what, given.as_ref().unwrap_or(&NumberOrText::Number(tokens)), longest)
        };
        let mut input = lengths("input", &self.input, INPUT, self.longest_input)?;
        let mut output = lengths("output", &self.output, OUTPUT, self.longest_output)?;
        if let Some(ratio) = self.range_ratio {
            let (of_input, of_output) = match ratio {
                RangeRatio::Both(ratio) => (ratio, ratio),
                RangeRatio::Each { input, output } => (input, output),
            };
            (input, output) = (input.around("input", of_input)?, output.around("output", of_output)?);
        }
        let turns = lengths("turns", &self.turns, 1.0, None)?;
        let (prefix, requests) = (self.prefix.unwrap_or(0), self.requests.unwrap_or(REQUESTS));
        let first = u64::from(prefix) + u64::from(input.longest()) + u64::from(output.longest());
        if first > u64::from(u32::MAX) {
            return Err(Error::Value(format!(
                "prefix, input and output are {first} tokens; allowed: at most {}",
                u32::MAX
            )));
        }
        let said = [input.cut("input"), output.cut("output")].into_iter().flatten().collect();
        let conversations = (requests as f64 / turns.mean()).max(1.0);
        let shape = SessionShape {
            input,
            output,
            turns,
            prefix,
            prefixes: self.prefixes.unwrap_or(1),
            longest_context: self.longest_context.unwrap_or(u32::MAX),
        };
        let Streams { input, output, turns, prefixes, .. } = streams.clone();
        let sessions = Sessions::new(shape, SessionStreams { input, output, turns, prefixes });
        Ok((TrafficSource::Drawn(Box::new(sessions)), conversations, requests, said))
    }

    /// What a trace holds, its conversations and its requests.
    fn recorded(
        &self,
        trace: &TraceRequest,
        streams: &Streams,
        count: Option<&dyn Fn(&str) -> u64>,
    ) -> Result<(TrafficSource, f64, u64, Vec<String>)> {
        let timed = self.users.is_none() && self.rate.is_none();
        let recorded = trace.read(timed, self.requests, count)?;
        if recorded.is_timed() {
            self.refuse_arrivals("the trace says when requests arrive: give a rate, too, or leave it out")?;
        }
        let outputs = match (recorded.has_outputs(), &self.output) {
            (true, Some(_)) => return Err(Error::Value("the trace says output itself; give none".to_owned())),
            (true, None) => None,
            (false, given) => {
                let given = given.as_ref().unwrap_or(&NumberOrText::Number(OUTPUT));
                Some((Lengths::new("output", given, self.longest_output)?, streams.output.clone()))
            }
        };
        let mut said = recorded.said().to_vec();
        said.extend(outputs.as_ref().and_then(|(lengths, _)| lengths.cut("output")));
        let (conversations, requests) = (recorded.conversations() as f64, recorded.requests());
        Ok((TrafficSource::Recorded(Box::new(recorded), outputs), conversations, requests, said))
    }
}
