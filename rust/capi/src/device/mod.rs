//! A device: NeuronCores with memories, commands and time, that a host's event loop drives.

mod command;
mod compile;
mod estimate;
mod functions;
mod lifecycle;
mod memory;
mod network;
mod observe;
mod profile;
mod snapshot;
mod time;

use trn3_embed::{Device, Error, ErrorKind};

use self::compile::LastCompiled;
use self::profile::Profiled;
use crate::handles::{Exclusive, Shared, Table};
use crate::status::{Fault, Result, Status};

pub use command::*;
pub use compile::*;
pub use estimate::*;
pub use functions::*;
pub use lifecycle::*;
pub use memory::*;
pub use network::*;
pub use observe::*;
pub use profile::*;
pub use snapshot::*;
pub use time::*;

/// A device. Handles are tokens that are checked at each use, not addresses. Calls that take a const handle may run on
/// several threads at once; the others need the device alone and are BUSY while another call uses it, which a call from a
/// callback of the device always is.
pub struct trn3_device {
    _opaque: (),
}

/// What a handle stands for.
pub(crate) struct Entry {
    pub(crate) device: Device,
    pub(crate) on_complete: Option<Listener>,
    /// The state saved last, until a call that may change it.
    pub(crate) saved: Option<Vec<u8>>,
    /// The profile asked for last, until a call that may change it.
    pub(crate) profiled: Option<Profiled>,
    /// What was compiled last, until a call that may change it.
    pub(crate) compiled: Option<LastCompiled>,
}

// SAFETY: a shared reference to an entry reaches plain data of the device alone: the calls of `const` handles use none of
// the host's parts (network, trace), which are what keeps the type from being `Sync` by itself.
unsafe impl Sync for Entry {}

static DEVICES: Table<Entry> = Table::new("device");

/// The device of a handle, for a call that may change it.
pub(crate) fn exclusive(handle: *mut trn3_device) -> Result<Exclusive<'static, Entry>> {
    let mut entry = DEVICES.exclusive(handle.addr())?;
    (entry.saved, entry.profiled, entry.compiled) = (None, None, None);
    Ok(entry)
}

/// The device of a handle, for a call that looks at it.
pub(crate) fn shared(handle: *const trn3_device) -> Result<Shared<'static, Entry>> {
    DEVICES.shared(handle.addr())
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault::new(status(error.kind), error.message)
    }
}

/// The status of an error of the device.
pub(crate) fn status(kind: ErrorKind) -> Status {
    match kind {
        ErrorKind::Type => Status::Type,
        ErrorKind::Shape => Status::Shape,
        ErrorKind::Value => Status::Value,
        ErrorKind::Capacity => Status::Capacity,
        ErrorKind::Unsupported => Status::Unsupported,
        ErrorKind::Busy => Status::Busy,
        ErrorKind::Internal => Status::Internal,
    }
}
