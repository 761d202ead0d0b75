//! What collectives cost: a trait that plans ask, and an answer from the rates and latencies of a system's levels.

use serde::Serialize;

use super::hardware::{Machine, Rank, serving};
use trn3_system::Result;
use trn3_system::collective::{CallStarts, channels};

/// A collective operation, or one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepCollective {
    /// Every rank ends with the sum of all; `bytes` are those of the operand.
    AllReduce,
    /// Every rank ends with all parts; `bytes` are those of the result.
    AllGather,
    /// Every rank ends with its part of the sum; `bytes` are those of the operand.
    ReduceScatter,
    /// Every rank sends a part to each other one; `bytes` are what a rank sends in total, its own part included.
    AllToAll,
    /// One rank sends `bytes` to another, as far apart as the group's stride.
    Send,
}

/// Ranks that take part: `ranks` of them, `stride` apart in the order of logical cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Group {
    /// How many.
    pub ranks: u64,
    /// How far one is from the next.
    pub stride: u64,
}

/// What a collective takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExchangeCost {
    /// Seconds.
    pub seconds: f64,
    /// Bytes that a chip sends over links.
    pub link_bytes: f64,
    /// The level whose links, or whose latency, take most of the time.
    pub binding: String,
}

impl ExchangeCost {
    /// Nothing to do.
    pub fn nothing() -> Self {
        Self { seconds: 0.0, link_bytes: 0.0, binding: "nothing".to_owned() }
    }
}

/// What tells a plan the time of its collectives.
pub trait Communication: Sync {
    /// The cost of one collective of a group; every group of a plan runs it at the same time.
    fn cost(&self, collective: StepCollective, group: Group, bytes: f64) -> ExchangeCost;

    /// What had to be assumed.
    fn assumptions(&self) -> Vec<String>;
}

/// One level as a group uses it.
#[derive(Clone, Debug)]
struct Stage<'a> {
    name: &'a str,
    /// Members of the next larger part that this level joins: ranks of a chip, chips of a server, ...
    members: f64,
    /// Members of the whole group within one domain of this level.
    reach: f64,
    rate: f64,
    uniform: f64,
    latency: f64,
    ring_step: f64,
    /// Chips of the group within one of the parts that it joins.
    chips: f64,
    is_network: bool,
    is_flat: bool,
}

/// What a way of doing a collective takes: seconds that steps wait and that bytes take, and bytes that a chip sends.
#[derive(Clone, Copy, Debug, Default)]
struct Passage {
    latency: f64,
    traffic: f64,
    sent: f64,
    binding: usize,
}

impl Passage {
    /// Seconds, of ranks that need `channels` seconds for what they send.
    fn seconds(&self, channels: f64) -> f64 {
        self.latency + self.traffic.max(channels)
    }
}

/// Costs from levels: each has a rate a chip, the part of it that collectives reach, and a latency a step. The constants
/// are those of the executed schedules ([`trn3_system::collective`]).
///
/// A call starts as one in a program does. /// A reduction runs through the levels, from the inside out and back, or within chips and then between all of them at
/// once, or around a ring, whichever is the fastest. Traffic of all with all is bound by the level that it fills first.
/// Groups beside each other share the links of their chips.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelCosts {
    names: Vec<String>,
    /// Ranks within reach, from the inside out.
    reach: Vec<f64>,
    rate: Vec<f64>,
    uniform: Vec<f64>,
    latency: Vec<f64>,
    ring_step: Vec<f64>,
    rings: Vec<bool>,
    flat: Vec<bool>,
    per_chip: f64,
    /// Ranks of one instance.
    instance: f64,
    start: f64,
    /// What a rank sends if its group covers instances, and if not.
    channels: (f64, f64),
}

impl LevelCosts {
    /// Costs on a system whose ranks are logical cores like `rank`.
    ///
    /// # Errors
    /// None in practice: the constants are part of the crate.
    pub fn new(machine: &Machine, rank: &Rank) -> Result<Self> {
        let per_chip = f64::from(rank.per_chip);
        // Only NeuronCores are served by DMA engines of their own.
        let starts = if machine.chip.dma_rate.is_finite() { CallStarts::neuron()? } else { CallStarts::default() };
        let in_chip = serving()?.si("in_chip_hop")?;
        let (all, few) = channels()?;
        let channel = machine.channel_rate.unwrap_or(f64::INFINITY);
        let inside = machine.levels.iter().rev().find(|level| !level.is_network);
        let mut costs = Self {
            names: vec!["chip".to_owned()],
            reach: vec![per_chip],
            // Cores of a chip exchange data through its memory: every byte is written and read.
            rate: vec![rank.memory_rate * per_chip / 2.0],
            uniform: vec![rank.memory_rate * per_chip / 2.0],
            latency: vec![in_chip],
            ring_step: vec![in_chip],
            rings: vec![false],
            flat: vec![false],
            per_chip,
            instance: inside.map_or(1.0, |level| f64::from(level.chips)) * per_chip,
            start: starts.program,
            channels: (all * channel, few * channel),
        };
        for level in &machine.levels {
            let inner = costs.latency.last().copied().unwrap_or(0.0);
            costs.names.push(level.name.clone());
            costs.reach.push(f64::from(level.chips) * per_chip);
            costs.rate.push(level.rate * level.efficiency);
            costs.uniform.push(level.uniform * level.efficiency);
            costs.rings.push(level.rings);
            costs.flat.push(level.flat);
            let relayed = if level.aligned { inner } else { 0.0 };
            costs.latency.push(level.latency + relayed);
            costs.ring_step.push(level.ring_step + relayed);
        }
        Ok(costs)
    }

