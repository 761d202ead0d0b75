//! Structured sparsity.

use std::ffi::c_void;
use std::mem::offset_of;

use trn3_numerics::{Pattern, SparseView, compress, matmul_sparse};

use crate::array::{Layout, trn3_array, trn3_array_mut};
use crate::guard::guard;
use crate::numerics::cast::scratch_of;
use crate::numerics::matmul::Product;
use crate::numerics::mx::axis;
use crate::numerics::rounding::trn3_rounding;
use crate::output::{Scratch, Target, check_overlap};
use crate::pointers::{Record, read, slice, slice_mut, span};
use crate::status::{Fault, Result, trn3_status};

/// A compressed matrix [K, N]: at most keep values of each group along axis 0. Set size to
/// sizeof(trn3_sparse_array).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct trn3_sparse_array {
    /// sizeof this structure.
    pub size: usize,
    /// The stored values, [K / group * keep, N].
    pub values: *const trn3_array,
    /// Position of each in its group, one byte a value in C order; those of a group ascend.
    pub indices: *const u8,
    /// Number of those.
    pub index_count: usize,
    /// M of the pattern M:N, one of 4:16 4:12 4:8 2:8 2:4 1:4 1:2.
    pub keep: u32,
    /// N of the pattern.
    pub group: u32,
}

// SAFETY: repr(C), `size` first, plain numbers and pointers that are checked before use.
unsafe impl Record for trn3_sparse_array {
    const MINIMUM: usize = offset_of!(Self, group) + size_of::<u32>();
    const NAME: &'static str = "trn3_sparse_array";
}

fn pattern(keep: u32, group: u32) -> Result<Pattern> {
    let is_named = |pattern: &Pattern| pattern.keep() == keep as usize && pattern.group() == group as usize;
    Pattern::ALL.into_iter().find(is_named).ok_or_else(|| {
        let names = Pattern::ALL.map(|pattern| pattern.to_string()).join(", ");
        Fault::value(format!("the pattern is {keep}:{group}; allowed: {names}"))
    })
}

/// Bytes of scratch memory that trn3_matmul_sparse with these arguments needs: 0 where out is C-contiguous.
///
/// # Safety
/// Pointers are null or point to what this describes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_matmul_sparse_scratch_size(
    a: *const trn3_array,
    w: *const trn3_sparse_array,
    out: *const trn3_array_mut,
    size: *mut usize,
) -> trn3_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        Layout::of(a, "a")?;
        read(w, "w")?;
        scratch_of(&[(out, "out")], size)
    })
}

/// a @ w of a compressed w: each output is a chain over the stored nonzeros of each tile of 128 dense k; what is not
/// stored contributes nothing at all. Other arguments are as in trn3_matmul.
///
/// # Safety
/// Pointers are null or point to what this describes; scratch has scratch_size bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_matmul_sparse(
    a: *const trn3_array,
    w: *const trn3_sparse_array,
    c: *const trn3_array,
    out: *const trn3_array_mut,
    rounding: *const trn3_rounding,
    scratch: *mut c_void,
    scratch_size: usize,
) -> trn3_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let (a, w) = (Layout::of(a, "a")?, read(w, "w")?);
        let values = Layout::of(w.values, "w.values")?;
        let product = Product::new(c, out, rounding, scratch, scratch_size)?;
        let operands = [("a", a.span()), ("w.values", values.span()), ("w.indices", span(w.indices, w.index_count))];
        let indices = slice(w.indices, w.index_count, "w.indices")?;
        let (a, axis) = (a.view()?, axis(0, values.axes())?);
        let w = SparseView::new(values.view()?, indices, pattern(w.keep, w.group)?, axis)?;
        product.run(&operands, |c, out, rounding, draws| matmul_sparse(&a, &w, c, out, rounding, draws))
    })
}

/// Compresses a dense array along axis (-1 is the last): values has the shape of w with axis divided by group
/// and multiplied by keep, indices one byte a value in C order. values must be C-contiguous.
///
/// VALUE: a group holds more than keep nonzeros; the text names the first one.
///
/// # Safety
/// Pointers are null or point to what this describes; indices has index_count bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_compress(
    w: *const trn3_array,
    keep: u32,
    group: u32,
    sparse_axis: i64,
    values: *const trn3_array_mut,
    indices: *mut u8,
    index_count: usize,
) -> trn3_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let (w, values) = (Layout::of(w, "w")?, Layout::of_mut(values, "values")?);
        if !values.is_contiguous {
            return Err(Fault::value("values has strides; it must be C-contiguous"));
        }
        let (pattern, axis) = (pattern(keep, group)?, axis(sparse_axis, w.axes())?);
        let outputs = [("values", values.span()), ("indices", span(indices.cast_const(), index_count))];
        check_overlap(&outputs, &[("w", w.span())])?;
        let mut scratch = Scratch::new(std::ptr::null_mut(), 0, &[])?;
        let mut target = Target::new(&values, &mut scratch)?;
        let indices = slice_mut(indices, index_count, "indices")?;
        compress(&w.view()?, pattern, axis, target.array()?, indices)?;
        Ok(())
    })
}
