//! What a kernel says of a collective, converted: what is of the wrong kind goes on as words for it.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyList, PyRange, PyTuple, PyType};
use trn3_embed::meeting::{RankAsk, RankGiven};
use trn3_machine::isa::rank_call::RankOperation;
use trn3_machine::view::View;

use crate::machine::handle::PyTensor;

fn repr(object: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(object.repr()?.to_string())
}

fn class(object: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(object.get_type().name()?.to_string())
}

fn is_list(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>()
}

/// A list of tensors; one alone counts as a list of one.
fn tensors(object: &Bound<'_, PyAny>) -> PyResult<RankGiven<Vec<View>>> {
    if let Ok(one) = object.cast::<PyTensor>() {
        return Ok(RankGiven::Known(vec![one.get().view.clone()]));
    }
    if !is_list(object) || object.len()? == 0 {
        return Ok(RankGiven::Strange(format!("is {}", repr(object)?)));
    }
    let mut views = Vec::new();
    for item in object.try_iter()? {
        let item = item?;
        match item.cast::<PyTensor>() {
            Ok(one) => views.push(one.get().view.clone()),
            Err(_) => return Ok(RankGiven::Strange(format!("has a {}", class(&item)?))),
        }
    }
    Ok(RankGiven::Known(views))
}

/// The tensors of all channels, one after another, and of how many channels they are.
fn by_channel(object: &Bound<'_, PyAny>) -> PyResult<(Option<usize>, RankGiven<Vec<View>>)> {
    if !is_list(object) {
        return Ok((None, RankGiven::Known(Vec::new())));
    }
    let flat = PyList::empty(object.py());
    for item in object.try_iter()? {
        let item = item?;
        if item.is_instance_of::<PyTensor>() {
            flat.append(item)?;
        } else {
            item.try_iter()?.try_for_each(|one| flat.append(one?))?;
        }
    }
    Ok((Some(object.len()?), tensors(flat.as_any())?))
}

/// A whole number from 0.
pub(super) fn number(object: &Bound<'_, PyAny>) -> PyResult<RankGiven<u64>> {
    match object.extract::<u64>() {
        Ok(number) if !object.is_instance_of::<PyBool>() => Ok(RankGiven::Known(number)),
        _ => Ok(RankGiven::Strange(repr(object)?)),
    }
}

/// An int.
fn integer(object: &Bound<'_, PyAny>) -> PyResult<RankGiven<i64>> {
    match object.cast::<PyInt>().ok().map(|int| int.extract::<i64>()) {
        Some(Ok(number)) => Ok(RankGiven::Known(number)),
        _ => Ok(RankGiven::Strange(repr(object)?)),
    }
}

pub(super) fn groups(object: &Bound<'_, PyAny>) -> PyResult<RankGiven<Vec<Vec<u64>>>> {
    let given = object.getattr_opt("groups")?.filter(|_| !object.is_instance_of::<PyType>());
    let Some(given) = given else { return Ok(RankGiven::Strange(class(object)?)) };
    let list = |group: PyResult<Bound<'_, PyAny>>| group?.try_iter()?.map(|rank| rank?.extract()).collect();
    Ok(RankGiven::Known(given.try_iter()?.map(list).collect::<PyResult<_>>()?))
}

fn pairs(object: &Bound<'_, PyAny>) -> PyResult<Vec<RankGiven<[RankGiven<u64>; 2]>>> {
    let pair = |pair: PyResult<Bound<'_, PyAny>>| {
        let pair = pair?;
        if !is_list(&pair) || pair.len()? != 2 {
            return Ok(RankGiven::Strange(repr(&pair)?));
        }
        Ok(RankGiven::Known([number(&pair.get_item(0)?)?, number(&pair.get_item(1)?)?]))
    };
    object.try_iter()?.map(pair).collect()
}