    /// The levels that a group uses.
    fn stages(&self, group: Group) -> impl Iterator<Item = Stage<'_>> {
        let (ranks, stride) = (group.ranks as f64, group.stride as f64);
        let within = move |reach: f64| (reach / stride).clamp(1.0, ranks);
        let mut inner = 1.0;
        self.names.iter().enumerate().filter_map(move |(index, name)| {
            let reach = within(self.reach[index]);
            let members = reach / inner;
            let chips = inner / self.sharing(group).min(inner);
            inner = reach;
            let all = self.reach[index] / if index > 0 { self.reach[index - 1] } else { 1.0 };
            let (linked, spread) = if self.rings[index] { few_of_torus(members, all) } else { (1.0, 1.0) };
            (members > 1.0).then(|| Stage {
                name,
                members,
                reach,
                rate: self.rate[index] * linked,
                uniform: self.uniform[index] * spread,
                latency: self.latency[index],
                ring_step: self.ring_step[index],
                chips,
                is_network: self.reach[index] > self.instance,
                is_flat: self.flat[index],
            })
        })
    }

    /// Ranks of the group on one chip: they share its links.
    fn sharing(&self, group: Group) -> f64 {
        // Groups beside each other fill the chip, so a chip always sends for all of its ranks.
        (self.per_chip / group.stride as f64).clamp(1.0, group.ranks as f64)
    }

    /// Groups that run beside each other on a chip.
    pub(super) fn groups(&self, group: Group) -> f64 {
        (self.per_chip / self.sharing(group)).max(1.0)
    }

    /// Half of a reduction (`phases` = 1) or all of it (2), level by level, each level at work on its own pieces but for the
    /// network, which is crossed between the others.
    fn hierarchical(&self, group: Group, bytes: f64, phases: f64) -> Passage {
        let mut way = Passage::default();
        let mut part = bytes * self.groups(group);
        for (index, stage) in self.stages(group).enumerate() {
            let inside = stage.name == "chip";
            let moved = part * (stage.members - 1.0) / stage.members;
            // The chip's memory sees the operands of all its ranks.
            let time = phases * moved * if inside { stage.members } else { 1.0 } / stage.rate;
            way.latency += phases * stage.latency;
            if !inside {
                way.sent += phases * moved;
                part /= stage.members;
            }
            if stage.is_network {
                // Instances reduce before they meet, and gather after.
                way.binding = if time > way.traffic { index } else { way.binding };
                way.traffic += time;
            } else if time > way.traffic {
                (way.traffic, way.binding) = (time, index);
            }
        }
        way
    }

    /// Within chips, then one exchange of every chip with every other: two steps a phase.
    fn direct(&self, group: Group, bytes: f64, phases: f64) -> Passage {
        let sharing = self.sharing(group);
        let (outer, inner, chip) =
            self.stages(group).fold((0.0_f64, 0.0, 0.0), |(outer, inner, chip), stage| match stage.name {
                "chip" => {
                    let moved = bytes * self.groups(group) * (stage.members - 1.0);
                    (outer, stage.latency, moved / stage.rate)
                }
                _ => (outer.max(stage.latency), inner, chip),
            });
        let way = self.spread(group, bytes / sharing * (1.0 - 1.0 / group.ranks as f64));
        Passage {
            latency: phases * (outer + inner),
            traffic: phases * chip.max(way.traffic),
            sent: phases * way.sent,
            binding: way.binding,
        }
    }

    /// Every rank sends its part to every other one at once.
    fn exchange(&self, group: Group, bytes: f64) -> Passage {
        let latency = self.stages(group).map(|stage| stage.latency).fold(0.0, f64::max);
        Passage { latency, ..self.spread(group, bytes * (1.0 - 1.0 / group.ranks as f64)) }
    }

    /// What it takes when every rank sends `bytes` evenly to the others of its group; no step is counted.
    fn spread(&self, group: Group, bytes: f64) -> Passage {
        let others = (group.ranks as f64 - 1.0).max(1.0);
        let chip = bytes * self.per_chip.min(group.ranks as f64 * self.groups(group));
        let (mut way, mut inner) = (Passage::default(), 1.0);
        for (index, stage) in self.stages(group).enumerate() {
            let moved = chip * (stage.reach - inner) / others;
            inner = stage.reach;
            if stage.name != "chip" {
                way.sent += moved;
            }
            let time = moved / stage.uniform;
            if time > way.traffic {
                (way.traffic, way.binding) = (time, index);
            }
        }
        way
    }

    /// Neighbour to neighbour around the group; its channels leave an instance over the network of each of its chips.
    fn ring(&self, group: Group, bytes: f64, phases: f64) -> Passage {
        let ranks = group.ranks as f64;
        let moved = bytes * self.groups(group) * (ranks - 1.0) / ranks;
        let (mut slowest, mut latency, mut binding) = (f64::INFINITY, 0.0_f64, 0);
        for (index, stage) in self.stages(group).enumerate() {
            let rate = stage.rate * if stage.is_network { stage.chips } else { 1.0 };
            if rate < slowest {
                (slowest, binding) = (rate, index);
            }
            latency = latency.max(stage.ring_step);
        }
        let crosses = self.stages(group).any(|stage| stage.name != "chip");
        let sent = if crosses { phases * moved } else { 0.0 };
        Passage { latency: phases * (ranks - 1.0) * latency, traffic: phases * moved / slowest, sent, binding }
    }

    /// Seconds that the channels of a rank need for what it sends.
    fn channel_time(&self, group: Group, sent: f64) -> f64 {
        let is_whole = group.stride == 1 && (group.ranks as f64) % self.instance == 0.0;
        sent / if is_whole { self.channels.0 } else { self.channels.1 }
    }

    /// The fastest way to reduce or gather.
    fn fastest(&self, group: Group, bytes: f64, phases: f64, channels: f64) -> Passage {
        let flat = [self.direct(group, bytes, phases), self.ring(group, bytes, phases)];
        // Where the network is crossed in a flat ring, nothing goes level by level.
        let is_flat = self.stages(group).any(|stage| stage.is_flat);
        let levels = (!is_flat).then(|| self.hierarchical(group, bytes, phases));
        let ways = levels.into_iter().chain(flat);
        ways.min_by(|left, right| left.seconds(channels).total_cmp(&right.seconds(channels))).unwrap_or_default()
    }

    /// To the rank that is the group's stride away.
    fn send(&self, group: Group, bytes: f64) -> Passage {
        let pair = Group { ranks: 2, stride: group.stride };
        let (binding, stage) = self.stages(pair).enumerate().last().unzip();
        stage.map_or_else(Passage::default, |stage| {
            let chip = bytes * self.per_chip.min(group.stride as f64);
            let sent = if stage.name == "chip" { 0.0 } else { chip };
            Passage { latency: stage.latency, traffic: chip / stage.rate, sent, binding: binding.unwrap_or(0) }
        })
    }
}

