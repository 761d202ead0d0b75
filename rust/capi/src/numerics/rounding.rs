//! How results are rounded, and where random bits come from.

use std::mem::offset_of;

use trn3_numerics::{CastOptions, Draws, Overflow, Rounding, Xorwow};

use crate::numerics::xorwow::{Borrowed, trn3_xorwow};
use crate::pointers::{Record, read_or_default, slice};
use crate::status::{Fault, Result};

/// To the nearer neighbour, ties to the even code.
pub const TRN3_ROUNDING_NEAREST: u32 = 0;
/// To the neighbour nearer zero; never overflows a finite value.
pub const TRN3_ROUNDING_ZERO: u32 = 1;
/// Away from zero with the probability of the distance: one 32-bit draw an element.
pub const TRN3_ROUNDING_STOCHASTIC: u32 = 2;

/// Beyond the largest finite value: infinity where the format has one, else NaN; float4_e2m1fn saturates.
pub const TRN3_OVERFLOW_IEEE: u32 = 0;
/// Beyond the largest finite value: that value, for infinities too.
pub const TRN3_OVERFLOW_SATURATE: u32 = 1;

/// How results are rounded. Where a function takes one, null stands for nearest, with IEEE overflow. Set size to
/// sizeof(trn3_rounding).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct trn3_rounding {
    /// sizeof this structure.
    pub size: usize,
    /// TRN3_ROUNDING_...
    pub rounding: u32,
    /// TRN3_OVERFLOW_...; used by casts, 0 elsewhere.
    pub overflow: u32,
    /// With stochastic rounding: one draw an element in C order, or null to take them from generator.
    pub draws: *const u32,
    /// Number of draws.
    pub draw_count: usize,
    /// With stochastic rounding: the generator, which advances if the call succeeds. N elements take ceil(N / lanes)
    /// draws of each lane, lane after lane.
    pub generator: *mut trn3_xorwow,
}

// SAFETY: repr(C), `size` first, plain numbers and pointers that are checked before use.
unsafe impl Record for trn3_rounding {
    const MINIMUM: usize = offset_of!(Self, draws);
    const NAME: &'static str = "trn3_rounding";
}

pub(crate) fn rounding(number: u32) -> Result<Rounding> {
    match number {
        TRN3_ROUNDING_NEAREST => Ok(Rounding::Nearest),
        TRN3_ROUNDING_ZERO => Ok(Rounding::Zero),
        TRN3_ROUNDING_STOCHASTIC => Ok(Rounding::Stochastic),
        _ => Err(Fault::value(format!("rounding is {number}; allowed: 0 nearest, 1 zero, 2 stochastic"))),
    }
}

pub(crate) fn overflow(number: u32) -> Result<Overflow> {
    match number {
        TRN3_OVERFLOW_IEEE => Ok(Overflow::Ieee),
        TRN3_OVERFLOW_SATURATE => Ok(Overflow::Saturate),
        _ => Err(Fault::value(format!("overflow is {number}; allowed: 0 ieee, 1 saturate"))),
    }
}

/// A checked [trn3_rounding].
pub(crate) struct Rules {
    pub(crate) options: CastOptions,
    draws: *const u32,
    draw_count: usize,
    generator: *mut trn3_xorwow,
}

impl Rules {
    /// # Safety
    /// As [read_or_default]; the pointers in it are null or as [trn3_rounding] says.
    #[inline]
    pub(crate) unsafe fn read(pointer: *const trn3_rounding) -> Result<Self> {
        // SAFETY: the caller's promise.
        let given = unsafe { read_or_default(pointer, "rounding") }?;
        let options = CastOptions { rounding: rounding(given.rounding)?, overflow: overflow(given.overflow)? };
        if !given.draws.is_null() && !given.generator.is_null() {
            return Err(Fault::value("rounding has both draws and generator; give one of them"));
        }
        Ok(Self { options, draws: given.draws, draw_count: given.draw_count, generator: given.generator })
    }

    /// As [`Self::read`] for operations that do not overflow by choice.
    ///
    /// # Safety
    /// As [`Self::read`].
    pub(crate) unsafe fn read_without_overflow(pointer: *const trn3_rounding) -> Result<Self> {
        // SAFETY: the caller's promise.
        let rules = unsafe { Self::read(pointer) }?;
        if rules.options.overflow != Overflow::Ieee {
            return Err(Fault::value("rounding.overflow is 1; it must be 0 here: this operation has its own rule"));
        }
        Ok(rules)
    }

    /// Runs work with the draws, and brings a generator that it has advanced back to the host.
    ///
    /// # Safety
    /// The pointers are the host's, used by nobody else during the call.
    #[inline]
    pub(crate) unsafe fn with_draws(&self, work: impl FnOnce(Draws<'_>) -> Result<()>) -> Result<()> {
        if !self.generator.is_null() {
            // SAFETY: the caller's promise.
            let borrowed = unsafe { Borrowed::new(self.generator, "rounding.generator") }?;
            return borrowed.advance(|generator: &mut Xorwow| work(Draws::Xorwow(generator)));
        }
        if self.draws.is_null() {
            return work(Draws::None);
        }
        // SAFETY: the caller's promise.
        work(Draws::Given(unsafe { slice(self.draws, self.draw_count, "rounding.draws") }?))
    }
}
