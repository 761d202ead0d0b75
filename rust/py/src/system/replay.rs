//! Replays: nodes come as columns, rank by rank; results leave as arrays and tuples.

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use trn3_system::replay::{Algorithms, Job, JobExchange, JobNode, JobWork, ProcessGroup, replay};

use super::collective::PyCollectives;
use super::error::exception;
use crate::door;

/// Adds the function of this file.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(replay_job, module)?)
}

/// The nodes of a rank: what each number means is said where they are read.
#[derive(FromPyObject)]
struct Columns<'py>(
    Vec<u64>,
    Vec<String>,
    PyReadonlyArray1<'py, u8>,
    PyReadonlyArray1<'py, f64>,
    PyReadonlyArray1<'py, u32>,
    PyReadonlyArray1<'py, i64>,
    PyReadonlyArray1<'py, u8>,
    Vec<Vec<u32>>,
);

/// The kind of the first collective; the schema's number of the exchange is added.
const FIRST_COLLECTIVE: u8 = 16;

impl Columns<'_> {
    /// Ids, names; kinds: nothing 0, wait 1, compute 2, memory 3, send 4, receive 5, collectives from 16; seconds or
    /// bytes; the stream, the other rank or the group; the tag or the root; the priority; what it waits for.
    fn nodes(self) -> PyResult<Vec<JobNode>> {
        let Self(ids, names, kinds, amounts, peers, tags, priorities, after) = self;
        let (kinds, amounts, peers) = (kinds.as_slice()?, amounts.as_slice()?, peers.as_slice()?);
        let (tags, priorities) = (tags.as_slice()?, priorities.as_slice()?);
        let lengths = [names.len(), kinds.len(), amounts.len(), peers.len(), tags.len(), priorities.len(), after.len()];
        if lengths.iter().any(|length| *length != ids.len()) {
            return Err(PyValueError::new_err(format!("columns of lengths {lengths:?}; needed: {} each", ids.len())));
        }
        let mut nodes = Vec::with_capacity(ids.len());
        for (at, ((id, name), after)) in ids.into_iter().zip(names).zip(after).enumerate() {
            let (amount, peer, tag) = (amounts[at], peers[at], tags[at]);
            let work = match kinds[at] {
                0 => JobWork::Nothing,
                1 => JobWork::Wait { seconds: amount },
                2 => JobWork::Compute { seconds: amount, stream: peer },
                3 => JobWork::Memory { bytes: amount },
                4 => JobWork::Send { to: peer, bytes: amount, tag },
                5 => JobWork::Receive { from: peer, bytes: (!amount.is_nan()).then_some(amount), tag },
                kind => match kind.checked_sub(FIRST_COLLECTIVE).and_then(|of| JobExchange::ALL.get(usize::from(of))) {
                    Some(&exchange) => {
                        let root = u32::try_from(tag).unwrap_or(u32::MAX);
                        JobWork::Collective { exchange, group: peer, bytes: amount, root }
                    }
                    None => return Err(PyValueError::new_err(format!("kind {kind} of a node is none"))),
                },
            };
            nodes.push(JobNode { id, name, after, work, priority: priorities[at] });
        }
        Ok(nodes)
    }
}

type Step = (u32, u32, f64, f64, f64, String);
type Arrays<'py> = Vec<Bound<'py, PyArray1<f64>>>;
type Results<'py> = (
    (Arrays<'py>, Arrays<'py>, f64),
    (Vec<f64>, Vec<f64>, Vec<f64>),
    Vec<(String, f64)>,
    Vec<Step>,
    Vec<(String, f64)>,
    Option<String>,
    Vec<(&'static str, &'static str, u32)>,
    Vec<String>,
);

/// Runs a job: begins, ends, finish; seconds computing, communicating, exposed; bytes by link; the path to the finish;
/// seconds by resource; the binding link; algorithms; assumptions.
#[pyfunction]
#[pyo3(signature = (system, places, ranks_per_chip, groups, algorithms, ranks, /))]
fn replay_job<'py>(
    py: Python<'py>,
    system: &Bound<'py, PyCollectives>,
    places: Vec<u32>,
    ranks_per_chip: u32,
    groups: Vec<(String, Vec<u32>)>,
    algorithms: (String, Vec<(String, String)>),
    ranks: Vec<Columns<'py>>,
) -> PyResult<Results<'py>> {
    let of: Result<_, trn3_system::Error> = algorithms.1.into_iter().map(|(of, by)| Ok((of.parse()?, by))).collect();
    let job = Job {
        ranks: ranks.into_iter().map(Columns::nodes).collect::<PyResult<_>>()?,
        places,
        ranks_per_chip,
        groups: groups.into_iter().map(|(name, ranks)| ProcessGroup { name, ranks }).collect(),
        algorithms: Algorithms { default: algorithms.0, of: of.map_err(exception)? },
    };
    let estimator = system.get().estimator.clone();
    let done = door::run(py, || replay(&estimator, &job))?;
    let column = |pick: fn(&(f64, f64)) -> f64| -> Arrays<'py> {
        done.spans.iter().map(|spans| PyArray1::from_vec(py, spans.iter().map(pick).collect())).collect()
    };
    let links = (0u32..).zip(&done.carried).filter(|(_, carried)| **carried > 0.0);
    let links = links.map(|(link, carried)| (estimator.fabric().link_name(link), *carried)).collect();
    let path = done.path.iter();
    let path = path.map(|step| (step.rank, step.node, step.begin, step.end, step.latency, step.what.clone()));
    Ok((
        (column(|span| span.0), column(|span| span.1), done.finish),
        (done.computing, done.communicating, done.exposed),
        links,
        path.collect(),
        done.by_resource,
        done.binding_link,
        done.algorithms,
        estimator.model().assumptions.clone(),
    ))
}
