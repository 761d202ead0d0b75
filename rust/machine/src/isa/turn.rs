//! Transposes of tiles that were read.

use trn3_numerics::turn_words;

use crate::error::Result;

/// Edge of the tiles in which elements are turned: the lines that one tile's columns go to stay in the nearest cache.
const TILE: usize = 16;

/// [first, middle, last] elements as [last, middle, first] in `turned`, whatever that held.
///
/// # Errors
/// [`crate::Error::Numerics`] where the SIMD level asked for is none.
pub(super) fn turn(bits: &[u32], [first, middle, last]: [usize; 3], turned: &mut Vec<u32>) -> Result<()> {
    turned.resize(bits.len(), 0);
    if middle == 1 {
        return Ok(turn_words(last, bits, turned)?);
    }
    for inner in 0..middle {
        for top in (0..first).step_by(TILE) {
            let height = TILE.min(first - top);
            for left in (0..last).step_by(TILE) {
                for column in left..(left + TILE).min(last) {
                    let line = &mut turned[(column * middle + inner) * first + top..][..height];
                    let source = bits[(top * middle + inner) * last + column..].iter().step_by(middle * last);
                    line.iter_mut().zip(source).for_each(|(to, from)| *to = *from);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::turn;

    #[test]
    fn test_turned_tiles_have_every_element_at_its_mirrored_place() {
        for (first, middle, last) in [(1, 1, 1), (3, 1, 40), (16, 1, 16), (33, 2, 17), (5, 3, 64), (4, 1, 0), (0, 2, 3)]
        {
            let bits: Vec<u32> = (0..(first * middle * last) as u32).collect();
            let mut out = vec![7; 40];
            turn(&bits, [first, middle, last], &mut out).expect("a level");
            for (place, bits) in bits.iter().enumerate() {
                let (row, inner, column) = (place / (middle * last), place / last % middle, place % last);
                assert_eq!(out[(column * middle + inner) * first + row], *bits);
            }
        }
    }
}
