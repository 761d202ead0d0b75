//! core_barrier and sendrecv: each core hands in its part; once all are there, they run together.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use trn3::machine::core::{At, NeuronCore};
use trn3::machine::cores::{self, Part};
use trn3::machine::isa::Instruction;
use trn3::machine::isa::cores::{CoreBarrier, SendRecv};
use trn3::machine::site::SiteId;

use crate::machine::core::{PyCore, together};
use crate::machine::error::located;
use crate::machine::instruction::PyInstruction;
use crate::machine::operand::{engine, tensor};

enum Kind {
    Barrier(CoreBarrier),
    Exchange(SendRecv),
}

/// One core's part of an instruction that cores run together.
#[pyclass(frozen, module = "trn3._trn3", name = "Arrival")]
pub(crate) struct Arrival {
    core: Py<PyCore>,
    kind: Kind,
    site: SiteId,
    /// The kernel line that called, as `file:line`.
    #[pyo3(get)]
    line: String,
    name: Option<String>,
}

impl Arrival {
    fn new(core: &Bound<'_, PyCore>, kind: Kind, name: Option<String>) -> PyResult<Self> {
        let py = core.py();
        let (site, line) = core.get().with(py, |core, site| {
            let instruction: &dyn Instruction = match &kind {
                Kind::Barrier(barrier) => barrier,
                Kind::Exchange(exchange) => exchange,
            };
            instruction.check(core.arch())?;
            Ok((site, core.sites.text(site)))
        })?;
        Ok(Self { core: core.clone().unbind(), kind, site, line, name })
    }
}

#[pymethods]
impl Arrival {
    /// Makes what an exchange fills unwritten: the core goes on before it has taken place.
    fn forget(&self, py: Python<'_>) -> PyResult<()> {
        let Kind::Exchange(exchange) = &self.kind else { return Ok(()) };
        self.core.bind(py).get().with(py, |core, _| core.state.memory.forget(&exchange.dst))
    }
}

/// One core's part of a barrier.
#[pyfunction]
#[pyo3(signature = (core, data, engine, name=None))]
fn core_barrier(
    core: &Bound<'_, PyCore>,
    data: &Bound<'_, PyAny>,
    engine: &str,
    name: Option<String>,
) -> PyResult<Arrival> {
    let data = tensor("core_barrier", "data", data)?.clone();
    let engine = self::engine(Some(engine))?.unwrap_or(trn3::machine::engine::Engine::GpSimd);
    Arrival::new(core, Kind::Barrier(CoreBarrier { data, engine }), name)
}

/// One core's part of an exchange of tiles.
#[pyfunction]
#[pyo3(signature = (core, src, dst, dma_engine, name=None))]
fn sendrecv(
    core: &Bound<'_, PyCore>,
    src: &Bound<'_, PyAny>,
    dst: &Bound<'_, PyAny>,
    dma_engine: &str,
    name: Option<String>,
) -> PyResult<Arrival> {
    let (src, dst) = (tensor("sendrecv", "src", src)?.clone(), tensor("sendrecv", "dst", dst)?.clone());
    Arrival::new(core, Kind::Exchange(SendRecv { src, dst, by_gpsimd: dma_engine == "gpsimd_dma" }), name)
}

/// Runs the parts of all cores together, in the order of their cores; a list of handles, one a core.
#[pyfunction]
fn meet(py: Python<'_>, arrivals: Vec<PyRef<'_, Arrival>>) -> PyResult<Vec<PyInstruction>> {
    let owners: Vec<&PyCore> = arrivals.iter().map(|arrival| arrival.core.bind(py).get()).collect();
    let names: Vec<Option<&str>> = arrivals.iter().map(|arrival| arrival.name.as_deref()).collect();
    let run = |cores: Vec<&mut NeuronCore>, after: &[Vec<u32>]| {
        let mut barriers = Vec::new();
        let mut exchanges = Vec::new();
        for (number, (core, arrival)) in cores.into_iter().zip(&arrivals).enumerate() {
            let at = At { site: arrival.site, label: names[number], after: &after[number] };
            match &arrival.kind {
                Kind::Barrier(instruction) => barriers.push(Part { core, instruction, at }),
                Kind::Exchange(instruction) => exchanges.push(Part { core, instruction, at }),
            }
        }
        if exchanges.is_empty() {
            return cores::core_barrier(&mut barriers);
        }
        match <&mut [_; 2]>::try_from(&mut exchanges[..]) {
            Ok(pair) if barriers.is_empty() => cores::sendrecv(pair),
            _ => Err(trn3::Error::Value("cores meet in barriers, or two of them in an exchange".to_owned())),
        }
    };
    let ids = together(&owners, &names, run)?.map_err(|error| {
        let lines: Vec<&str> = arrivals.iter().map(|arrival| arrival.line.as_str()).collect();
        located(error, &lines.join(" and "))
    })?;
    Ok(arrivals.iter().zip(ids).map(|(arrival, id)| PyInstruction { core: arrival.core.clone_ref(py), id }).collect())
}

/// Makes what each core did before come before what any does from here on: the end of a run.
#[pyfunction]
fn synchronise(py: Python<'_>, cores: Vec<Py<PyCore>>) -> PyResult<()> {
    let owners: Vec<&PyCore> = cores.iter().map(|core| core.bind(py).get()).collect();
    if owners.is_empty() {
        return Err(PyValueError::new_err("cores is empty; allowed: one core or more"));
    }
    together(&owners, &vec![None; owners.len()], |mut cores, _| {
        cores::synchronise(&mut cores);
        Ok(vec![0; cores.len()])
    })?
    .map(|_| ())
    .map_err(crate::machine::error::exception)
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Arrival>()?;
    module.add_function(wrap_pyfunction!(core_barrier, module)?)?;
    module.add_function(wrap_pyfunction!(sendrecv, module)?)?;
    module.add_function(wrap_pyfunction!(meet, module)?)?;
    module.add_function(wrap_pyfunction!(synchronise, module)?)
}
