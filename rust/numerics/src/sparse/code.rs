//! Stored codes of any format as whole numbers: which are zero, and which of a group is the largest.

use bytemuck::Pod;

use crate::array::AlignedBytes;
use crate::error::{Error, Result};
use crate::format::Format;

pub(crate) fn check_format(argument: &'static str, format: Format) -> Result<()> {
    if format == Format::F8E8M0Fnu {
        let allowed = Format::ALL.into_iter().filter(|&other| other != format).map(|format| format.to_string());
        return Err(Error::dtype(argument, format, allowed.collect::<Vec<_>>().join(", ")));
    }
    Ok(())
}

/// Input, two outputs and a line, for one piece.
pub(crate) fn buffers() -> [AlignedBytes; 4] {
    Default::default()
}

/// A stored code of 1, 2 or 4 bytes.
pub(crate) trait Code: Pod + Into<u32> {
    /// Orders elements of a group by magnitude, equal ones by position, the lower first; no two are equal.
    type Key: Copy + Default + PartialOrd;

    fn key(magnitude: u32, position: usize) -> Self::Key;
    fn position(key: Self::Key) -> usize;
}

macro_rules! code {
    ($code:ty, $key:ty) => {
        impl Code for $code {
            type Key = $key;

            #[inline(always)]
            fn key(magnitude: u32, position: usize) -> $key {
                (magnitude as $key) << 4 | (15 - position) as $key
            }
            #[inline(always)]
            fn position(key: $key) -> usize {
                15 - (key & 15) as usize
            }
        }
    };
}
code!(u8, i32);
code!(u16, i32);
code!(u32, u64);

/// The bits of a stored code that are not its sign.
pub(crate) fn magnitude_mask(format: Format) -> u32 {
    match format.item_size() {
        4 => 0x7fff_ffff,
        _ => (1 << (format.spec().bits - 1)) - 1,
    }
}

/// Gives a group M positions: its nonzeros, then the lowest others; `None` where it has more than M.
#[inline(always)]
pub(crate) fn slots(nonzeros: u32, keep: usize) -> Option<u32> {
    let count = nonzeros.count_ones() as usize;
    let mut chosen = nonzeros;
    for _ in count..keep {
        // Sets the lowest bit that is not set.
        chosen |= chosen + 1;
    }
    (count <= keep).then_some(chosen)
}

/// Whether a stored code is neither zero nor minus zero.
pub(crate) fn is_nonzero(code: &[u8], format: Format) -> bool {
    let code = match *code {
        [a] => u32::from(a),
        [a, b] => u32::from(u16::from_ne_bytes([a, b])),
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]),
        _ => 0,
    };
    code & magnitude_mask(format) != 0
}
