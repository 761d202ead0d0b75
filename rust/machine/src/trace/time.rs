//! What a trace takes: its steps on the machine's own timeline, in their order, with tensors where they lie.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{NONE, Trace, Use};
use crate::core::again::Timed;
use crate::core::{LivePoint, NeuronCore, OccupancyPoint};
use crate::error::{Error, Result};
use crate::packed::PackedRows;
use crate::storage::Buffer;
use crate::time::Picos;
use crate::timing::region::Region;
use crate::timing::timeline::{TimedInstruction, Timeline, TimelineOptions};

/// What a trace takes.
#[derive(Debug)]
pub struct TimedTrace {
    /// When everything runs.
    pub timeline: Timeline,
    /// From the first start to the last result.
    pub latency: Picos,
}

type Regions = SmallVec<[Region; 3]>;

/// Regions of one step, made anew for each.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    reads: Regions,
    stationary: Regions,
    writes: Regions,
}

impl Scratch {
    /// A step as the timeline takes it; `after` are numbers there.
    pub(super) fn issue<'a>(&'a mut self, trace: &'a Trace, number: usize, after: &'a [u32]) -> TimedInstruction<'a> {
        let step = &trace.steps[number];
        for regions in [&mut self.reads, &mut self.stationary, &mut self.writes] {
            regions.clear();
        }
        for operand in &step.operands {
            let region = trace.region(operand);
            match operand.usage {
                Use::Read => self.reads.push(region),
                Use::Stationary => self.stationary.push(region),
                Use::Write => self.writes.push(region),
            }
        }
        TimedInstruction {
            opcode: step.opcode,
            engine: step.engine,
            site: step.site,
            label: step.label,
            work: step.work.clone(),
            reads: &self.reads,
            stationary_reads: &self.stationary,
            writes: &self.writes,
            after,
            dynamic: step.marks.is_dynamic,
            macs: step.macs.0,
            peak_macs_per_cycle: step.macs.1,
        }
    }
}

/// Times a trace of one core that meets no other.
///
/// # Errors
/// [`Error::Value`] where it does meet others, or where a tensor that it uses has no place.
pub fn time(trace: &Trace, options: TimelineOptions) -> Result<TimedTrace> {
    let mut all = time_all(&[trace], vec![Timeline::new(Arc::clone(&trace.arch), options)])?;
    all.pop().ok_or_else(|| Error::Value("no trace".to_owned()))
}

/// Times the traces of cores that met one another, and makes that the time of those cores.
///
/// # Errors
/// As [`time`]; [`Error::Value`] where a core is missing that one of them met.
pub fn time_cores(cores: &mut [&mut NeuronCore], traces: &[&Trace]) -> Result<()> {
    let timelines = cores.iter().map(|core| core.empty_timeline(core.options.timing)).collect();
    let timed = time_all(traces, timelines)?;
    for ((core, timed), trace) in cores.iter_mut().zip(timed).zip(traces) {
        let mut scratch = Scratch::default();
        let steps = trace.steps.iter().enumerate();
        core.replace_timed(
            steps.map(|(number, step)| Timed::of(&scratch.issue(trace, number, &step.after), step.met.clone())),
        );
        core.set_timeline(timed.timeline, occupancy(trace), trace);
    }
    Ok(())
}

/// What the traces of cores that met one another take, each from its own start. The cores keep the time they have, and
/// this beside it as that of the kernel as written.
///
/// # Errors
/// As [`time_cores`].
pub fn time_as_written(cores: &mut [&mut NeuronCore], traces: &[&Trace]) -> Result<Vec<Picos>> {
    let timelines = cores.iter().map(|core| core.empty_timeline(core.options.timing)).collect();
    let timed = time_all(traces, timelines)?;
    let latencies = timed.iter().map(|timed| timed.latency).collect();
    for ((core, timed), trace) in cores.iter_mut().zip(timed).zip(traces) {
        core.keep_as_written(timed.timeline, occupancy(trace), trace);
    }
    Ok(latencies)
}

