//! Steps at which a core meets others: collectives as data, in programs of [`MEETING_VERSION`].

use serde_json::{Map, Value, json};

use super::words::{Field, Names, Scope};
use crate::error::Result;
use crate::isa::rank_call::{RankCall, RankOperation};
use crate::view::View;

/// Version of programs that meet others, or leave a compiler something to do, and the newest that is read: readers of older
/// ones refuse it by its number.
pub const MEETING_VERSION: u32 = 2;

/// Most ranks, pairs or channels of a step.
const MOST_RANKS: usize = 1 << 16;
/// Arguments of such steps.
const KEYS: [&str; 15] = [
    "ranks",
    "srcs",
    "srcs1",
    "dsts",
    "replica_group",
    "source_target_pairs",
    "reduction",
    "collective_dim",
    "channel_ids",
    "metadata_tensor",
    "recv_counts_known",
    "has_rdispls",
    "priority",
    "label",
    "after",
];

/// Whether an operation is one at which a core meets others.
pub(super) fn is_meeting(op: &str) -> bool {
    op.parse::<RankOperation>().is_ok()
}

/// The words for a call; what it does not need is left out.
pub(super) fn encode(call: &RankCall, names: &mut dyn Names) -> Result<Map<String, Value>> {
    let operation = call.operation;
    let mut map = Map::new();
    let mut put = |key: &str, value: Value| map.insert(key.to_owned(), value);
    put("op", operation.name().into());
    put("ranks", call.ranks.into());
    put("srcs", call.srcs.encode(names)?);
    if !call.others.is_empty() {
        put("srcs1", call.others.encode(names)?);
    }
    put("dsts", call.dsts.encode(names)?);
    if operation == RankOperation::CollectivePermute {
        put("source_target_pairs", json!(call.pairs));
    } else {
        put("replica_group", json!(call.groups));
    }
    if operation.reduces() {
        put("reduction", call.reduction.as_str().into());
    }
    if operation.has_dimension() {
        put("collective_dim", call.dim.into());
    }
    if operation.has_channels() {
        put("channel_ids", json!(call.channels));
    }
    if let Some(metadata) = &call.metadata {
        put("metadata_tensor", metadata.encode(names)?);
        put("recv_counts_known", call.recv_counts_known.into());
        put("has_rdispls", call.has_rdispls.into());
    }
    if let Some(priority) = call.priority {
        put("priority", priority.into());
    }
    Ok(map)
}

/// The call of a step; None for a step of another kind.
pub(super) fn decode(
    op: &str,
    step: &Map<String, Value>,
    scope: &Scope<'_>,
) -> std::result::Result<Option<RankCall>, String> {
    let Ok(operation) = op.parse::<RankOperation>() else { return Ok(None) };
    if let Some(key) = step.keys().find(|key| *key != "op" && !KEYS.contains(&key.as_str())) {
        return Err(format!("has argument {key:?}; it takes {}", KEYS.join(", ")));
    }
    let views = |key: &str| match step.get(key) {
        None => Ok(Vec::new()),
        given => Vec::<View>::decode(given, scope).map_err(|text| format!("{key} {text}")),
    };
    let truth = |key: &str| step.get(key).map_or(Ok(false), |given| of_json(key, given));
    let metadata = step.get("metadata_tensor").filter(|given| !given.is_null());
    let metadata = metadata.map(|given| View::decode(Some(given), scope));
    let groups: Vec<Vec<u64>> =
        step.get("replica_group").map_or(Ok(Vec::new()), |given| of_json("replica_group", given))?;
    let pairs: Vec<(u64, u64)> =
        step.get("source_target_pairs").map_or(Ok(Vec::new()), |given| of_json("source_target_pairs", given))?;
    let channels: Vec<u64> = step.get("channel_ids").map_or(Ok(Vec::new()), |given| of_json("channel_ids", given))?;
    let most = groups.iter().map(Vec::len).sum::<usize>().max(pairs.len()).max(channels.len());
    let ranks: u64 = of_json("ranks", step.get("ranks").unwrap_or(&Value::Null))?;
    if most > MOST_RANKS || ranks > MOST_RANKS as u64 {
        return Err(format!("names {} ranks; at most {MOST_RANKS}", most.max(ranks as usize)));
    }
    Ok(Some(RankCall {
        ranks,
        srcs: views("srcs")?,
        others: views("srcs1")?,
        dsts: views("dsts")?,
        groups,
        pairs,
        reduction: step.get("reduction").map_or(Ok(String::new()), |given| of_json("reduction", given))?,
        dim: step.get("collective_dim").map_or(Ok(0), |given| of_json("collective_dim", given))?,
        channels,
        metadata: metadata.transpose().map_err(|text| format!("metadata_tensor {text}"))?,
        recv_counts_known: truth("recv_counts_known")?,
        has_rdispls: truth("has_rdispls")?,
        priority: step.get("priority").map_or(Ok(None), |given| of_json("priority", given))?,
        ..RankCall::new(operation)
    }))
}

fn of_json<T: serde::de::DeserializeOwned>(key: &str, given: &Value) -> std::result::Result<T, String> {
    serde_json::from_value(given.clone()).map_err(|error| format!("{key} is {given}: {error}"))
}
