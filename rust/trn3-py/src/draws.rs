//! The argument `rng`: where stochastic rounding takes its draws from.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use trn3_numerics::{Draws, Rounding};

use crate::array::{Held, Words, tuple};

const ALLOWED: &str = "an Xorwow, or a uint32 array of one draw for each rounding";

/// Nothing, or one uint32 draw for each rounding.
pub(crate) struct Rng<'py> {
    words: Option<Words<'py, u32>>,
}

impl<'py> Rng<'py> {
    /// The argument, which comes with stochastic rounding and only then; draws must have the shape given.
    pub(crate) fn new(came: &Bound<'py, PyAny>, rounding: Rounding, shape: &[usize]) -> PyResult<Self> {
        match (came.is_none(), rounding) {
            (true, Rounding::Nearest | Rounding::Zero) => return Ok(Self { words: None }),
            (true, Rounding::Stochastic) => {
                let text = format!("rng is missing; rounding='stochastic' needs it: {ALLOWED}");
                return Err(PyValueError::new_err(text));
            }
            (false, Rounding::Nearest | Rounding::Zero) => {
                let text = format!("rng is given with rounding='{}'; only 'stochastic' takes it", rounding.name());
                return Err(PyValueError::new_err(text));
            }
            (false, Rounding::Stochastic) => {}
        }
        let words = Words::<u32>::new("rng", came, ALLOWED)?;
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
