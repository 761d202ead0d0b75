//! core_barrier and sendrecv: each core hands in its part; once all are there, they run together.

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use trn3_machine::core::{At, NeuronCore};
use trn3_machine::isa::Instruction;
use trn3_machine::isa::collective::{Collective, NAMES};
use trn3_machine::isa::exchange::{CoreBarrier, SendRecv};
use trn3_machine::meeting::{self, Part};
use trn3_machine::site::SiteId;
use trn3_machine::time::Picos;
use trn3_machine::view::View;

use crate::machine::core::{PyCore, together};
use crate::machine::instruction::PyInstruction;
use crate::machine::operand::{engine, tensor};

enum Kind {
    Barrier(CoreBarrier),
    Exchange(SendRecv),
    Collective(Collective),
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
        let (site, line) = core.get().with(py, |core, _| {
            let instruction: &dyn Instruction = match &kind {
                Kind::Barrier(barrier) => barrier,
                Kind::Exchange(exchange) => exchange,
                Kind::Collective(collective) => collective,
            };
            instruction.check(core.arch())?;
            Ok((core.state.site, core.sites.text(core.state.site)))
        })?;
        Ok(Self { core: core.clone().unbind(), kind, site, line, name })
    }
}

#[pymethods]
impl Arrival {
    /// Makes what an exchange or a collective fills unwritten: the core goes on before it has taken place, or values are
    /// skipped.
    fn forget(&self, py: Python<'_>) -> PyResult<()> {
        let dsts = match &self.kind {
            Kind::Barrier(_) => return Ok(()),
            Kind::Exchange(exchange) => std::slice::from_ref(&exchange.dst),
            Kind::Collective(collective) => &collective.dsts[..],
        };
        self.core.bind(py).get().at(py, self.site, |core| dsts.iter().try_for_each(|dst| core.state.memory.forget(dst)))
    }

    /// The elements of a collective's source in C order, as bytes; None where timing-only runs do not know them.
    fn read<'py>(&self, py: Python<'py>, source: usize) -> PyResult<Option<Bound<'py, PyArray1<u8>>>> {
        let view = self.operand(|collective| &collective.srcs, source)?;
        let bytes = self.core.bind(py).get().at(py, self.site, |core| {
            let memory = &mut core.state.memory;
            let known = memory.options().values || (view.dtype.is_integer() && memory.is_initialised(view)?);
            if known {
                return core.state.read_bytes(view).map(Some);
            }
            memory.skip_read(view)?;
            Ok(None)
        })?;
        Ok(bytes.map(|bytes| PyArray1::from_vec(py, bytes)))
    }

    /// Sets the elements of a collective's result, in C order.
    fn write(&self, py: Python<'_>, result: usize, bytes: PyReadonlyArray1<'_, u8>) -> PyResult<()> {
        let view = self.operand(|collective| &collective.dsts, result)?;
        let bytes = bytes.as_slice()?;
        self.core.bind(py).get().at(py, self.site, |core| core.write_bytes(view, bytes))
    }
}

