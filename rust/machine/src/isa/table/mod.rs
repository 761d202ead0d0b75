//! The instructions as a table: what each is called, what it takes, who runs it and how it is held.
//!
//! [`crate::instructions!`] is the one place where an instruction is spelt. From it come what programs read and write
//! ([`crate::program`]), the functions of front ends, and [`TABLE`], plain data for whoever describes instructions.

mod dropped;
mod kinds;
pub mod makers;
mod parts;
mod rows;

pub use dropped::{DROPPED, DroppedKeyword};
pub use kinds::{Default, Kind, values};
pub(crate) use kinds::{Literal, default};
pub use parts::{OwnInstruction, Substitute, fingerprint, is_open, on_engine, rebound, running_values};

use crate::engine::Engine;
use crate::isa::collective;

/// The instructions' structs, by the names that the table has for them.
pub mod held {
    pub use crate::isa::activation::{Activate2, Activation};
    pub use crate::isa::copy::{Memset, TensorCopy};
    pub use crate::isa::dma::compute::DmaCompute;
    pub use crate::isa::dma::copy::DmaCopy;
    pub use crate::isa::dma::transpose::DmaTranspose;
    pub use crate::isa::dropout::Dropout;
    pub use crate::isa::elementwise::{Reciprocal, ScalarTensorTensor, TensorTensor};
    #[cfg(feature = "example-instruction")]
    pub use crate::isa::example::TensorClamp;
    pub use crate::isa::exponential::Exponential;
    pub use crate::isa::gpsimd::affine::{AffineSelect, Iota};
    pub use crate::isa::gpsimd::gather::{LocalGather, NcNGather};
    pub use crate::isa::gpsimd::reduce::{SequenceBounds, TensorPartitionReduce};
    pub use crate::isa::gpsimd::search::{NonzeroWithCount, TopK};
    pub use crate::isa::quantize::QuantizeMx;
    pub use crate::isa::random::{Rand2, RandGetState, RandSetState, Rng, SetRngSeed};
    pub use crate::isa::reduce::TensorReduce;
    pub use crate::isa::register::{RegisterLoad, RegisterMove, RegisterStore};
    pub use crate::isa::scan::{TensorScalarCumulative, TensorTensorScan};
    pub use crate::isa::search::{FindIndex8, MatchReplace8, Max8};
    pub use crate::isa::select::{RangeSelect, SelectReduce, TensorCopyPredicated};
    pub use crate::isa::shuffle::StreamShuffle;
    pub use crate::isa::statistics::{BnAggr, BnStats};
    pub use crate::isa::tensor::matmul::NcMatmul;
    pub use crate::isa::tensor::matmul_mx::NcMatmulMx;
    pub use crate::isa::tensor::matmul_sparse::NcMatmulSparse;
    pub use crate::isa::tensor::transpose::NcTranspose;
    pub use crate::isa::tensor_scalar::{TensorScalar, TensorScalarReduce};
}

/// What a timeline gives one colour: instructions of one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Products of TensorE.
    Matmul,
    /// Exchanges of axes.
    Transpose,
    /// Elements of tiles combined one by one.
    Elementwise,
    /// Sums, extremes and statistics along axes.
    Reduction,
    /// Functions of one operand.
    Function,
    /// Copies and fills.
    CopySet,
    /// Casts to block-scaled formats.
    Quantise,
    /// Elements picked by place or by value.
    GatherSelect,
    /// Data moved by the DMA engines.
    Dma,
    /// Registers and barriers.
    Control,
}

impl Family {
    /// Every family.
    pub const ALL: [Family; 10] = [
        Family::Matmul,
        Family::Transpose,
        Family::Elementwise,
        Family::Reduction,
        Family::Function,
        Family::CopySet,
        Family::Quantise,
        Family::GatherSelect,
        Family::Dma,
        Family::Control,
    ];

    /// Name in plots and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Family::Matmul => "matmul",
            Family::Transpose => "transpose",
            Family::Elementwise => "element-wise",
            Family::Reduction => "reduction",
            Family::Function => "function",
            Family::CopySet => "copy, set",
            Family::Quantise => "quantise",
            Family::GatherSelect => "gather, select",
            Family::Dma => "DMA",
            Family::Control => "control",
        }
    }
}

/// An instruction, described.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Description {
    /// Name, as `nki.isa` spells it.
    pub name: &'static str,
    /// What it takes, by keyword and in order.
    pub arguments: &'static [Argument],
    /// What it is for.
    pub family: Family,
    /// Engines that may run it on some machine.
    pub engines: &'static [Engine],
    /// The entries of a program's step; none for what cores run together, whose entries are its arguments.
    pub keys: &'static [&'static str],
}