/// Of a torus of `all` chips, the shares of its rates that a block of `members` has: to neighbours, and to all evenly.
///
/// Blocks of a torus with sides of four are cubes of two a side: each doubling uses one link more of every chip, and
/// half of what a chip sends crosses each direction.
fn few_of_torus(members: f64, all: f64) -> (f64, f64) {
    if members <= 1.0 || members >= all {
        return (1.0, 1.0);
    }
    (members.log2() / all.log2(), (1.0 - 1.0 / members) / (1.0 - 1.0 / all))
}

impl Communication for LevelCosts {
    fn cost(&self, collective: StepCollective, group: Group, bytes: f64) -> ExchangeCost {
        if group.ranks <= 1 || bytes <= 0.0 {
            return ExchangeCost::nothing();
        }
        let phases = if collective == StepCollective::AllReduce { 2.0 } else { 1.0 };
        let share = if collective == StepCollective::Send { 1.0 } else { 1.0 - 1.0 / group.ranks as f64 };
        let channels = self.channel_time(group, phases * bytes * share);
        let way = match collective {
            StepCollective::AllReduce | StepCollective::AllGather | StepCollective::ReduceScatter => {
                self.fastest(group, bytes, phases, channels)
            }
            StepCollective::AllToAll => self.exchange(group, bytes),
            StepCollective::Send => self.send(group, bytes),
        };
        let level = self.stages(group).nth(way.binding).map_or("nothing", |stage| stage.name);
        let binding = if channels > way.traffic { "channels" } else { level };
        let seconds = self.start + way.seconds(channels);
        ExchangeCost { seconds, link_bytes: way.sent, binding: binding.to_owned() }
    }

