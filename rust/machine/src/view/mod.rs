//! Views: how a tensor's memory is looked at. Nothing is copied; positions are in elements of the view's own type.
//!
//! [`View::whole`] starts a chain; indexing ([`View::index`]), the transforms (slice, permute, reshape, ...) and raw
//! patterns ([`View::ap`]) each give a new view of the same memory. On chip axis 0 is the partition axis: it is never
//! dropped, moved, merged or broadcast, and a view keeps at least one free axis. In HBM a view keeps at least one axis.
//! What is refused is refused when the view is made; values of registers and index tiles are looked at only when an
//! instruction executes.

mod footprint;
pub mod grid;
mod index;
mod pattern;
pub mod span;
mod text;
mod transform;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use smallvec::SmallVec;

use crate::dtype::DType;
use crate::storage::{Shape, Storage};

pub use index::Index;
pub use text::tuple_text;

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
    /// The core that first wrote it; a host's registers have none.
    pub owner: OnceLock<RegisterOwner>,
}

impl Register {
    /// A register of the next number.
    pub(crate) fn numbered(frozen: bool, value: Option<i64>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { id, frozen, value: Mutex::new(value), owner: OnceLock::new() }
    }
}

/// Whose a register is: it ends with the launch that it was made in.
#[derive(Debug)]
pub struct RegisterOwner {
    /// The core's memories, by their number in the process.
    pub memory: u64,
    /// Name that the kernel gave, or an empty one.
    pub name: String,
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
        /// Offsets in [0, bound) are inside the tensor; one step of an offset is the stride of the view's last axis.
        bound: usize,
    },
}

/// A look at a tensor: element position = offset + sum of stride * index. On chip, position e of a storage with F
/// elements a partition is partition e / F, element e % F; the stride of axis 0 is therefore a multiple of F.
#[derive(Debug)]
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

impl Clone for View {
    /// As derived, with lengths and distances copied whole: every operand of every instruction is.
    fn clone(&self) -> Self {
        Self {
            storage: Arc::clone(&self.storage),
            dtype: self.dtype,
            shape: Shape::from_slice(&self.shape),
            strides: Strides::from_slice(&self.strides),
            offset: self.offset,
            dynamic: self.dynamic.clone(),
        }
    }
}

