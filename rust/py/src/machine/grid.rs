//! Grids of elements, as arrays of NumPy in C order.

use numpy::{Element, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use trn3_machine::view::grid;

use crate::door;

type Array<'py, T> = PyReadonlyArrayDyn<'py, T>;

/// Start and stop along each axis.
type Sides = Vec<(usize, usize)>;

fn slices<'a, T: Element>(arrays: &'a [Array<'_, T>]) -> PyResult<Vec<&'a [T]>> {
    arrays.iter().map(|array| Ok(array.as_slice()?)).collect()
}

/// The first number and the steps along each axis; None if there are no such steps.
#[pyfunction]
fn even_steps(numbers: Array<'_, i64>) -> PyResult<Option<(i64, Vec<i64>)>> {
    Ok(grid::even_steps(numbers.shape(), numbers.as_slice()?))
}

/// Rectangles that together hold the grid's elements where a mask is true; (start, stop) along each axis.
#[pyfunction]
fn boxes(
    py: Python<'_>,
    shape: Vec<usize>,
    mask: Option<Array<'_, bool>>,
    even: Vec<Array<'_, i64>>,
    constant: Vec<Array<'_, i64>>,
) -> PyResult<Vec<Sides>> {
    let (even, constant) = (slices(&even)?, slices(&constant)?);
    let mask = mask.as_ref().map(|mask| mask.as_slice()).transpose()?;
    let found = door::compute(py, || grid::boxes(&shape, mask, &even, &constant))?;
    Ok(found.into_iter().map(|sides| sides.into_iter().map(|side| (side.start, side.end)).collect()).collect())
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(boxes, module)?)?;
    module.add_function(wrap_pyfunction!(even_steps, module)?)
}
