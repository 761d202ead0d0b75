//! Times of the exchanges of a training step: within units over the fabric, between them over the network.
//!
//! A group has `chips` consecutive chips in each of `units` units, and groups fill the units, so all chips are busy at
//! once. Collectives are hierarchical: reduce-scatter goes inside, then between; all-gather between, then inside (the
//! phase with less to move goes first, or last); all-reduce is one after the other. Within a unit every chip exchanges
//! with every other one of its group at once, at the bound of the links **(choice)**. Between units, a chip meets only
//! chips of its own index, each over its own share of the network.

use super::Cluster;
use super::inside::Pattern;
use crate::error::{Error, Result};

/// What a group does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeOperation {
    /// Every chip gets the sum of all buffers.
    AllReduce,
    /// Every chip gets its part of the sum.
    ReduceScatter,
    /// Every chip gets all parts; the buffer is the whole.
    AllGather,
    /// Every chip sends an equal part of its buffer to each.
    AllToAll,
    /// Every chip sends its buffer to one other: to the next unit, or with one unit to the next `chips` chips of it.
    SendReceive,
}

impl ExchangeOperation {
    const NAMES: [(&'static str, Self); 5] = [
        ("all_reduce", Self::AllReduce),
        ("reduce_scatter", Self::ReduceScatter),
        ("all_gather", Self::AllGather),
        ("all_to_all", Self::AllToAll),
        ("send_receive", Self::SendReceive),
    ];

    /// The operation of a name, like `all_reduce`.
    ///
    /// # Errors
    /// [`Error::Unknown`] for any other.
    pub fn parse(name: &str) -> Result<Self> {
        let found = Self::NAMES.iter().find(|(known, _)| *known == name);
        found
            .map(|(_, operation)| *operation)
            .ok_or_else(|| Error::unknown("operation", name, Self::NAMES.iter().map(|(known, _)| *known)))
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, operation)| *operation == self).map_or("", |(name, _)| name)
    }
}

/// How units exchange with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// The fastest of those that can do the operation.
    Auto,
    /// Each to the next, round.
    Ring,
    /// Recursive halving and doubling: pairs at distance 1, 2, 4, ..., the largest parts to the nearest. Units beyond a
    /// power of two hand their buffer to a partner first and get the result last.
    Rdh,
    /// Two binary trees, each for half of the buffer, in pieces that follow one another; all-reduce only.
    Tree,
}

impl Between {
    const NAMES: [(&'static str, Self); 4] =
        [("auto", Self::Auto), ("ring", Self::Ring), ("rdh", Self::Rdh), ("tree", Self::Tree)];

    /// The algorithm of a name: `auto`, `ring`, `rdh` or `tree`.
    ///
    /// # Errors
    /// [`Error::Unknown`] for any other.
    pub fn parse(name: &str) -> Result<Self> {
        let found = Self::NAMES.iter().find(|(known, _)| *known == name);
        found
            .map(|(_, algorithm)| *algorithm)
            .ok_or_else(|| Error::unknown("algorithm between units", name, Self::NAMES.iter().map(|(known, _)| *known)))
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, algorithm)| *algorithm == self).map_or("", |(name, _)| name)
    }
}

/// An exchange that a step waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterExchange {
    /// What is done.
    pub operation: ExchangeOperation,
    /// Bytes of each chip's buffer: what it sends in all, or for an all-gather what it has in the end.
    pub bytes: f64,
    /// Units that a group spans; `None` for all live ones.
    pub units: Option<u64>,
    /// Chips of a group in each unit; `None` for all.
    pub chips: Option<usize>,
    /// How often it is done in a step, one after the other.
    pub count: u64,
    /// How units exchange.
    pub algorithm: Between,
}

/// A part of an exchange.
#[derive(Clone, Debug, PartialEq)]
pub struct ExchangePhase {
    /// What and where: `reduce_scatter inside`, `all_reduce between (ring)`.
    pub name: String,
    /// How long it takes.
    pub seconds: f64,
    /// Messages that follow one another.
    pub steps: u64,
    /// Bytes that each chip sends.
    pub bytes: f64,
    /// What limits its rate: a level of the fabric, the network, or `bottom uplinks`.
    pub binding: String,
}

/// How long an exchange takes, once.
#[derive(Clone, Debug, PartialEq)]
pub struct ExchangeTime {
    /// What was asked.
    pub exchange: ClusterExchange,
    /// In all.
    pub seconds: f64,
    /// Its parts in order.
    pub phases: Vec<ExchangePhase>,
    /// What limits the phase that takes longest; empty if nothing moves.
    pub binding: String,
}

