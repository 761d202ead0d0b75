//! Grids of elements, as arrays of NumPy in C order.

use numpy::{Element, IntoPyArray, PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use trn3_machine::view::span::{AxisIndex, GridNumbers, NoGrid};
use trn3_machine::view::{grid, span, tuple_text};

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

fn numbers(array: &Array<'_, i64>) -> PyResult<GridNumbers> {
    Ok(GridNumbers { shape: array.shape().to_vec(), values: array.as_slice()?.to_vec() })
}

/// The least number, the greatest, and the first with the steps along each axis if there are such.
#[pyfunction]
fn reach(array: Array<'_, i64>) -> PyResult<(i64, i64, Option<(i64, Vec<i64>)>)> {
    let reach = numbers(&array)?.reach();
    Ok((reach.low, reach.high, reach.steps))
}

/// What an axis is indexed by: an array, or the start, count and step of a run.
#[derive(FromPyObject)]
enum Given<'py> {
    Numbers(Array<'py, i64>),
    Run(i64, i64, i64),
}

type Spanned<'py> = (Vec<usize>, Vec<Bound<'py, PyArrayDyn<i64>>>);

/// The grid that indexes span over the tensor of a name, and each axis' numbers on it.
#[pyfunction]
#[pyo3(signature = (name, indexes, partition))]
fn span_indexes<'py>(
    py: Python<'py>,
    name: &str,
    indexes: Vec<Given<'py>>,
    partition: Option<usize>,
) -> PyResult<Spanned<'py>> {
    let indexes = indexes.iter().map(|index| match *index {
        Given::Numbers(ref array) => numbers(array).map(AxisIndex::Numbers),
        Given::Run(start, count, step) => {
            Ok(AxisIndex::Run((0..count).map(|place| start.wrapping_add(place.wrapping_mul(step))).collect()))
        }
    });
    let indexes = indexes.collect::<PyResult<Vec<_>>>()?;
    let (shape, numbers) = span::span(&indexes, partition).map_err(|refused| {
        PyIndexError::new_err(match refused {
            NoGrid::Shapes(shapes) => {
                let shapes: Vec<String> = shapes.iter().map(|shape| tuple_text(shape)).collect();
                format!("index expressions of shapes {} do not fit together", shapes.join(", "))
            }
            NoGrid::Partitions(axes) => format!(
                "the partition index of tensor `{name}` runs along {axes} axes of the grid unevenly; allowed: along one, \
                 by nl.arange(n)[:, None]"
            ),
        })
    })?;
    let arrays = numbers.into_iter().map(|each| {
        let flat: Bound<'py, PyArray1<i64>> = each.values.into_pyarray(py);
        flat.reshape(each.shape)
    });
    Ok((shape, arrays.collect::<PyResult<_>>()?))
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(boxes, module)?)?;
    module.add_function(wrap_pyfunction!(even_steps, module)?)?;
    module.add_function(wrap_pyfunction!(reach, module)?)?;
    module.add_function(wrap_pyfunction!(span_indexes, module)?)
}
