//! What a function is that levels with tables compute in float32.

use crate::simd::Tables;

/// A function in two steps, of which the first is taken for the next vector while the second is for this one: a processor
/// that waits for one has the other to do.
pub(super) trait Quick<L: Tables> {
    /// What the first step leaves to the second.
    type Started: Copy;

    fn start(l: L, x: L::F) -> Self::Started;
    /// The function, and where it is in doubt, as it is of NaN.
    fn finish(l: L, x: L::F, started: Self::Started) -> (L::F, L::M);
}