/// How long the exchanges of a step take, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct StepTime {
    /// In all, each as often as it is done.
    pub seconds: f64,
    /// Each exchange, in order.
    pub exchanges: Vec<ExchangeTime>,
    /// What limits the phase that takes longest over the step.
    pub binding: String,
    /// Figures that nobody published, and what was chosen here.
    pub assumptions: Vec<String>,
}

/// Seconds, steps and bytes a chip of one way to do a phase between units, and what binds.
struct Way {
    seconds: f64,
    steps: u64,
    bytes: f64,
    is_uplink: bool,
}

impl Cluster {
    /// Time of the exchanges of a training step, none of it hidden behind compute.
    ///
    /// # Errors
    /// As [`Cluster::exchange`]; [`Error::Value`] if there is none.
    ///
    /// ```
    /// use trn3_system::cluster::{Between, Cluster, ClusterExchange, NetworkOptions, ExchangeOperation};
    /// use trn3_system::fabric::LinkProfile;
    /// use trn3_facts::Facts;
    ///
    /// let unit = Facts::built_in("trn3_gen2").unwrap();
    /// let cluster = Cluster::new(&unit, 6_944, LinkProfile::Docs, &NetworkOptions::default()).unwrap();
    /// let gradients = ClusterExchange {
    ///     operation: ExchangeOperation::AllReduce, bytes: 140e9, units: None, chips: None, count: 1, algorithm: Between::Auto,
    /// };
    /// let step = cluster.step(&[gradients]).unwrap();
    /// assert_eq!(step.exchanges[0].phases.len(), 3);
    /// // Inside, 140 GB cross the links between the racks twice; between units, 1/144 of it the chip's 25 GB/s.
    /// assert!(step.seconds > 2.0 * 140e9 / 254.3e9 && step.seconds < 1.5);
    /// ```
    pub fn step(&self, exchanges: &[ClusterExchange]) -> Result<StepTime> {
        if exchanges.is_empty() {
            return Err(Error::Value("step: there is no exchange; needed: at least one".to_owned()));
        }
        let times: Vec<ExchangeTime> =
            exchanges.iter().map(|exchange| self.exchange(exchange)).collect::<Result<_>>()?;
        let all = |time: &ExchangeTime| time.exchange.count as f64;
        let phases = times.iter().flat_map(|time| time.phases.iter().map(move |phase| (phase, all(time))));
        let longest = phases.map(|(phase, count)| (phase.seconds * count, &phase.binding));
        let binding = longest.reduce(|best, next| if next.0 > best.0 { next } else { best });
        let mut assumptions = self.assumptions.clone();
        assumptions.push(
            "within a unit, the chips of a group exchange all with all at the bound of the links (choice)".to_owned(),
        );
        Ok(StepTime {
            seconds: times.iter().map(|time| time.seconds * all(time)).sum(),
            binding: binding.map_or(String::new(), |(_, name)| name.clone()),
            exchanges: times,
            assumptions,
        })
    }

    /// Time of one exchange, done once.
    ///
    /// # Errors
    /// [`Error::Value`] if the bytes are negative or not finite, the count is zero, `chips` does not divide the unit's,
    /// `units` are more than live, or the algorithm cannot do the operation; [`Error::Unreachable`] if two chips of a
    /// unit are cut off from one another.
    pub fn exchange(&self, exchange: &ClusterExchange) -> Result<ExchangeTime> {
        let (units, chips) = self.check(exchange)?;
        let bytes = exchange.bytes;
        let mut phases = Vec::new();
        let shard = bytes / chips as f64;
        match exchange.operation {
            ExchangeOperation::ReduceScatter => {
                self.inside_phase(&mut phases, "reduce_scatter inside", bytes, chips)?;
                self.between_phase(&mut phases, exchange, shard, units)?;
            }
            ExchangeOperation::AllGather => {
                self.between_phase(&mut phases, exchange, shard, units)?;
                self.inside_phase(&mut phases, "all_gather inside", bytes, chips)?;
            }
            ExchangeOperation::AllReduce => {
                self.inside_phase(&mut phases, "reduce_scatter inside", bytes, chips)?;
                self.between_phase(&mut phases, exchange, shard, units)?;
                self.inside_phase(&mut phases, "all_gather inside", bytes, chips)?;
            }
            ExchangeOperation::AllToAll => phases.extend(self.all_to_all_phase(bytes, units, chips)?),
            ExchangeOperation::SendReceive => phases.push(self.send_phase(bytes, units, chips)?),
        }
        let longest = phases.iter().reduce(|best, next| if next.seconds > best.seconds { next } else { best });
        Ok(ExchangeTime {
            exchange: ClusterExchange { units: Some(units), chips: Some(chips), ..exchange.clone() },
            seconds: phases.iter().map(|phase| phase.seconds).sum(),
            binding: longest.map_or(String::new(), |phase| phase.binding.clone()),
            phases,
        })
    }

