//! Sixteen streams: their states, jumping them, and getting their draws to where they belong.

use std::ops::Range;

use super::generator::{WEYL_STEP, WORDS};
use super::output::{Filling, Output};
use super::polynomial::Polynomial;
use super::simd::Block;
use super::{scalar, simd};
use crate::array::AlignedBytes;
use crate::error::Result;
use crate::par;
use crate::simd::{ActiveLevel, LANES, before_line, dispatch};

dispatch! {
    /// Advances sixteen streams and writes their draws. `state` holds the one generator of the streams, or the four in
    /// the order of their next draws.
    pub(super) fn fill_streams(state: &mut [Block], filling: Filling, out: &mut [[u32; LANES]])
        = scalar::fill, simd::fill;

    /// Takes sixteen streams as far ahead as the polynomial says, and their Weyl counters by `weyl`.
    pub(super) fn jump_streams(polynomial: &Polynomial, weyl: u32, block: &mut Block) = scalar::jump, simd::jump;
}

/// Most generators a lane has.
pub(super) const MAX_GENERATORS: usize = 4;
/// Draws of a stream that are made at a time before they are copied to where they belong: few, which leaves the first
/// cache to what is written.
const COPIED_RUN: usize = 128;
/// Rows as long as this must begin with a whole cache line to be written sixteen at a time.
const LONG_ROW: usize = 1 << 9;
/// Rows a multiple of this apart are kept in one place of the first cache, which has room for eight: sixteen that are
/// written in step drive out one another, which takes up to two thirds more time.
const SAME_SET: usize = 1 << 10;
/// Draws of a stream from which on streams are set apart for that, each a line behind the one before.
const LONG_BODY: usize = 1 << 12;

/// A group's states and the elements of its streams.
pub(super) struct Group {
    /// In the order of their next draws.
    pub(super) state: [Block; MAX_GENERATORS],
    pub(super) generators: usize,
    /// The generator that the next draw of each stream comes from.
    pub(super) phase: usize,
    /// Stream j has elements `bounds[j]..bounds[j + 1]`; none if it is beyond the wanted ones.
    pub(super) bounds: [usize; LANES + 1],
}

/// Some elements of a group, and how they get their draws.
pub(crate) enum Part<'a> {
    /// Elements from this one on, and their draws.
    Draws(usize, &'a [u32]),
    /// Elements of all streams, whose draws are still to be made.
    Streams(Streams<'a>),
}

/// Sixteen streams that are to make so many draws.
#[derive(Debug)]
pub(crate) struct Streams<'a> {
    /// The one generator of the streams, or the four in the order of their next draws.
    pub(crate) state: &'a mut [Block],
    /// The element that the first draw of the first stream is for.
    pub(crate) start: usize,
    /// Draws of each stream: whole vectors.
    pub(crate) steps: usize,
    /// Elements from where one stream begins to where the next one does: whole vectors.
    pub(crate) stride: usize,
}

/// Takes consecutive streams `draws` draws ahead, their next draw coming from generator `phase`.
pub(super) fn jump(level: ActiveLevel, states: &mut [u32], generators: usize, phase: usize, draws: u64) -> Result<()> {
    let turns = draws / generators as u64;
    let ahead = draws % generators as u64;
    let power = Polynomial::power_of_x(turns);
    let next_power = power.times_x();
    let words = generators * WORDS;
    par::for_each(states.chunks_mut(64 * LANES * words), |states| {
        for states in states.chunks_mut(LANES * words) {
            for generator in 0..generators {
                // The generators whose turn comes next make one step more.
                let is_ahead = ((generator + generators - phase) % generators) < ahead as usize;
                let (power, steps) = if is_ahead { (&next_power, turns.wrapping_add(1)) } else { (&power, turns) };
                let mut block = gather(states, words, generator * WORDS);
                jump_streams(level, power, WEYL_STEP.wrapping_mul(steps as u32), &mut block);
                scatter(&block, states, words, generator * WORDS);
            }
        }
    })
}

fn gather(states: &[u32], stride: usize, at: usize) -> Block {
    let mut block = [[0; LANES]; WORDS];
    for (stream, state) in states.chunks_exact(stride).take(LANES).enumerate() {
        for (word, value) in block.iter_mut().zip(&state[at..at + WORDS]) {
            word[stream] = *value;
        }
    }
    block
}

fn scatter(block: &Block, states: &mut [u32], stride: usize, at: usize) {
    for (stream, state) in states.chunks_exact_mut(stride).take(LANES).enumerate() {
        for (word, value) in block.iter().zip(&mut state[at..at + WORDS]) {
            *value = word[stream];
        }
    }
}

impl Group {
    fn elements(&self, stream: usize) -> Range<usize> {
        self.bounds[stream]..self.bounds[stream + 1]
    }

    pub(super) fn longest(&self) -> usize {
        (0..LANES).map(|stream| self.elements(stream).len()).max().unwrap_or(0)
    }

    /// Makes the next `steps` draws of all streams, those of a stream `stride` draws after those of the one before.
    fn make(&mut self, level: ActiveLevel, output: Output, steps: usize, stride: usize, out: &mut [u32]) {
        let state = &mut self.state[..self.generators];
        fill_streams(level, state, Filling { output, steps, stride: stride / LANES }, out.as_chunks_mut().0);
        state.rotate_left(steps % self.generators);
        self.phase = (self.phase + steps) % self.generators;
    }

