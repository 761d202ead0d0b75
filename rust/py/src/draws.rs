//! The argument `rng`: where stochastic rounding takes its draws from.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use trn3_numerics::{Draws, Rounding};

use crate::array::{Held, Words, tuple};
use crate::xorwow::PyXorwow;

const ALLOWED: &str = "an Xorwow, or a uint32 array of one draw for each rounding";

/// What the caller gave.
enum Given<'py> {
    Nothing,
    /// One draw for each rounding, in C order.
    Words(Words<'py, u32>),
    Generators(Bound<'py, PyXorwow>),
}

/// The argument, which goes with stochastic rounding.
pub(crate) struct Rng<'py>(Given<'py>);

/// The same, for the thread that does the work.
#[derive(Clone, Copy)]
pub(crate) enum DrawSource<'a> {
    Nothing,
    Words(&'a [u32]),
    Generators(&'a PyXorwow),
}

impl<'py> Rng<'py> {
    /// The argument, which comes with stochastic rounding and only then; draws must have the shape given.
    pub(crate) fn new(came: Option<&Bound<'py, PyAny>>, rounding: Rounding, shape: &[usize]) -> PyResult<Self> {
        let came = match (came, rounding) {
            (None, Rounding::Nearest | Rounding::Zero) => return Ok(Self(Given::Nothing)),
            (None, Rounding::Stochastic) => {
                let text = format!("rng is missing; rounding='stochastic' needs it: {ALLOWED}");
                return Err(PyValueError::new_err(text));
            }
            (Some(_), Rounding::Nearest | Rounding::Zero) => {
                let text = format!("rng is given with rounding='{}'; only 'stochastic' takes it", rounding.name());
                return Err(PyValueError::new_err(text));
            }
            (Some(came), Rounding::Stochastic) => came,
        };
        if let Ok(generators) = came.cast::<PyXorwow>() {
            generators.get().check_free()?;
            return Ok(Self(Given::Generators(generators.clone())));
        }
        let words = Words::<u32>::new("rng", came, ALLOWED)?;
        if words.shape() != shape {
            let (came, shape) = (tuple(words.shape()), tuple(shape));
            return Err(PyValueError::new_err(format!("rng has shape {came}; it must have shape {shape}")));
        }
        Ok(Self(Given::Words(words)))
    }

    /// What outputs must not overlap.
    pub(crate) fn held(&mut self) -> Vec<&mut dyn Held<'py>> {
        match &mut self.0 {
            Given::Words(words) => vec![words],
            Given::Nothing | Given::Generators(_) => vec![],
        }
    }

    /// Where the work draws from.
    pub(crate) fn source(&self) -> DrawSource<'_> {
        match &self.0 {
            Given::Nothing => DrawSource::Nothing,
            Given::Words(words) => DrawSource::Words(words.as_slice()),
            Given::Generators(generators) => DrawSource::Generators(generators.get()),
        }
    }
}

impl DrawSource<'_> {
    /// Runs `work` with the draws; generators are locked meanwhile. Called detached.
    pub(crate) fn with<R>(self, work: impl FnOnce(Draws<'_>) -> R) -> R {
        match self {
            DrawSource::Nothing => work(Draws::None),
            DrawSource::Words(words) => work(Draws::Given(words)),
            DrawSource::Generators(generators) => generators.with(|xorwow| work(Draws::Xorwow(xorwow))),
        }
    }
}
