//! What packed operands of products by selection are made of.

/// k that a register holds of a row, in which places of stored values are counted.
pub(super) const SPAN: usize = 32;
/// 32-bit words of a row's span: bfloat16 codes in the order of k.
pub(super) const ROW_WORDS: usize = SPAN / 2;
/// 32-bit words of a pair of slots of a column: their places, and their values.
pub(super) const PAIR_WORDS: usize = 2;
