//! The XORWOW random number generator, one or four generators in each of many lanes.

mod generator;
mod group;
mod output;
mod plan;
mod polynomial;
pub(crate) mod scalar;
pub(crate) mod simd;
#[cfg(test)]
mod tests;

use crate::error::{Error, Result};
use crate::fpenv;
use crate::par;
use crate::simd::active_level;
use generator::WORDS;
pub(crate) use group::{Part, Streams};
use output::Output;
use plan::{Plan, Task};

/// Marsaglia's xorwow generator, in independent lanes: five xorshift words and a Weyl counter that advances by 362437;
/// a draw is the sum of the counter and the newest word, as in cuRAND.
///
/// A lane has one generator (6 words of state: x, y, z, w, v and the counter) or four (24 words, generator after
/// generator). Of four, draw i of a lane comes from generator i mod 4, and a call goes on where the last one stopped:
/// [`Self::phase`] is the generator that comes next.
///
/// ```
/// use trn3_numerics::Xorwow;
///
/// let mut generator = Xorwow::from_state(&[123456789, 362436069, 521288629, 88675123, 5783321, 6615241], 1, 6)?;
/// let mut draws = [0; 3];
/// generator.uint32(3, &mut draws)?;
/// assert_eq!(draws, [246875399, 3690007200, 1264581005]);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xorwow {
    /// `[lanes, generators, 6]`.
    state: Vec<u32>,
    lanes: usize,
    generators: usize,
    phase: usize,
}

/// The next 64 bits of Steele, Lea and Flood's splitmix64 generator.
fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

fn check_words(words: &[u32], generators: usize) -> Result<()> {
    match words.chunks_exact(WORDS).position(|generator| generator[..WORDS - 1] == [0; WORDS - 1]) {
        None => Ok(()),
        Some(index) => Err(Error::value(
            "state",
            format!("all zero in the xorshift words of lane {}, generator {}", index / generators, index % generators),
            "one of the five must not be: such a generator would only count",
        )),
    }
}

fn too_many(lanes: usize) -> Error {
    Error::memory("lanes", lanes, "the states of so many do not fit in memory")
}

fn copied(words: &[u32], lanes: usize) -> Result<Vec<u32>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(words.len()).map_err(|_| too_many(lanes))?;
    copy.extend_from_slice(words);
    Ok(copy)
}

impl Xorwow {
    /// Generators with the given states, `words` being `[lanes, words_per_lane]` in C order.
    ///
    /// # Errors
    /// [`Error::Shape`] unless there is a lane or more and `words_per_lane` is 6 or 24; [`Error::Value`] when the
    /// five xorshift words of a generator are all zero.
    pub fn from_state(words: &[u32], lanes: usize, words_per_lane: usize) -> Result<Self> {
        let is_whole = lanes.checked_mul(words_per_lane) == Some(words.len());
        if lanes == 0 || !is_whole || ![WORDS, 4 * WORDS].contains(&words_per_lane) {
            let needed = "it must be (lanes, 6) or (lanes, 24) with at least one lane";
            let needed = if is_whole { needed.into() } else { format!("{} words came; {needed}", words.len()) };
            return Err(Error::shape("state", &[lanes, words_per_lane], needed));
        }
        let generators = words_per_lane / WORDS;
        check_words(words, generators)?;
        Ok(Self { state: copied(words, lanes)?, lanes, generators, phase: 0 })
    }

    /// Generators whose states one splitmix64 stream fills, in order of lanes, generators and words, each output giving
    /// two words, the low half first (a model choice: how the hardware expands a seed is not documented).
    ///
    /// # Errors
    /// [`Error::Value`] for no lanes, and when `generators` is neither 1 nor 4; [`Error::Memory`] for more lanes than memory
    /// holds.
    pub fn seed(seed: u64, lanes: usize, generators: usize) -> Result<Self> {
        if generators != 1 && generators != 4 {
            return Err(Error::value("generators", generators, "1 or 4 generators a lane are allowed"));
        }
        if lanes == 0 {
            return Err(Error::value("lanes", lanes, "at least one lane is needed"));
        }
        let mut state = Vec::new();
        let count = lanes.checked_mul(generators * WORDS);
        if count.is_none_or(|count| state.try_reserve_exact(count).is_err()) {
            return Err(too_many(lanes));
        }
        let mut stream = seed;
        for _ in 0..lanes * generators * WORDS / 2 {
            let bits = splitmix64(&mut stream);
            state.extend([bits as u32, (bits >> 32) as u32]);
        }
        check_words(&state, generators)?;
        Ok(Self { state, lanes, generators, phase: 0 })
    }