impl View {
    /// The whole of a storage, as it was declared.
    pub fn whole(storage: Arc<Storage>) -> Self {
        let shape = Shape::from_slice(&storage.shape);
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

    /// Whether columns are gathered or scattered by an index tile (`.indirect()`).
    pub fn gathers_columns(&self) -> bool {
        matches!(self.dynamic.as_deref(), Some(Dynamic::Columns { .. }))
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Whether the memory is SBUF or PSUM.
    pub fn is_on_chip(&self) -> bool {
        self.storage.buffer.is_on_chip()
    }

    /// Whether part of the address is known only when an instruction executes.
    pub fn is_indirect(&self) -> bool {
        self.dynamic.is_some()
    }

    /// The tile of indexes an instruction reads to find this view's elements.
    pub fn index_view(&self) -> Option<&View> {
        match self.dynamic.as_deref()? {
            Dynamic::Scalar { index: ScalarIndex::Element(view), .. } => Some(view),
            Dynamic::Scalar { index: ScalarIndex::Register(_), .. } => None,
            Dynamic::Rows { index, .. } | Dynamic::Columns { index, .. } => Some(index),
        }
    }

    /// The register an instruction reads to find this view's elements.
    pub fn index_register(&self) -> Option<&Arc<Register>> {
        match self.dynamic.as_deref()? {
            Dynamic::Scalar { index: ScalarIndex::Register(register), .. } => Some(register),
            _ => None,
        }
    }

    /// `(stride, count)` of each axis, in elements, axis 0 first.
    pub fn get_pattern(&self) -> SmallVec<[(i64, i64); 6]> {
        self.strides.iter().zip(&self.shape).map(|(&stride, &count)| (stride, count as i64)).collect()
    }

    /// Strides in bytes.
    pub fn byte_strides(&self) -> Strides {
        let size = self.dtype.size() as i64;
        self.strides.iter().map(|stride| stride.saturating_mul(size)).collect()
    }

    /// Whether the elements follow one another without gaps, in row-major order: on chip within each partition, in HBM
    /// throughout. Rows or columns picked by an index tile never do.
    pub fn is_contiguous(&self) -> bool {
        let first = usize::from(self.is_on_chip());
        let picked = matches!(self.dynamic.as_deref(), Some(Dynamic::Rows { .. } | Dynamic::Columns { .. }));
        !picked && self.runs_on(first)
    }

    /// Whether the free axes (all but axis 0) follow one another without gaps, in row-major order.
    pub fn free_is_contiguous(&self) -> bool {
        !matches!(self.dynamic.as_deref(), Some(Dynamic::Columns { .. })) && self.runs_on(1)
    }

    /// Whether the axes from `first` on are compact; where a length is 1 the stride says nothing.
    fn runs_on(&self, first: usize) -> bool {
        let mut inner = 1;
        for axis in (first..self.rank()).rev() {
            if self.shape[axis] != 1 && self.strides[axis] != inner {
                return false;
            }
            inner *= self.shape[axis] as i64;
        }
        true
    }

    /// Bytes from one element to the next along the innermost axis that has more than one; the size of an element if
    /// no free axis has. (What halves the rate of the on-chip ports when it is large.)
    pub fn innermost_stride_bytes(&self) -> usize {
        let size = self.dtype.size();
        let axes = self.shape.iter().zip(&self.strides).skip(1);
        axes.rev().find(|(length, _)| **length > 1).map_or(size, |(_, stride)| *stride as usize * size)
    }

    /// First partition, counted on the chip, without what a dynamic offset adds. HBM counts as one partition, 0.
    pub fn start_partition(&self) -> usize {
        self.corner().0
    }

    /// Partitions from the first to the last, counted on the chip, without what a dynamic offset adds; 0..1 in HBM.
    pub fn partition_range(&self) -> Range<usize> {
        let start = self.start_partition();
        if !self.is_on_chip() {
            return start..start + 1;
        }
        start..start + (self.partitions().saturating_sub(1)) * self.partition_step() + 1
    }

    /// Partitions from one row to the next: 1 for every tile an engine accepts, more after a slice with a step along
    /// axis 0, which only a DMA can follow **(choice)**. 1 in HBM.
    pub fn partition_step(&self) -> usize {
        let row = self.storage.free_bytes();
        if !self.is_on_chip() || self.partitions() <= 1 || row == 0 {
            return 1;
        }
        self.strides[0] as usize * self.dtype.size() / row
    }

    /// Bytes from the first to the last in each partition, counted from the partition's start on the chip, without
    /// what a dynamic offset adds; in HBM, bytes of the tensor that the whole view spans.
    pub fn free_byte_range(&self) -> Range<usize> {
        let (_, start) = self.corner();
        let size = self.dtype.size();
        let axes = self.shape.iter().zip(&self.strides).skip(usize::from(self.is_on_chip()));
        let mut reach = size;
        for (&length, &stride) in axes {
            match length {
                0 => return start..start,
                1 => {}
                _ => reach += (length - 1) * stride as usize * size,
            }
        }
        start..start + reach
    }

    /// Partition and byte of the first element.
    fn corner(&self) -> (usize, usize) {
        let byte = self.offset as usize * self.dtype.size();
        let (first_partition, first_byte) = self.storage.place.map_or((0, 0), |place| (place.partition, place.byte));
        match self.storage.free_bytes() {
            row if self.is_on_chip() && row > 0 => (first_partition + byte / row, first_byte + byte % row),
            _ => (0, byte),
        }
    }
}
