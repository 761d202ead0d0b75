//! Trainium3 inside other simulators: a [`Device`] is some NeuronCores with their memories, driven by the host's event loop.
//!
//! The host creates a device from a [`DeviceSpec`], loads [programs](trn3_machine::Program), reads and writes memories, submits
//! [commands](Command), and moves time: [`Device::next_event`], [`Device::advance`], [`Device::poll`]. Nothing here starts a
//! thread, reads a file or prints; devices share nothing, so that any number of them may run on any threads with the same
//! bits and times.
//!
//! The crate stands above `trn3-machine` (one NeuronCore), `trn3-profile` (what a run cost: [`Device::profile`]) and `trn3-system` (links, collectives' costs, energy): a host that wants
//! one core alone takes `trn3-machine` and its [traits](trn3_machine::host).
//!
//! ```
//! use trn3_machine::time::Picos;
//! use trn3_embed::{Command, Device, DeviceSpec, MemorySpace};
//!
//! let mut device = Device::new(DeviceSpec::default())?;
//! let program = device.load(br#"{"format": "trn3-program", "version": 1, "name": "double",
//!   "tensors": [
//!     {"name": "x", "space": "hbm", "shape": [128, 2], "dtype": "float32", "role": "input"},
//!     {"name": "out", "space": "hbm", "shape": [128, 2], "dtype": "float32", "role": "output"},
//!     {"name": "tile", "space": "sbuf", "shape": [128, 2], "dtype": "float32", "address": [0, 0]}],
//!   "steps": [
//!     {"op": "dma_copy", "dst": "tile", "src": "x"},
//!     {"op": "tensor_scalar", "dst": "tile", "data": "tile", "op0": "multiply", "operand0": 2.0},
//!     {"op": "dma_copy", "dst": "out", "src": "tile"}]}"#)?;
//! let (x, out) = (device.tensor(program, "x")?, device.tensor(program, "out")?);
//! device.write(MemorySpace::Hbm, 0, x.address, &1.5f32.to_le_bytes().repeat(256))?;
//! device.submit(Command::Run { core: 0, program }, 7)?;
//! while let Some(next) = device.next_event() {
//!     device.advance(next)?;
//! }
//! let done = device.poll().expect("one command");
//! assert_eq!((done.tag, done.status), (7, Ok(())));
//! assert_eq!((done.start, done.end), (Picos(0), device.now()));
//! let mut bytes = [0; 4];
//! device.read(MemorySpace::Hbm, 0, out.address, &mut bytes)?;
//! assert_eq!(f32::from_le_bytes(bytes), 3.0);
//! # Ok::<(), trn3_embed::Error>(())
//! ```
#![forbid(unsafe_code)]

mod command;
mod device;
mod error;
pub mod host;
mod links;
pub mod meeting;
mod profile;
mod spec;
mod stats;

pub use command::{Address, CollectiveReduction, Command, Completion, DeviceCollective, MemorySpace, Operation};
/// [`DeviceCollective`], [`CollectiveReduction`] and [`MemorySpace`] by their names of version 0.1.0.
pub use command::{CollectiveReduction as Reduction, DeviceCollective as Collective, MemorySpace as Space};
pub use device::{Device, DeviceCompilation, Direct, Estimate, Kernel, MemoryPort, OutputBytes, Placed};
pub use error::{Error, ErrorKind, Result};
pub use host::{
    AddressedMemory, ArchCost, Arrival, BitSource, Carried, Clocked, Commit, CostModel, Delivery, Engine, Functional,
    InstructionSink, Issue, Memory, Message, Network, Snapshot, Timed, TraceSink,
};
pub use links::Links;
pub use spec::DeviceSpec;
pub use stats::Stats;
pub use trn3_machine::isa::custom::{GpSimdFunction, TileBytes};
pub use trn3_profile::Profile;
