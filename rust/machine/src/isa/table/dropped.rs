//! Keywords that instructions once had.

/// A keyword that an instruction or a collective no longer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DroppedKeyword {
    /// The instruction, as `nki.isa` or `nki.collectives` spells it.
    pub of: &'static str,
    /// The keyword.
    pub keyword: &'static str,
    /// What says the same today.
    pub instead: &'static str,
}

macro_rules! dropped {
    ($($of:ident($keyword:ident) => $instead:literal,)*) => {
        /// Every keyword that was dropped, by instruction.
        pub const DROPPED: &[DroppedKeyword] = &[$(DroppedKeyword {
            of: stringify!($of), keyword: stringify!($keyword), instead: $instead,
        }),*];
    };
}

dropped! {
    collective_permute_implicit(num_channels) => "it is `channel_ids=`",
    collective_permute_implicit_reduce(num_channels) => "it is `channel_ids=`",
    register_move(imm) => "it is called `src`",
    scalar_tensor_tensor(dtype) => "the type comes from `dst`",
    sendrecv(use_gpsimd_dma) => "it is `dma_engine=`",
    tensor_copy(dtype) => "the type comes from `dst`",
}
