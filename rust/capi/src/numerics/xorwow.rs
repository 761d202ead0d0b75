//! The hardware's random number generator, its state in the host's memory.

use std::mem::offset_of;

use trn3_numerics::Xorwow;

use crate::guard::guard;
use crate::output::check_overlap;
use crate::pointers::{Place, Record, read, slice, slice_mut, span};
use crate::status::{Result, trn3_status};

/// Generators whose state the host owns: Marsaglia's xorwow in independent lanes, one or four generators a lane. Set
/// `size` to sizeof(trn3_xorwow), `words` to memory for lanes x words_per_lane numbers.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct trn3_xorwow {
    /// sizeof this structure.
    pub size: usize,
    /// State, [lanes, words_per_lane] in C order: x, y, z, w, v and the counter of each generator.
    pub words: *mut u32,
    /// Number of lanes: on the hardware one for each of the 128 partitions.
    pub lanes: usize,
    /// 6, or 24 for four generators a lane: draw i of a lane comes from generator i mod 4.
    pub words_per_lane: u32,
    /// The generator that the next draw of each lane comes from: 0 to 3, always 0 with 6 words.
    pub phase: u32,
}

// SAFETY: repr(C), `size` first, plain numbers and a pointer that is checked before use.
unsafe impl Record for trn3_xorwow {
    const MINIMUM: usize = size_of::<Self>();
    const NAME: &'static str = "trn3_xorwow";
}

/// Words of one generator.
const WORDS: u32 = 6;

/// A host's generators, in use by one call.
pub(crate) struct Borrowed<'a> {
    words: &'a mut [u32],
    lanes: usize,
    words_per_lane: usize,
    phase: u32,
    phase_place: Place<u32>,
}

impl<'a> Borrowed<'a> {
    /// # Safety
    /// As [`read`]; `words` is null or points to the state, used by nobody else during the call.
    pub(crate) unsafe fn new(pointer: *mut trn3_xorwow, argument: &str) -> Result<Self> {
        // SAFETY: the caller's promise.
        let given = unsafe { read(pointer.cast_const(), argument) }?;
        let words_per_lane = given.words_per_lane as usize;
        // What overflows is refused by the slice's size; what is no state by the generator.
        let count = given.lanes.saturating_mul(words_per_lane);
        // SAFETY: the caller's promise; `phase` lies within the smallest size of the structure.
        unsafe {
            let phase_place = Place::new(pointer.byte_add(offset_of!(trn3_xorwow, phase)).cast::<u32>(), "phase")?;
            let words = slice_mut(given.words, count, "generator.words")?;
            Ok(Self { words, lanes: given.lanes, words_per_lane, phase: given.phase, phase_place })
        }
    }

    fn span(&self) -> std::ops::Range<usize> {
        span(self.words.as_ptr(), self.words.len())
    }

    fn generator(&self) -> Result<Xorwow> {
        let mut generator = Xorwow::from_state(self.words, self.lanes, self.words_per_lane)?;
        generator.set_phase(self.phase as usize)?;
        Ok(generator)
    }

    fn store(self, generator: &Xorwow) {
        self.words.copy_from_slice(generator.state());
        self.phase_place.put(generator.phase() as u32);
    }

    /// Gives the generators to `work`; the host sees them advanced if it succeeds, and as they were if not.
    pub(crate) fn advance(self, work: impl FnOnce(&mut Xorwow) -> Result<()>) -> Result<()> {
        let mut generator = self.generator()?;
        work(&mut generator)?;
        self.store(&generator);
        Ok(())
    }
}

/// Fills the state from a seed: one splitmix64 stream in the order of lanes, generators and words (a model choice: how the
/// hardware expands a seed is not documented). The phase becomes 0.
///
/// SHAPE, VALUE: no lanes, or neither 6 nor 24 words a lane.
///
/// # Safety
/// `generator` is null or points to a structure whose `words` has room for the state.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_xorwow_seed(generator: *mut trn3_xorwow, seed: u64) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let borrowed = unsafe { Borrowed::new(generator, "generator") }?;
        let per_lane = borrowed.words_per_lane;
        if !per_lane.is_multiple_of(WORDS as usize) {
            // Refused with the message that says what is allowed.
            Xorwow::from_state(borrowed.words, borrowed.lanes, per_lane)?;
        }
        let seeded = Xorwow::seed(seed, borrowed.lanes, per_lane / WORDS as usize)?;
        borrowed.store(&seeded);
        Ok(())
    })
}

/// Draws `count` numbers of each lane into `out`, [lanes, count] in C order, and advances the state.
///
/// VALUE: null pointers, or a state that is all zero where it must not be.
///
/// # Safety
/// `generator` is null or points to a structure with its state; `out` is null or has room for lanes x count numbers, apart
/// from the state.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_xorwow_next(generator: *mut trn3_xorwow, out: *mut u32, count: usize) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let borrowed = Borrowed::new(generator, "generator")?;
            let total = borrowed.lanes.saturating_mul(count);
            check_overlap(&[("out", span(out.cast_const(), total))], &[("generator.words", borrowed.span())])?;
            let draws = slice_mut(out, total, "out")?;
            borrowed.advance(|generator| Ok(generator.uint32(count, draws)?))
        }
    })
}

/// Takes every lane `count` draws ahead, in a time that grows with the logarithm of `count`.
///
/// # Safety
/// `generator` is null or points to a structure with its state.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_xorwow_jump(generator: *mut trn3_xorwow, count: u64) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let borrowed = unsafe { Borrowed::new(generator, "generator") }?;
        borrowed.advance(|generator| Ok(generator.jump(count)?))
    })
}

/// Replaces the state by `count` given words, [lanes, words_per_lane] in C order; the phase becomes 0.
///
/// SHAPE: not as many words as the generators have. VALUE: the five xorshift words of a generator are all zero.
///
/// # Safety
/// `generator` is null or points to a structure whose `words` has room for the state; `words` is null or has `count`
/// numbers, apart from it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_xorwow_state(
    generator: *mut trn3_xorwow,
    words: *const u32,
    count: usize,
) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let borrowed = Borrowed::new(generator, "generator")?;
            check_overlap(&[("generator.words", borrowed.span())], &[("words", span(words, count))])?;
            let words = slice(words, count, "words")?;
            let set = Xorwow::from_state(words, borrowed.lanes, borrowed.words_per_lane)?;
            borrowed.store(&set);
            Ok(())
        }
    })
}
