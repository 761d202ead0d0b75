//! Binding of the generator: the object that `trn3.numerics.Xorwow` holds.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use numpy::PyUntypedArray;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use trn3_numerics::{Result, Xorwow};

use crate::array::{Output, Words, tuple};
use crate::{arguments, door};

/// More draws of a lane than memory holds; jumps go further.
const MOST_DRAWS: i128 = i64::MAX as i128;

thread_local! {
    /// Its address tells threads apart.
    static THREAD: u8 = const { 0 };
}

fn this_thread() -> usize {
    THREAD.with(|thread| std::ptr::from_ref(thread) as usize)
}

/// The generators, and a lock that makes each call one step for all threads.
#[pyclass(frozen, module = "trn3._trn3", name = "XorwowCore")]
pub(crate) struct XorwowCore {
    xorwow: Mutex<Xorwow>,
    /// Which thread holds the lock; 0 for none.
    holder: AtomicUsize,
}

impl XorwowCore {
    fn new(xorwow: Xorwow) -> Self {
        Self { xorwow: Mutex::new(xorwow), holder: AtomicUsize::new(0) }
    }

    /// Refuses a call from a signal handler that interrupted a call of the same generators on the same thread: it would
    /// wait for itself.
    pub(crate) fn check_free(&self) -> PyResult<()> {
        if self.holder.load(Ordering::Relaxed) == this_thread() {
            return Err(PyRuntimeError::new_err("this Xorwow is in the middle of the call that was interrupted"));
        }
        Ok(())
    }

    /// Runs `work` while no other thread uses the generators. Called detached, after [`Self::check_free`].
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut Xorwow) -> R) -> R {
        struct Release<'a>(&'a AtomicUsize);
        impl Drop for Release<'_> {
            fn drop(&mut self) {
                self.0.store(0, Ordering::Relaxed);
            }
        }
        let mut xorwow = self.xorwow.lock().unwrap_or_else(PoisonError::into_inner);
        self.holder.store(this_thread(), Ordering::Relaxed);
        let _release = Release(&self.holder);
        work(&mut xorwow)
    }

    fn call<R: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut Xorwow) -> Result<R> + Send) -> PyResult<R> {
        self.check_free()?;
        door::run(py, || self.with(work))
    }

    fn lanes(&self, py: Python<'_>) -> PyResult<usize> {
        self.call(py, |xorwow| Ok(xorwow.lanes()))
    }
}

fn state_words<'py>(state: &Bound<'py, PyAny>) -> PyResult<(Words<'py, u32>, [usize; 2])> {
    let words = Words::<u32>::new("state", state, "a uint32 array")?;
    match *words.shape() {
        [lanes, words_per_lane @ (6 | 24)] => Ok((words, [lanes, words_per_lane])),
        ref shape => {
            let text = format!("state has shape {}; it must have shape (lanes, 6) or (lanes, 24)", tuple(shape));
            Err(PyValueError::new_err(text))
        }
    }
}

#[pymethods]
impl XorwowCore {
    #[staticmethod]
    #[pyo3(signature = (state, /))]
    fn from_state(py: Python<'_>, state: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (state, [lanes, words_per_lane]) = state_words(state)?;
        let words = state.as_slice();
        door::run(py, || Xorwow::from_state(words, lanes, words_per_lane)).map(Self::new)
    }

    #[staticmethod]
    #[pyo3(signature = (seed, lanes, generators, /))]
    fn seed(
        py: Python<'_>,
        seed: &Bound<'_, PyAny>,
        lanes: &Bound<'_, PyAny>,
        generators: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let seed = arguments::integer("seed", seed, 0, u64::MAX.into())? as u64;
        let lanes = arguments::integer("lanes", lanes, 1, MOST_DRAWS)? as usize;
        let generators = match arguments::integer("generators", generators, 1, 4) {
            Ok(count @ (1 | 4)) => count as usize,
            Err(error) if !error.is_instance_of::<PyValueError>(py) => return Err(error),
            _ => return Err(arguments::refused("generators", generators, "1, 4")),
        };
        door::run(py, || Xorwow::seed(seed, lanes, generators)).map(Self::new)
    }