    fn check(&self, exchange: &ClusterExchange) -> Result<(u64, usize)> {
        let ClusterExchange { operation, bytes, count, algorithm, .. } = *exchange;
        let name = operation.name();
        let refuse = |text: String| Err(Error::Value(format!("{name}: {text}")));
        if !(bytes.is_finite() && bytes >= 0.0) {
            return refuse(format!("bytes is {bytes}; it must be finite and not negative"));
        }
        if count == 0 {
            return refuse("count is 0; it must be at least 1".to_owned());
        }
        let live = self.live_units();
        let units = exchange.units.unwrap_or(live);
        if units == 0 || units > live {
            return refuse(format!("a group spans {units} units; allowed: 1 to {live}, the live ones"));
        }
        let all = self.unit.chips();
        let chips = exchange.chips.unwrap_or(all);
        if chips == 0 || !all.is_multiple_of(chips) {
            let near = (1..=all).filter(|size| all.is_multiple_of(*size)).min_by_key(|size| size.abs_diff(chips));
            return refuse(format!(
                "a group has {chips} chips in each unit of {all}; it must divide them: the nearest that does is {}",
                near.unwrap_or(1)
            ));
        }
        match (operation, algorithm) {
            (ExchangeOperation::ReduceScatter | ExchangeOperation::AllGather, Between::Tree) => {
                refuse("a tree does all_reduce only; allowed here: auto, ring, rdh".to_owned())
            }
            (
                ExchangeOperation::AllToAll | ExchangeOperation::SendReceive,
                Between::Ring | Between::Rdh | Between::Tree,
            ) => refuse(format!(
                "goes directly from each chip to each; algorithm is {:?}, allowed: auto",
                algorithm.name()
            )),
            _ => Ok((units, chips)),
        }
    }

    fn inside_phase(&self, phases: &mut Vec<ExchangePhase>, name: &str, bytes: f64, chips: usize) -> Result<()> {
        if chips > 1 {
            let inside = self.inside.rate(&self.unit, Pattern::Exchange, chips)?;
            let sent = bytes * (chips - 1) as f64 / chips as f64;
            phases.push(ExchangePhase {
                name: name.to_owned(),
                seconds: inside.latency + sent / inside.rate,
                steps: 1,
                bytes: sent,
                binding: inside.level,
            });
        }
        Ok(())
    }

    fn between_phase(
        &self,
        phases: &mut Vec<ExchangePhase>,
        exchange: &ClusterExchange,
        shard: f64,
        units: u64,
    ) -> Result<()> {
        if units == 1 {
            return Ok(());
        }
        let is_whole = exchange.operation == ExchangeOperation::AllReduce;
        let way = |algorithm| match algorithm {
            Between::Ring | Between::Auto => self.ring(shard, units, is_whole),
            Between::Rdh => self.rdh(shard, units, is_whole),
            Between::Tree => self.tree(shard, units),
        };
        let (algorithm, way) = match exchange.algorithm {
            Between::Auto => {
                let mut best = (Between::Ring, way(Between::Ring));
                for other in [Between::Rdh, Between::Tree].into_iter().take(if is_whole { 2 } else { 1 }) {
                    let next = way(other);
                    if next.seconds < best.1.seconds {
                        best = (other, next);
                    }
                }
                best
            }
            one => (one, way(one)),
        };
        phases.push(ExchangePhase {
            name: format!("{} between ({})", exchange.operation.name(), algorithm.name()),
            seconds: way.seconds,
            steps: way.steps,
            bytes: way.bytes,
            binding: self.network_binding(way.is_uplink),
        });
        Ok(())
    }

    fn network_binding(&self, is_uplink: bool) -> String {
        if is_uplink { "bottom uplinks".to_owned() } else { self.network.name.clone() }
    }

    /// Bytes a second for each chip if all send at once to the unit so far on, and whether the uplinks say so.
    ///
    /// Of the units under a bottom node, as many send out of it as the distance has.
    fn rate_at(&self, distance: u64, units: u64) -> (f64, bool) {
        let under = self.network.units_per_bottom_node;
        if units <= under {
            return (self.network.rate, false);
        }
        let crossing = distance.min(under) as f64 / under as f64;
        let upward = self.network.upward_rate() / crossing;
        if upward < self.network.rate { (upward, true) } else { (self.network.rate, false) }
    }