    /// Number of lanes.
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// Generators of each lane: 1 or 4.
    pub fn generators(&self) -> usize {
        self.generators
    }

    /// The states, `[lanes, 6]` or `[lanes, 24]` in C order.
    pub fn state(&self) -> &[u32] {
        &self.state
    }

    /// The same generators once more.
    ///
    /// # Errors
    /// [`Error::Memory`] where the host has no room for them.
    pub fn try_clone(&self) -> Result<Self> {
        Ok(Self { state: self.copied_state()?, ..*self })
    }

    /// A copy of [`Xorwow::state`].
    ///
    /// # Errors
    /// As [`Xorwow::try_clone`].
    pub fn copied_state(&self) -> Result<Vec<u32>> {
        copied(&self.state, self.lanes)
    }

    /// Replaces the states, in the shape they have; the next draw comes from generator 0.
    ///
    /// # Errors
    /// [`Error::Shape`] for another number of words, [`Error::Value`] when the five xorshift words of a generator are
    /// all zero. The generators are then as they were.
    pub fn set_state(&mut self, words: &[u32]) -> Result<()> {
        if words.len() != self.state.len() {
            let needed = format!("{} words are needed, as the generators have", self.state.len());
            return Err(Error::shape("state", &[words.len()], needed));
        }
        check_words(words, self.generators)?;
        self.state.copy_from_slice(words);
        self.phase = 0;
        Ok(())
    }

    /// The generator that the next draw of each lane comes from; 0 where a lane has one.
    pub fn phase(&self) -> usize {
        self.phase
    }

    /// Sets the generator that the next draw of each lane comes from.
    ///
    /// # Errors
    /// [`Error::Value`] when there is no such generator.
    pub fn set_phase(&mut self, phase: usize) -> Result<()> {
        if phase >= self.generators {
            let needed = match self.generators {
                1 => "with one generator a lane it is always 0",
                _ => "it must be from 0 to 3",
            };
            return Err(Error::value("phase", phase, needed));
        }
        self.phase = phase;
        Ok(())
    }

    /// The next `n` draws of each lane; `out` is `[lanes, n]` in C order.
    ///
    /// # Errors
    /// [`Error::Shape`] when `out` has another length; [`Error::Interrupted`], the generators being as they were.
    pub fn uint32(&mut self, n: usize, out: &mut [u32]) -> Result<()> {
        self.fill(n, Output::Draws, out)
    }

    /// Numbers from `low` up to `high`, for each lane `n`: `low + (high - low) * ((draw >> 8) * 2^-24)`, each operation
    /// rounded to float32 (a model choice: the hardware's mapping is not documented). `out` is `[lanes, n]` in C order.
    ///
    /// # Errors
    /// [`Error::Value`] unless `low`, `high` and `high - low` are finite float32; else as [`Self::uint32`].
    ///
    /// ```
    /// let mut generator = trn3_numerics::Xorwow::seed(0, 128, 1)?;
    /// let mut values = [0.0; 128 * 10];
    /// generator.uniform(10, -1.0, 1.0, &mut values)?;
    /// assert!(values.iter().all(|value| (-1.0..1.0).contains(value)));
    /// # Ok::<(), trn3_numerics::Error>(())
    /// ```
    pub fn uniform(&mut self, n: usize, low: f32, high: f32, out: &mut [f32]) -> Result<()> {
        for (argument, bound) in [("low", low), ("high", high)] {
            if !bound.is_finite() {
                return Err(Error::value(argument, bound, "a finite number is needed"));
            }
        }
        if !fpenv::with_default_environment(|| high - low).is_finite() {
            let needed = format!("it must differ from low = {low:e} by a finite float32");
            return Err(Error::value("high", format!("{high:e}"), needed));
        }
        self.fill(n, Output::Uniform { low, high }, bytemuck::cast_slice_mut(out))
    }

