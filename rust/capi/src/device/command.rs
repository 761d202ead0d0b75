//! Commands as hosts describe them.

use std::ffi::c_char;
use std::mem::offset_of;

use trn3_embed::{Address, CollectiveReduction, Command, DeviceCollective, Operation};

use super::memory::space;
use crate::pointers::{Record, read, slice, text};
use crate::status::{Fault, Result};

/// Nothing; takes no time.
pub const TRN3_COMMAND_NOP: u32 = 0;
/// Runs a loaded program.
pub const TRN3_COMMAND_RUN: u32 = 1;
/// Runs one step of a loaded program.
pub const TRN3_COMMAND_STEP: u32 = 2;
/// Copies bytes between HBM and SBUF, or within one of them.
pub const TRN3_COMMAND_COPY: u32 = 3;
/// This core's part of a collective.
pub const TRN3_COMMAND_COLLECTIVE: u32 = 4;

/// Every rank gets the reduction of all ranks' buffers.
pub const TRN3_OPERATION_ALL_REDUCE: u32 = 0;
/// Every rank gets all ranks' buffers, in order of the group.
pub const TRN3_OPERATION_ALL_GATHER: u32 = 1;
/// Place i of the group gets chunk i of the reduction.
pub const TRN3_OPERATION_REDUCE_SCATTER: u32 = 2;
/// Place i of the group gets chunk i of every rank, in order of the group.
pub const TRN3_OPERATION_ALL_TO_ALL: u32 = 3;

/// Sums.
pub const TRN3_REDUCTION_ADD: u32 = 0;
/// The largest.
pub const TRN3_REDUCTION_MAX: u32 = 1;
/// The smallest.
pub const TRN3_REDUCTION_MIN: u32 = 2;

/// Something for a core to do. Set size to sizeof(trn3_command) and the fields that its kind does not use to 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct trn3_command {
    /// sizeof this structure.
    pub size: usize,
    /// TRN3_COMMAND_...
    pub kind: u32,
    /// Core that does it.
    pub core: u32,
    /// RUN, STEP: number of the program.
    pub program: u64,
    /// STEP: number of the step, from 0.
    pub step: u64,
    /// COPY: memories, TRN3_SPACE_...; a collective's are HBM.
    pub dst_space: u32,
    /// COPY: as dst_space.
    pub src_space: u32,
    /// COPY, COLLECTIVE: first byte of what is written.
    pub dst_address: u64,
    /// COPY, COLLECTIVE: first byte of what is read.
    pub src_address: u64,
    /// COPY: rows. On chip row i lies in partition i from the address's on; in HBM rows follow one another.
    pub rows: u64,
    /// COPY: bytes of each row.
    pub row_bytes: u64,
    /// COLLECTIVE: TRN3_OPERATION_...
    pub operation: u32,
    /// COLLECTIVE: TRN3_REDUCTION_...
    pub reduction: u32,
    /// COLLECTIVE: ranks, in an order that is the same for all of them.
    pub group: *const u32,
    /// COLLECTIVE: number of those.
    pub group_count: usize,
    /// COLLECTIVE: what tells it from others of the group under way; the same for all ranks.
    pub key: u64,
    /// COLLECTIVE: elements that this rank gives.
    pub count: u64,
    /// COLLECTIVE: name of the element type: float32, bfloat16, float16, int32; any where nothing is reduced.
    pub dtype: *const c_char,
    /// COLLECTIVE: bytes of that.
    pub dtype_length: usize,
}

// SAFETY: repr(C), `size` first, plain numbers and pointers that are checked before use.
unsafe impl Record for trn3_command {
    const MINIMUM: usize = offset_of!(Self, dst_space);
    const NAME: &'static str = "trn3_command";
}

pub(crate) fn operation(number: u32) -> Result<Operation> {
    match number {
        TRN3_OPERATION_ALL_REDUCE => Ok(Operation::AllReduce),
        TRN3_OPERATION_ALL_GATHER => Ok(Operation::AllGather),
        TRN3_OPERATION_REDUCE_SCATTER => Ok(Operation::ReduceScatter),
        TRN3_OPERATION_ALL_TO_ALL => Ok(Operation::AllToAll),
        _ => {
            let allowed = "0 all_reduce, 1 all_gather, 2 reduce_scatter, 3 all_to_all";
            Err(Fault::value(format!("operation is {number}; allowed: {allowed}")))
        }
    }
}

/// # Safety
/// As [`read`]; what the command points to is readable.
pub(crate) unsafe fn command(pointer: *const trn3_command) -> Result<Command> {
    // SAFETY: the caller's promise.
    let given = unsafe { read(pointer, "command") }?;
    let core = given.core;
    Ok(match given.kind {
        TRN3_COMMAND_NOP => Command::Nop { core },
        TRN3_COMMAND_RUN => Command::Run { core, program: given.program },
        TRN3_COMMAND_STEP => Command::Step { core, program: given.program, step: given.step },
        TRN3_COMMAND_COPY => Command::Copy {
            core,
            dst: Address { space: space(given.dst_space)?, address: given.dst_address },
            src: Address { space: space(given.src_space)?, address: given.src_address },
            rows: given.rows,
            row_bytes: given.row_bytes,
        },
        TRN3_COMMAND_COLLECTIVE => {
            let reduction = match given.reduction {
                TRN3_REDUCTION_ADD => CollectiveReduction::Add,
                TRN3_REDUCTION_MAX => CollectiveReduction::Max,
                TRN3_REDUCTION_MIN => CollectiveReduction::Min,
                other => return Err(Fault::value(format!("reduction is {other}; allowed: 0 add, 1 max, 2 min"))),
            };
            // SAFETY: the caller's promise.
            let (group, dtype) = unsafe {
                (
                    slice(given.group, given.group_count, "command.group")?,
                    text(given.dtype, given.dtype_length, "command.dtype")?,
                )
            };
            let part = DeviceCollective {
                operation: operation(given.operation)?,
                reduction,
                group: group.to_vec(),
                key: given.key,
                src: given.src_address,
                dst: given.dst_address,
                count: given.count,
                dtype: dtype.to_owned(),
            };
            Command::Collective { core, part }
        }
        other => {
            let allowed = "0 nop, 1 run, 2 step, 3 copy, 4 collective";
            return Err(Fault::value(format!("command.kind is {other}; allowed: {allowed}")));
        }
    })
}
