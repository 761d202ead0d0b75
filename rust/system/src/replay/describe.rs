//! Names a deadlock: nodes that wait for each other, across ranks.

use super::job::{Job, JobWork, refuse};
use super::lower::Lowered;
use super::matching::Place;
use crate::error::Result;

/// Nodes that are listed of a cycle **(choice)**.
const MOST_LISTED: usize = 12;

pub(super) fn refuse_cycles(job: &Job, lowered: &Lowered) -> Result<()> {
    let count = lowered.transfers.len();
    let mut waiting: Vec<usize> = lowered.transfers.iter().map(|transfer| transfer.after.len()).collect();
    let mut followers: Vec<Vec<u32>> = vec![Vec::new(); count];
    for (index, transfer) in (0u32..).zip(&lowered.transfers) {
        for &before in &transfer.after {
            followers[before as usize].push(index);
        }
    }
    let mut ready: Vec<usize> = (0..count).filter(|&index| waiting[index] == 0).collect();
    let mut done = 0;
    while let Some(index) = ready.pop() {
        done += 1;
        for &follower in &followers[index] {
            waiting[follower as usize] -= 1;
            if waiting[follower as usize] == 0 {
                ready.push(follower as usize);
            }
        }
    }
    let Some(mut at) = (0..count).find(|&index| done < count && waiting[index] > 0) else { return Ok(()) };
    // Back from a stuck one through what it waits for, one is met again.
    let mut seen: Vec<(usize, String)> = Vec::new();
    let mut place = vec![usize::MAX; count];
    while place[at] == usize::MAX {
        place[at] = seen.len();
        let before = lowered.transfers[at].after.iter().copied().find(|&before| waiting[before as usize] > 0);
        let Some(before) = before else { break };
        seen.push((at, link(job, lowered, at, before)));
        at = before as usize;
    }
    let cycle = &seen[place[at].min(seen.len())..];
    let mut shown: Vec<&str> = cycle.iter().take(MOST_LISTED).map(|(_, text)| text.as_str()).collect();
    if cycle.len() > MOST_LISTED {
        shown.push("and so on");
    }
    refuse(format!("deadlock: each of these waits for the next, and the last for the first: {}", shown.join("; ")))
}

/// How a transfer waits for another: through which of its nodes.
fn link(job: &Job, lowered: &Lowered, at: usize, before: u32) -> String {
    let nodes = &lowered.nodes[at];
    let waits = |&&(rank, place): &&Place| {
        let node = &job.ranks[rank as usize][place as usize];
        node.after.iter().any(|&other| lowered.of[rank as usize][other as usize] == before)
    };
    let through = nodes.iter().find(waits).or(nodes.first());
    let Some(&(rank, place)) = through else { return String::new() };
    let node = &job.ranks[rank as usize][place as usize];
    match &node.work {
        JobWork::Collective { exchange, group, .. } => {
            format!("rank {rank}, {node}, {} of {:?}", exchange.name(), job.groups[*group as usize].name)
        }
        JobWork::Receive { from, tag, .. } => format!("rank {rank}, {node}, a message of rank {from} with tag {tag}"),
        _ => format!("rank {rank}, {node}"),
    }
}
