//! M of N: the patterns the hardware has, and the shapes of what is compressed by them.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// Positions in a tag.
pub(crate) const PER_TAG: usize = 4;

/// At most so many nonzeros in each group of so many elements along the contraction axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SparsityPattern {
    keep: u8,
    group: u8,
}

impl SparsityPattern {
    /// The patterns the hardware has.
    pub const ALL: [SparsityPattern; 7] = [
        SparsityPattern { keep: 4, group: 16 },
        SparsityPattern { keep: 4, group: 12 },
        SparsityPattern { keep: 4, group: 8 },
        SparsityPattern { keep: 2, group: 8 },
        SparsityPattern { keep: 2, group: 4 },
        SparsityPattern { keep: 1, group: 4 },
        SparsityPattern { keep: 1, group: 2 },
    ];

    /// M: slots of a group.
    pub const fn keep(self) -> usize {
        self.keep as usize
    }

    /// N: length of a group.
    pub const fn group(self) -> usize {
        self.group as usize
    }

    /// Bits that hold a position in a group: ceil(log2 N).
    pub const fn index_bits(self) -> u32 {
        usize::BITS - (self.group() - 1).leading_zeros()
    }

    /// The shape of the values and indices of a dense array that is compressed along `axis`.
    ///
    /// # Errors
    /// [`Error::Value`] for an axis that the array does not have, [`Error::Shape`] when its length is not a multiple of N.
    ///
    /// ```
    /// let pattern: trn3_numerics::SparsityPattern = "4:16".parse()?;
    /// assert_eq!(pattern.compressed_shape(&[64, 10], 0)?, [16, 10]);
    /// # Ok::<(), trn3_numerics::Error>(())
    /// ```
    pub fn compressed_shape(self, dense: &[usize], axis: usize) -> Result<Vec<usize>> {
        rescaled("w", dense, axis, self.group(), self.keep(), self)
    }

    /// The shape of the dense array whose values have the shape `compressed`.
    ///
    /// # Errors
    /// [`Error::Value`] for an axis that the array does not have, [`Error::Shape`] when its length is not a multiple of M.
    pub fn dense_shape(self, compressed: &[usize], axis: usize) -> Result<Vec<usize>> {
        rescaled("values", compressed, axis, self.keep(), self.group(), self)
    }

    /// The shape of the tags of values of the shape `compressed`.
    ///
    /// # Errors
    /// As [`Self::dense_shape`].
    pub fn tags_shape(self, compressed: &[usize], axis: usize) -> Result<Vec<usize>> {
        let mut shape = self.dense_shape(compressed, axis)?;
        shape[axis] = compressed[axis].div_ceil(PER_TAG);
        Ok(shape)
    }
}

fn rescaled(
    argument: &'static str,
    shape: &[usize],
    axis: usize,
    from: usize,
    to: usize,
    pattern: SparsityPattern,
) -> Result<Vec<usize>> {
    if axis >= shape.len() {
        return Err(Error::value("axis", axis, format!("{argument} has {} axes", shape.len())));
    }
    if !shape[axis].is_multiple_of(from) {
        let needed = format!(
            "with pattern {pattern} its axis {axis} of length {} must be a multiple of {from} long",
            shape[axis]
        );
        return Err(Error::shape(argument, shape, needed));
    }
    let mut rescaled = shape.to_vec();
    let length = (shape[axis] / from).checked_mul(to);
    rescaled[axis] = length.unwrap_or(usize::MAX);
    // Axes of length 0 do not excuse the others: products of lengths are taken in many places.
    let elements = rescaled.iter().try_fold(1usize, |all, &length| all.checked_mul(length.max(1)));
    if elements.is_none_or(|elements| elements > isize::MAX as usize / size_of::<f32>()) {
        return Err(Error::shape(argument, shape, format!("with pattern {pattern} its other form fits in no memory")));
    }
    Ok(rescaled)
}

impl fmt::Display for SparsityPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.keep, self.group)
    }
}

impl FromStr for SparsityPattern {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        SparsityPattern::ALL.into_iter().find(|pattern| pattern.to_string() == name).ok_or_else(|| {
            let names = SparsityPattern::ALL.map(|pattern| pattern.to_string()).join(", ");
            Error::value("pattern", format!("{name:?}"), format!("allowed: {names}"))
        })
    }
}
