//! What a device shows a host, and what a host may put in the place of a device's own parts: small traits that can be
//! made into objects.
//!
//! | trait | who implements it | used by |
//! | --- | --- | --- |
//! | [`AddressedMemory`] | a device's SBUF, PSUM and HBM | hosts that read and write, with the time it takes |
//! | [`Clocked`] | devices | event loops of hosts |
//! | [`Network`] | links of ours, hosts | collectives of devices |
//! | [`TraceSink`] | hosts | devices, for every command and instruction |
//! | [`Snapshot`] | devices | hosts that save and go on |
//!
//! Those that a core calls stand in [`trn3_machine::host`] and are found here too.

mod memory;
mod time;

/// [`AddressedMemory`] by its name of version 0.1.0.
pub use memory::AddressedMemory as Memory;
pub use memory::{AddressedMemory, Snapshot};
pub use time::{Arrival, Carried, Clocked, Commit, Delivery, Message, Network, TraceSink};
pub use trn3_machine::host::{ArchCost, BitSource, CostModel, Engine, Functional, InstructionSink, Issue, Timed};