fn channels(object: &Bound<'_, PyAny>) -> PyResult<RankGiven<Vec<u64>>> {
    let ids: Vec<Bound<'_, PyAny>> = if is_list(object) || object.is_instance_of::<PyRange>() {
        object.try_iter()?.collect::<PyResult<_>>()?
    } else {
        vec![object.clone()]
    };
    let mut known = Vec::with_capacity(ids.len());
    for id in &ids {
        match number(id)? {
            RankGiven::Known(id) => known.push(id),
            RankGiven::Strange(got) => return Ok(RankGiven::Strange(got)),
        }
    }
    Ok(RankGiven::Known(known))
}

/// What a kernel says of a collective beside its operation, as it comes.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct RankAsked<'py> {
    srcs: Bound<'py, PyAny>,
    dsts: Bound<'py, PyAny>,
    #[pyo3(default)]
    others: Option<Bound<'py, PyAny>>,
    #[pyo3(default)]
    replica_group: Option<Bound<'py, PyAny>>,
    #[pyo3(default)]
    source_target_pairs: Option<Bound<'py, PyAny>>,
    #[pyo3(default)]
    op: Option<String>,
    #[pyo3(default)]
    collective_dim: Option<Bound<'py, PyAny>>,
    #[pyo3(default)]
    channel_ids: Option<Bound<'py, PyAny>>,
    #[pyo3(default)]
    metadata_tensor: Option<Bound<'py, PyAny>>,
    #[pyo3(default)]
    recv_counts_known: Option<Bound<'py, PyAny>>,
    #[pyo3(default)]
    has_rdispls: Option<Bound<'py, PyAny>>,
    #[pyo3(default)]
    priority: Option<Bound<'py, PyAny>>,
    #[pyo3(default)]
    pub(super) name: Option<String>,
}

impl RankAsked<'_> {
    pub(super) fn ask(&self, operation: RankOperation, only_hardware: bool) -> PyResult<RankAsk> {
        let mut ask = RankAsk { only_hardware, ..RankAsk::new(operation) };
        let truth = |given: &Option<Bound<'_, PyAny>>| given.as_ref().map_or(Ok(false), |given| given.is_truthy());
        if operation.has_channels() {
            let (sources, results) = (by_channel(&self.srcs)?, by_channel(&self.dsts)?);
            (ask.channel_lists, ask.srcs, ask.dsts) = (vec![sources.0, results.0], sources.1, results.1);
        } else {
            (ask.srcs, ask.dsts) = (tensors(&self.srcs)?, tensors(&self.dsts)?);
        }
        if let Some(others) = &self.others {
            ask.others = by_channel(others)?.1;
        }
        let none = self.srcs.py().None().into_bound(self.srcs.py());
        if operation.has_channels() {
            let given = self.channel_ids.as_ref().unwrap_or(&none);
            (ask.channels, ask.channel_words) = (channels(given)?, repr(given)?);
        }
        ask.groups = match &self.replica_group {
            None => RankGiven::Strange("NoneType".to_owned()),
            Some(given) => groups(given)?,
        };
        if operation == RankOperation::CollectivePermute {
            ask.pairs = pairs(self.source_target_pairs.as_ref().unwrap_or(&none))?;
        }
        if let Some(op) = &self.op {
            ask.reduction.clone_from(op);
        }
        if operation.has_dimension() {
            ask.dim = integer(self.collective_dim.as_ref().unwrap_or(&none))?;
        }
        if let Some(metadata) = &self.metadata_tensor {
            ask.metadata = match metadata.cast::<PyTensor>() {
                Ok(tensor) => RankGiven::Known(tensor.get().view.clone()),
                Err(_) => RankGiven::Strange(class(metadata)?),
            };
        }
        (ask.recv_counts_known, ask.has_rdispls) = (truth(&self.recv_counts_known)?, truth(&self.has_rdispls)?);
        ask.priority = self.priority.as_ref().map(integer).transpose()?;
        Ok(ask)
    }
}
