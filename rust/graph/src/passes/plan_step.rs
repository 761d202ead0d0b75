//! What a body is cut into before it is lowered.

use super::attention_shape::Attention;
use super::region::Region;

/// What instructions are emitted for at a time.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// An operation of which everything is known before the run.
    Fold(usize),
    /// An operation by itself.
    Alone(usize),
    /// Operations that share tiles.
    Region(Region),
    /// Operations between two products, and these.
    Attention(Box<Attention>),
}