    /// Makes the draws that stand at `places` of all streams, which come next, and gives `work` those that are wanted,
    /// `run` at a time: the first one's element and the draws.
    pub(super) fn for_each_run(
        &mut self,
        level: ActiveLevel,
        output: Output,
        places: Range<usize>,
        run: usize,
        buffer: &mut AlignedBytes,
        mut work: impl FnMut(usize, &[u32]),
    ) {
        for at in places.clone().step_by(run) {
            let steps = run.min(places.end - at);
            let stride = steps.next_multiple_of(LANES);
            let draws = buffer.slice_mut(LANES * stride);
            self.make(level, output, steps, stride, draws);
            for (stream, row) in draws.chunks(stride).enumerate() {
                let wanted = self.elements(stream).len().saturating_sub(at).min(steps);
                if wanted > 0 {
                    work(self.bounds[stream] + at, &row[..wanted]);
                }
            }
        }
    }

    /// Writes what becomes of the draws of all streams.
    pub(super) fn fill(&mut self, level: ActiveLevel, output: Output, buffer: &mut AlignedBytes, out: &mut [u32]) {
        let head = before_line(out);
        let first = self.bounds[0];
        self.for_each_part(level, output, Some(head), COPIED_RUN, buffer, |part| match part {
            Part::Draws(start, values) => out[start - first..][..values.len()].copy_from_slice(values),
            Part::Streams(Streams { state, start, steps, stride }) => {
                let filling = Filling { output, steps, stride: stride / LANES };
                fill_streams(level, state, filling, out[start - first..].as_chunks_mut().0);
            }
        });
    }

    /// Gives `work` the draws of all streams, at most `run` at a time; or streams to make them of, where those are equally
    /// long. Long ones then begin `head` elements later, where a cache line does.
    pub(super) fn for_each_part(
        &mut self,
        level: ActiveLevel,
        output: Output,
        head: Option<usize>,
        run: usize,
        buffer: &mut AlignedBytes,
        mut work: impl FnMut(Part<'_>),
    ) {
        let longest = self.longest();
        let is_even = longest.is_multiple_of(LANES) && (0..LANES).all(|stream| self.elements(stream).len() == longest);
        // Sixteen lines at the same place of as many pages do not stay in the first cache until the rest of them comes.
        let head = match head.filter(|_| is_even) {
            Some(head) if longest >= LONG_ROW => head,
            Some(_) => 0,
            None => longest,
        };
        let body = (longest - head) / LANES * LANES;
        let mut draws = |start: usize, draws: &[u32]| work(Part::Draws(start, draws));
        self.for_each_run(level, output, 0..head, run, buffer, &mut draws);
        let apart = if body >= LONG_BODY && longest.is_multiple_of(SAME_SET) { LANES } else { 0 };
        let before: [_; LANES] = std::array::from_fn(|stream| head + stream * apart);
        self.for_each_tile(level, output, &[head; LANES], &before, buffer, &mut draws);
        let steps = body - (LANES - 1) * apart;
        if steps > 0 {
            let state = &mut self.state[..self.generators];
            work(Part::Streams(Streams { state, start: self.bounds[0] + head, steps, stride: longest + apart }));
        }
        let mut draws = |start: usize, draws: &[u32]| work(Part::Draws(start, draws));
        let behind = before.map(|place| place + steps);
        self.for_each_tile(level, output, &behind, &[head + body; LANES], buffer, &mut draws);
        self.for_each_run(level, output, head + body..longest, run, buffer, draws);
    }

    /// As [`Self::for_each_run`] for places that each stream has its own of: whole vectors of them, given at once.
    fn for_each_tile(
        &mut self,
        level: ActiveLevel,
        output: Output,
        starts: &[usize; LANES],
        ends: &[usize; LANES],
        buffer: &mut AlignedBytes,
        mut work: impl FnMut(usize, &[u32]),
    ) {
        let most = (0..LANES).map(|stream| ends[stream] - starts[stream]).max().unwrap_or(0);
        if most == 0 {
            return;
        }
        let mut state = self.state;
        let draws = buffer.slice_mut(LANES * most);
        for made in (0..most).step_by(LANES) {
            self.make(level, output, LANES, most, &mut draws[made..]);
            for stream in 0..LANES {
                if starts[stream] + made + LANES == ends[stream] {
                    for (own, made) in state.as_flattened_mut().iter_mut().zip(self.state.as_flattened()) {
                        own[stream] = made[stream];
                    }
                }
            }
        }
        self.state = state;
        for (stream, row) in draws.chunks(most).enumerate() {
            let wanted = ends[stream] - starts[stream];
            if wanted > 0 {
                work(self.bounds[stream] + starts[stream], &row[..wanted]);
            }
        }
    }

    /// Puts the streams' states where their lanes have them.
    pub(super) fn scatter(&self, states: &mut [u32]) {
        for (turn, block) in self.state[..self.generators].iter().enumerate() {
            let generator = (self.phase + turn) % self.generators;
            scatter(block, states, self.generators * WORDS, generator * WORDS);
        }
    }
}
