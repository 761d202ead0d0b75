//! Structured sparsity: at most M nonzeros in each group of N, kept as values and their positions.

mod code;
mod compress;
mod pattern;
mod pieces;
mod tags;
mod view;

pub(crate) use code::magnitude_mask;
pub use compress::{compress, prune};
pub use pattern::SparsityPattern;
pub use tags::from_tags;
pub use view::SparseView;
