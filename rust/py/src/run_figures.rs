//! Binding of the figures of a run: what `trn3.profile.Profile` is made of.

use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use trn3_profile::{ENGINES, Profile, TABLES, TableColumn};

use crate::door;
use crate::profile::PyProfile;
use crate::value::to_python;

/// Adds the class to the submodule `profile`.
pub(crate) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    parent.getattr("profile")?.cast::<PyModule>()?.add_class::<Figures>()
}

/// Figures of a run, without files and pictures.
#[pyclass(frozen, subclass, module = "trn3._trn3.profile")]
pub(crate) struct Figures {
    profile: Profile,
}

#[pymethods]
impl Figures {
    #[new]
    #[pyo3(signature = (run, /))]
    fn new(run: &Bound<'_, PyProfile>) -> Self {
        Self { profile: run.get().profile.clone() }
    }

    /// Length of the busy window, in microseconds.
    #[getter]
    fn latency_us(&self) -> f64 {
        self.profile.latency_us()
    }

    /// From which latency on the hardware's is expected, in microseconds: `latency_us` less what the figures that it rests
    /// on may be off. None of records that do not say what their time rests on.
    #[getter]
    fn latency_low_us(&self) -> Option<f64> {
        self.profile.latency_low_us()
    }

    /// Up to which latency the hardware's is expected, in microseconds; None as with `latency_low_us`.
    #[getter]
    fn latency_high_us(&self) -> Option<f64> {
        self.profile.latency_high_us()
    }

    /// What starting and ending a kernel costs beside the latency, in microseconds.
    #[getter]
    fn overhead_us(&self) -> f64 {
        self.profile.overhead_us()
    }

    /// Multiply-accumulate operations of all matmuls.
    #[getter]
    fn macs(&self) -> u64 {
        self.profile.macs()
    }

    /// Bytes that DMA instructions moved.
    #[getter]
    fn dma_bytes(&self) -> u64 {
        self.profile.dma_bytes()
    }

    /// Bytes read from HBM.
    #[getter]
    fn hbm_read_bytes(&self) -> u64 {
        self.profile.hbm_read_bytes()
    }

    /// Bytes written to HBM.
    #[getter]
    fn hbm_write_bytes(&self) -> u64 {
        self.profile.hbm_write_bytes()
    }

    /// The most bytes of an SBUF partition in use at a time, of any core.
    #[getter]
    fn sbuf_peak_bytes(&self) -> u64 {
        self.profile.sbuf_peak_bytes()
    }

    /// The most bytes of a PSUM partition in use at a time, of any core.
    #[getter]
    fn psum_peak_bytes(&self) -> u64 {
        self.profile.psum_peak_bytes()
    }

    /// How long all matmuls would take at the peak of their element types, in microseconds.
    ///
    /// Of several cores, shared evenly by them.
    #[getter]
    fn ideal_matmul_us(&self) -> f64 {
        self.profile.ideal_matmul_us()
    }

    /// Model FLOPs utilisation: `ideal_matmul_us` as part of the latency.
    #[getter]
    fn mfu(&self) -> f64 {
        self.profile.mfu()
    }

    /// Memory bandwidth utilisation: HBM bytes as part of what HBM gives in the latency.
    #[getter]
    fn mbu(&self) -> f64 {
        self.profile.mbu()
    }

    /// Bytes moved as part of what DMA engines at work could move; None without transfers.
    #[getter]
    fn dma_efficiency(&self) -> Option<f64> {
        self.profile.dma_efficiency()
    }

    /// FLOP of matmuls per byte of HBM traffic; infinite without traffic, 0 without matmuls.
    #[getter]
    fn arithmetic_intensity(&self) -> f64 {
        self.profile.arithmetic_intensity()
    }

    /// What part of the latency a DMA engine moved bytes, as the mean over all of them, from 0 to 1.
    #[getter]
    fn dma_mean_busy_share(&self) -> f64 {
        self.profile.dma_mean_busy_share()
    }

    /// How long each DMA engine moved bytes, in microseconds: those of core 0 first.
    #[getter]
    fn dma_engine_us<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_vec(py, self.profile.dma_engine_us())
    }

    /// How much of the critical path each engine holds, on whichever core, in microseconds.
    #[getter]
    fn critical_engine_us<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (engine, time) in ENGINES.iter().zip(self.profile.critical_engine_us()) {
            dict.set_item(engine, time)?;
        }
        Ok(dict)
    }

    /// What the compiler made of the run, of several cores of the one that ends last.
    ///
    /// A dict: ``level``; ``as_written_us``, what it takes without compiler, None where it does not fit;
    /// ``compiled_us``, the latency; ``bound_us``, the longer of the critical path and the busiest engine, None as
    /// written; ``spilled_bytes``; ``passes``, the name and the counts of each.
    #[getter]
    fn compile<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.profile.compile())
    }

    /// What would make the run faster, the largest gain first: at most five changes, each timed on the run's graph.
    ///
    /// A list of dicts: ``gain``, how many times as fast the run is with it alone; ``line``, ``file:line``;
    /// ``instruction``, the first that it is about; ``cause``; ``text``, all of it in a sentence; ``change``, what to
    /// write otherwise. Values stay as they are. Of several cores it is of the one that ends last. It is looked for when
    /// it is first asked for.
    #[getter]
    fn advice<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &door::compute(py, || self.profile.advice())?)
    }

    /// Why there is no advice: ``"nothing above 2 %"``, or why nothing was looked for; empty where there is some.
    #[getter]
    fn advice_note(&self, py: Python<'_>) -> PyResult<String> {
        door::compute(py, || self.profile.advice_note().to_owned())
    }

    /// What the run would take if its busiest engine never stood idle, None of one that took no time.
    ///
    /// A dict: ``engine``; ``latency_us``; ``share``, that as part of the latency; ``text``, both in words.
    #[getter]
    fn speed_of_light<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.profile.speed_of_light())
    }

    /// Return in plain words what binds the kernel and what to look at first.
    fn verdict(&self) -> String {
        self.profile.verdict()
    }

    /// Return every figure as plain data, with units in the names; what is infinite is None.
    ///
    /// Of several cores, ``cores`` has those of each.
    fn figures<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &door::compute(py, || self.profile.figures())?)
    }

    /// Return one of `tables` by its name.
    ///
    /// Raises
    /// ------
    /// ValueError
    ///     If there is no table of this name.
    #[pyo3(signature = (name="Instruction"))]
    fn table<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDict>> {
        let Some(table) = door::compute(py, || self.profile.table(name))? else {
            let allowed = TABLES.join(", ");
            return Err(PyValueError::new_err(format!("table is {name:?}, must be one of {allowed}")));
        };
        let dict = PyDict::new(py);
        for (name, column) in table.columns {
            match column {
                TableColumn::Integers(values) => dict.set_item(name, PyArray1::from_vec(py, values))?,
                TableColumn::Floats(values) => dict.set_item(name, PyArray1::from_vec(py, values))?,
                TableColumn::Names { names, places } => {
                    let names = PyTuple::new(py, names)?;
                    let text = |place: u32| Ok(names.get_item(place as usize)?.unbind());
                    let texts = places.into_iter().map(text).collect::<PyResult<Vec<Py<PyAny>>>>()?;
                    dict.set_item(name, PyArray1::from_vec(py, texts))?;
                }
            }
        }
        Ok(dict)
    }
}
