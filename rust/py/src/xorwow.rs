//! Binding of the generator.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use numpy::PyUntypedArray;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyType;
use trn3_numerics::{Result, Xorwow};

use crate::arguments::Given;
use crate::array::{Output, Words, tuple};
use crate::{arguments, door};

/// More draws of a lane than memory holds; jumps go further.
const MOST_DRAWS: i128 = i64::MAX as i128;
/// Lanes of the hardware, one for each partition.
const LANES: i128 = 128;

thread_local! {
    /// Its address tells threads apart.
    static THREAD: u8 = const { 0 };
}

fn this_thread() -> usize {
    THREAD.with(|thread| std::ptr::from_ref(thread) as usize)
}

/// The hardware's random number generator: XORWOW, one or four generators in each lane.
///
/// A generator is Marsaglia's xorwow, as in cuRAND: five xorshift words and a Weyl counter that
/// advances by 362437 a draw; the draw is the sum of the counter and the newest word. In a lane
/// with four generators, draw i comes from generator i mod 4, and a call goes on where the last one
/// stopped.
///
/// Generators are equal if their states and phases are. They can be copied and pickled, and may be
/// used from several threads: each call is one step.
///
/// Parameters
/// ----------
/// state : uint32 array, [lanes, 6] or [lanes, 24]
///     The words of each lane's generators, copied. In a lane of 24, generator g owns words 6 g to
///     6 g + 5. The last of six words is the counter; the other five must not all be zero.
///
/// Raises
/// ------
/// TypeError
///     If `state` is no uint32 array.
/// ValueError
///     If it has another shape, or five xorshift words are all zero.
///
/// See Also
/// --------
/// Xorwow.seed : Generators of a number instead of a state.
///
/// Examples
/// --------
/// >>> import numpy as np
/// >>> from trn3.numerics import Xorwow
/// >>> words = [123456789, 362436069, 521288629, 88675123, 5783321, 6615241]
/// >>> rng = Xorwow(np.array([words], dtype=np.uint32))
/// >>> rng.uint32(3).tolist()
/// [[246875399, 3690007200, 1264581005]]
#[pyclass(frozen, module = "trn3.numerics", name = "Xorwow")]
pub(crate) struct PyXorwow {
    /// Locked, so that each call is one step for all threads.
    xorwow: Mutex<Xorwow>,
    /// Which thread holds the lock; 0 for none.
    holder: AtomicUsize,
}

impl PyXorwow {
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

/// The words and the phase of generators, for pickle.
type Reduced<'py> = (Bound<'py, PyUntypedArray>, usize);

fn words_array<'py>(py: Python<'py>, words: &[u32], lanes: usize) -> PyResult<Bound<'py, PyUntypedArray>> {
    let mut output = Output::allocate(numpy::dtype::<u32>(py), &[lanes, words.len() / lanes])?;
    output.words_mut()?.copy_from_slice(words);
    Ok(output.into_array())
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
impl PyXorwow {
    #[new]
    fn from_state(py: Python<'_>, state: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (state, [lanes, words_per_lane]) = state_words(state)?;
        let words = state.as_slice();
        door::run(py, || Xorwow::from_state(words, lanes, words_per_lane)).map(Self::new)
    }

