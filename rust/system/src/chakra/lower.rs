//! From nodes of traces to a job.

use std::collections::{BTreeMap, BTreeSet};

use super::attributes::Attributes;
use super::messages::ChakraNode;
use super::options::{ChakraOptions, ComputeTime, MemoryTime};
use super::trace::{ChakraNodeType, ChakraTrace, Ordered};
use super::value::quoted;
use crate::error::{Error, Result};
use crate::flow::LOWEST_PRIORITY;
use crate::replay::{JobExchange, JobNode, JobWork, ProcessGroup};

const MICROSECONDS: f64 = 1e6;
const PICOSECONDS: f64 = 1e12;

/// The process group of collectives that name none.
const EVERYONE: &str = "all ranks";

/// What the ranks of a job have in common while they are read.
pub(super) struct Lowering<'a> {
    options: &'a ChakraOptions,
    /// Number of ranks.
    count: u32,
    /// Process groups in the order in which they are met; those that were not given gather who names them.
    groups: Vec<(String, BTreeSet<u32>)>,
    numbers: BTreeMap<String, u32>,
    pub(super) kinds: BTreeSet<ChakraNodeType>,
    /// Collectives without a root, by rank and place: the first rank of their group will be it.
    rootless: Vec<(u32, u32)>,
}

/// A rank's nodes, and where each stands in its trace.
pub(super) struct LoweredRank {
    pub(super) nodes: Vec<JobNode>,
    pub(super) places: Vec<u32>,
}

impl<'a> Lowering<'a> {
    pub(super) fn new(options: &'a ChakraOptions, count: u32) -> Self {
        let (groups, numbers) = (Vec::new(), BTreeMap::new());
        Self { options, count, groups, numbers, kinds: BTreeSet::new(), rootless: Vec::new() }
    }

    pub(super) fn rank(&mut self, rank: u32, trace: &ChakraTrace) -> Result<LoweredRank> {
        let Ordered { nodes: places, after } = trace.ordered(&format!("rank {rank}"))?;
        let mut streams: BTreeMap<String, u32> = BTreeMap::new();
        let mut nodes: Vec<JobNode> = Vec::with_capacity(places.len());
        for ((at, &place), after) in (0u32..).zip(&places).zip(after) {
            let node = &trace.nodes[place as usize];
            let read = Attributes { node, rank };
            let kind = node.node_type().map_err(|error| Error::Trace(format!("rank {rank}: {error}")))?;
            self.kinds.insert(kind);
            let (work, priority) = self.work(&read, kind, &mut streams)?;
            if matches!(work, JobWork::Collective { root: u32::MAX, .. }) && read.value("comm_root").is_none() {
                self.rootless.push((rank, at));
            }
            nodes.push(JobNode { id: node.id, name: node.name.clone(), after, work, priority });
        }
        Ok(LoweredRank { nodes, places })
    }

    /// The process groups: ranks in the order given, else ascending; and roots where traces have none.
    pub(super) fn finish(self, ranks: &mut [LoweredRank]) -> Vec<ProcessGroup> {
        let given = &self.options.groups;
        let groups: Vec<ProcessGroup> = self
            .groups
            .into_iter()
            .map(|(name, members)| {
                let ranks = given.get(&name).cloned().unwrap_or_else(|| members.into_iter().collect());
                ProcessGroup { name, ranks }
            })
            .collect();
        for (rank, at) in self.rootless {
            if let JobWork::Collective { group, root, .. } = &mut ranks[rank as usize].nodes[at as usize].work {
                *root = groups[*group as usize].ranks[0];
            }
        }
        groups
    }

    fn work(
        &mut self,
        read: &Attributes<'_>,
        kind: ChakraNodeType,
        streams: &mut BTreeMap<String, u32>,
    ) -> Result<(JobWork, u8)> {
        let work = match kind {
            ChakraNodeType::Metadata => JobWork::Nothing,
            ChakraNodeType::Compute => {
                let is_host = read.flag("is_cpu_op");
                let own = self.options.streams.as_ref().filter(|_| !is_host).and_then(|name| read.called(name));
                let name = if is_host {
                    "host".to_owned()
                } else {
                    format!("stream {}", own.map_or(String::new(), ToString::to_string))
                };
                let next = streams.len() as u32;
                let stream = *streams.entry(name).or_insert(next);
                JobWork::Compute { seconds: self.seconds(read, is_host)?, stream }
            }
            ChakraNodeType::MemoryLoad | ChakraNodeType::MemoryStore => match self.options.memory {
                MemoryTime::Duration => JobWork::Wait { seconds: measured(read)? },
                MemoryTime::Bytes => {
                    let bytes = read.needed("tensor_size", "a memory node")? as f64;
                    return Ok((JobWork::Memory { bytes }, priority(read)?));
                }
            },
            ChakraNodeType::Send | ChakraNodeType::Receive => return Ok((self.message(read, kind)?, priority(read)?)),
            ChakraNodeType::Collective => return Ok((self.collective(read)?, priority(read)?)),
            ChakraNodeType::Storage | ChakraNodeType::Batch | ChakraNodeType::Checkpoint => {
                JobWork::Wait { seconds: measured(read)? }
            }
            ChakraNodeType::Invalid => {
                return Err(read.wrong("has type INVALID_NODE, which does nothing that can be replayed"));
            }
        };
        Ok((work, 0))
    }