    fn assumptions(&self) -> Vec<String> {
        vec![
            "collectives: closed forms over the levels of the fabric (rate a chip, latency a step), the fastest of level \
             by level, all chips at once and a ring; steps between cores of a chip cost 1.5 us (choice)"
                .to_owned(),
            match self.start > 0.0 {
                true => format!(
                    "collectives: a call in a program starts in {:.1} us (fitted on the vendor's all-gathers)",
                    self.start * 1e6
                ),
                false => "collectives: a call starts in no time: nothing is published for this chip (choice)".to_owned(),
            },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(system: &str) -> LevelCosts {
        let machine = Machine::built_in(system).expect("loads");
        LevelCosts::new(&machine, &machine.chip.rank(2).expect("allowed")).expect("builds")
    }

    /// Bytes a second that each chip sends when all ranks of the group talk with all.
    fn all_to_all_rate(system: &str, chips: u64) -> f64 {
        let (bytes, group) = (1e9, Group { ranks: 4 * chips, stride: 1 });
        // What the ranks of a chip keep on it is no traffic of links.
        let others = (group.ranks - 4) as f64 / group.ranks as f64;
        4.0 * bytes * others / costs(system).cost(StepCollective::AllToAll, group, bytes).seconds / 1e9
    }

    #[test]
    fn test_all_to_all_reaches_the_bounds_of_the_fabric() {
        for (system, chips, rate) in [
            ("gen2", 144, 254.2),
            ("gen2", 72, 338.0 * 68.0 / 68.8),
            ("gen2", 4, 256.0),
            ("trn2", 16, 240.0),
            ("trn2_ultraserver", 64, 126.0),
        ] {
            let got = all_to_all_rate(system, chips);
            assert!((got / rate - 1.0).abs() < 0.01, "{system} {chips}: {got} against {rate}");
        }
    }

    #[test]
    fn test_experts_across_racks_cost_more_than_within_one() {
        let costs = costs("gen2");
        let time = |ranks| costs.cost(StepCollective::AllToAll, Group { ranks, stride: 1 }, 235e6 / 4.0);
        let (rack, both) = (time(288), time(576));
        assert_eq!((rack.binding.as_str(), both.binding.as_str()), ("rack", "cross-rack"));
        assert!(both.seconds > 1.2 * rack.seconds);
    }

    #[test]
    fn test_cost_is_monotone_in_bytes_and_never_free() {
        let costs = costs("gen2");
        for collective in
            [StepCollective::AllReduce, StepCollective::AllGather, StepCollective::AllToAll, StepCollective::Send]
        {
            let mut last = 0.0;
            for power in 0..30 {
                let group = Group { ranks: 64, stride: 1 };
                let time = costs.cost(collective, group, f64::from(1 << power)).seconds;
                assert!(time >= last && time >= 1.5e-6, "{collective:?} {power}");
                last = time;
            }
        }
        assert_eq!(costs.cost(StepCollective::AllReduce, Group { ranks: 1, stride: 1 }, 1e9).seconds, 0.0);
    }

    #[test]
    fn test_costs_are_near_those_of_executed_schedules() {
        use std::sync::Arc;

        use trn3_system::collective::{Estimator, Operation, RankGroup as Ranks};
        use trn3_system::fabric::{Fabric, LinkProfile};

        // Large ones: what binds is a rate, whatever the steps.
        for (system, most) in [("trn3_gen2", 1.35), ("trn2_instance", 1.9)] {
            let fabric = Arc::new(Fabric::built_in(system, LinkProfile::Docs).expect("builds"));
            let (levels, chips) = (costs(system), fabric.chips());
            let schedules = Estimator::new(fabric).expect("builds");
            for ranks in [8, 16, 64] {
                let members = Ranks::new((0..ranks).collect(), 4, chips).expect("there");
                let group = Group { ranks: u64::from(ranks), stride: 1 };
                for (operation, collective) in
                    [(Operation::AllReduce, StepCollective::AllReduce), (Operation::AllToAll, StepCollective::AllToAll)]
                {
                    let theirs = schedules.estimate(operation, &members, 160e6, None).expect("estimates").time;
                    let ratio = theirs / levels.cost(collective, group, 160e6).seconds;
                    assert!((1.0 / most..most).contains(&ratio), "{system} {ranks} {operation}: {ratio}");
                }
            }
        }
    }

    #[test]
    fn test_small_all_reduce_on_the_torus_takes_the_documented_steps() {
        // Behind its start two exchanges of a microsecond and a half each, and little traffic.
        let costs = costs("trn2");
        let time = costs.cost(StepCollective::AllReduce, Group { ranks: 64, stride: 1 }, 16384.0).seconds - costs.start;
        assert!((3e-6..7e-6).contains(&time), "{time}");
    }
}
