//! Columns of what the machine records: instructions, transfers, tensors, memories in use.

use std::borrow::Borrow;

use serde::Serialize;
use trn3_machine::packed::PackedRows;

use crate::error::{Error, Result};
use crate::packed::{Packer, TableLayout, Unpacker};

/// A table of columns, each of which is a list of this kind: as it is, or [packed](PackedRows) where it is long and seldom read.
macro_rules! columns {
    ($(#[doc = $doc:literal])+ $name:ident, $what:literal, $list:ident {
        $($(#[doc = $field_doc:literal])+ $field:ident: $type:ty,)*
    }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
        pub struct $name {
            $($(#[doc = $field_doc])+ pub $field: $list<$type>,)*
        }

        impl $name {
            /// Names of the columns, in order.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($field)),*];

            /// Entries of each column.
            pub fn len(&self) -> usize {
                [$(self.$field.len()),*][0]
            }

            /// Whether there is no entry.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Puts the columns into a text of columns, by their names.
            pub(crate) fn pack(&self, packer: &mut Packer) -> TableLayout {
                let mut table = TableLayout::of(self.len());
                $(packer.put(&mut table, stringify!($field), self.$field.iter().map(|value| u64::from(*Borrow::<$type>::borrow(&value))).collect());)*
                table
            }

            /// The columns that [`Self::pack`] put there.
            pub(crate) fn unpack(unpacker: &Unpacker, table: &TableLayout) -> Result<Self> {
                Ok(Self { $($field: unpacker.take(table, concat!($what, ".", stringify!($field)))?.into_iter().collect(),)* })
            }

            /// Refuses columns of different lengths.
            pub(crate) fn check_lengths(&self) -> Result<()> {
                let lengths = [$(self.$field.len()),*];
                let length = lengths[0];
                match lengths.iter().position(|&other| other != length) {
                    None => Ok(()),
                    Some(other) => Err(Error::Value(format!(
                        "{what}.{} has {} entries, {what}.{} has {length}; they must be as many",
                        Self::NAMES[other], lengths[other], Self::NAMES[0], what = $what,
                    ))),
                }
            }
        }
    };
}

columns! {
    /// Every instruction, in program order. Times are picoseconds from the start of the busy window.
    InstructionColumns, "instructions", Vec {
        /// Place in [`crate::RunColumns::opcodes`].
        opcode: u16,
        /// Place in [`crate::ENGINES`].
        engine: u8,
        /// DMA queue; nothing on other engines.
        queue: u16,
        /// Place in [`crate::RunColumns::sites`].
        site: u32,
        /// Place in [`crate::RunColumns::labels`].
        label: u32,
        /// When it started.
        start_ps: u64,
        /// Until when it held its issue slot; of a transfer, its end.
        slot_end_ps: u64,
        /// When its result was visible.
        end_ps: u64,
        /// How long its in-order stream (engine or DMA queue) stood idle before it, waiting.
        wait_ps: u64,
        /// Place in [`crate::CAUSES`]: what the wait was for.
        cause: u8,
        /// The instruction waited for, or [`crate::NO_INSTRUCTION`].
        waited_on: u32,
        /// When its operands, and room for its results, were there: it waited for its queue alone from then on.
        ready_ps: u64,
        /// Place in [`crate::BOUNDS`]: what bound its start.
        bound: u8,
        /// Bytes that DMA engines moved.
        dma_bytes: u64,
        /// Bytes read from HBM.
        hbm_read: u64,
        /// Bytes written to HBM.
        hbm_write: u64,
        /// Multiply-accumulate operations of a matmul.
        macs: u64,
        /// How many the whole array does in a cycle in this matmul's element type.
        peak_macs_per_cycle: u64,
    }
}

columns! {
    /// What the DMA engines did for each DMA instruction. Times as in [`InstructionColumns`].
    TransferColumns, "transfers", Vec {
        /// Place in [`InstructionColumns`].
        instruction: u32,
        /// Which DMA engine moved the bytes.
        dma_engine: u16,
        /// First byte.
        start_ps: u64,
        /// Last byte.
        end_ps: u64,
        /// Bytes.
        bytes: u64,
    }
}

columns! {
    /// Every tensor, in the order in which they came.
    TensorColumns, "tensors", PackedRows {
        /// Place in [`crate::MEMORIES`].
        memory: u8,
        /// Place in [`Recorded::names`](crate::Recorded::names).
        name: u32,
        /// Place in [`Recorded::shapes`](crate::Recorded::shapes).
        shape: u32,
        /// Place in [`Recorded::dtypes`](crate::Recorded::dtypes).
        dtype: u8,
        /// Place in [`crate::RunColumns::sites`]: the line that made it.
        site: u32,
        /// First partition; of an HBM tensor 0.
        partition: u32,
        /// Partitions; of an HBM tensor 1.
        partitions: u32,
        /// First byte of each partition; of an HBM tensor 0.
        byte: u64,
        /// Bytes of each partition.
        bytes: u64,
        /// How many instructions were issued before it came.
        came: u32,
        /// How many were issued before it went; all and one more if it never did.
        went: u32,
    }
}

columns! {
    /// Which instructions use which tensors, by rising instruction.
    UseColumns, "uses", PackedRows {
        /// Place in [`InstructionColumns`].
        instruction: u32,
        /// Place in [`TensorColumns`].
        tensor: u32,
        /// Place in [`crate::USES`].
        usage: u8,
    }
}

columns! {
    /// Which instructions come after which, by rising `consumer`, each pair once for each kind of reason.
    EdgeColumns, "edges", PackedRows {
        /// Place in [`InstructionColumns`]: the one that comes after.
        consumer: u32,
        /// Place in [`InstructionColumns`]: the earlier one.
        producer: u32,
        /// Place in [`crate::EDGES`].
        kind: u8,
    }
}

/// Bytes in use of each partition of SBUF and PSUM, from each time to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OccupancyColumns {
    /// Times, never falling, in picoseconds from the start of the busy window.
    pub time_ps: PackedRows<u64>,
    /// SBUF bytes of a partition from then on.
    pub sbuf_bytes: PackedRows<u64>,
    /// PSUM bytes of a partition from then on.
    pub psum_bytes: PackedRows<u64>,
    /// Most SBUF bytes of a partition that ever were in use.
    pub sbuf_peak_bytes: u64,
    /// Most PSUM bytes of a partition that ever were in use.
    pub psum_peak_bytes: u64,
}
