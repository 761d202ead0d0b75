//! The argument `rng`: where stochastic rounding takes its draws from.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use trn3_numerics::Draws;

use crate::array::{Held, Words, tuple};

/// Nothing, or one uint32 draw an element.
pub(crate) struct Rng<'py> {
    words: Option<Words<'py, u32>>,
}

impl<'py> Rng<'py> {
    /// The argument; draws must have the shape given.
    pub(crate) fn new(came: &Bound<'py, PyAny>, shape: &[usize]) -> PyResult<Self> {
        if came.is_none() {
            return Ok(Self { words: None });
        }
        let words = Words::<u32>::new("rng", came, "a uint32 array of one draw an element")?;
        if words.shape() != shape {
            let (came, shape) = (tuple(words.shape()), tuple(shape));
            return Err(PyValueError::new_err(format!("rng has shape {came}; it must have shape {shape}")));
        }
        Ok(Self { words: Some(words) })
    }

    /// What outputs must not overlap.
    pub(crate) fn held(&mut self) -> Vec<&mut dyn Held<'py>> {
        self.words.iter_mut().map(|words| words as &mut dyn Held<'py>).collect()
    }

    /// What the core draws from.
    pub(crate) fn draws(&self) -> Draws<'_> {
        self.words.as_ref().map_or(Draws::None, |words| Draws::Given(words.as_slice()))
    }
}
