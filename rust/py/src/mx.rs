//! The arrays of a quantised array.

use numpy::PyUntypedArray;
use pyo3::prelude::*;
use trn3_numerics::MxView;

use crate::array::Input;

pub(crate) const ELEMENTS: &str = "float8_e4m3fn, float8_e5m2, float4_e2m1fn";

/// Elements, scales and axis, which Python counts from the end.
pub(crate) type Parts<'py> = (Bound<'py, PyUntypedArray>, Bound<'py, PyUntypedArray>, isize);

/// The two arrays of a quantised array.
pub(crate) struct MxInput<'py> {
    pub(crate) elements: Input<'py>,
    pub(crate) scales: Input<'py>,
    axis: usize,
}

impl<'py> MxInput<'py> {
    pub(crate) fn new(
        [elements_name, scales_name]: [&'static str; 2],
        (elements, scales, axis): &Parts<'py>,
    ) -> PyResult<Self> {
        let elements = Input::new(elements_name, elements, ELEMENTS)?;
        let axis = elements.shape().len().wrapping_add_signed(*axis);
        Ok(Self { elements, scales: Input::new(scales_name, scales, "float8_e8m0fnu")?, axis })
    }

    pub(crate) fn view(&self) -> PyResult<MxView<'_>> {
        Ok(MxView { elements: self.elements.view()?, scales: self.scales.view()?, axis: self.axis })
    }
}
