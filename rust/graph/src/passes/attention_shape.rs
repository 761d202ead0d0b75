//! Attention, as it was recognised.

use super::region::Region;

/// A region between two products.
#[derive(Clone, Debug)]
pub(crate) struct Attention {
    /// What is done with rows of scores.
    pub(crate) region: Region,
    /// The product that makes scores, by its place: rows are those of its first operand.
    pub(crate) head: usize,
    /// The product that takes what comes out, by its place.
    pub(crate) tail: usize,
    /// Which operand of the tail that is.
    pub(crate) side: usize,
    /// The scores, as the region takes them.
    pub(crate) scores: u32,
    /// What comes out, as the region makes it.
    pub(crate) weights: u32,
    /// Reshapes that are passed through, by their places.
    pub(crate) looks: Vec<usize>,
    /// How many of the region's axes go along.
    pub(crate) batch: usize,
}
