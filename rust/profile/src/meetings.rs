//! Where cores of a logical core meet, the critical path goes on at the one that the others waited for.

use std::collections::HashMap;
use std::sync::Arc;

use trn3_machine::timing::record::NO_INSTRUCTION;

use crate::cause::{ENGINES, OTHER_CORE};
use crate::core_profile::CoreProfile;
use crate::run_columns::RunColumns;

/// Instructions that cores run together.
pub(crate) const TOGETHER: [&str; 2] = ["core_barrier", "sendrecv"];

/// One step of the critical path of several cores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JointStep {
    pub(crate) core: usize,
    pub(crate) instruction: u32,
    /// Picoseconds up to the next step's start, or to the last one's end.
    pub(crate) length_ps: u64,
}

/// The steps to the end of the core that ends last; where a core waited, the other one's.
pub(crate) fn critical_path(cores: &[Arc<CoreProfile>], last: usize) -> Vec<JointStep> {
    let columns: Vec<&RunColumns> = cores.iter().map(|core| core.columns()).collect();
    let meetings: Vec<Vec<u32>> = columns.iter().map(|columns| meetings(columns)).collect();
    let (mut core, mut path) = (last, columns[last].critical.clone());
    // From the end of the run on.
    let mut steps: Vec<(usize, u32)> = Vec::new();
    while let Some(&first) = path.first() {
        steps.extend(path.iter().rev().map(|&step| (core, step)));
        path.clear();
        if columns[core].instructions.cause[first as usize] != OTHER_CORE {
            break;
        }
        let Some(place) = meetings[core].iter().position(|&meeting| meeting == first) else { break };
        // The core that came last did not wait there.
        let waited = |other: &usize| {
            let meeting = meetings[*other].get(place);
            meeting.map_or(u64::MAX, |&row| columns[*other].instructions.wait_ps[row as usize])
        };
        let Some(other) = (0..cores.len()).filter(|other| *other != core).min_by_key(waited) else { break };
        let Some(&meeting) = meetings[other].get(place) else { break };
        core = other;
        path = path_to(columns[core], meeting);
        // That meeting is this step itself, seen from the other side.
        path.pop();
    }
    steps.reverse();
    let at = |&(core, step): &(usize, u32)| columns[core].instructions.start_ps[step as usize];
    let end = steps.last().map(|&(core, step)| columns[core].instructions.end_ps[step as usize]);
    let ends = steps.iter().skip(1).map(at).chain(end);
    let joint = steps.iter().zip(ends).map(|(step, end)| JointStep {
        core: step.0,
        instruction: step.1,
        length_ps: end.saturating_sub(at(step)),
    });
    joint.collect()
}

/// How much of a joint path each engine holds, on whichever core, in picoseconds.
pub(crate) fn engine_ps(cores: &[Arc<CoreProfile>], path: &[JointStep]) -> [u64; ENGINES.len()] {
    let mut held = [0; ENGINES.len()];
    for step in path {
        let engine = cores[step.core].columns().instructions.engine[step.instruction as usize];
        held[usize::from(engine)] += step.length_ps;
    }
    held
}

/// How much of a joint path each line holds, in picoseconds.
pub(crate) fn line_ps<'a>(cores: &'a [Arc<CoreProfile>], path: &[JointStep]) -> HashMap<(&'a str, u32, &'a str), u64> {
    let mut held = HashMap::new();
    for step in path {
        let (file, line, function) = cores[step.core].columns().site_of(step.instruction as usize);
        *held.entry((file.as_str(), *line, function.as_str())).or_default() += step.length_ps;
    }
    held
}

/// The instructions that a core ran with others; the k-th is the others' k-th.
fn meetings(columns: &RunColumns) -> Vec<u32> {
    let is_meeting: Vec<bool> = columns.opcodes.iter().map(|name| TOGETHER.contains(&name.as_str())).collect();
    let opcodes = columns.instructions.opcode.iter().zip(0..);
    opcodes.filter(|(opcode, _)| is_meeting[usize::from(**opcode)]).map(|(_, row)| row).collect()
}

/// The instructions that led to one, first to last: each waited for the one before.
fn path_to(columns: &RunColumns, last: u32) -> Vec<u32> {
    let mut path = Vec::new();
    let mut step = last;
    while step != NO_INSTRUCTION {
        path.push(step);
        step = columns.instructions.waited_on[step as usize];
    }
    path.reverse();
    path
}
