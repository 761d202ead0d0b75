//! Commands in, time on, completions out.

use std::ffi::{c_char, c_void};
use std::mem::offset_of;

use trn3_embed::Completion;
use trn3_machine::time::Picos;

use super::command::{command, trn3_command};
use super::{exclusive, shared, status, trn3_device};
use crate::guard::guard;
use crate::pointers::{Place, Record, Records, fill};
use crate::status::{Fault, Status, trn3_status};

/// No time: nothing will happen unless the host does something.
pub const TRN3_NEVER: u64 = 0xffff_ffff_ffff_ffff;

/// Bytes of a completion's message, its NUL included.
pub const TRN3_MESSAGE_BYTES: usize = 256;

/// A command that is done. Set size to sizeof(trn3_completion) in the first one of those that a call fills.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct trn3_completion {
    /// sizeof this structure.
    pub size: usize,
    /// What the host gave with the command.
    pub tag: u64,
    /// Core that did it.
    pub core: u32,
    /// TRN3_OK, or what went wrong; memories are then as far as the command came.
    pub status: trn3_status,
    /// When it started, in picoseconds.
    pub start_ps: u64,
    /// When it was done.
    pub end_ps: u64,
    /// What went wrong in words, cut to what fits, with a NUL after it.
    pub message: [c_char; TRN3_MESSAGE_BYTES],
}

// SAFETY: repr(C), `size` first, plain numbers.
unsafe impl Record for trn3_completion {
    const MINIMUM: usize = offset_of!(Self, message);
    const NAME: &'static str = "trn3_completion";
}

impl trn3_completion {
    fn new(completion: &Completion) -> Self {
        let (status, message) = match &completion.status {
            Ok(()) => (Status::Ok, ""),
            Err(error) => (status(error.kind), error.message.as_str()),
        };
        Self {
            size: size_of::<Self>(),
            tag: completion.tag,
            core: completion.core,
            status: status as trn3_status,
            start_ps: completion.start.0,
            end_ps: completion.end.0,
            message: fill(message),
        }
    }
}

/// Hears of each completion, in the order in which they ended. It must return (no exception, no longjmp); calls on the
/// device from within are BUSY.
pub type trn3_complete_fn = Option<unsafe extern "C" fn(user: *mut c_void, completion: *const trn3_completion)>;

/// A host's function for completions.
pub struct Listener {
    function: unsafe extern "C" fn(user: *mut c_void, completion: *const trn3_completion),
    user: *mut c_void,
}

// SAFETY: the pointer is the host's and only handed back to its function, on the thread that calls trn3_advance.
unsafe impl Send for Listener {}

/// Gives a core a command; it starts now if the core is idle. tag comes back with its completion. Ends of commands under way
/// on other cores may move: see trn3_next_event.
///
/// BUSY: the queue is full (queue_depth), or a call uses the device. VALUE: there is no such core, program or step. What
/// goes wrong later is the completion's status.
///
/// # Safety
/// command is null or points to a command.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_submit(
    device: *mut trn3_device,
    new_command: *const trn3_command,
    tag: u64,
) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let command = unsafe { command(new_command) }?;
        Ok(exclusive(device)?.device.submit(command, tag)?)
    })
}

/// Whether a core's queue has room: 1 or 0.
///
/// # Safety
/// can is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_can_submit(device: *const trn3_device, core: u32, can: *mut u32) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let place = unsafe { Place::new(can, "can") }?;
        place.put(u32::from(shared(device)?.device.can_submit(core)?));
        Ok(())
    })
}

/// The device's time in picoseconds.
///
/// # Safety
/// ps is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_now(device: *const trn3_device, ps: *mut u64) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let place = unsafe { Place::new(ps, "ps") }?;
        place.put(shared(device)?.device.now().0);
        Ok(())
    })
}

/// When something happens next by itself, in picoseconds; TRN3_NEVER: nothing will, unless the host does something.
///
/// The answer holds until that time or the next call that takes the device alone: cores share the bandwidth of HBM, and a
/// command that begins while others are under way may move their ends to later, never to what is past. Ask again after
/// every trn3_submit and trn3_advance.
///
/// # Safety
/// ps is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_next_event(device: *const trn3_device, ps: *mut u64) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let place = unsafe { Place::new(ps, "ps") }?;
        place.put(shared(device)?.device.next_event().map_or(TRN3_NEVER, |at| at.0));
        Ok(())
    })
}

/// Moves time on to until_ps, past every command that ends until then and then. Where a listener is set, it hears of them
/// before this returns, on this thread, and they are not polled.
///
/// VALUE: a time that is past.
#[unsafe(no_mangle)]
pub extern "C" fn trn3_advance(device: *mut trn3_device, until_ps: u64) -> trn3_status {
    guard(|| {
        let mut entry = exclusive(device)?;
        if until_ps == TRN3_NEVER {
            return Err(Fault::value("until_ps is TRN3_NEVER, which is no time; give one that comes"));
        }
        entry.device.advance(Picos(until_ps))?;
        let entry = &mut *entry;
        if let Some(Listener { function, user }) = &entry.on_complete {
            while let Some(completion) = entry.device.poll() {
                let completion = trn3_completion::new(&completion);
                // SAFETY: the host's function, set for this; the completion is a local.
                unsafe { function(*user, &raw const completion) };
            }
        }
        Ok(())
    })
}

/// Takes up to capacity completions, of the commands that ended longest ago, and says how many.
///
/// # Safety
/// completions is null or has room for capacity structures of the size that the first one says; count is null or may be
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_poll(
    device: *mut trn3_device,
    completions: *mut trn3_completion,
    capacity: usize,
    count: *mut usize,
) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let (place, records) =
            unsafe { (Place::new(count, "count")?, Records::new(completions, capacity, "completions")?) };
        let mut entry = exclusive(device)?;
        let mut taken = 0;
        while taken < capacity {
            let Some(completion) = entry.device.poll() else { break };
            records.put(taken, trn3_completion::new(&completion));
            taken += 1;
        }
        place.put(taken);
        Ok(())
    })
}

/// Has trn3_advance call a function for each completion, with user; null: none, completions are polled.
///
/// # Safety
/// The function may be called by every trn3_advance on the device until it is replaced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_on_complete(
    device: *mut trn3_device,
    function: trn3_complete_fn,
    user: *mut c_void,
) -> trn3_status {
    guard(|| {
        exclusive(device)?.on_complete = function.map(|function| Listener { function, user });
        Ok(())
    })
}
