//! Words of instructions as kernels spell them: the word itself, a token that means it, a member of an enum.

use std::sync::{PoisonError, RwLock};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyType};

/// What sort of word is meant.
#[derive(Clone, Copy)]
pub(crate) enum Sort {
    /// An operator or an activation function of `nki.language`.
    Operator,
    /// A member of `nki.isa.engine`.
    Engine,
    /// A member of `nki.isa.reduce_cmd`.
    ReduceCommand,
    /// A member of `nki.isa.oob_mode`.
    OutOfBounds,
    /// A member of `nki.isa.dge_mode`.
    DescriptorMode,
}

/// Every sort, by the name that [`spell`] takes.
const SORTS: [&str; 5] = ["op", "engine", "reduce_cmd", "oob_mode", "dge_mode"];

/// How a front end spells the words of a sort.
struct Spelling {
    /// Tokens and the words that they mean, or the enum whose members are called as the words.
    known: Py<PyAny>,
    /// `(given, argument) -> word`, for whatever else comes; it refuses what means no word.
    other: Py<PyAny>,
}

static SPELLINGS: [RwLock<Option<Spelling>>; SORTS.len()] = [const { RwLock::new(None) }; SORTS.len()];

/// Says how the words of a sort are spelt: `known` is a dict of tokens or an enum, `other(given, argument)` returns the word
/// of whatever else comes. Until then a word is its own and only spelling.
#[pyfunction]
fn spell(sort: &str, known: Bound<'_, PyAny>, other: Py<PyAny>) -> PyResult<()> {
    let Some(number) = SORTS.iter().position(|each| *each == sort) else {
        return Err(PyValueError::new_err(format!("sort is {sort}; allowed: {}", SORTS.join(", "))));
    };
    if !known.is_instance_of::<PyDict>() && !known.is_instance_of::<PyType>() {
        return Err(PyTypeError::new_err("known is neither a dict nor an enum"));
    }
    let spelling = Spelling { known: known.unbind(), other };
    *SPELLINGS[number].write().unwrap_or_else(PoisonError::into_inner) = Some(spelling);
    Ok(())
}

/// What a word means that came for an argument.
#[inline]
pub(crate) fn meant<T>(
    sort: Sort,
    argument: &'static str,
    given: &Bound<'_, PyAny>,
    parse: impl Fn(&str) -> PyResult<T>,
) -> PyResult<T> {
    let word = given.cast_exact::<PyString>().ok();
    let as_it_is = word.map(|word| parse(word.to_str()?));
    if let Some(Ok(value)) = as_it_is {
        return Ok(value);
    }
    let py = given.py();
    let held = SPELLINGS[sort as usize].read().unwrap_or_else(PoisonError::into_inner);
    let Some(Spelling { known, other }) = &*held else {
        return as_it_is.unwrap_or_else(|| Err(PyTypeError::new_err(format!("{argument} is {given:?}; allowed: str"))));
    };
    let (known, other) = (known.bind(py).clone(), other.bind(py).clone());
    drop(held);
    let found = match known.cast::<PyDict>() {
        // What cannot be hashed is no token.
        Ok(tokens) => tokens.get_item(given).ok().flatten(),
        Err(_) if given.get_type().is(&known) => Some(given.getattr(intern!(py, "_name_"))?),
        Err(_) => None,
    };
    let found = found.map_or_else(|| other.call1((given, argument)), Ok)?;
    parse(found.cast::<PyString>()?.to_str()?)
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(spell, module)?)
}