impl Description {
    /// Whether it is ours alone: `nki.isa` has no instruction of that name.
    ///
    /// ```
    /// use trn3_machine::isa::table::TABLE;
    ///
    /// let own = TABLE.iter().filter(|description| description.is_own());
    /// assert!(own.map(|description| description.name).any(|name| name == "nc_matmul_sparse"));
    /// ```
    pub fn is_own(&self) -> bool {
        OWN.contains(&self.name)
    }
}

/// Instructions that `nki.isa` has not.
const OWN: &[&str] = &["nc_matmul_sparse", "tensor_clamp"];

/// One argument of an instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Argument {
    /// Keyword.
    pub name: &'static str,
    /// What it may be.
    pub kind: Kind,
    /// What stands for it where it is left out; None: it may not be.
    pub default: Option<Default>,
}

/// The instruction of that name.
///
/// ```
/// use trn3_machine::isa::table::{Family, describe};
///
/// let copy = describe("tensor_copy").expect("an instruction");
/// assert_eq!(copy.family, Family::CopySet);
/// assert_eq!(copy.arguments.iter().map(|argument| argument.name).collect::<Vec<_>>(), ["dst", "src", "engine"]);
/// assert!(describe("tensor_kopy").is_none());
/// ```
pub fn describe(name: &str) -> Option<&'static Description> {
    TABLE.iter().chain(MEETINGS).find(|description| description.name == name)
}

/// The family of an instruction as timelines spell it, whose first word before a dot, slash, bracket or space counts;
/// `"other"` of one that is not known. What engines do beside the table's instructions is control.
///
/// ```
/// use trn3_machine::isa::table::family_name;
///
/// assert_eq!(["nc_matmul", "activation(exp)", "unheard_of"].map(family_name), ["matmul", "function", "other"]);
/// ```
pub fn family_name(opcode: &str) -> &'static str {
    let word = opcode.split(['.', '/', '(', '[', ' ']).next().unwrap_or(opcode).to_ascii_lowercase();
    let family = match word.as_str() {
        "register_alloc" | "activation_table_load" | "dma_trigger" | "semaphore" => Some(Family::Control),
        "tensor_copy_dynamic_src" | "tensor_copy_dynamic_dst" => Some(Family::CopySet),
        name if collective::NAMES.contains(&name) => Some(Family::Dma),
        name => describe(name).map(|instruction| instruction.family),
    };
    family.map_or("other", Family::name)
}

/// What the table says of a left-out argument.
macro_rules! default_of {
    () => {
        None
    };
    ($default:tt) => {
        Some(kinds::default!($default))
    };
}

/// The entry of a program's step that a field is; empty for what the name of the instruction says.
macro_rules! key_of {
    ($field:ident) => {
        program_key(stringify!($field))
    };
    ($field:ident := $constant:expr) => {
        ""
    };
}

macro_rules! describe_rows {
    ($($(#[$attribute:meta])* $name:ident($($argument:ident: $kind:ident $(= $default:tt)?),* $(,)?)
        $family:ident on $($engine:ident)|+ => $type:ident
        { $($field:ident $(= $maker:ident($($from:ident),* $(,)?))? $(:= $constant:expr)?),* $(,)? })*) => {
        /// Every instruction that one core runs, by name.
        pub const TABLE: &[Description] = &[$($(#[$attribute])* Description {
            name: stringify!($name),
            arguments: &[$(Argument {
                name: stringify!($argument), kind: Kind::$kind, default: default_of!($($default)?),
            }),*],
            family: Family::$family,
            engines: &[$(Engine::$engine),+],
            keys: &[$(key_of!($field $(:= $constant)?)),*],
        }),*];
    };
}

macro_rules! describe_meetings {
    ($($name:ident($($argument:ident: $kind:ident $(= $default:tt)?),* $(,)?) $family:ident on $($engine:ident)|+)*) => {
        /// What the cores of a logical core run together.
        pub const MEETINGS: &[Description] = &[$(Description {
            name: stringify!($name),
            arguments: &[$(Argument {
                name: stringify!($argument), kind: Kind::$kind, default: default_of!($($default)?),
            }),*],
            family: Family::$family,
            engines: &[$(Engine::$engine),+],
            keys: &[],
        }),*];
    };
}

/// `op` of a program's step is its instruction; an argument of that name is `function`.
pub(crate) const fn program_key(field: &'static str) -> &'static str {
    match field.as_bytes() {
        b"op" => "function",
        _ => field,
    }
}

crate::instructions!(describe_rows);
crate::meetings!(describe_meetings);
