//! Counters and traces.

use std::ffi::{c_char, c_void};

use trn3_embed::Stats;
use trn3_embed::{Commit, TraceSink};
use trn3_machine::time::Picos;

use super::{exclusive, shared, trn3_device};
use crate::guard::guard;
use crate::pointers::{Place, put_text};
use crate::status::{Fault, Result, trn3_status};

/// How many counters a device has.
///
/// # Safety
/// count is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_stats_count(device: *const trn3_device, count: *mut usize) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let place = unsafe { Place::new(count, "count") }?;
        shared(device)?;
        place.put(Stats::NAMES.len());
        Ok(())
    })
}

fn check(index: usize) -> Result<usize> {
    let count = Stats::NAMES.len();
    if index < count { Ok(index) } else { Err(Fault::value(format!("index is {index}; there are {count} counters"))) }
}

/// Writes the name of a counter with a NUL after it. 64 bytes hold every name.
///
/// # Safety
/// buffer is null or points to capacity bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_stats_name(
    device: *const trn3_device,
    index: usize,
    buffer: *mut c_char,
    capacity: usize,
) -> trn3_status {
    guard(|| {
        shared(device)?;
        // SAFETY: the caller's promise.
        unsafe { put_text(Stats::NAMES[check(index)?], buffer, capacity) }
    })
}

/// The value of a counter.
///
/// # Safety
/// value is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_stats_value(device: *const trn3_device, index: usize, value: *mut u64) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let place = unsafe { Place::new(value, "value") }?;
        place.put(shared(device)?.device.stats().values()[check(index)?]);
        Ok(())
    })
}

/// Counts from zero again.
#[unsafe(no_mangle)]
pub extern "C" fn trn3_stats_reset(device: *mut trn3_device) -> trn3_status {
    guard(|| {
        exclusive(device)?.device.reset_stats();
        Ok(())
    })
}

/// Something that took a time: a command, or an instruction on its engine.
pub const TRN3_TRACE_SPAN: u32 = 0;
/// Something at a moment.
pub const TRN3_TRACE_INSTANT: u32 = 1;
/// A number from that moment on.
pub const TRN3_TRACE_COUNTER: u32 = 2;
/// A finished instruction, in program order of each command: name is the line of the commit log,
/// "core engine number name start end label".
pub const TRN3_TRACE_COMMIT: u32 = 3;

/// What happened. The texts live for the call alone and have no NUL.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct trn3_trace_event {
    /// sizeof this structure as the library knows it: a newer one may have fields at its end.
    pub size: usize,
    /// TRN3_TRACE_...
    pub kind: u32,
    /// COMMIT: core.
    pub core: u32,
    /// COMMIT: number in program order, from 0 in each run.
    pub number: u32,
    /// 0.
    pub reserved: u32,
    /// Where it belongs: an engine, a core, a counter.
    pub track: *const c_char,
    /// Bytes of that.
    pub track_length: usize,
    /// What it is.
    pub name: *const c_char,
    /// Bytes of that.
    pub name_length: usize,
    /// When it started or happened, in picoseconds.
    pub start_ps: u64,
    /// When it ended; of what has no length, start_ps.
    pub end_ps: u64,
    /// COUNTER: the bits of a double.
    pub value: u64,
}

/// Sees what happens in a device, inside the calls that make it happen, on their thread. It must return (no exception, no
/// longjmp); calls on the device from within are BUSY.
pub type trn3_trace_fn = Option<unsafe extern "C" fn(user: *mut c_void, event: *const trn3_trace_event)>;

/// A host's sink.
struct HostTrace {
    function: unsafe extern "C" fn(user: *mut c_void, event: *const trn3_trace_event),
    user: *mut c_void,
}

// SAFETY: the pointer is the host's and only handed back to its function, on the thread that uses the device.
unsafe impl Send for HostTrace {}

impl HostTrace {
    fn show(&mut self, kind: u32, [track, name]: [&str; 2], [start, end]: [Picos; 2], rest: (u32, u32, f64)) {
        let (core, number, value) = rest;
        let event = trn3_trace_event {
            size: size_of::<trn3_trace_event>(),
            kind,
            core,
            number,
            reserved: 0,
            track: track.as_ptr().cast(),
            track_length: track.len(),
            name: name.as_ptr().cast(),
            name_length: name.len(),
            start_ps: start.0,
            end_ps: end.0,
            value: value.to_bits(),
        };
        // SAFETY: the host's function with its own pointer; the event and its texts live for the call.
        unsafe { (self.function)(self.user, &raw const event) };
    }
}

impl TraceSink for HostTrace {
    fn span(&mut self, track: &str, name: &str, start: Picos, end: Picos) {
        self.show(TRN3_TRACE_SPAN, [track, name], [start, end], (0, 0, 0.0));
    }

    fn instant(&mut self, track: &str, name: &str, at: Picos) {
        self.show(TRN3_TRACE_INSTANT, [track, name], [at, at], (0, 0, 0.0));
    }

    fn counter(&mut self, track: &str, at: Picos, value: f64) {
        self.show(TRN3_TRACE_COUNTER, [track, ""], [at, at], (0, 0, value));
    }

    fn commit(&mut self, commit: &Commit<'_>) {
        let (engine, line) = (commit.engine.to_string(), commit.to_string());
        let times = [commit.start, commit.end];
        self.show(TRN3_TRACE_COMMIT, [&engine, &line], times, (commit.core, commit.number, 0.0));
    }
}

/// Shows what happens to a function from here on; null: to none. A command of a core that shares HBM with others is shown
/// when it has ended, of one alone when it begins.
///
/// # Safety
/// The function may be called by every call that needs the device alone, until it is replaced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_set_trace(
    device: *mut trn3_device,
    function: trn3_trace_fn,
    user: *mut c_void,
) -> trn3_status {
    guard(|| {
        let sink = function.map(|function| Box::new(HostTrace { function, user }) as Box<dyn TraceSink>);
        exclusive(device)?.device.set_trace(sink);
        Ok(())
    })
}
