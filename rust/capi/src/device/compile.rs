//! Programs compiled for a device's machine.

use std::ffi::{c_char, c_void};

use trn3_embed::DeviceCompilation;

use super::{DEVICES, trn3_device};
use crate::guard::guard;
use crate::pointers::{Place, slice_mut, text};
use crate::status::{Fault, Result, Status, trn3_status};

/// What was compiled last, until a call that may change the device: a host asks once for the sizes, once for the texts.
pub(crate) struct LastCompiled {
    program: Vec<u8>,
    level: String,
    made: DeviceCompilation,
}

/// Where one text goes.
struct Wanted<'a> {
    name: &'static str,
    size: Place<usize>,
    out: &'a mut [u8],
}

impl Wanted<'_> {
    fn check(&self, made: &str) -> Result<()> {
        let (name, capacity, size) = (self.name, self.out.len(), made.len());
        if size <= capacity {
            return Ok(());
        }
        Err(Fault::new(Status::Capacity, format!("{name}_capacity is {capacity}; the text has {size} bytes")))
    }

    fn fill(self, made: &str) {
        self.out[..made.len()].copy_from_slice(made.as_bytes());
    }
}

/// Compiles a program, the JSON text that trn3_device_load takes, for the device's machine, and writes two JSON texts without
/// a NUL, and how many bytes each has: the compiled program, which gives the same bits, and the report: level, times in
/// microseconds (as_written_us, null where that does not fit, compiled_us, bound_us), spilled_bytes, and what each of passes
/// counted. level is the text "as-written", "nki" or "neuronx-cc". The device stays as it is.
///
/// CAPACITY: a buffer is too small, sizes are written all the same, and the next call with the same program and level
/// compiles nothing anew; or the operands of one instruction do not fit on chip. VALUE: no such level, or what
/// trn3_device_load refuses. UNSUPPORTED: the program meets other cores, calls a function, or gives a tensor on chip.
///
/// # Safety
/// program is null or has length bytes, level level_length; made and report are null or have as many bytes as their
/// capacities say and lie apart; sizes are null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_program_compile(
    device: *mut trn3_device,
    program: *const c_char,
    length: usize,
    level: *const c_char,
    level_length: usize,
    made: *mut c_void,
    made_capacity: usize,
    made_size: *mut usize,
    report: *mut c_void,
    report_capacity: usize,
    report_size: *mut usize,
) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let (program, level, made, report) = unsafe {
            let wanted = |name, size, text: *mut c_void, capacity, argument| {
                Ok::<_, Fault>(Wanted {
                    name,
                    size: Place::new(size, argument)?,
                    out: slice_mut(text.cast::<u8>(), capacity, name)?,
                })
            };
            (
                text(program, length, "program")?,
                text(level, level_length, "level")?,
                wanted("made", made_size, made, made_capacity, "made_size")?,
                wanted("report", report_size, report, report_capacity, "report_size")?,
            )
        };
        let mut entry = DEVICES.exclusive(device.addr())?;
        let is_same = |last: &LastCompiled| last.program == program.as_bytes() && last.level == level;
        let last = match entry.compiled.take().filter(is_same) {
            Some(last) => last,
            None => LastCompiled {
                program: program.as_bytes().to_owned(),
                level: level.to_owned(),
                made: entry.device.compile(program.as_bytes(), level)?,
            },
        };
        let found = &entry.compiled.insert(last).made;
        made.size.put(found.program.len());
        report.size.put(found.report.len());
        made.check(&found.program)?;
        report.check(&found.report)?;
        made.fill(&found.program);
        report.fill(&found.report);
        Ok(())
    })
}
