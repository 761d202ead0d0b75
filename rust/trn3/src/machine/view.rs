//! Views: how a tensor's memory is looked at. Nothing is copied; positions are in elements of the view's own type.

use std::sync::{Arc, Mutex};

use smallvec::SmallVec;

use crate::machine::dtype::DType;
use crate::machine::storage::{Shape, Storage};

/// Distances along each axis, in elements.
pub type Strides = SmallVec<[i64; 6]>;

/// A scalar register of a sequencer: 32 bits, or nothing yet.
#[derive(Debug)]
pub struct Register {
    /// Number, unique in the process; names the register to the hazard tracker.
    pub id: u64,
    /// Whether it is a loop's own, which the kernel may not write.
    pub frozen: bool,
    /// What it holds: None before the first write.
    pub value: Mutex<Option<i64>>,
}

/// Where a dynamic start comes from.
#[derive(Clone, Debug)]
pub enum ScalarIndex {
    /// A one-element SBUF view, read when the instruction executes.
    Element(View),
    /// A register, read when the instruction executes.
    Register(Arc<Register>),
}

/// The part of a view's address that is known only when an instruction executes.
#[derive(Clone, Debug)]
pub enum Dynamic {
    /// `position += value * stride`.
    Scalar {
        /// Where the value comes from.
        index: ScalarIndex,
        /// Elements a step of the value moves.
        stride: i64,
        /// Values in [0, bound) are inside the tensor.
        bound: usize,
    },
    /// Row p of axis 0 starts at `index[p] * stride` instead of `p * strides[0]` (HBM only).
    Rows {
        /// One index a row, in SBUF.
        index: View,
        /// Elements from one row to the next.
        stride: i64,
        /// Indices in [0, bound) are inside the tensor.
        bound: usize,
    },
    /// Columns are gathered or scattered within groups of partitions (gen4): offset i of group g is
    /// `index[g * group + i % group, i / group]`; the consuming engine says how large groups are.
    Columns {
        /// Free-axis offsets, in SBUF.
        index: View,
    },
}

/// A look at a tensor: element position = offset + sum of stride * index. On chip, position e of a storage with F
/// elements a partition is partition e / F, element e % F; the stride of axis 0 is therefore a multiple of F.
#[derive(Clone, Debug)]
pub struct View {
    /// The memory.
    pub storage: Arc<Storage>,
    /// Element type of the view.
    pub dtype: DType,
    /// Lengths.
    pub shape: Shape,
    /// Distances, in elements of `dtype`.
    pub strides: Strides,
    /// First element, in elements of `dtype`.
    pub offset: i64,
    /// What is added at execution.
    pub dynamic: Option<Arc<Dynamic>>,
}

impl View {
    /// The whole of a storage, as it was declared.
    pub fn whole(storage: Arc<Storage>) -> Self {
        let shape = storage.shape.clone();
        let mut strides: Strides = SmallVec::from_elem(1, shape.len());
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis] * shape[axis] as i64;
        }
        Self { dtype: storage.dtype, storage, shape, strides, offset: 0, dynamic: None }
    }

    /// Partitions of an on-chip view: the length of axis 0.
    pub fn partitions(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }

    /// Elements in each partition: the product of the free axes.
    pub fn free_size(&self) -> usize {
        self.shape.iter().skip(1).product()
    }

    /// Elements in all.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
