//! What several cores do at once.

use std::sync::Arc;

use pyo3::prelude::*;
use trn3_machine::arch::ArchSpec;
use trn3_machine::core::NeuronCore;
use trn3_machine::isa::rank_call::RankCall;
use trn3_machine::joint::Joint;

use super::{Inner, PyCore};
use crate::door::{self, Fault};

/// What a core does together with others, as its recording says it.
#[derive(Clone, Copy)]
pub(crate) enum CoreStep<'a> {
    /// A collective of ranks.
    Call(&'a RankCall),
    /// What the cores of a logical core do.
    Part(&'a Joint),
}

/// Runs something of several cores at once; the named instructions get the edges of the schedule. What is a step of each goes
/// into its recording. `line` is theirs.
pub(crate) fn together<E: Fault + Send>(
    py: Python<'_>,
    owners: &[&PyCore],
    names: &[Option<&str>],
    steps: &[Option<CoreStep<'_>>],
    line: &str,
    work: impl FnOnce(Vec<&mut NeuronCore>, &[Vec<u32>]) -> Result<Vec<u32>, E> + Send,
) -> PyResult<Vec<u32>> {
    let mut guards = owners.iter().map(|owner| owner.lock()).collect::<PyResult<Vec<_>>>()?;
    let after: Vec<Vec<u32>> =
        guards.iter_mut().zip(names).map(|(inner, name)| inner.conductor.edges.producers(*name)).collect();
    let mut written = Vec::with_capacity(guards.len());
    for (((inner, name), step), after) in guards.iter_mut().zip(names).zip(steps).zip(&after) {
        let Inner { core, conductor, .. } = &mut **inner;
        let step = match step {
            Some(CoreStep::Call(call)) => conductor.encode_call(call, *name, after),
            Some(CoreStep::Part(part)) => conductor.encode_part(part, *name, after),
            None => Ok(None),
        };
        written.push(step.map_err(|error| error.exception(&core.sites.text(core.state.site)))?);
    }
    let cores = guards.iter_mut().map(|inner| &mut inner.core).collect();
    let ids = door::detached(py, || work(cores, &after)).map_err(|failure| failure.exception(line))?;
    for (((inner, name), id), step) in guards.iter_mut().zip(names).zip(&ids).zip(written) {
        inner.conductor.met(*name, *id, step);
    }
    Ok(ids)
}

impl PyCore {
    /// The machine that it is of.
    pub(crate) fn machine(&self) -> PyResult<Arc<ArchSpec>> {
        Ok(Arc::clone(&self.lock()?.core.state.arch))
    }
}
