//! Who talks with whom: messages by sender, receiver and tag, collectives by group.

use std::collections::BTreeMap;

use super::job::{Job, JobExchange, JobNode, JobWork, refuse};
use crate::error::Result;

/// A node by rank and place.
pub(super) type Place = (u32, u32);

/// A message: its two nodes.
pub(super) struct MatchedMessage {
    pub(super) send: Place,
    pub(super) receive: Place,
    pub(super) bytes: f64,
}

/// A collective: one node of each rank of its group, in the group's order.
pub(super) struct Collective {
    pub(super) exchange: JobExchange,
    pub(super) group: u32,
    pub(super) bytes: f64,
    pub(super) root: u32,
    pub(super) priority: u8,
    pub(super) members: Vec<Place>,
}

#[derive(Default)]
pub(super) struct Matched {
    pub(super) messages: Vec<MatchedMessage>,
    pub(super) collectives: Vec<Collective>,
}

#[derive(Default)]
struct Ends {
    sends: Vec<Place>,
    receives: Vec<Place>,
}

pub(super) fn matched(job: &Job) -> Result<Matched> {
    let mut pairs: BTreeMap<(u32, u32, i64), Ends> = BTreeMap::new();
    let mut joined: Vec<BTreeMap<u32, Vec<Place>>> = vec![BTreeMap::new(); job.groups.len()];
    for (rank, nodes) in (0u32..).zip(&job.ranks) {
        for (at, node) in (0u32..).zip(nodes) {
            match node.work {
                JobWork::Send { to, tag, .. } => pairs.entry((rank, to, tag)).or_default().sends.push((rank, at)),
                JobWork::Receive { from, tag, .. } => {
                    pairs.entry((from, rank, tag)).or_default().receives.push((rank, at))
                }
                JobWork::Collective { group, .. } => {
                    joined[group as usize].entry(rank).or_default().push((rank, at));
                }
                _ => {}
            }
        }
    }
    let mut made = Matched::default();
    for ((from, to, tag), ends) in &pairs {
        message(job, (*from, *to, *tag), ends, &mut made.messages)?;
    }
    for (group, joined) in (0u32..).zip(&joined) {
        collectives(job, group, joined, &mut made.collectives)?;
    }
    Ok(made)
}

fn node(job: &Job, (rank, at): Place) -> &JobNode {
    &job.ranks[rank as usize][at as usize]
}

fn message(job: &Job, (from, to, tag): (u32, u32, i64), ends: &Ends, made: &mut Vec<MatchedMessage>) -> Result<()> {
    let both = ends.sends.len().min(ends.receives.len());
    if let Some(&lone) = ends.sends.get(both) {
        return refuse(format!(
            "rank {from}, {}: sends to rank {to} with tag {tag}, which receives {} of the {} such messages",
            node(job, lone),
            ends.receives.len(),
            ends.sends.len()
        ));
    }
    if let Some(&lone) = ends.receives.get(both) {
        return refuse(format!(
            "rank {to}, {}: waits for a message of rank {from} with tag {tag}, which sends {} of the {} it waits for",
            node(job, lone),
            ends.sends.len(),
            ends.receives.len()
        ));
    }
    for (&send, &receive) in ends.sends.iter().zip(&ends.receives) {
        let (JobWork::Send { bytes, .. }, JobWork::Receive { bytes: expected, .. }) =
            (&node(job, send).work, &node(job, receive).work)
        else {
            continue;
        };
        if expected.is_some_and(|expected| expected != *bytes) {
            return refuse(format!(
                "rank {from}, {}: sends {bytes} bytes to rank {to}, whose {} waits for {} (tag {tag})",
                node(job, send),
                node(job, receive),
                expected.unwrap_or_default()
            ));
        }
        made.push(MatchedMessage { send, receive, bytes: *bytes });
    }
    Ok(())
}

fn collectives(job: &Job, index: u32, joined: &BTreeMap<u32, Vec<Place>>, made: &mut Vec<Collective>) -> Result<()> {
    let group = &job.groups[index as usize];
    let list = |rank: &u32| joined.get(rank).map_or(&[][..], Vec::as_slice);
    let most = group.ranks.iter().map(|rank| list(rank).len()).max().unwrap_or(0);
    for number in 0..most {
        let at = |rank: &u32| list(rank).get(number).copied();
        let Some(first) = group.ranks.iter().find_map(at) else { continue };
        let JobWork::Collective { exchange, bytes, root, .. } = node(job, first).work else { continue };
        let priority = node(job, first).priority;
        let mut members = Vec::with_capacity(group.ranks.len());
        for rank in &group.ranks {
            let Some(place) = at(rank) else {
                let never: Vec<String> =
                    group.ranks.iter().filter(|rank| at(rank).is_none()).take(8).map(u32::to_string).collect();
                return refuse(format!(
                    "rank {}, {}: {} number {} of process group {:?}, which rank {} never joins",
                    first.0,
                    node(job, first),
                    exchange.name(),
                    number + 1,
                    group.name,
                    never.join(", ")
                ));
            };
            let other = node(job, place);
            if let JobWork::Collective { exchange: theirs, bytes: size, root: from, .. } = other.work {
                let difference = if theirs != exchange {
                    Some((exchange.name().to_owned(), theirs.name().to_owned()))
                } else if size != bytes {
                    Some((format!("{bytes} bytes"), format!("{size} bytes")))
                } else if exchange.has_root() && from != root {
                    Some((format!("root {root}"), format!("root {from}")))
                } else if other.priority != priority {
                    Some((format!("priority {priority}"), format!("priority {}", other.priority)))
                } else {
                    None
                };
                if let Some((ours, theirs)) = difference {
                    return refuse(format!(
                        "collective number {} of process group {:?}: rank {}, {}, has {ours}; rank {}, {other}, has {theirs}",
                        number + 1,
                        group.name,
                        first.0,
                        node(job, first),
                        place.0
                    ));
                }
            }
            members.push(place);
        }
        made.push(Collective { exchange, group: index, bytes, root, priority, members });
    }
    Ok(())
}
