//! What arguments of instructions may be, and what stands for them where they are left out.

macro_rules! kinds {
    ($($(#[doc = $text:literal])* $kind:ident => $value:ty,)*) => {
        /// What an argument may be.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Kind {
            $($(#[doc = $text])* $kind,)*
        }

        impl Kind {
            /// Every kind.
            pub const ALL: &[Kind] = &[$(Kind::$kind),*];

            /// Name in the table.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Kind::$kind => stringify!($kind),)*
                }
            }

            /// The enum of `nki.isa` whose member it is; None: of none.
            ///
            /// ```
            /// use trn3_machine::isa::table::Kind;
            ///
            /// assert_eq!(Kind::MaybeEngine.enumeration(), Some("engine"));
            /// assert_eq!(Kind::Flag.enumeration(), None);
            /// ```
            pub const fn enumeration(self) -> Option<&'static str> {
                Some(match self {
                    Kind::MaybeEngine | Kind::NamedEngine => "engine",
                    Kind::Command => "reduce_cmd",
                    Kind::DmaEngine => "dma_engine",
                    Kind::OobMode => "oob_mode",
                    Kind::DgeMode => "dge_mode",
                    _ => return None,
                })
            }
        }

        /// What instructions hold of an argument, by its kind's name.
        pub mod values {
            use std::sync::Arc;

            use smallvec::SmallVec;

            $(#[doc = concat!("What is held of a [`Kind::", stringify!($kind), "`](super::Kind::", stringify!($kind), ").")]
            pub type $kind = $value;)*
        }
    };
}

kinds! {
    /// A tile or tensor.
    Tile => crate::view::View,
    /// A tile, or none.
    MaybeTile => Option<crate::view::View>,
    /// Tiles or tensors.
    Tiles => Vec<crate::view::View>,
    /// A number, a tile of shape [P, 1], or none.
    Scalar => crate::isa::ScalarOperand,
    /// A number or a tile.
    NumberOrTile => crate::isa::select::CopySource,
    /// An operator of `nki.language`, by name.
    Op => crate::isa::alu::AluOp,
    /// An operator, or none.
    MaybeOp => Option<crate::isa::alu::AluOp>,
    /// An activation function of `nki.language`, by name.
    Function => trn3_numerics::Activation,
    /// A member of `nki.isa.reduce_cmd`.
    Command => crate::isa::accumulate::ReduceCommand,
    /// A member of `nki.isa.engine`, or none: the model chooses.
    MaybeEngine => Option<crate::engine::Engine>,
    /// A member of `nki.isa.engine`.
    NamedEngine => crate::engine::Engine,
    /// A member of `nki.isa.dma_engine`; true for GpSimdE's own.
    DmaEngine => bool,
    /// Yes or no.
    Flag => bool,
    /// Yes, no, or not said.
    MaybeFlag => Option<bool>,
    /// A whole number.
    Integer => i64,
    /// Whole numbers.
    Integers => Vec<i64>,
    /// Pairs of a step and a number of steps.
    Pairs => Vec<(i64, i64)>,
    /// Numbers of axes.
    Axes => SmallVec<[i64; 4]>,
    /// A number of things.
    Count => usize,
    /// A number of things, or none.
    MaybeCount => Option<usize>,
    /// Numbers of things or of axes, or none.
    MaybeCounts => Option<Vec<usize>>,
    /// A number.
    Number => f64,
    /// Numbers, or none.
    MaybeNumbers => Option<Vec<f64>>,
    /// A class of service, or none.
    Priority => Option<u8>,
    /// A member of `nki.isa.oob_mode`.
    OobMode => crate::memory::OutOfBounds,
    /// A member of `nki.isa.dge_mode`, or none: the model chooses.
    DgeMode => Option<crate::timing::work::DescriptorMode>,
    /// Position and size of a part of the array, or none: the whole.
    MaybeArrayTile => Option<crate::isa::tensor::Tile>,
    /// How many of how many rows are kept, as `"4:16"`.
    SparsityPattern => trn3_numerics::Pattern,
    /// A register.
    Register => Arc<crate::view::Register>,
    /// A whole number, or a register that holds one.
    IntegerOrRegister => crate::isa::register::RegisterValue,
}

/// What stands for an argument that is left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Default {
    /// Nothing.
    None,
    /// Yes or no.
    Flag(bool),
    /// A whole number.
    Integer(i64),
    /// A number.
    Number(f64),
    /// A word: of an operator, an engine, a mode.
    Word(&'static str),
}

/// A default as a row has it.
macro_rules! default {
    (None) => {
        $crate::isa::table::Default::None
    };
    ($value:tt) => {
        $crate::isa::table::Literal($value).default()
    };
}
pub(crate) use default;

/// A literal of a row.
pub(crate) struct Literal<T>(pub(crate) T);

macro_rules! literals {
    ($($type:ty => $default:ident),*) => {$(
        impl Literal<$type> {
            pub(crate) const fn default(self) -> Default {
                Default::$default(self.0)
            }
        }
    )*};
}
literals!(bool => Flag, i64 => Integer, f64 => Number, &'static str => Word);
