//! Cutting a block of draws into streams, sixteen of which run in step.
//!
//! The draws of some lanes, one row a lane, are a rectangle. Each row is cut into equal segments (one where there are
//! lanes enough); a segment is a stream that starts where jumping takes its lane. Sixteen consecutive segments are a
//! group: what one call of a kernel works on, and one range of elements. Some groups are a task for one thread.

use std::borrow::Cow;
use std::ops::Range;

use super::generator::WORDS;
use super::group::{Group, MAX_GENERATORS, Part, jump};
use super::output::Output;
use crate::array::AlignedBytes;
use crate::error::Result;
use crate::par;
use crate::simd::{ActiveLevel, LANES};

/// Draws of a stream that [`Task::for_each_part`] makes at a time: those of sixteen streams fit in the first cache.
pub(crate) const RUN: usize = 256;
/// Draws that make a task worth handing to a thread.
const TASK: usize = 1 << 16;
/// Longest segment: a group of them is work for about a millisecond.
const LONGEST: usize = 1 << 17;
/// Shortest segment that is cut off only to have work for every thread.
const SHORTEST: usize = 1 << 13;
/// Groups a thread should have, so that threads end at about the same time.
const GROUPS_PER_THREAD: usize = 4;
/// What applying a jump to a group costs, in steps of the group.
const JUMP_COST: usize = 160;
/// What finding the polynomial of a jump costs, in steps of a group.
const POWER_COST: usize = 450;

/// A rectangle of draws: `draws` of each of some lanes, cut into streams.
pub(super) struct Plan<'a> {
    level: ActiveLevel,
    /// The states that streams start from: all first segments in order of lanes, then all second ones and so on.
    starts: Cow<'a, [u32]>,
    generators: usize,
    /// The generator that every stream's first draw comes from.
    phase: usize,
    lanes: usize,
    draws: usize,
    segment: usize,
    /// The elements of the rectangle that are wanted: all but some of the last lane's.
    elements: Range<usize>,
}

/// Consecutive groups: the draws of a range of elements, made by one thread.
pub(crate) struct Task<'p> {
    plan: &'p Plan<'p>,
    groups: Range<usize>,
    /// Where the states of the groups' lanes after the last draw are wanted.
    ends: Option<&'p mut [u32]>,
}

/// The draws of `elements` where every lane has `row` draws ahead of it, as rectangles in order of elements.
pub(super) struct Extent {
    pub(super) lanes: Range<usize>,
    /// Draws that the lanes are ahead of the first wanted one.
    pub(super) skipped: usize,
    pub(super) draws: usize,
    pub(super) elements: Range<usize>,
}

/// Cuts elements into rectangles: the rest of a lane, whole lanes with a last one that may be short, or part of one lane.
pub(super) fn extents(row: usize, elements: Range<usize>) -> Vec<Extent> {
    let mut extents = Vec::new();
    let mut start = elements.start;
    while start < elements.end {
        let (lane, skipped) = (start / row, start % row);
        let lane_end = (lane + 1) * row;
        let is_one_lane = skipped > 0 || elements.end <= lane_end;
        let end = if is_one_lane { elements.end.min(lane_end) } else { elements.end };
        extents.push(Extent {
            lanes: lane..(end - 1) / row + 1,
            skipped,
            draws: if is_one_lane { end - start } else { row },
            elements: start..end,
        });
        start = end;
    }
    extents
}

/// Length of a lane's segments: the one that costs least in steps of sixteen streams, and gives all threads work.
fn segment_length(lanes: usize, draws: usize, generators: usize, threads: usize) -> usize {
    let cost = |cuts: usize| {
        let groups = (lanes * cuts).div_ceil(LANES);
        let jumps = usize::from(cuts > 1) * groups * generators * JUMP_COST;
        // One doubles the segments there are, the last one takes the lanes to where the next call starts.
        let powers = usize::from(cuts > 1) * (cuts.ilog2() as usize + 1) * POWER_COST;
        groups * draws.div_ceil(cuts) + jumps + powers
    };
    let mut cuts = [1, 2, 4, 8, 16].into_iter().min_by_key(|cuts| cost(*cuts)).unwrap_or(1);
    while (lanes * cuts).div_ceil(LANES) < GROUPS_PER_THREAD * threads && draws / cuts >= 2 * SHORTEST && threads > 1 {
        cuts *= 2;
    }
    let cuts = cuts.max(draws.div_ceil(LONGEST));
    // Whole vectors and whole turns of the generators.
    draws.div_ceil(cuts).next_multiple_of(LANES)
}

