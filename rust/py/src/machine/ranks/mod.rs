//! Ranks that meet: the classes `RankRoom`, `RankArrival` and `RankFabric`.

mod asked;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, OnceLock};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use trn3_embed::meeting::{MeetingError, Participant, RankArrival, RankFabric, RankPlace, RankRoom, hold};
use trn3_machine::core::At;
use trn3_machine::isa::Instruction;
use trn3_machine::isa::rank_call::RankOperation;
use trn3_machine::site::SiteId;

use self::asked::{RankAsked, groups, number};
use crate::door::Fault;
use crate::machine::core::{CoreStep, PyCore, together};
use crate::machine::instruction::PyInstruction;
use crate::system::collective::PyCollectives;

impl Fault for MeetingError {
    fn exception(self, _: &str) -> PyErr {
        match self {
            MeetingError::Kernel { line, error } => error.exception(&line),
            MeetingError::System(error) => crate::system::error::exception(error),
        }
    }
}

fn exception(error: MeetingError) -> PyErr {
    error.exception("")
}

/// The line of the kernel that is calling on a core of a rank.
fn place(core: &Bound<'_, PyCore>, rank: u32) -> PyResult<(SiteId, RankPlace)> {
    core.get().with(core.py(), |core, _| {
        let site = core.state.site;
        let (line, generation) = (core.sites.text(site), core.arch().generation);
        Ok((site, RankPlace { rank, core: u32::try_from(core.number()).unwrap_or(u32::MAX), line, generation }))
    })
}

/// What connects the ranks of a launch.
#[pyclass(frozen, module = "trn3._trn3", name = "RankFabric")]
pub(crate) struct PyRankFabric {
    fabric: RankFabric,
}

#[pymethods]
impl PyRankFabric {
    /// So many ranks on the system of some collectives, which is called `name` and could have `most_per_chip` on a chip.
    #[new]
    #[pyo3(signature = (collectives, name, most_per_chip, ranks, ranks_per_chip=None))]
    fn new(
        collectives: &PyCollectives,
        name: &str,
        most_per_chip: u32,
        ranks: u32,
        ranks_per_chip: Option<i64>,
    ) -> PyResult<Self> {
        let fabric = RankFabric::new(collectives.estimator.clone(), name, most_per_chip, ranks, ranks_per_chip);
        Ok(Self { fabric: fabric.map_err(crate::system::error::exception)? })
    }
}

/// A core at a collective.
#[pyclass(frozen, module = "trn3._trn3", name = "RankArrival")]
pub(crate) struct PyRankArrival {
    core: Py<PyCore>,
    arrival: RankArrival,
    site: SiteId,
    name: Option<String>,
    /// Whether all others had come before.
    #[pyo3(get)]
    is_last: bool,
    handle: OnceLock<Py<PyInstruction>>,
}

#[pymethods]
impl PyRankArrival {
    /// The instruction, once all have come.
    #[getter]
    fn handle(&self, py: Python<'_>) -> Option<Py<PyInstruction>> {
        self.handle.get().map(|handle| handle.clone_ref(py))
    }
}

type Seat = (u32, u32);

struct Open {
    room: RankRoom,
    /// Who waits.
    waiting: HashMap<Seat, Py<PyRankArrival>>,
    /// Who met, in order, by the last to come.
    complete: HashMap<Seat, Vec<Seat>>,
}

/// Where the ranks of a launch meet.
#[pyclass(frozen, module = "trn3._trn3", name = "RankRoom")]
pub(crate) struct PyRankRoom {
    open: Mutex<Open>,
}

impl PyRankRoom {
    fn lock(&self) -> PyResult<MutexGuard<'_, Open>> {
        self.open.lock().map_err(|_| PyRuntimeError::new_err("ranks met a defect earlier and cannot go on"))
    }
}

#[pymethods]
impl PyRankRoom {
    #[new]
    fn new(ranks: u32, cores: u32) -> Self {
        let (waiting, complete) = (HashMap::new(), HashMap::new());
        Self { open: Mutex::new(Open { room: RankRoom::new(ranks, cores), waiting, complete }) }
    }

    /// What cores are called in errors, rank by rank.
    fn names(&self) -> PyResult<Vec<String>> {
        Ok(self.lock()?.room.names())
    }

