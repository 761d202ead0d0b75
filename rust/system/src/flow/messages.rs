//! Transfers between the chips of a fabric: each of its links is a resource.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::{FlowTransfer, Resource};
use crate::error::{Error, Result};
use crate::fabric::Fabric;

/// Bytes from one chip to another.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowMessage {
    /// Index of the chip that sends.
    pub from: usize,
    /// Index of the chip that receives. The sender itself is allowed and crosses no link.
    pub to: usize,
    /// How many bytes.
    pub bytes: f64,
    /// Class, as [`FlowTransfer::priority`].
    pub priority: u8,
    /// As [`FlowTransfer::share`].
    pub share: f64,
    /// Messages that must have arrived before, by index.
    pub after: Vec<u32>,
    /// Seconds before which it does not begin.
    pub start: f64,
}

impl FlowMessage {
    /// Bytes from one chip to another, at once, in the highest class.
    pub fn new(from: usize, to: usize, bytes: f64) -> Self {
        Self { from, to, bytes, priority: 0, share: 1.0, after: Vec::new(), start: 0.0 }
    }
}

/// The links of a fabric as resources, in its order, and messages as transfers over them, in theirs.
///
/// A message spreads over all equal ways, by equal shares, and has the latency of one. Switches forward at the full rate
/// of every port, so the links to and from them are their ports' limits.
///
/// # Errors
/// [`Error::Value`](crate::Error::Value) if there is no such chip, [`Error::Unreachable`](crate::Error::Unreachable) if
/// no way leads there.
///
/// ```
/// use trn3_system::fabric::{Fabric, LinkProfile};
/// use trn3_system::flow::{self, FlowMessage, over_fabric};
///
/// let fabric = Fabric::built_in("trn3_gen2", LinkProfile::Docs).unwrap();
/// let (links, transfers) = over_fabric(&fabric, &[FlowMessage::new(0, 1, 256e6), FlowMessage::new(2, 1, 256e6)]).unwrap();
/// let outcome = flow::run(&links, &transfers).unwrap();
/// // Both enter chip 1 by its 256 GB/s on the server's switch.
/// assert!((outcome.finish - 2.0015e-3).abs() < 1e-9);
/// assert_eq!(links[outcome.binding[0] as usize].name, "server/0/0 -> 0/0/1 (server)");
/// ```
pub fn over_fabric(fabric: &Fabric, messages: &[FlowMessage]) -> Result<(Vec<Resource>, Vec<FlowTransfer>)> {
    let count = u32::try_from(fabric.links().len())
        .map_err(|_| Error::Value(format!("{} has too many links to simulate", fabric.name())))?;
    let resources =
        (0..count).map(|link| Resource::new(fabric.link_name(link), fabric.links()[link as usize].rate)).collect();
    let mut known: HashMap<(usize, usize), (Vec<(u32, f64)>, f64)> = HashMap::new();
    let mut transfers = Vec::with_capacity(messages.len());
    for (index, message) in messages.iter().enumerate() {
        let pair = (message.from, message.to);
        let (uses, latency) = match known.entry(pair) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let latency = fabric.route(pair.0, pair.1).map_err(|error| naming(index, error))?.latency;
                entry.insert((fabric.link_shares(pair.0, pair.1)?, latency))
            }
        }
        .clone();
        let FlowMessage { bytes, priority, share, start, .. } = *message;
        let after = message.after.clone();
        transfers.push(FlowTransfer { bytes, uses, latency, priority, share, after, start, tag: 0 });
    }
    Ok((resources, transfers))
}

fn naming(message: usize, error: Error) -> Error {
    match error {
        Error::Value(text) => Error::Value(format!("message {message}: {text}")),
        Error::Unreachable(text) => Error::Unreachable(format!("message {message}: {text}")),
        other => other,
    }
}