    /// Takes every lane `n` draws ahead, in a time that grows with the logarithm of `n`.
    ///
    /// # Errors
    /// [`Error::Interrupted`], the generators being as they were.
    ///
    /// ```
    /// use trn3_numerics::Xorwow;
    ///
    /// let (mut far, mut near) = (Xorwow::seed(7, 2, 4)?, Xorwow::seed(7, 2, 4)?);
    /// far.jump(1001)?;
    /// near.uint32(1001, &mut [0; 2 * 1001])?;
    /// assert_eq!(far, near);
    /// # Ok::<(), trn3_numerics::Error>(())
    /// ```
    pub fn jump(&mut self, n: u64) -> Result<()> {
        let mut state = self.state.clone();
        group::jump(active_level()?, &mut state, self.generators, self.phase, n)?;
        self.state = state;
        self.turn(n);
        Ok(())
    }

    fn turn(&mut self, draws: u64) {
        self.phase = (self.phase + (draws % self.generators as u64) as usize) % self.generators;
    }

    /// Draws that a block of `total` elements takes of each lane: element i has draw i mod n of lane i / n, where n is
    /// this number.
    pub(crate) fn draws_per_lane(&self, total: usize) -> usize {
        total.div_ceil(self.lanes)
    }

    fn plan(&self, extent: &plan::Extent) -> Result<Plan<'_>> {
        let words = self.generators * WORDS;
        let states = &self.state[extent.lanes.start * words..extent.lanes.end * words];
        Plan::new(active_level()?, states, self.generators, self.phase, extent)
    }

    fn fill(&mut self, n: usize, output: Output, out: &mut [u32]) -> Result<()> {
        if self.lanes.checked_mul(n) != Some(out.len()) {
            return Err(Error::shape("out", &[out.len()], format!("it must have shape [{}, {n}]", self.lanes)));
        }
        self.consume(out.len(), out, 1, |task, out| task.fill(output, out))
    }

    /// Consumes the draws of a block of `total` elements, see [`Self::draws_per_lane`], in tasks for all threads. `work`
    /// gets a task and its elements' part of `out`, which has `width` items for every element. When interrupted, the
    /// generators are as they were.
    pub(crate) fn consume<T: Send>(
        &mut self,
        total: usize,
        out: &mut [T],
        width: usize,
        work: impl Fn(Task<'_>, &mut [T]) + Sync,
    ) -> Result<()> {
        let n = self.draws_per_lane(total);
        let Some(extent) = plan::extents(n, 0..total).pop() else { return Ok(()) };
        let plan = self.plan(&extent)?;
        let has_ends = plan.has_ends() && extent.lanes.len() == self.lanes;
        let mut ends = if has_ends { vec![0; self.state.len()] } else { Vec::new() };
        par::for_each(plan.tasks(out, width, &mut ends).into_iter(), |(task, out)| work(task, out))?;
        if !has_ends {
            return self.jump(n as u64);
        }
        self.state = ends;
        self.turn(n as u64);
        Ok(())
    }

    /// The draws of elements `start..` of a block of `total`, which is not consumed; see [`Self::draws_per_lane`].
    pub(crate) fn span(&self, total: usize, start: usize, mut out: &mut [u32]) -> Result<()> {
        for extent in plan::extents(self.draws_per_lane(total), start..start + out.len()) {
            let (own, rest) = std::mem::take(&mut out).split_at_mut(extent.elements.len());
            let plan = self.plan(&extent)?;
            par::for_each(plan.tasks(own, 1, &mut []).into_iter(), |(task, out)| task.fill(Output::Draws, out))?;
            out = rest;
        }
        Ok(())
    }

    /// Consumes the draws of a block of `total` elements that [`Self::span`] has given.
    pub(crate) fn advance(&mut self, total: usize) -> Result<()> {
        self.jump(self.draws_per_lane(total) as u64)
    }
}