impl Arrival {
    fn operand(&self, of: impl Fn(&Collective) -> &Vec<View>, place: usize) -> PyResult<&View> {
        let found = match &self.kind {
            Kind::Collective(collective) => of(collective).get(place),
            _ => None,
        };
        found.ok_or_else(|| PyValueError::new_err(format!("the instruction has no operand {place} of that kind")))
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
    let engine = self::engine(engine)?.unwrap_or(CoreBarrier::USUAL_ENGINE);
    Arrival::new(core, Kind::Barrier(CoreBarrier { data, engine }), name)
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
    Arrival::new(core, Kind::Exchange(SendRecv { src, dst, by_gpsimd: dma_engine == "gpsimd_dma" }), name)
}

/// One core's part of a collective.
#[pyfunction]
#[pyo3(signature = (core, operation, srcs, dsts, priority=None, name=None))]
fn collective(
    core: &Bound<'_, PyCore>,
    operation: &str,
    srcs: Vec<Bound<'_, PyAny>>,
    dsts: Vec<Bound<'_, PyAny>>,
    priority: Option<u8>,
    name: Option<String>,
) -> PyResult<Arrival> {
    let Some(known) = NAMES.into_iter().find(|known| *known == operation) else {
        let message = format!("operation is {operation:?}; allowed: {}", NAMES.join(", "));
        return Err(PyValueError::new_err(message));
    };
    let views = |argument: &str, tensors: &[Bound<'_, PyAny>]| -> PyResult<Vec<View>> {
        tensors.iter().map(|object| tensor(known, argument, object).cloned()).collect()
    };
    let (srcs, dsts) = (views("srcs", &srcs)?, views("dsts", &dsts)?);
    let part = Collective { name: known, srcs, dsts, duration: Picos::ZERO, priority, sent: 0, received: 0 };
    Arrival::new(core, Kind::Collective(part), name)
}

/// The lines of the kernels that have come.
fn lines(arrivals: &[PyRef<'_, Arrival>]) -> String {
    arrivals.iter().map(|arrival| arrival.line.as_str()).collect::<Vec<_>>().join(" and ")
}

/// Gives the parts of a collective its time, in seconds; arrivals of one rank that share its HBM are at the places
/// [first, last) of `sharing`, and each one's bytes sent and received in `moved`. A list of handles, one an arrival.
#[pyfunction]
fn meet_ranks(
    py: Python<'_>,
    arrivals: Vec<PyRef<'_, Arrival>>,
    seconds: f64,
    sharing: Vec<(usize, usize)>,
    moved: Vec<(u64, u64)>,
) -> PyResult<Vec<PyInstruction>> {
    let mut instructions = Vec::with_capacity(arrivals.len());
    if moved.len() != arrivals.len() {
        let message = format!("moved has {} entries for {} arrivals", moved.len(), arrivals.len());
        return Err(PyValueError::new_err(message));
    }
    for (arrival, &(sent, received)) in arrivals.iter().zip(&moved) {
        let Kind::Collective(collective) = &arrival.kind else {
            return Err(PyValueError::new_err("ranks meet in collectives alone"));
        };
        let duration = Picos::from_nanoseconds(seconds * 1e9);
        instructions.push(Collective { duration, sent, received, ..collective.clone() });
    }
    let owners: Vec<&PyCore> = arrivals.iter().map(|arrival| arrival.core.bind(py).get()).collect();
    let names: Vec<Option<&str>> = arrivals.iter().map(|arrival| arrival.name.as_deref()).collect();
    let sharing: Vec<_> = sharing.into_iter().map(|(first, last)| first..last).collect();
    let sites: Vec<SiteId> = arrivals.iter().map(|arrival| arrival.site).collect();
    let ids = together(py, &owners, &names, &lines(&arrivals), |cores, after| {
        let mut parts: Vec<_> = cores
            .into_iter()
            .zip(&instructions)
            .enumerate()
            .map(|(number, (core, instruction))| {
                let at = At { site: sites[number], label: names[number], after: &after[number] };
                Part { core, instruction, at }
            })
            .collect();
        meeting::collective(&mut parts, &sharing)
    })?;
    let handles = arrivals.iter().zip(ids);
    Ok(handles.map(|(arrival, id)| PyInstruction { core: arrival.core.clone_ref(py), id }).collect())
}

/// Runs the parts of all cores together, in the order of their cores; a list of handles, one a core.
#[pyfunction]
fn meet(py: Python<'_>, arrivals: Vec<PyRef<'_, Arrival>>) -> PyResult<Vec<PyInstruction>> {
    let owners: Vec<&PyCore> = arrivals.iter().map(|arrival| arrival.core.bind(py).get()).collect();
    let names: Vec<Option<&str>> = arrivals.iter().map(|arrival| arrival.name.as_deref()).collect();
    let kinds: Vec<(&Kind, SiteId)> = arrivals.iter().map(|arrival| (&arrival.kind, arrival.site)).collect();
    let run = |cores: Vec<&mut NeuronCore>, after: &[Vec<u32>]| {
        let mut barriers = Vec::new();
        let mut exchanges = Vec::new();
        for (number, (core, &(kind, site))) in cores.into_iter().zip(&kinds).enumerate() {
            let at = At { site, label: names[number], after: &after[number] };
            match kind {
                Kind::Barrier(instruction) => barriers.push(Part { core, instruction, at }),
                Kind::Exchange(instruction) => exchanges.push(Part { core, instruction, at }),
                Kind::Collective(_) => {
                    return Err(trn3_machine::Error::Value("collectives are met by ranks".to_owned()));
                }
            }
        }
        if exchanges.is_empty() {
            return meeting::core_barrier(&mut barriers);
        }
        match <&mut [_; 2]>::try_from(&mut exchanges[..]) {
            Ok(pair) if barriers.is_empty() => meeting::sendrecv(pair),
            _ => Err(trn3_machine::Error::Value("cores meet in barriers, or two of them in an exchange".to_owned())),
        }
    };
    let ids = together(py, &owners, &names, &lines(&arrivals), run)?;
    Ok(arrivals.iter().zip(ids).map(|(arrival, id)| PyInstruction { core: arrival.core.clone_ref(py), id }).collect())
}

/// Makes what each core did before come before what any does from here on: the end of a run.
#[pyfunction]
fn synchronise(py: Python<'_>, cores: Vec<Py<PyCore>>) -> PyResult<()> {
    let owners: Vec<&PyCore> = cores.iter().map(|core| core.bind(py).get()).collect();
    if owners.is_empty() {
        return Err(PyValueError::new_err("cores is empty; allowed: one core or more"));
    }
    together(py, &owners, &vec![None; owners.len()], "", |mut cores, _| {
        meeting::synchronise(&mut cores);
        Ok(vec![0; cores.len()])
    })?;
    Ok(())
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Arrival>()?;
    module.add_function(wrap_pyfunction!(core_barrier, module)?)?;
    module.add_function(wrap_pyfunction!(sendrecv, module)?)?;
    module.add_function(wrap_pyfunction!(meet, module)?)?;
    module.add_function(wrap_pyfunction!(collective, module)?)?;
    module.add_function(wrap_pyfunction!(meet_ranks, module)?)?;
    module.add_function(wrap_pyfunction!(synchronise, module)?)
}
