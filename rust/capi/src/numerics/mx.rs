//! Blocks of 32 elements that share a power-of-two scale.

use std::ffi::c_void;

use trn3_numerics::{MxOptions, MxView, ScaleRule, dequantize_mx, quantize_mx};

use crate::array::{Layout, trn3_array, trn3_array_mut};
use crate::guard::guard;
use crate::numerics::cast::scratch_of;
use crate::numerics::rounding::{Rules, trn3_rounding};
use crate::output::{Scratch, Target, check_overlap};
use crate::pointers::{Record, read};
use crate::status::{Fault, Result, trn3_status};

/// The rule a format takes when none is named: trn3 for fp8, ocp for fp4.
pub const TRN3_SCALE_RULE_DEFAULT: u32 = 0;
/// E = floor(log2 amax) - (Emax - 1): nothing saturates; the QuantizeMX instruction since NKI 0.5.
pub const TRN3_SCALE_RULE_TRN3: u32 = 1;
/// E = floor(log2 amax) - Emax: clips; the sample rule of OCP MX 1.0.
pub const TRN3_SCALE_RULE_OCP: u32 = 2;
/// The smallest E with amax <= largest * 2^E.
pub const TRN3_SCALE_RULE_RCEIL: u32 = 3;

/// A quantised array. Set size to sizeof(trn3_mx_array).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct trn3_mx_array {
    /// sizeof this structure.
    pub size: usize,
    /// Element codes: float8_e4m3fn, float8_e5m2 or float4_e2m1fn.
    pub elements: *const trn3_array,
    /// Scale codes: float8_e8m0fnu, the shape of the elements with axis divided by 32.
    pub scales: *const trn3_array,
    /// The blocked axis; -1 is the last.
    pub axis: i64,
}

// SAFETY: repr(C), `size` first, plain numbers and pointers that are checked before use.
unsafe impl Record for trn3_mx_array {
    const MINIMUM: usize = size_of::<Self>();
    const NAME: &'static str = "trn3_mx_array";
}

/// A checked [trn3_mx_array].
pub(crate) struct MxLayout {
    pub(crate) elements: Layout,
    pub(crate) scales: Layout,
    axis: usize,
}

impl MxLayout {
    /// # Safety
    /// As [read], for the structure and the two in it.
    pub(crate) unsafe fn of(array: *const trn3_mx_array, argument: &str) -> Result<Self> {
        // SAFETY: the caller's promise.
        unsafe {
            let array = read(array, argument)?;
            let elements = Layout::of(array.elements, &format!("{argument}.elements"))?;
            let scales = Layout::of(array.scales, &format!("{argument}.scales"))?;
            let axis = axis(array.axis, elements.axes())?;
            Ok(Self { elements, scales, axis })
        }
    }

    /// # Safety
    /// As [`Layout::view`].
    pub(crate) unsafe fn view<'a>(&self) -> Result<MxView<'a>> {
        // SAFETY: the caller's promise.
        unsafe { Ok(MxView { elements: self.elements.view()?, scales: self.scales.view()?, axis: self.axis }) }
    }
}

/// An axis of an array of so many, counted from the end where it is negative.
pub(crate) fn axis(axis: i64, axes: usize) -> Result<usize> {
    let from_start = if axis < 0 { axis + axes as i64 } else { axis };
    match usize::try_from(from_start) {
        Ok(index) if index < axes => Ok(index),
        _ => Err(Fault::value(format!("axis is {axis}; the array has {axes} axes"))),
    }
}

/// Bytes of scratch memory that trn3_quantize_mx with these arguments needs: 0 where the outputs are C-contiguous.
///
/// # Safety
/// Pointers are null or point to what this describes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_quantize_mx_scratch_size(
    x: *const trn3_array,
    elements: *const trn3_array_mut,
    scales: *const trn3_array_mut,
    size: *mut usize,
) -> trn3_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        Layout::of(x, "x")?;
        scratch_of(&[(elements, "elements"), (scales, "scales")], size)
    })
}

/// Quantises x (float32, bfloat16, float16) in blocks of 32 along axis (-1 is the last), whose length must be a
/// multiple of 32. elements has the shape of x and float8_e4m3fn, float8_e5m2 or float4_e2m1fn; scales is
/// float8_e8m0fnu with axis divided by 32. scale_rule is TRN3_SCALE_RULE_...
///
/// # Safety
/// Pointers are null or point to what this describes; scratch has scratch_size bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_quantize_mx(
    x: *const trn3_array,
    block_axis: i64,
    scale_rule: u32,
    elements: *const trn3_array_mut,
    scales: *const trn3_array_mut,
    rounding: *const trn3_rounding,
    scratch: *mut c_void,
    scratch_size: usize,
) -> trn3_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let x = Layout::of(x, "x")?;
        let (elements, scales) = (Layout::of_mut(elements, "elements")?, Layout::of_mut(scales, "scales")?);
        let axis = axis(block_axis, x.axes())?;
        let scale_rule = match scale_rule {
            TRN3_SCALE_RULE_DEFAULT => ScaleRule::default_for(elements.format),
            TRN3_SCALE_RULE_TRN3 => ScaleRule::Trn3,
            TRN3_SCALE_RULE_OCP => ScaleRule::Ocp,
            TRN3_SCALE_RULE_RCEIL => ScaleRule::Rceil,
            _ => {
                let allowed = "allowed: 0 default, 1 trn3, 2 ocp, 3 rceil";
                return Err(Fault::value(format!("scale_rule is {scale_rule}; {allowed}")));
            }
        };
        let rules = Rules::read_without_overflow(rounding)?;
        let options = MxOptions { scale_rule, rounding: rules.options.rounding };
        let mut scratch = Scratch::new(scratch, scratch_size, &[&elements, &scales])?;
        let outputs = [("elements", elements.span()), ("scales", scales.span()), ("scratch", scratch.span())];
        check_overlap(&outputs, &[("x", x.span())])?;
        let x = x.view()?;
        let (mut elements, mut scales) = (Target::new(&elements, &mut scratch)?, Target::new(&scales, &mut scratch)?);
        rules.with_draws(|draws| Ok(quantize_mx(&x, axis, elements.array()?, scales.array()?, options, draws)?))?;
        elements.finish();
        scales.finish();
        Ok(())
    })
}

/// Bytes of scratch memory that trn3_dequantize_mx with these arguments needs: 0 where out is C-contiguous.
///
/// # Safety
/// Pointers are null or point to what this describes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_dequantize_mx_scratch_size(
    x: *const trn3_mx_array,
    out: *const trn3_array_mut,
    size: *mut usize,
) -> trn3_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        MxLayout::of(x, "x")?;
        scratch_of(&[(out, "out")], size)
    })
}

/// element x scale, as float32, or rounded from it to bfloat16 or float16 in out.
///
/// # Safety
/// Pointers are null or point to what this describes; scratch has scratch_size bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_dequantize_mx(
    x: *const trn3_mx_array,
    out: *const trn3_array_mut,
    scratch: *mut c_void,
    scratch_size: usize,
) -> trn3_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let (x, out) = (MxLayout::of(x, "x")?, Layout::of_mut(out, "out")?);
        let mut scratch = Scratch::new(scratch, scratch_size, &[&out])?;
        let inputs = [("x.elements", x.elements.span()), ("x.scales", x.scales.span())];
        check_overlap(&[("out", out.span()), ("scratch", scratch.span())], &inputs)?;
        let x = x.view()?;
        let mut target = Target::new(&out, &mut scratch)?;
        dequantize_mx(&x, target.array()?)?;
        target.finish();
        Ok(())
    })
}
