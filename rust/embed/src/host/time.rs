//! Time that a host drives, messages it carries, and what it may watch.

use serde::{Deserialize, Serialize};
use trn3_machine::engine::Engine;
use trn3_machine::error::Result;
use trn3_machine::time::Picos;

use crate::command::DeviceCollective;

/// Something whose time the host moves.
///
/// ```
/// use trn3_machine::time::Picos;
/// use trn3_embed::Clocked;
/// use trn3_machine::Result;
///
/// struct Timer { now: Picos, rings: Option<Picos> }
///
/// impl Clocked for Timer {
///     fn next_event(&self) -> Option<Picos> {
///         self.rings
///     }
///     fn advance(&mut self, until: Picos) -> Result<()> {
///         self.now = until;
///         self.rings = self.rings.filter(|&rings| rings > until);
///         Ok(())
///     }
/// }
///
/// let mut parts: Vec<Box<dyn Clocked>> = vec![
///     Box::new(Timer { now: Picos(0), rings: Some(Picos(5)) }),
///     Box::new(Timer { now: Picos(0), rings: Some(Picos(3)) }),
/// ];
/// let next = parts.iter().filter_map(|part| part.next_event()).min();
/// assert_eq!(next, Some(Picos(3)));
/// for part in &mut parts {
///     part.advance(Picos(3))?;
/// }
/// # Ok::<(), trn3_machine::Error>(())
/// ```
pub trait Clocked {
    /// When something happens next by itself; None: never, unless the host does something.
    fn next_event(&self) -> Option<Picos>;

    /// Moves time on, past everything that happens until then and then.
    ///
    /// # Errors
    /// For a time that is past already.
    fn advance(&mut self, until: Picos) -> Result<()>;
}

/// A message between ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Rank that sends.
    pub from: u32,
    /// Rank that receives.
    pub to: u32,
    /// What tells it from other messages between the two.
    pub key: u64,
    /// When it starts.
    pub at: Picos,
    /// What it carries.
    pub bytes: &'a [u8],
}

/// A message that has come, or whose coming is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// When it is there; later than now if the network knows it ahead.
    pub at: Picos,
    /// What it carries.
    pub bytes: Vec<u8>,
}

/// A rank that comes to a collective.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrival<'a> {
    /// What it takes part in.
    pub part: &'a DeviceCollective,
    /// The rank.
    pub rank: u32,
    /// When it comes.
    pub at: Picos,
    /// What it brings.
    pub bytes: &'a [u8],
}

/// What a rank sends to others in a collective.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    /// Messages.
    pub messages: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}

