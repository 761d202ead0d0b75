//! Bindings of `quantize_mx` and of dequantising. Quantised arrays travel as elements, scales and axis.

use numpy::PyUntypedArray;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use trn3_numerics::{BLOCK, Draws, Format, MxOptions, MxView, ScaleRule};

use crate::array::{Input, Output};
use crate::draws::Rng;
use crate::{arguments, door, dtype};

const SOURCES: &str = "float32, float16, bfloat16";
pub(crate) const ELEMENTS: &str = "float8_e4m3fn, float8_e5m2, float4_e2m1fn";

/// Elements, scales and axis, which Python counts from the end.
type Parts<'py> = (Bound<'py, PyUntypedArray>, Bound<'py, PyUntypedArray>, isize);
pub(crate) type PartsGiven<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, isize);

/// The two arrays of a quantised array.
pub(crate) struct MxInput<'py> {
    pub(crate) elements: Input<'py>,
    pub(crate) scales: Input<'py>,
    axis: usize,
}

impl<'py> MxInput<'py> {
    pub(crate) fn new(
        [elements_name, scales_name]: [&'static str; 2],
        (elements, scales, axis): &PartsGiven<'py>,
    ) -> PyResult<Self> {
        let elements = Input::new(elements_name, elements, ELEMENTS)?;
        let axis = elements.shape().len().wrapping_add_signed(*axis);
        Ok(Self { elements, scales: Input::new(scales_name, scales, "float8_e8m0fnu")?, axis })
    }

    pub(crate) fn view(&self) -> PyResult<MxView<'_>> {
        Ok(MxView { elements: self.elements.view()?, scales: self.scales.view()?, axis: self.axis })
    }
}

#[pyfunction]
#[pyo3(signature = (x, dtype, axis, scale_rule, rounding, rng, out, /))]
pub(crate) fn quantize_mx<'py>(
    x: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyAny>,
    axis: &Bound<'py, PyAny>,
    scale_rule: &Bound<'py, PyAny>,
    rounding: &Bound<'py, PyAny>,
    rng: &Bound<'py, PyAny>,
    out: Option<PartsGiven<'py>>,
) -> PyResult<Parts<'py>> {
    let py = x.py();
    let mut x = Input::new("x", x, SOURCES)?;
    let format = dtype::parse("dtype", dtype, ELEMENTS)?;
    let axis = arguments::axis("x", x.shape(), axis)?;
    let from_end = axis as isize - x.shape().len() as isize;
    let scale_rule = arguments::scale_rule(scale_rule)?.unwrap_or_else(|| ScaleRule::default_for(format));
    let options = MxOptions { scale_rule, rounding: arguments::rounding(rounding)? };
    let mut rng = Rng::new(rng, options.rounding, x.shape())?;

    // A length that is no multiple of 32 is refused by the core.
    let shape = x.shape().to_vec();
    let mut scales_shape = shape.clone();
    scales_shape[axis] /= BLOCK;
    let (elements_dtype, scales_dtype) = (dtype::descr_of(py, format)?, dtype::descr_of(py, Format::F8E8M0Fnu)?);
    let (mut elements, mut scales) = match out {
        None => (Output::allocate(elements_dtype, &shape)?, Output::allocate(scales_dtype, &scales_shape)?),
        Some((elements, scales, out_axis)) => {
            if out_axis != from_end {
                let text = format!("out is blocked along axis {out_axis}; it must be {from_end}, as axis says");
                return Err(PyValueError::new_err(text));
            }
            let mut inputs = rng.held();
            inputs.push(&mut x);
            let elements = Output::resolve("out.elements", Some(&elements), elements_dtype, &shape, &mut inputs)?;
            let scales = Output::resolve("out.scales", Some(&scales), scales_dtype, &scales_shape, &mut inputs)?;
            elements.part_from_output("out.elements", &scales, "out.scales")?;
            (elements, scales)
        }
    };
    {
        let (view, draws) = (x.view()?, rng.source());
        let (elements, scales) = (elements.array_mut(format)?, scales.array_mut(Format::F8E8M0Fnu)?);
        let quantize = |draws: Draws<'_>| trn3_numerics::quantize_mx(&view, axis, elements, scales, options, draws);
        door::run(py, || draws.with(quantize))?;
    }
    Ok((elements.into_array(), scales.into_array(), from_end))
}

#[pyfunction]
#[pyo3(signature = (x, dtype, out, /))]
pub(crate) fn dequantize_mx<'py>(
    x: PartsGiven<'py>,
    dtype: &Bound<'py, PyAny>,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = dtype.py();
    let mut x = MxInput::new(["elements", "scales"], &x)?;
    let format = dtype::parse("dtype", dtype, "float32, bfloat16, float16")?;
    let shape = x.elements.shape().to_vec();
    let descr = dtype::descr_of(py, format)?;
    let mut output = Output::resolve("out", out, descr, &shape, &mut [&mut x.elements, &mut x.scales])?;
    let (view, destination) = (x.view()?, output.array_mut(format)?);
    door::run(py, || trn3_numerics::dequantize_mx(&view, destination))?;
    Ok(output.into_array())
}
