//! What is kept beside the bytes of a tensor: values of more precision, kinds of values, uses by several cores.

use std::ops::Range;

use super::Zeroed;
use crate::site::SiteId;

/// The values beside the bytes of a memory or an HBM tensor.
#[derive(Debug, Default)]
pub struct Plane {
    /// Bytes that a slot stands for.
    pub(crate) unit: usize,
    /// Values, a slot each.
    pub(crate) values: Zeroed<f64>,
    /// Whose value a slot holds: an element type and one, or none.
    pub(crate) tags: Zeroed<u8>,
}

/// Which kinds of values that are no numbers there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strange {
    /// NaN.
    pub nan: bool,
    /// Infinities.
    pub infinity: bool,
}

/// How a core used some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Read.
    Read,
    /// Written.
    Write,
}

/// Uses of one tensor since the cores last met.
#[derive(Debug, Default)]
pub struct Races {
    pub(crate) epoch: u64,
    pub(crate) cores: Vec<Uses>,
    /// None until a core writes where another one wrote.
    pub(crate) contest: Option<Box<Contest>>,
}

impl Races {
    /// Forgets uses before the cores last met, and has a place for this core's.
    pub(crate) fn begin(&mut self, epoch: u64, core: usize) {
        if self.epoch != epoch {
            *self = Self { epoch, ..Self::default() };
        }
        if self.cores.len() <= core {
            self.cores.resize_with(core + 1, Uses::default);
        }
    }
}

/// What writes of several cores to the same bytes covered.
#[derive(Debug, Default)]
pub(crate) struct Contest {
    /// For each core, a bit a byte: those whose contents it wrote, of all that lie in memory now.
    pub(crate) holds: Vec<Zeroed<u64>>,
    /// In the order in which they were covered.
    pub(crate) covered: Vec<Covered>,
}

/// Bytes that one core wrote and another one wrote over.
#[derive(Debug)]
pub(crate) struct Covered {
    /// Whose they were.
    pub(crate) core: usize,
    pub(crate) range: Range<usize>,
    /// None where the run keeps no bytes.
    pub(crate) bytes: Vec<u8>,
    /// A bit a byte.
    pub(crate) initialised: Vec<u64>,
    pub(crate) exact: Option<Plane>,
}

/// Uses by one core.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    pub(crate) read: Zeroed<u64>,
    pub(crate) written: Zeroed<u64>,
    /// Lines with the span of bytes that each used, in the order of their first use.
    pub(crate) lines: Vec<(SiteId, Use, usize, usize)>,
}