    #[pyo3(signature = (n, out, /))]
    fn uint32<'py>(
        &self,
        n: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyUntypedArray>> {
        let py = n.py();
        let n = arguments::integer("n", n, 0, MOST_DRAWS)? as usize;
        let shape = [self.lanes(py)?, n];
        let mut output = Output::resolve("out", out, numpy::dtype::<u32>(py), &shape, &mut [])?;
        let words = output.words_mut()?;
        self.call(py, |xorwow| xorwow.uint32(n, words))?;
        Ok(output.into_array())
    }

    #[pyo3(signature = (n, low, high, /))]
    fn uniform<'py>(
        &self,
        n: &Bound<'py, PyAny>,
        low: &Bound<'py, PyAny>,
        high: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyUntypedArray>> {
        let py = n.py();
        let n = arguments::integer("n", n, 0, MOST_DRAWS)? as usize;
        let (low, high) = (arguments::float32("low", low)?, arguments::float32("high", high)?);
        let mut output = Output::allocate(numpy::dtype::<f32>(py), &[self.lanes(py)?, n])?;
        let values = output.words_mut()?;
        self.call(py, |xorwow| xorwow.uniform(n, low, high, values))?;
        Ok(output.into_array())
    }

    #[pyo3(signature = (n, /))]
    fn jump(&self, n: &Bound<'_, PyAny>) -> PyResult<()> {
        let draws = arguments::integer("n", n, 0, u64::MAX.into())? as u64;
        self.call(n.py(), |xorwow| xorwow.jump(draws))
    }

    fn copy(&self, py: Python<'_>) -> PyResult<Self> {
        self.call(py, |xorwow| Ok(xorwow.clone())).map(Self::new)
    }

    #[pyo3(signature = (other, /))]
    fn equals(&self, py: Python<'_>, other: &Bound<'_, Self>) -> PyResult<bool> {
        // One lock at a time: two threads that compare the same pair must not wait for each other.
        let other = other.get().call(py, |xorwow| Ok(xorwow.clone()))?;
        self.call(py, |xorwow| Ok(*xorwow == other))
    }

    /// uint32 [lanes, 6 x generators], a copy.
    #[getter]
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyUntypedArray>> {
        let (state, lanes) = self.call(py, |xorwow| Ok((xorwow.state().to_vec(), xorwow.lanes())))?;
        let mut output = Output::allocate(numpy::dtype::<u32>(py), &[lanes, state.len() / lanes])?;
        output.words_mut()?.copy_from_slice(&state);
        Ok(output.into_array())
    }

    #[setter]
    fn set_state(&self, py: Python<'_>, state: &Bound<'_, PyAny>) -> PyResult<()> {
        let (state, came) = state_words(state)?;
        let shape = self.call(py, |xorwow| Ok([xorwow.lanes(), xorwow.state().len() / xorwow.lanes()]))?;
        if came != shape {
            let (came, shape) = (tuple(&came), tuple(&shape));
            let text = format!("state has shape {came}; it must have shape {shape}, as these generators have");
            return Err(PyValueError::new_err(text));
        }
        let words = state.as_slice();
        self.call(py, |xorwow| xorwow.set_state(words))
    }

    /// Which generator of each lane draws next.
    #[getter]
    fn phase(&self, py: Python<'_>) -> PyResult<usize> {
        self.call(py, |xorwow| Ok(xorwow.phase()))
    }

    #[setter]
    fn set_phase(&self, py: Python<'_>, phase: &Bound<'_, PyAny>) -> PyResult<()> {
        let phase = arguments::integer("phase", phase, 0, 3)? as usize;
        self.call(py, |xorwow| xorwow.set_phase(phase))
    }
}
