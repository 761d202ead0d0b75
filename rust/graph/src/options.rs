//! How graphs are executed.

use std::fmt;
use std::str::FromStr;

use crate::error::GraphError;

/// The arithmetic of products.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MatmulPath {
    /// That of the operands' own types: nothing is cast down.
    #[default]
    AsTyped,
    /// Floating-point operands are rounded to bfloat16.
    Bf16,
    /// Operands are quantised along the contraction to MXFP8 (E4M3).
    Mxfp8,
    /// Operands are quantised along the contraction to MXFP4 (E2M1).
    Mxfp4,
}

impl MatmulPath {
    /// Every path.
    pub const ALL: [MatmulPath; 4] = [MatmulPath::AsTyped, MatmulPath::Bf16, MatmulPath::Mxfp8, MatmulPath::Mxfp4];

    /// The name, as options take it.
    pub const fn name(self) -> &'static str {
        match self {
            MatmulPath::AsTyped => "as_typed",
            MatmulPath::Bf16 => "bf16",
            MatmulPath::Mxfp8 => "mxfp8",
            MatmulPath::Mxfp4 => "mxfp4",
        }
    }
}

impl fmt::Display for MatmulPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for MatmulPath {
    type Err = GraphError;

    fn from_str(name: &str) -> Result<Self, GraphError> {
        MatmulPath::ALL.into_iter().find(|path| path.name() == name).ok_or_else(|| {
            let allowed = MatmulPath::ALL.map(MatmulPath::name).join(", ");
            GraphError::Argument(format!("matmul is {name:?}; allowed: {allowed}"))
        })
    }
}

/// How a graph is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecutionOptions {
    /// Arithmetic of `dot_general` and `convolution` of floating-point operands.
    pub matmul: MatmulPath,
    /// By instructions: whether reductions share tiles on chip with what is elementwise around them, and attention is one
    /// kernel. Values are the same without.
    pub fuse: bool,
    /// By instructions: physical cores that run it as one. Values are the same.
    pub cores: usize,
    /// By instructions on several cores: elements of the longest tensor of an operation from which on each core does a part
    /// of it.
    pub share_from: usize,
}

/// Elements from which on cores share an operation **(choice)**: what a barrier takes is then worth it.
const SHARE_FROM: usize = 1 << 16;

impl Default for ExecutionOptions {
    fn default() -> Self {
        Self { matmul: MatmulPath::default(), fuse: true, cores: 1, share_from: SHARE_FROM }
    }
}