pub(super) fn time_all(traces: &[&Trace], mut timelines: Vec<Timeline>) -> Result<Vec<TimedTrace>> {
    for trace in traces {
        check_places(trace)?;
    }
    let mut next = vec![0usize; traces.len()];
    let mut scratch: Vec<Scratch> = traces.iter().map(|_| Scratch::default()).collect();
    loop {
        for (place, trace) in traces.iter().enumerate() {
            while let Some(step) = trace.steps.get(next[place])
                && step.met.is_none()
            {
                timelines[place].issue(&scratch[place].issue(trace, next[place], &trace.steps[next[place]].after));
                next[place] += 1;
            }
        }
        let waiting = |place: &usize| next[*place] < traces[*place].steps.len();
        let waiting: Vec<usize> = (0..traces.len()).filter(waiting).collect();
        let Some(group) = whole_meeting(traces, &next, &waiting) else {
            if waiting.is_empty() {
                break;
            }
            return Err(Error::Value("a core met one that is not timed with it".to_owned()));
        };
        let Some(met) = traces[group[0]].steps[next[group[0]]].met.clone() else { continue };
        let mut parts: Vec<(usize, &mut Timeline, &mut Scratch)> = Vec::with_capacity(group.len());
        for (place, (timeline, scratch)) in timelines.iter_mut().zip(&mut scratch).enumerate() {
            if group.contains(&place) {
                parts.push((place, timeline, scratch));
            }
        }
        parts.sort_by_key(|(place, ..)| group.iter().position(|member| member == place));
        let mut issues: Vec<_> = parts
            .into_iter()
            .map(|(place, timeline, scratch)| {
                let after = &traces[place].steps[next[place]].after;
                (timeline, scratch.issue(traces[place], next[place], after))
            })
            .collect();
        met.meeting.run(&mut issues);
        group.iter().for_each(|&place| next[place] += 1);
    }
    Ok(timelines.into_iter().map(|timeline| TimedTrace { latency: timeline.makespan(), timeline }).collect())
}

/// The traces whose next step is a meeting to which all have come, in the order of their places there.
fn whole_meeting(traces: &[&Trace], next: &[usize], waiting: &[usize]) -> Option<Vec<usize>> {
    let met = |place: usize| traces[place].steps[next[place]].met.as_ref();
    for &first in waiting {
        let meeting = &met(first)?.meeting;
        let mut came: Vec<(usize, usize)> = waiting
            .iter()
            .filter_map(|&other| {
                met(other).filter(|met| Arc::ptr_eq(&met.meeting, meeting)).map(|met| (met.place, other))
            })
            .collect();
        if came.len() == meeting.cores {
            came.sort_unstable();
            return Some(came.into_iter().map(|(_, place)| place).collect());
        }
    }
    None
}

fn check_places(trace: &Trace) -> Result<()> {
    for step in &trace.steps {
        for operand in &step.operands {
            let tensor = &trace.tensors[operand.tensor as usize];
            if tensor.open().is_some() && trace.places[operand.tensor as usize].is_none() {
                return Err(Error::Value(format!("tensor `{}` of the trace has no place", tensor.name)));
            }
        }
    }
    Ok(())
}

/// Live bytes of a partition from each step on: a tensor without an address is live from the step that uses it first to the
/// one that uses it last, those with one all the time.
pub(crate) fn occupancy(trace: &Trace) -> PackedRows<LivePoint> {
    let mut spans = vec![(NONE, 0u32); trace.tensors.len()];
    let mut addressed = [0u64; 2];
    for (number, step) in trace.steps.iter().enumerate() {
        for operand in &step.operands {
            let (first, last) = &mut spans[operand.tensor as usize];
            (*first, *last) = ((*first).min(number as u32), number as u32);
            if let super::Home::Addressed(buffer) = trace.tensors[operand.tensor as usize].home {
                let end = operand.rects.iter().map(|rect| rect.columns.end).max().unwrap_or(0);
                let most = &mut addressed[usize::from(buffer == Buffer::Psum)];
                *most = (*most).max(end);
            }
        }
    }
    let mut changes: Vec<(u32, usize, i64)> = Vec::new();
    for (tensor, &(first, last)) in trace.tensors.iter().zip(&spans) {
        if let Some(buffer) = tensor.open().filter(|_| first != NONE) {
            let memory = usize::from(buffer == Buffer::Psum);
            changes.push((first, memory, tensor.bytes as i64));
            changes.push((last + 1, memory, -(tensor.bytes as i64)));
        }
    }
    changes.sort_unstable();
    let mut live = addressed.map(|bytes| bytes as i64);
    let mut points: Vec<(u64, OccupancyPoint)> = Vec::new();
    for (step, memory, bytes) in changes {
        live[memory] += bytes;
        let point = OccupancyPoint { time: Picos::ZERO, sbuf: live[0].max(0) as u64, psum: live[1].max(0) as u64 };
        match points.last_mut() {
            Some((last, known)) if *last == u64::from(step) => *known = point,
            _ => points.push((u64::from(step), point)),
        }
    }
    points.into_iter().map(|(step, point)| LivePoint(step, point)).collect()
}
