//! core_barrier and sendrecv: each core hands in its part; once all are there, they run together.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use trn3_machine::core::{At, NeuronCore};
use trn3_machine::isa::exchange::SendRecv;
use trn3_machine::joint::{self, Joint};
use trn3_machine::meeting::{self, Part};
use trn3_machine::site::SiteId;

use crate::machine::core::{CoreStep, PyCore, together};
use crate::machine::instruction::PyInstruction;
use crate::machine::operand::{engine, tensor};

/// One core's part of an instruction that cores run together.
#[pyclass(frozen, module = "trn3._trn3", name = "Arrival")]
pub(crate) struct Arrival {
    core: Py<PyCore>,
    part: Joint,
    site: SiteId,
    /// The kernel line that called, as `file:line`.
    #[pyo3(get)]
    line: String,
    name: Option<String>,
}

impl Arrival {
    fn new(core: &Bound<'_, PyCore>, part: Joint, name: Option<String>) -> PyResult<Self> {
        let (site, line) = core.get().with(core.py(), |core, _| {
            part.instruction().check(core.arch())?;
            Ok((core.state.site, core.sites.text(core.state.site)))
        })?;
        Ok(Self { core: core.clone().unbind(), part, site, line, name })
    }
}

#[pymethods]
impl Arrival {
    /// Makes what an exchange fills unwritten: the core goes on before it has taken place.
    fn forget(&self, py: Python<'_>) -> PyResult<()> {
        self.core.bind(py).get().at(py, self.site, |core| self.part.forget(core))
    }
}

/// One core's part of a barrier.
#[pyfunction]
#[pyo3(
    signature = (core, data, engine=Some("gpsimd"), name=None),
    text_signature = "(core, data, engine=\"gpsimd\", name=None)"
)]
fn core_barrier(
    core: &Bound<'_, PyCore>,
    data: &Bound<'_, PyAny>,
    engine: Option<&str>,
    name: Option<String>,
) -> PyResult<Arrival> {
    let data = tensor("core_barrier", "data", data)?.clone();
    Arrival::new(core, Joint::barrier(data, self::engine(engine)?), name)
}

/// One core's part of an exchange of tiles.
#[pyfunction]
#[pyo3(signature = (core, src, dst, dma_engine="dma", name=None))]
fn sendrecv(
    core: &Bound<'_, PyCore>,
    src: &Bound<'_, PyAny>,
    dst: &Bound<'_, PyAny>,
    dma_engine: &str,
    name: Option<String>,
) -> PyResult<Arrival> {
    let (src, dst) = (tensor("sendrecv", "src", src)?.clone(), tensor("sendrecv", "dst", dst)?.clone());
    Arrival::new(core, Joint::Exchange(SendRecv { src, dst, by_gpsimd: dma_engine == "gpsimd_dma" }), name)
}

/// The lines of the kernels that have come.
fn lines(arrivals: &[PyRef<'_, Arrival>]) -> String {
    arrivals.iter().map(|arrival| arrival.line.as_str()).collect::<Vec<_>>().join(" and ")
}

/// Runs the parts of all cores together, in the order of their cores; a list of handles, one a core.
#[pyfunction]
fn meet(py: Python<'_>, arrivals: Vec<PyRef<'_, Arrival>>) -> PyResult<Vec<PyInstruction>> {
    let owners: Vec<&PyCore> = arrivals.iter().map(|arrival| arrival.core.bind(py).get()).collect();
    let names: Vec<Option<&str>> = arrivals.iter().map(|arrival| arrival.name.as_deref()).collect();
    let came: Vec<(&Joint, SiteId)> = arrivals.iter().map(|arrival| (&arrival.part, arrival.site)).collect();
    let run = |cores: Vec<&mut NeuronCore>, after: &[Vec<u32>]| {
        let parts = cores.into_iter().zip(&came).enumerate().map(|(number, (core, &(instruction, site)))| Part {
            core,
            instruction,
            at: At { site, label: names[number], after: &after[number] },
        });
        joint::meet(parts.collect())
    };
    let steps: Vec<_> = arrivals.iter().map(|arrival| Some(CoreStep::Part(&arrival.part))).collect();
    let ids = together(py, &owners, &names, &steps, &lines(&arrivals), run)?;
    Ok(arrivals.iter().zip(ids).map(|(arrival, id)| PyInstruction { core: arrival.core.clone_ref(py), id }).collect())
}

/// Makes what each core did before come before what any does from here on: the end of a run.
#[pyfunction]
fn synchronise(py: Python<'_>, cores: Vec<Py<PyCore>>) -> PyResult<()> {
    let owners: Vec<&PyCore> = cores.iter().map(|core| core.bind(py).get()).collect();
    if owners.is_empty() {
        return Err(PyValueError::new_err("cores is empty; allowed: one core or more"));
    }
    let (names, calls) = (vec![None; owners.len()], vec![None; owners.len()]);
    together(py, &owners, &names, &calls, "", |mut cores, _| {
        meeting::synchronise(&mut cores)?;
        Ok::<_, trn3_machine::Error>(vec![0; cores.len()])
    })?;
    Ok(())
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Arrival>()?;
    module.add_function(wrap_pyfunction!(core_barrier, module)?)?;
    module.add_function(wrap_pyfunction!(sendrecv, module)?)?;
    module.add_function(wrap_pyfunction!(meet, module)?)?;
    module.add_function(wrap_pyfunction!(synchronise, module)?)
}
