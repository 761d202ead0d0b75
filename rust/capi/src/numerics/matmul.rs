//! Matrix products as the systolic array computes them.

use std::ffi::c_void;

use trn3_numerics::{ArrayMut, ArrayView, Draws, MxView, Rounding, matmul, matmul_mx};

use crate::array::{Layout, trn3_array, trn3_array_mut};
use crate::guard::guard;
use crate::numerics::cast::scratch_of;
use crate::numerics::mx::{MxLayout, trn3_mx_array};
use crate::numerics::rounding::{Rules, trn3_rounding};
use crate::output::{Scratch, Target, check_overlap};
use crate::status::{Result, trn3_status};

/// What every product has beside its operands.
pub(crate) struct Product {
    c: Option<Layout>,
    out: Layout,
    rules: Rules,
    scratch: Scratch,
}

impl Product {
    /// # Safety
    /// As the exports that call it.
    pub(crate) unsafe fn new(
        c: *const trn3_array,
        out: *const trn3_array_mut,
        rounding: *const trn3_rounding,
        scratch: *mut c_void,
        scratch_size: usize,
    ) -> Result<Self> {
        // SAFETY: the caller's promise.
        unsafe {
            let c = if c.is_null() { None } else { Some(Layout::of(c, "c")?) };
            let out = Layout::of_mut(out, "out")?;
            let scratch = Scratch::new(scratch, scratch_size, &[&out])?;
            Ok(Self { c, out, rules: Rules::read_without_overflow(rounding)?, scratch })
        }
    }

    /// Runs a product whose operands lie at operands.
    ///
    /// # Safety
    /// As the exports that call it.
    pub(crate) unsafe fn run(
        mut self,
        operands: &[(&str, std::ops::Range<usize>)],
        work: impl FnOnce(Option<&ArrayView<'_>>, ArrayMut<'_>, Rounding, Draws<'_>) -> trn3_numerics::Result<()>,
    ) -> Result<()> {
        let outputs = [("out", self.out.span()), ("scratch", self.scratch.span())];
        check_overlap(&outputs, operands)?;
        if let Some(c) = &self.c {
            check_overlap(&outputs, &[("c", c.span())])?;
        }
        // SAFETY: the caller's promise; nothing overlaps.
        unsafe {
            let c = self.c.as_ref().map(|c| c.view()).transpose()?;
            let mut target = Target::new(&self.out, &mut self.scratch)?;
            let rounding = self.rules.options.rounding;
            self.rules.with_draws(|draws| Ok(work(c.as_ref(), target.array()?, rounding, draws)?))?;
            target.finish();
        }
        Ok(())
    }
}

/// Bytes of scratch memory that trn3_matmul with these arguments needs: 0 where out is C-contiguous.
///
/// # Safety
/// Pointers are null or point to what this describes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_matmul_scratch_size(
    a: *const trn3_array,
    b: *const trn3_array,
    out: *const trn3_array_mut,
    size: *mut usize,
) -> trn3_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        Layout::of(a, "a")?;
        Layout::of(b, "b")?;
        scratch_of(&[(out, "out")], size)
    })
}

/// a @ b as the 128-row array computes it: each output is a chain of fused float32 steps over each 128 k in ascending
/// order, the chains' results added in float32. a is [..., M, K], b [..., K, N], batch axes broadcast; bfloat16,
/// float16 and the fp8 formats in any pair, float32 and tfloat32 with each other. out is [..., M, N], float32, or
/// bfloat16 rounded after every tile of 128 k. c is null or what the accumulator starts from, float32 or bfloat16 of
/// the shape of out. Draws of stochastic rounding: one an output a tile, [tiles, ..., M, N].
///
/// TYPE, SHAPE, VALUE: an argument does not fit, or arrays overlap. CAPACITY: the scratch memory is too small.
///
/// # Safety
/// Pointers are null or point to what this describes; scratch has scratch_size bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_matmul(
    a: *const trn3_array,
    b: *const trn3_array,
    c: *const trn3_array,
    out: *const trn3_array_mut,
    rounding: *const trn3_rounding,
    scratch: *mut c_void,
    scratch_size: usize,
) -> trn3_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let (a, b) = (Layout::of(a, "a")?, Layout::of(b, "b")?);
        let product = Product::new(c, out, rounding, scratch, scratch_size)?;
        let operands = [("a", a.span()), ("b", b.span())];
        let (a, b) = (a.view()?, b.view()?);
        product.run(&operands, |c, out, rounding, draws| matmul(&a, &b, c, out, rounding, draws))
    })
}

/// Bytes of scratch memory that trn3_matmul_mx with these arguments needs: 0 where out is C-contiguous.
///
/// # Safety
/// Pointers are null or point to what this describes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_matmul_mx_scratch_size(
    a: *const trn3_mx_array,
    b: *const trn3_mx_array,
    out: *const trn3_array_mut,
    size: *mut usize,
) -> trn3_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        MxLayout::of(a, "a")?;
        MxLayout::of(b, "b")?;
        scratch_of(&[(out, "out")], size)
    })
}

/// a @ b of quantised arrays as the 512-row array computes it: as trn3_matmul with chains of 512 k over the exact
/// products of element and scale. a is blocked along its last axis, b along its second-last.
///
/// # Safety
/// Pointers are null or point to what this describes; scratch has scratch_size bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_matmul_mx(
    a: *const trn3_mx_array,
    b: *const trn3_mx_array,
    c: *const trn3_array,
    out: *const trn3_array_mut,
    rounding: *const trn3_rounding,
    scratch: *mut c_void,
    scratch_size: usize,
) -> trn3_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let (a, b) = (MxLayout::of(a, "a")?, MxLayout::of(b, "b")?);
        let product = Product::new(c, out, rounding, scratch, scratch_size)?;
        let operands = [
            ("a.elements", a.elements.span()),
            ("a.scales", a.scales.span()),
            ("b.elements", b.elements.span()),
            ("b.scales", b.scales.span()),
        ];
        let (a, b): (MxView<'_>, MxView<'_>) = (a.view()?, b.view()?);
        product.run(&operands, |c, out, rounding, draws| matmul_mx(&a, &b, c, out, rounding, draws))
    })
}
