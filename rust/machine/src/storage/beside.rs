//! What is kept beside the bytes of a tensor: values of more precision, kinds of values, uses by several cores.

use crate::site::SiteId;

/// The values beside the bytes of a memory or an HBM tensor.
#[derive(Debug, Default)]
pub struct Plane {
    /// Bytes that a slot stands for.
    pub(crate) unit: usize,
    /// Values, a slot each.
    pub(crate) values: Vec<f64>,
    /// Whose value a slot holds: an element type and one, or none.
    pub(crate) tags: Vec<u8>,
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
}

/// Uses by one core.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    pub(crate) read: Vec<u64>,
    pub(crate) written: Vec<u64>,
    /// Lines with the span of bytes that each used, in the order of their first use.
    pub(crate) lines: Vec<(SiteId, Use, usize, usize)>,
}