    fn ring(&self, shard: f64, units: u64, is_whole: bool) -> Way {
        let rounds = if is_whole { 2 } else { 1 };
        let steps = rounds * (units - 1);
        let bytes = shard * steps as f64 / units as f64;
        let (rate, is_uplink) = self.rate_at(1, units);
        Way { seconds: steps as f64 * self.network.latency + bytes / rate, steps, bytes, is_uplink }
    }

    fn rdh(&self, shard: f64, units: u64, is_whole: bool) -> Way {
        let power = 1u64 << units.ilog2();
        let rounds = if is_whole { 2 } else { 1 };
        let mut way = Way { seconds: 0.0, steps: 0, bytes: 0.0, is_uplink: false };
        let mut add = |times: u64, bytes: f64, distance: u64| {
            let (rate, is_uplink) = self.rate_at(distance, units);
            way.seconds += times as f64 * (self.network.latency + bytes / rate);
            way.steps += times;
            way.bytes += times as f64 * bytes;
            way.is_uplink |= is_uplink;
        };
        for round in 0..power.ilog2() {
            add(rounds, shard / (2u64 << round) as f64, 1 << round);
        }
        if power < units {
            // Those beyond hand over their buffer, and get back what is theirs: all of it, or a part.
            add(1, shard, 1);
            add(1, if is_whole { shard } else { shard / units as f64 }, 1);
        }
        way
    }

    fn tree(&self, shard: f64, units: u64) -> Way {
        let depth = f64::from(units.next_power_of_two().ilog2());
        let latency = self.network.latency;
        // Inner nodes of a tree pass a piece on to two, but only in one of the two trees; leaves make up for it.
        let (rate, is_uplink) = self.rate_at(units, units);
        // depth + pieces - 1 messages up and as many down, each of shard / pieces: this many pieces take least.
        let best = if latency > 0.0 { ((depth - 1.0) * shard / (rate * latency)).sqrt() } else { 4096.0 };
        let time = |pieces: f64| 2.0 * (depth + pieces - 1.0) * (latency + shard / (rate * pieces));
        let pieces = [best.floor().clamp(1.0, 4096.0), best.ceil().clamp(1.0, 4096.0)];
        let pieces = if time(pieces[0]) <= time(pieces[1]) { pieces[0] } else { pieces[1] };
        let steps = 2 * (depth as u64 + pieces as u64 - 1);
        Way { seconds: time(pieces), steps, bytes: 2.0 * shard, is_uplink }
    }

    /// All messages at once: the slowest of the fabric, the chips' own links to the network, and the uplinks.
    fn all_to_all_phase(&self, bytes: f64, units: u64, chips: usize) -> Result<Option<ExchangePhase>> {
        let all = units as f64 * chips as f64;
        let mut candidates: Vec<(f64, String)> = Vec::new();
        let mut latency = 0.0;
        if chips > 1 {
            let inside = self.inside.rate(&self.unit, Pattern::Exchange, chips)?;
            candidates.push((bytes * (chips - 1) as f64 / all / inside.rate, inside.level));
            latency = inside.latency;
        }
        if units > 1 {
            latency = f64::max(latency, self.network.latency);
            candidates.push((bytes * (1.0 - chips as f64 / all) / self.network.rate, self.network.name.clone()));
            let under = self.network.units_per_bottom_node.min(units) as f64 * chips as f64;
            let upward = bytes * (1.0 - under / all) / self.network.upward_rate();
            candidates.push((upward, "bottom uplinks".to_owned()));
        }
        let slowest = candidates.into_iter().reduce(|best, next| if next.0 > best.0 { next } else { best });
        Ok(slowest.map(|(seconds, binding)| ExchangePhase {
            name: "all_to_all".to_owned(),
            seconds: latency + seconds,
            steps: 1,
            bytes: bytes * (1.0 - 1.0 / all),
            binding,
        }))
    }

    fn send_phase(&self, bytes: f64, units: u64, chips: usize) -> Result<ExchangePhase> {
        let name = |place: &str| format!("send_receive {place}");
        if units > 1 {
            let (rate, is_uplink) = self.rate_at(1, units);
            let seconds = self.network.latency + bytes / rate;
            let binding = self.network_binding(is_uplink);
            return Ok(ExchangePhase { name: name("between"), seconds, steps: 1, bytes, binding });
        }
        if chips == self.unit.chips() {
            return Err(Error::Value(format!(
                "send_receive: one unit has no chips next to all of its {chips}; span 2 units or name fewer chips"
            )));
        }
        let inside = self.inside.rate(&self.unit, Pattern::Shift, chips)?;
        let seconds = inside.latency + bytes / inside.rate;
        Ok(ExchangePhase { name: name("inside"), seconds, steps: 1, bytes, binding: inside.level })
    }
}