    /// Brings a core of a rank to a collective, judged; a fabric asks for what the hardware has no way to do too.
    #[pyo3(signature = (core, rank, operation, asked, only_hardware=false, fabric=None))]
    fn arrive(
        &self,
        core: &Bound<'_, PyCore>,
        rank: u32,
        operation: &str,
        asked: RankAsked<'_>,
        only_hardware: bool,
        fabric: Option<&PyRankFabric>,
    ) -> PyResult<Py<PyRankArrival>> {
        let py = core.py();
        let operation: RankOperation = operation.parse().map_err(crate::machine::error::exception)?;
        let ask = asked.ask(operation, only_hardware)?;
        let (site, place) = place(core, rank)?;
        let seat = (place.rank, place.core);
        let mut open = self.lock()?;
        let arrival = ask.judge(place, &open.room, fabric.map(|fabric| &fabric.fabric)).map_err(exception)?;
        core.get().at(py, site, |core| arrival.instruction().check(core.arch()))?;
        let all = open.room.arrive(arrival.clone()).map_err(exception)?;
        let is_last = !all.is_empty();
        if is_last {
            let seats = all.iter().map(|arrival| (arrival.place.rank, arrival.place.core)).collect();
            open.complete.insert(seat, seats);
        }
        let core = core.clone().unbind();
        let made = PyRankArrival { core, arrival, site, name: asked.name, is_last, handle: OnceLock::new() };
        let made = Py::new(py, made)?;
        open.waiting.insert(seat, made.clone_ref(py));
        Ok(made)
    }

    /// Holds the meeting that an arrival was the last of: each gets its handle.
    fn hold(&self, py: Python<'_>, last: &PyRankArrival, fabric: &PyRankFabric) -> PyResult<()> {
        let (cores, met) = {
            let mut open = self.lock()?;
            let seat = (last.arrival.place.rank, last.arrival.place.core);
            let seats = open.complete.remove(&seat);
            let seats = seats.ok_or_else(|| PyValueError::new_err("not all have come to this collective"))?;
            let met: Vec<Py<PyRankArrival>> = seats.iter().filter_map(|seat| open.waiting.remove(seat)).collect();
            (open.room.cores() as usize, met)
        };
        let met: Vec<&PyRankArrival> = met.iter().map(|arrival| arrival.get()).collect();
        let owners: Vec<&PyCore> = met.iter().map(|arrival| arrival.core.bind(py).get()).collect();
        let names: Vec<Option<&str>> = met.iter().map(|arrival| arrival.name.as_deref()).collect();
        let calls: Vec<_> = met.iter().map(|arrival| Some(CoreStep::Call(&arrival.arrival.call))).collect();
        let (rooms, arrivals) = (&fabric.fabric, met.iter().map(|each| (&each.arrival, each.site)).collect::<Vec<_>>());
        let ids = together(py, &owners, &names, &calls, "", |found, after| {
            let present = found.into_iter().zip(&arrivals).enumerate().map(|(number, (core, &(arrival, site)))| {
                let at = At { site, label: names[number], after: &after[number] };
                Participant { core, arrival, at }
            });
            hold(rooms, cores, &mut present.collect::<Vec<_>>())
        })?;
        for (arrival, id) in met.iter().zip(ids) {
            let handle = Py::new(py, PyInstruction { core: arrival.core.clone_ref(py), id })?;
            // Each is held once.
            let _ = arrival.handle.set(handle);
        }
        Ok(())
    }

    /// The rank whose data is in hand at a step of a ring.
    fn rank_in_hand(
        &self,
        core: &Bound<'_, PyCore>,
        rank: u32,
        iteration_id: &Bound<'_, PyAny>,
        channel_id: &Bound<'_, PyAny>,
        replica_group: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        let (_, place) = place(core, rank)?;
        let (step, channel) = (number(iteration_id)?, number(channel_id)?);
        self.lock()?.room.rank_in_hand(&place, &step, &channel, groups(replica_group)?).map_err(exception)
    }

    /// Where a core waits and for whom, in words.
    fn whereabouts(&self, arrival: &PyRankArrival) -> PyResult<String> {
        Ok(self.lock()?.room.whereabouts(&arrival.arrival))
    }
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyRankArrival>()?;
    module.add_class::<PyRankFabric>()?;
    module.add_class::<PyRankRoom>()
}
