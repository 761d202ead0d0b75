//! Steps that the cores of a logical core take together, `core_barrier` and `sendrecv`, as data.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::words::{Field, Names, Scope};
use crate::arch::ArchSpec;
use crate::engine::Engine;
use crate::error::Result;
use crate::isa::exchange::SendRecv;
use crate::joint::Joint;
use crate::view::View;

/// Which core of a logical core a program is for. HBM tensors in `shared_hbm` are one for all programs of a logical core where
/// they have one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogicalPlace {
    /// Its number, from 0.
    pub core: u32,
    /// How many there are.
    pub cores: u32,
}

impl LogicalPlace {
    /// Refuses places that no logical core of the machine has.
    pub(super) fn check(self, arch: &ArchSpec) -> std::result::Result<(), String> {
        let Self { core, cores } = self;
        if cores == 0 || core >= cores {
            return Err(format!("core is {core} of {cores}; allowed: a number below that of the cores"));
        }
        if u64::from(cores) > arch.max_lnc {
            return Err(format!("cores is {cores}; a logical core of {} has at most {}", arch.name, arch.max_lnc));
        }
        Ok(())
    }
}

const BARRIER: &str = "core_barrier";
const EXCHANGE: &str = "sendrecv";
const BY_DMA: &str = "dma";
const BY_GPSIMD: &str = "gpsimd_dma";

/// Whether the cores of a logical core take a step together.
pub(super) fn is_joint(op: &str) -> bool {
    matches!(op, BARRIER | EXCHANGE)
}

/// The words for a core's part.
pub(super) fn encode(part: &Joint, names: &mut dyn Names) -> Result<Map<String, Value>> {
    let mut map = Map::new();
    let mut put = |key: &str, value: Value| map.insert(key.to_owned(), value);
    match part {
        Joint::Barrier(barrier) => {
            put("op", BARRIER.into());
            put("data", barrier.data.encode(names)?);
            put("engine", barrier.engine.name().into());
        }
        Joint::Exchange(exchange) => {
            put("op", EXCHANGE.into());
            put("src", exchange.src.encode(names)?);
            put("dst", exchange.dst.encode(names)?);
            put("dma_engine", if exchange.by_gpsimd { BY_GPSIMD } else { BY_DMA }.into());
        }
    }
    Ok(map)
}

/// A core's part of a step; None for a step of another kind.
pub(super) fn decode(
    op: &str,
    step: &Map<String, Value>,
    scope: &Scope<'_>,
) -> std::result::Result<Option<Joint>, String> {
    let known: &[&str] = match op {
        BARRIER => &["data", "engine", "label", "after"],
        EXCHANGE => &["src", "dst", "dma_engine", "label", "after"],
        _ => return Ok(None),
    };
    if let Some(key) = step.keys().find(|key| *key != "op" && !known.contains(&key.as_str())) {
        return Err(format!("has argument {key:?}; it takes {}", known.join(", ")));
    }
    let view = |key: &str| View::decode(step.get(key), scope).map_err(|text| format!("{key} {text}"));
    if op == BARRIER {
        let engine = Option::<Engine>::decode(step.get("engine"), scope).map_err(|text| format!("engine {text}"))?;
        return Ok(Some(Joint::barrier(view("data")?, engine)));
    }
    let by_gpsimd = match step.get("dma_engine").map(|given| given.as_str().ok_or(given)) {
        None | Some(Ok(BY_DMA)) => false,
        Some(Ok(BY_GPSIMD)) => true,
        Some(Ok(other)) => return Err(format!("dma_engine is {other:?}; allowed: {BY_DMA}, {BY_GPSIMD}")),
        Some(Err(other)) => return Err(format!("dma_engine is {other}; allowed: {BY_DMA}, {BY_GPSIMD}")),
    };
    Ok(Some(Joint::Exchange(SendRecv { src: view("src")?, dst: view("dst")?, by_gpsimd })))
}
