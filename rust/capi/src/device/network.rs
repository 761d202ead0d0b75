//! A host's own network under the collectives.

use std::ffi::c_void;

use trn3_embed::{Delivery, Message, Network};
use trn3_machine::time::Picos;

use super::{exclusive, trn3_device};
use crate::guard::guard;
use crate::pointers::{Record, read};
use crate::status::{Fault, Status, trn3_status};

/// What carries the messages of collectives, as functions of the host. They are called inside trn3_submit and
/// trn3_advance, on the calling thread, and must return; calls on the device from within are BUSY. None of them waits. Set
/// size to sizeof(trn3_network); all functions are needed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct trn3_network {
    /// sizeof this structure.
    pub size: usize,
    /// Given back to each function.
    pub user: *mut c_void,
    /// Starts a message at at_ps. The bytes are the host's for the call alone. What is not TRN3_OK fails the command.
    pub send: Option<
        unsafe extern "C" fn(
            user: *mut c_void,
            from: u32,
            to: u32,
            key: u64,
            at_ps: u64,
            bytes: *const c_void,
            length: usize,
        ) -> trn3_status,
    >,
    /// Takes a message: if it has come, or is known to come, sets has_come to 1, length and at_ps, and writes its bytes;
    /// if not, sets has_come to 0. With less capacity than the message has bytes it sets length alone and returns
    /// TRN3_CAPACITY, keeps the message, and is called again.
    pub recv: Option<
        unsafe extern "C" fn(
            user: *mut c_void,
            from: u32,
            to: u32,
            key: u64,
            buffer: *mut c_void,
            capacity: usize,
            length: *mut usize,
            at_ps: *mut u64,
            has_come: *mut u32,
        ) -> trn3_status,
    >,
    /// The device asks to be advanced at that time.
    pub schedule: Option<unsafe extern "C" fn(user: *mut c_void, at_ps: u64) -> trn3_status>,
    /// The network's own time in picoseconds; the device takes no message earlier than it.
    pub now: Option<unsafe extern "C" fn(user: *mut c_void) -> u64>,
}

// SAFETY: repr(C), `size` first; null is a value of an optional function, and any other is the host's promise.
unsafe impl Record for trn3_network {
    const MINIMUM: usize = size_of::<Self>();
    const NAME: &'static str = "trn3_network";
}

/// The host's table with every function there.
struct HostNetwork {
    user: *mut c_void,
    send: unsafe extern "C" fn(*mut c_void, u32, u32, u64, u64, *const c_void, usize) -> trn3_status,
    recv: unsafe extern "C" fn(
        *mut c_void,
        u32,
        u32,
        u64,
        *mut c_void,
        usize,
        *mut usize,
        *mut u64,
        *mut u32,
    ) -> trn3_status,
    schedule: unsafe extern "C" fn(*mut c_void, u64) -> trn3_status,
    now: unsafe extern "C" fn(*mut c_void) -> u64,
    /// What messages are taken into; it grows to the largest.
    buffer: Vec<u8>,
}

// SAFETY: the pointer is the host's and only handed back to its functions, on the thread that uses the device.
unsafe impl Send for HostNetwork {}

/// A message is asked for again after it did not fit; a host that says so each time is not asked for ever.
const TRIES: u32 = 3;

/// What a function of the host says went wrong.
fn failed(what: &str, status: trn3_status) -> trn3_machine::Error {
    trn3_machine::Error::Value(format!("the host's network: {what} returned status {status}"))
}

impl Network for HostNetwork {
    fn send(&mut self, message: &Message<'_>) -> trn3_machine::Result<()> {
        let Message { from, to, key, at, bytes } = *message;
        // SAFETY: the host's function with its own pointer; the bytes live for the call.
        let status = unsafe { (self.send)(self.user, from, to, key, at.0, bytes.as_ptr().cast(), bytes.len()) };
        if status == Status::Ok as trn3_status { Ok(()) } else { Err(failed("send", status)) }
    }

    fn recv(&mut self, from: u32, to: u32, key: u64) -> trn3_machine::Result<Option<Delivery>> {
        for _ in 0..TRIES {
            let (mut length, mut at, mut has_come) = (0usize, 0u64, 0u32);
            let (buffer, capacity) = (self.buffer.as_mut_ptr().cast(), self.buffer.len());
            // SAFETY: the host's function with its own pointer; the buffer has the capacity, the rest are locals.
            let status = unsafe {
                (self.recv)(self.user, from, to, key, buffer, capacity, &raw mut length, &raw mut at, &raw mut has_come)
            };
            if status == Status::Capacity as trn3_status && length > self.buffer.len() {
                let more = length - self.buffer.len();
                self.buffer.try_reserve_exact(more).map_err(|_| {
                    trn3_machine::Error::HbmCapacity(format!("a message of {length} bytes fits in no memory"))
                })?;
                self.buffer.resize(length, 0);
                continue;
            }
            if status != Status::Ok as trn3_status {
                return Err(failed("recv", status));
            }
            if has_come == 0 {
                return Ok(None);
            }
            let Some(bytes) = self.buffer.get(..length) else {
                let message = format!("the host's network: recv gave {length} bytes into {capacity}");
                return Err(trn3_machine::Error::Value(message));
            };
            return Ok(Some(Delivery { at: Picos(at), bytes: bytes.to_vec() }));
        }
        Err(failed("recv", Status::Capacity as trn3_status))
    }

    fn schedule(&mut self, at: Picos) -> trn3_machine::Result<()> {
        // SAFETY: the host's function with its own pointer.
        let status = unsafe { (self.schedule)(self.user, at.0) };
        if status == Status::Ok as trn3_status { Ok(()) } else { Err(failed("schedule", status)) }
    }

    fn now(&self) -> Picos {
        // SAFETY: the host's function with its own pointer.
        Picos(unsafe { (self.now)(self.user) })
    }
}

/// Carries messages of collectives over the host's network from here on; null: over links of the device's own, whose
/// other ends are its own cores.
///
/// VALUE: a function is missing.
///
/// # Safety
/// network is null or points to a table, which is copied; its functions may be called until it is replaced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_set_network(device: *mut trn3_device, network: *const trn3_network) -> trn3_status {
    guard(|| {
        let mut entry = exclusive(device)?;
        if network.is_null() {
            entry.device.set_network(None);
            return Ok(());
        }
        // SAFETY: the caller's promise.
        let given = unsafe { read(network, "network") }?;
        let missing = |name: &str| Fault::value(format!("network.{name} is null; all four functions are needed"));
        let host = HostNetwork {
            user: given.user,
            send: given.send.ok_or_else(|| missing("send"))?,
            recv: given.recv.ok_or_else(|| missing("recv"))?,
            schedule: given.schedule.ok_or_else(|| missing("schedule"))?,
            now: given.now.ok_or_else(|| missing("now"))?,
            buffer: Vec::new(),
        };
        entry.device.set_network(Some(Box::new(host)));
        Ok(())
    })
}