    fn seconds(&self, read: &Attributes<'_>, is_host: bool) -> Result<f64> {
        match &self.options.compute {
            ComputeTime::Roofline(peaks) if !is_host => {
                let (ops, bytes) = (read.whole("num_ops")?, read.whole("tensor_size")?);
                if ops.is_none() && bytes.is_none() {
                    return Err(read.wrong(
                        "attributes num_ops and tensor_size are missing, of which compute='roofline' needs one; \
                         compute='duration' takes the measured time",
                    ));
                }
                let (ops, bytes) = (ops.unwrap_or(0) as f64, bytes.unwrap_or(0) as f64);
                Ok((ops / peaks.ops).max(bytes / peaks.bytes))
            }
            _ => {
                let seconds = measured(read)?;
                let has_work = seconds == 0.0 && !is_host && read.whole("num_ops")?.unwrap_or(0) != 0;
                if has_work && read.value("duration_ps").is_none() {
                    return Err(read.wrong("has num_ops but no duration; compute='roofline' would work"));
                }
                Ok(seconds)
            }
        }
    }

    fn message(&self, read: &Attributes<'_>, kind: ChakraNodeType) -> Result<JobWork> {
        let is_send = kind == ChakraNodeType::Send;
        let (end, own) = if is_send { ("comm_dst", "comm_src") } else { ("comm_src", "comm_dst") };
        let what = if is_send { "a send" } else { "a receive" };
        let (peer, here) = (read.needed(end, what)?, read.whole(own)?);
        if let Some(here) = here.filter(|here| *here != i128::from(read.rank)) {
            let why = format!("attribute {own} is {here}, but the trace is that of rank {}", read.rank);
            return Err(read.wrong(&why));
        }
        let inside = u32::try_from(peer).ok().filter(|peer| *peer < self.count);
        let peer = inside.ok_or_else(|| {
            read.wrong(&format!("attribute {end} is {peer}; the job has ranks 0 to {}", self.count - 1))
        })?;
        let bytes = if is_send { Some(read.needed("comm_size", what)?) } else { read.whole("comm_size")? };
        let bytes = bytes.map(|bytes| bytes as f64);
        let tag = read.whole_from("comm_tag", i64::MIN.into())?.unwrap_or(0);
        let tag = i64::try_from(tag)
            .map_err(|_| read.wrong(&format!("attribute comm_tag is {tag}; allowed: up to {}", i64::MAX)))?;
        Ok(match bytes {
            Some(bytes) if is_send => JobWork::Send { to: peer, bytes, tag },
            bytes => JobWork::Receive { from: peer, bytes, tag },
        })
    }

    fn collective(&mut self, read: &Attributes<'_>) -> Result<JobWork> {
        let exchange = read.collective()?;
        let bytes = if exchange == JobExchange::Barrier { 0 } else { read.needed("comm_size", "a collective")? };
        let name = read.group()?;
        let given = name.as_ref().and_then(|name| self.options.groups.get(name));
        if let Some(ranks) = given.filter(|ranks| !ranks.contains(&read.rank)) {
            let sorted: Vec<u32> = ranks.iter().copied().collect::<BTreeSet<u32>>().into_iter().collect();
            let group = quoted(name.as_deref().unwrap_or_default());
            return Err(read.wrong(&format!("process group {group} has ranks {sorted:?}, not this one")));
        }
        let index = match &name {
            None => self.group(EVERYONE, 0..self.count),
            Some(name) => self.group(name, std::iter::once(read.rank)),
        };
        let root = read.whole("comm_root")?;
        // A group's first rank is the root of collectives that name none; see `finish`.
        let root = root.map_or(u32::MAX, |root| u32::try_from(root).unwrap_or(u32::MAX));
        Ok(JobWork::Collective { exchange, group: index, bytes: bytes as f64, root })
    }

    fn group(&mut self, name: &str, members: impl IntoIterator<Item = u32>) -> u32 {
        let next = self.groups.len() as u32;
        let index = *self.numbers.entry(name.to_owned()).or_insert(next);
        if index == next {
            self.groups.push((name.to_owned(), BTreeSet::new()));
        }
        self.groups[index as usize].1.extend(members);
        index
    }
}

fn measured(read: &Attributes<'_>) -> Result<f64> {
    let ChakraNode { duration_micros, .. } = read.node;
    Ok(read.whole("duration_ps")?.map_or(*duration_micros as f64 / MICROSECONDS, |exact| exact as f64 / PICOSECONDS))
}

fn priority(read: &Attributes<'_>) -> Result<u8> {
    let number = read.whole("priority")?.unwrap_or(0);
    u8::try_from(number).ok().filter(|class| *class <= LOWEST_PRIORITY).ok_or_else(|| {
        read.wrong(&format!("attribute priority is {number}; allowed: 0 (served first) to {LOWEST_PRIORITY}"))
    })
}