impl<'a> Plan<'a> {
    /// The plan of a rectangle of at least one draw; `states` are its lanes' own.
    pub(super) fn new(
        level: ActiveLevel,
        states: &'a [u32],
        generators: usize,
        phase: usize,
        extent: &Extent,
    ) -> Result<Self> {
        let lanes = extent.lanes.len();
        let draws = extent.draws;
        let threads = if draws > TASK / lanes { par::num_threads()? } else { 1 };
        let segment = segment_length(lanes, draws, generators, threads);
        let cuts = draws.div_ceil(segment);
        let mut starts = Cow::Borrowed(states);
        if extent.skipped > 0 {
            jump(level, starts.to_mut(), generators, phase, extent.skipped as u64)?;
        }
        let phase = (phase + extent.skipped) % generators;
        if cuts > 1 {
            let starts = starts.to_mut();
            let mut made = 1;
            while made < cuts {
                let more = made.min(cuts - made);
                let old = starts.len();
                starts.extend_from_within(..more * states.len());
                jump(level, &mut starts[old..], generators, phase, (made * segment) as u64)?;
                made += more;
            }
        }
        Ok(Self { level, starts, generators, phase, lanes, draws, segment, elements: extent.elements.clone() })
    }

    fn cuts(&self) -> usize {
        self.draws.div_ceil(self.segment)
    }

    /// Whether the plan's streams end where their lanes do, whose next states are therefore at hand.
    pub(super) fn has_ends(&self) -> bool {
        self.cuts() == 1 && self.elements.len() == self.lanes * self.draws
    }

    /// The first element of a stream, or the end of the wanted ones.
    fn first_element(&self, stream: usize) -> usize {
        let (lane, cut) = (stream / self.cuts(), stream % self.cuts());
        (self.elements.start + lane * self.draws + cut * self.segment).min(self.elements.end)
    }

    fn group(&self, index: usize) -> Group {
        let cuts = self.cuts();
        let words = self.generators * WORDS;
        let mut group = Group {
            state: [[[0; LANES]; WORDS]; MAX_GENERATORS],
            generators: self.generators,
            phase: self.phase,
            bounds: [self.elements.end; LANES + 1],
        };
        for stream in 0..LANES.min(self.lanes * cuts - index * LANES) {
            let number = index * LANES + stream;
            group.bounds[stream] = self.first_element(number);
            let start = &self.starts[(number % cuts * self.lanes + number / cuts) * words..][..words];
            for turn in 0..self.generators {
                let generator = (self.phase + turn) % self.generators;
                for (word, value) in group.state[turn].iter_mut().zip(&start[generator * WORDS..]) {
                    word[stream] = *value;
                }
            }
        }
        group.bounds[LANES] = self.first_element((index + 1) * LANES);
        group
    }

    /// The work, for [`par::for_each`]: tasks in order, each with its elements' part of `out`, where every element has
    /// `width` items. A plan that has ends writes them to `ends`, the states of all its lanes, if that is not empty.
    pub(super) fn tasks<'p, T>(
        &'p self,
        mut out: &'p mut [T],
        width: usize,
        ends: &'p mut [u32],
    ) -> Vec<(Task<'p>, &'p mut [T])> {
        let groups = (self.lanes * self.cuts()).div_ceil(LANES);
        let per_task = (TASK / (LANES * self.segment)).max(1);
        let mut ends = ends.chunks_mut(per_task * LANES * self.generators * WORDS);
        let mut tasks = Vec::with_capacity(groups.div_ceil(per_task));
        for first in (0..groups).step_by(per_task) {
            let task = Task { plan: self, groups: first..groups.min(first + per_task), ends: ends.next() };
            let (own, rest) = std::mem::take(&mut out).split_at_mut(task.elements().len() * width);
            tasks.push((task, own));
            out = rest;
        }
        tasks
    }
}

impl Task<'_> {
    /// The elements whose draws the task makes.
    pub(crate) fn elements(&self) -> Range<usize> {
        self.plan.first_element(self.groups.start * LANES)..self.plan.first_element(self.groups.end * LANES)
    }

    /// Gives `work` the draws of all its elements, at most [`RUN`] at a time, or streams to make them of if there is a
    /// `head`: so many elements are before the first one that begins a cache line. Parts are not in order of elements.
    pub(crate) fn for_each_part(self, head: Option<usize>, mut work: impl FnMut(Part<'_>)) {
        let mut buffer = AlignedBytes::default();
        self.for_each_group(|level, group| {
            group.for_each_part(level, Output::Draws, head, RUN, &mut buffer, &mut work);
        });
    }

    /// Writes what becomes of the draws of its elements to their part of the output.
    pub(super) fn fill(self, output: Output, mut out: &mut [u32]) {
        let mut buffer = AlignedBytes::default();
        self.for_each_group(|level, group| {
            let (own, rest) = std::mem::take(&mut out).split_at_mut(group.bounds[LANES] - group.bounds[0]);
            group.fill(level, output, &mut buffer, own);
            out = rest;
        });
    }

    fn for_each_group(self, mut work: impl FnMut(ActiveLevel, &mut Group)) {
        let mut ends = self.ends.map(|ends| ends.chunks_mut(LANES * self.plan.generators * WORDS));
        for index in self.groups {
            let mut group = self.plan.group(index);
            work(self.plan.level, &mut group);
            if let Some(ends) = ends.as_mut().and_then(Iterator::next) {
                group.scatter(ends);
            }
        }
    }
}