    /// Make generators of a number.
    ///
    /// Parameters
    /// ----------
    /// seed : int
    ///     From 0 to 2**64 - 1.
    /// lanes : int, optional
    ///     At least 1; the hardware has one for each of its 128 partitions.
    /// generators : {1, 4}, optional
    ///     Generators in each lane: the GpSimd engine has 1, the Vector engine 4.
    ///
    /// Returns
    /// -------
    /// Xorwow
    ///
    /// Raises
    /// ------
    /// TypeError
    ///     If an argument is no whole number.
    /// ValueError
    ///     If one is out of its range.
    /// MemoryError
    ///     If the states of so many lanes do not fit.
    ///
    /// Notes
    /// -----
    /// Model choice: the states are filled by one splitmix64 stream, each output giving two words,
    /// low half first, in the order of lanes, generators and words. How the hardware expands a seed
    /// is not documented.
    ///
    /// Examples
    /// --------
    /// >>> from trn3.numerics import Xorwow
    /// >>> Xorwow.seed(2026, lanes=2)
    /// Xorwow(lanes=2, generators=1)
    #[classmethod]
    #[pyo3(
        signature = (seed, lanes=Given::NOTHING, generators=Given::NOTHING),
        text_signature = "($cls, seed, lanes=128, generators=1)"
    )]
    fn seed(
        cls: &Bound<'_, PyType>,
        seed: &Bound<'_, PyAny>,
        lanes: Given<'_>,
        generators: Given<'_>,
    ) -> PyResult<Self> {
        let py = cls.py();
        let seed = arguments::integer("seed", seed, 0, u64::MAX.into())? as u64;
        let lanes = lanes.read(|came| arguments::integer("lanes", came, 1, MOST_DRAWS), LANES)? as usize;
        let one_or_four = |came: &Bound<'_, PyAny>| match arguments::integer("generators", came, 1, 4) {
            Ok(count @ (1 | 4)) => Ok(count as usize),
            Err(error) if !error.is_instance_of::<PyValueError>(py) => Err(error),
            _ => Err(arguments::refused("generators", came, "1, 4")),
        };
        let generators = generators.read(one_or_four, 1)?;
        door::run(py, || Xorwow::seed(seed, lanes, generators)).map(Self::new)
    }

    /// Return the next draws of each lane.
    ///
    /// Parameters
    /// ----------
    /// n : int
    ///     How many of each lane.
    /// out : uint32 array, [lanes, n], optional
    ///     Where to write them, C-contiguous.
    ///
    /// Returns
    /// -------
    /// uint32 array, [lanes, n]
    ///     `out` itself if it was given.
    ///
    /// Raises
    /// ------
    /// TypeError
    ///     If `n` is no whole number or `out` no uint32 array.
    /// ValueError
    ///     If `n` is negative or `out` has another shape or layout.
    ///
    /// Examples
    /// --------
    /// >>> from trn3.numerics import Xorwow
    /// >>> Xorwow.seed(1, lanes=2).uint32(2).tolist()
    /// [[2926151520, 799748156], [2995141407, 1848907584]]
    #[pyo3(signature = (n, *, out=None))]
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

    /// Return numbers between two bounds, made of the next draws of each lane.
    ///
    /// Parameters
    /// ----------
    /// n : int
    ///     How many of each lane.
    /// low, high : float, optional
    ///     The bounds, rounded to float32.
    ///
    /// Returns
    /// -------
    /// float32 array, [lanes, n]
    ///
    /// Raises
    /// ------
    /// TypeError
    ///     If `n` is no whole number or a bound no number.
    /// ValueError
    ///     If `n` is negative, or a bound or their difference is not finite.
    ///
    /// Notes
    /// -----
    /// Model choice: a draw r gives ``low + (high - low) * ((r >> 8) * 2**-24)``, each operation
    /// rounded to float32. The hardware's mapping is not documented.
    ///
    /// Examples
    /// --------
    /// >>> from trn3.numerics import Xorwow
    /// >>> print(Xorwow.seed(1, lanes=1).uniform(3, low=-1))
    /// [[ 0.36259544 -0.6275883   0.46583772]]
    #[pyo3(signature = (n, low=Given::NOTHING, high=Given::NOTHING), text_signature = "($self, n, low=0.0, high=1.0)")]
    fn uniform<'py>(
        &self,
        n: &Bound<'py, PyAny>,
        low: Given<'py>,
        high: Given<'py>,
    ) -> PyResult<Bound<'py, PyUntypedArray>> {
        let py = n.py();
        let n = arguments::integer("n", n, 0, MOST_DRAWS)? as usize;
        let low = low.read(|came| arguments::float32("low", came), 0.0)?;
        let high = high.read(|came| arguments::float32("high", came), 1.0)?;
        let mut output = Output::allocate(numpy::dtype::<f32>(py), &[self.lanes(py)?, n])?;
        let values = output.words_mut()?;
        self.call(py, |xorwow| xorwow.uniform(n, low, high, values))?;
        Ok(output.into_array())
    }

    /// Take every lane a number of draws ahead, in time that grows with its logarithm.
    ///
    /// Parameters
    /// ----------
    /// n : int
    ///     From 0 to 2**64 - 1.
    ///
    /// Raises
    /// ------
    /// TypeError
    ///     If `n` is no whole number.
    /// ValueError
    ///     If it is out of its range.
    ///
    /// Examples
    /// --------
    /// >>> from trn3.numerics import Xorwow
    /// >>> far, near = Xorwow.seed(1), Xorwow.seed(1)
    /// >>> far.jump(1000)
    /// >>> _ = near.uint32(1000)
    /// >>> far == near
    /// True
    fn jump(&self, n: &Bound<'_, PyAny>) -> PyResult<()> {
        let draws = arguments::integer("n", n, 0, u64::MAX.into())? as u64;
        self.call(n.py(), |xorwow| xorwow.jump(draws))
    }

    fn __copy__(&self, py: Python<'_>) -> PyResult<Self> {
        self.call(py, |xorwow| xorwow.try_clone()).map(Self::new)
    }

    fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.__copy__(py)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Reduced<'py>)> {
        let (state, lanes, phase) =
            self.call(py, |xorwow| Ok((xorwow.copied_state()?, xorwow.lanes(), xorwow.phase())))?;
        let restore = py.get_type::<Self>().getattr("_restored")?;
        Ok((restore, (words_array(py, &state, lanes)?, phase)))
    }

    #[staticmethod]
    fn _restored(py: Python<'_>, state: &Bound<'_, PyAny>, phase: usize) -> PyResult<Self> {
        let restored = Self::from_state(py, state)?;
        restored.call(py, |xorwow| xorwow.set_phase(phase))?;
        Ok(restored)
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let Ok(other) = other.cast::<Self>() else { return Ok(py.NotImplemented()) };
        // One lock at a time: two threads that compare the same pair must not wait for each other.
        let other = other.get().call(py, |xorwow| xorwow.try_clone())?;
        let equal = self.call(py, |xorwow| Ok(*xorwow == other))?;
        equal.into_py_any(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (lanes, words) = self.call(py, |xorwow| Ok((xorwow.lanes(), xorwow.state().len() / xorwow.lanes())))?;
        Ok(format!("Xorwow(lanes={lanes}, generators={})", words / 6))
    }

    /// The words of each lane, [lanes, 6] or [lanes, 24], a copy.
    ///
    /// It can be set to words of the same shape, under the rules for `Xorwow`; the phase is then 0.
    #[getter]
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyUntypedArray>> {
        let (state, lanes) = self.call(py, |xorwow| Ok((xorwow.copied_state()?, xorwow.lanes())))?;
        words_array(py, &state, lanes)
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

    /// Which generator of each lane draws next: 0 to 3, always 0 where a lane has one.
    #[getter]
    fn phase(&self, py: Python<'_>) -> PyResult<usize> {
        self.call(py, |xorwow| Ok(xorwow.phase()))
    }
}