/// What carries the messages of collectives: links of ours, or a host's own network simulator.
///
/// No call waits. A host that delivers a message later makes [`Network::recv`] say None until then, and advances the device
/// when it is there.
///
/// ```
/// use std::collections::HashMap;
/// use trn3_machine::time::Picos;
/// use trn3_embed::{Delivery, Message, Network};
/// use trn3_machine::Result;
///
/// /// Everything arrives a microsecond later.
/// #[derive(Default)]
/// struct Micro { now: Picos, wakes: Vec<Picos>, sent: HashMap<(u32, u32, u64), Delivery> }
///
/// impl Network for Micro {
///     fn send(&mut self, message: &Message<'_>) -> Result<()> {
///         let delivery = Delivery { at: message.at + Picos(1_000_000), bytes: message.bytes.to_vec() };
///         self.sent.insert((message.from, message.to, message.key), delivery);
///         Ok(())
///     }
///     fn recv(&mut self, from: u32, to: u32, key: u64) -> Result<Option<Delivery>> {
///         Ok(self.sent.remove(&(from, to, key)))
///     }
///     fn schedule(&mut self, at: Picos) -> Result<()> {
///         self.wakes.push(at);
///         Ok(())
///     }
///     fn now(&self) -> Picos {
///         self.now
///     }
/// }
///
/// let mut network: Box<dyn Network> = Box::new(Micro::default());
/// network.send(&Message { from: 0, to: 1, key: 9, at: Picos(5), bytes: &[1, 2] })?;
/// assert_eq!(network.recv(0, 1, 9)?, Some(Delivery { at: Picos(1_000_005), bytes: vec![1, 2] }));
/// assert_eq!(network.recv(0, 1, 9)?, None);
/// # Ok::<(), trn3_machine::Error>(())
/// ```
pub trait Network: Send {
    /// Starts a message.
    ///
    /// # Errors
    /// When it cannot be carried.
    fn send(&mut self, message: &Message<'_>) -> Result<()>;

    /// Takes a message if it has come, or if it is known when it will.
    ///
    /// # Errors
    /// When it never will.
    fn recv(&mut self, from: u32, to: u32, key: u64) -> Result<Option<Delivery>>;

    /// Asks to be advanced at that time.
    ///
    /// # Errors
    /// When the network keeps no such appointments.
    fn schedule(&mut self, at: Picos) -> Result<()>;

    /// The network's own time; a device takes no message earlier than it.
    fn now(&self) -> Picos;

    /// Whether ranks meet on it: [`Network::arrive`] is called in the place of messages. A network that carries messages
    /// has no reason to.
    fn meets(&self) -> bool {
        false
    }

    /// A rank comes to a collective; what it takes away is a message from the rank to itself under twice the
    /// collective's key.
    ///
    /// # Errors
    /// When the collective cannot be; always on a network on which ranks do not meet.
    fn arrive(&mut self, arrival: &Arrival<'_>) -> Result<Carried> {
        Err(trn3_machine::Error::NotModelled(format!("rank {} comes to a network that carries messages", arrival.rank)))
    }
}

/// One finished instruction, for lockstep with another simulator.
///
/// Its text is one line: `core 0 tensor 12 nc_matmul 1000 2000 label`, that is core, engine, number, name, start and end
/// in picoseconds, and the label where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit<'a> {
    /// Core.
    pub core: u32,
    /// Number in program order, from 0 in each run.
    pub number: u32,
    /// Engine that ran it.
    pub engine: Engine,
    /// Name, as `nki.isa` spells it.
    pub name: &'a str,
    /// Label that its program gave, or nothing.
    pub label: &'a str,
    /// When it started.
    pub start: Picos,
    /// When its result was visible.
    pub end: Picos,
}

impl std::fmt::Display for Commit<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Commit { core, number, engine, name, label, start, end } = self;
        write!(formatter, "core {core} {engine} {number} {name} {} {}", start.0, end.0)?;
        if label.is_empty() { Ok(()) } else { write!(formatter, " {label}") }
    }
}

/// What happens, as it is known: a host's trace.
///
/// ```
/// use trn3_machine::time::Picos;
/// use trn3_embed::{Commit, TraceSink};
///
/// /// Keeps the commit log alone.
/// #[derive(Default)]
/// struct Log(Vec<String>);
///
/// impl TraceSink for Log {
///     fn span(&mut self, _track: &str, _name: &str, _start: Picos, _end: Picos) {}
///     fn instant(&mut self, _track: &str, _name: &str, _at: Picos) {}
///     fn counter(&mut self, _track: &str, _at: Picos, _value: f64) {}
///     fn commit(&mut self, commit: &Commit<'_>) {
///         self.0.push(commit.to_string());
///     }
/// }
///
/// let mut log = Log::default();
/// let engine = trn3_machine::engine::Engine::Vector;
/// let (start, end) = (Picos(10), Picos(20));
/// log.commit(&Commit { core: 0, number: 3, engine, name: "iota", label: "", start, end });
/// assert_eq!(log.0, ["core 0 vector 3 iota 10 20"]);
/// ```
pub trait TraceSink: Send {
    /// Something that took a time: a command, or an instruction on its engine.
    fn span(&mut self, track: &str, name: &str, start: Picos, end: Picos);

    /// Something at a moment: a command submitted, a finding.
    fn instant(&mut self, track: &str, name: &str, at: Picos);

    /// A number from that moment on.
    fn counter(&mut self, track: &str, at: Picos, value: f64);

    /// An instruction that finished, in program order of each command.
    fn commit(&mut self, commit: &Commit<'_>);
}
